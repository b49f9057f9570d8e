//! The classes of a window with the instructions of AVX2, 32 bytes at once. Knows no pieces.

use std::arch::x86_64::*;
use std::sync::OnceLock;

use super::is_simd_allowed;
use super::window::{Classify, Masks, WINDOW};

/// Proof that the processor has AVX2.
#[derive(Clone, Copy)]
pub(in crate::tokenizer) struct Avx2(());

impl Avx2 {
    /// `None` on a processor without AVX2, and in a process whose environment says `RECIPE_SIMD=off`.
    #[inline]
    pub(in crate::tokenizer) fn detect() -> Option<Self> {
        static IS_THERE: OnceLock<bool> = OnceLock::new();
        let is_there = *IS_THERE.get_or_init(|| {
            is_simd_allowed()
                && is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
        });
        is_there.then_some(Self(()))
    }
}

impl Classify for Avx2 {
    #[inline(always)]
    fn masks(self, window: &[u8; WINDOW]) -> Masks {
        // SAFETY: a value of this type exists only where AVX2 does, and each half of a window has 32 bytes.
        let (low, high) = unsafe {
            let start = window.as_ptr();
            (half(_mm256_loadu_si256(start.cast())), half(_mm256_loadu_si256(start.add(32).cast())))
        };
        let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Masks {
            letter: join(low.letter, high.letter),
            number: join(low.number, high.number),
            symbol: join(low.symbol, high.symbol),
            space: join(low.space, high.space),
            blank: join(low.blank, high.blank),
            newline: join(low.newline, high.newline),
        }
    }
}

struct Half {
    letter: u32,
    number: u32,
    symbol: u32,
    space: u32,
    blank: u32,
    newline: u32,
}

/// # Safety
///
/// The processor must have AVX2.
#[inline(always)]
unsafe fn half(bytes: __m256i) -> Half {
    // SAFETY: the caller promises AVX2.
    unsafe {
        let is = |byte: u8| _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte as i8));
        // As signed bytes: what is not ASCII is below all.
        let above = |bytes: __m256i, byte: u8| _mm256_cmpgt_epi8(bytes, _mm256_set1_epi8(byte as i8));
        let between =
            |bytes: __m256i, first: u8, last: u8| _mm256_andnot_si256(above(bytes, last), above(bytes, first - 1));
        let mask = |found: __m256i| _mm256_movemask_epi8(found) as u32;
        let letter = mask(between(_mm256_or_si256(bytes, _mm256_set1_epi8(0x20)), b'a', b'z'));
        let number = mask(between(bytes, b'0', b'9'));
        let space = mask(is(b' '));
        let newline = mask(_mm256_or_si256(is(b'\n'), is(b'\r')));
        Half {
            letter,
            number,
            symbol: mask(between(bytes, b'!', b'~')) & !letter & !number,
            space,
            blank: space | mask(between(bytes, b'\t', b'\r')) & !newline,
            newline,
        }
    }
}
