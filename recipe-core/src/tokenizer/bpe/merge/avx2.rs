//! The merges of the places of a piece with the instructions of AVX2. Knows no vocabulary.
//!
//! Values of these types are made only in functions that need AVX2, so it is there.

use std::arch::x86_64::*;

use super::{Merges, NO_MERGE};

/// Up to `8 * GROUPS` merges in registers: a search then waits for no store of the step before.
pub(super) struct Registers<const GROUPS: usize> {
    groups: [__m256i; GROUPS],
    /// The place of each merge.
    places: [__m256i; GROUPS],
}

impl<const GROUPS: usize> Merges<'_> for Registers<GROUPS> {
    #[inline(always)]
    fn new(merges: &mut [i32]) -> Self {
        // SAFETY: there is AVX2, and a group is as long as what is read.
        unsafe {
            let mut groups = [_mm256_set1_epi32(NO_MERGE); GROUPS];
            let mut places = [_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); GROUPS];
            for (n, (place, group)) in places.iter_mut().zip(&mut groups).enumerate() {
                *place = _mm256_add_epi32(*place, _mm256_set1_epi32(8 * n as i32));
                if let Some(merges) = merges.get(8 * n..8 * n + 8) {
                    *group = _mm256_loadu_si256(merges.as_ptr().cast());
                }
            }
            Self { groups, places }
        }
    }

    #[inline(always)]
    fn least(&self) -> i32 {
        // SAFETY: there is AVX2.
        unsafe {
            least_of(self.groups.iter().fold(_mm256_set1_epi32(NO_MERGE), |least, &g| _mm256_min_epi32(least, g)))
        }
    }

    #[inline(always)]
    fn set(&mut self, place: usize, merge: i32) {
        // SAFETY: there is AVX2.
        unsafe {
            let (wanted, merge) = (_mm256_set1_epi32(place as i32), _mm256_set1_epi32(merge));
            for (group, &places) in self.groups.iter_mut().zip(&self.places) {
                *group = _mm256_blendv_epi8(*group, merge, _mm256_cmpeq_epi32(places, wanted));
            }
        }
    }
}

/// Merges in memory, of more places than there are registers for.
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
