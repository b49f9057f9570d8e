//! The merges of the places of a piece with the instructions of AVX2. Knows no vocabulary.
//!
//! Values of these types are made only in functions that need AVX2, so it is there.

use std::arch::x86_64::*;

use super::{Merges, NO_MERGE};

/// Merges in memory, of whole groups of eight places.
pub(super) struct VectorSlice<'m>(&'m mut [i32]);

impl<'m> Merges<'m> for VectorSlice<'m> {
    #[inline(always)]
    fn new(merges: &'m mut [i32]) -> Self {
        Self(merges)
    }

    #[inline(always)]
    fn least(&self) -> i32 {
        // SAFETY: there is AVX2, and a group is as long as what is read.
        unsafe {
            let groups = self.0.chunks_exact(8).map(|group| _mm256_loadu_si256(group.as_ptr().cast()));
            least_of(groups.fold(_mm256_set1_epi32(NO_MERGE), |least, group| _mm256_min_epi32(least, group)))
        }
    }

    #[inline(always)]
    fn set(&mut self, place: usize, merge: i32) {
        self.0[place] = merge;
    }
}

/// # Safety
///
/// The processor must have AVX2.
#[inline(always)]
unsafe fn least_of(group: __m256i) -> i32 {
    // SAFETY: the caller promises AVX2.
    unsafe {
        let least = _mm_min_epi32(_mm256_castsi256_si128(group), _mm256_extracti128_si256::<1>(group));
        let least = _mm_min_epi32(least, _mm_shuffle_epi32::<0b01_00_11_10>(least));
        _mm_cvtsi128_si32(_mm_min_epi32(least, _mm_shuffle_epi32::<0b10_11_00_01>(least)))
    }
}
