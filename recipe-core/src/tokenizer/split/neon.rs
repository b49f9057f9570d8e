//! The classes of a window with the instructions of NEON, 16 bytes at once. Knows no pieces.

use std::arch::aarch64::*;
use std::sync::OnceLock;

use super::is_simd_allowed;
use super::window::{Classify, Masks, WINDOW};

/// Proof that NEON may be used. All processors for which this is compiled have it.
#[derive(Clone, Copy)]
pub(super) struct Neon(());

impl Neon {
    /// `None` in a process whose environment says `RECIPE_SIMD=off`, and on a big-endian processor.
    #[inline]
    pub(super) fn detect() -> Option<Self> {
        static IS_THERE: OnceLock<bool> = OnceLock::new();
        let is_there = *IS_THERE.get_or_init(|| is_simd_allowed() && cfg!(target_endian = "little"));
        is_there.then_some(Self(()))
    }
}

impl Classify for Neon {
    #[inline(always)]
    fn masks(self, window: &[u8; WINDOW]) -> Masks {
        // SAFETY: a value of this type exists only where NEON is used, and what is loaded is as long as a window.
        unsafe {
            let bytes = vld4q_u8(window.as_ptr());
            let letter = mask(bytes, |bytes| between(vorrq_u8(bytes, vdupq_n_u8(0x20)), b'a', b'z'));
            let number = mask(bytes, |bytes| between(bytes, b'0', b'9'));
            let space = mask(bytes, |bytes| is(bytes, b' '));
            let newline = mask(bytes, |bytes| vorrq_u8(is(bytes, b'\n'), is(bytes, b'\r')));
            Masks {
                letter,
                number,
                symbol: mask(bytes, |bytes| between(bytes, b'!', b'~')) & !letter & !number,
                space,
                blank: space | mask(bytes, |bytes| between(bytes, b'\t', b'\r')) & !newline,
                newline,
            }
        }
    }
}

/// Ones in the bytes that are this one, zeros in the others.
///
/// # Safety
///
/// The processor must have NEON.
#[inline(always)]
unsafe fn is(bytes: uint8x16_t, byte: u8) -> uint8x16_t {
    // SAFETY: the caller promises NEON.
    unsafe { vceqq_u8(bytes, vdupq_n_u8(byte)) }
}

/// Ones in the bytes from `first` to `last`, zeros in the others.
///
/// # Safety
///
/// The processor must have NEON.
#[inline(always)]
unsafe fn between(bytes: uint8x16_t, first: u8, last: u8) -> uint8x16_t {
    // SAFETY: the caller promises NEON.
    unsafe { vcleq_u8(vsubq_u8(bytes, vdupq_n_u8(first)), vdupq_n_u8(last - first)) }
}

/// One bit for each of 64 bytes, of what `class` gives for them: ones or zeros in all bits of a byte.
///
/// NEON has no instruction for this. But loaded as four vectors that have each fourth byte, the four bits of
/// neighbours are at the same place of each, and shifting one vector into the next joins 16 groups of them at once.
///
/// # Safety
///
/// The processor must have NEON and be little-endian.
#[inline(always)]
unsafe fn mask(bytes: uint8x16x4_t, class: impl Fn(uint8x16_t) -> uint8x16_t) -> u64 {
    // SAFETY: the caller promises NEON.
    unsafe {
        let [first, second, third, fourth] = [bytes.0, bytes.1, bytes.2, bytes.3].map(class);
        let pairs = [vsriq_n_u8::<1>(second, first), vsriq_n_u8::<1>(fourth, third)];
        // The high half of each byte has the bits of four neighbours; then both halves have.
        let fours = vsriq_n_u8::<2>(pairs[1], pairs[0]);
        let fours = vsriq_n_u8::<4>(fours, fours);
        // Of two bytes, the high half of the first and the low half of the second.
        vget_lane_u64::<0>(vreinterpret_u64_u8(vshrn_n_u16::<4>(vreinterpretq_u16_u8(fours))))
    }
}
