//! Memory for large tables: zeros, in large pages where the system has them.

use std::ops::{Deref, DerefMut};

/// Bytes of a large page on x86-64 and, mostly, on ARM.
const PAGE: usize = 2 << 20;
const PAGE_WORDS: usize = PAGE / size_of::<u64>();

/// A number of words. They begin with a cache line.
pub(super) struct Words {
    all: Vec<u64>,
    first: usize,
    length: usize,
}

impl Words {
    /// Zeros. Those that are never used cost no memory, but for the rest of a page.
    ///
    /// To touch a small page for the first time is dear in a virtual machine, and many small pages are more
    /// than the processor keeps the addresses of.
    pub(super) fn zeros(length: usize) -> Self {
        let align = if length < PAGE_WORDS { 64 } else { PAGE };
        let all = vec![0; length + align / size_of::<u64>() - 1];
        let first = all.as_ptr().align_offset(align).min(all.len() - length);
        let words = Self { all, first, length };
        #[cfg(target_os = "linux")]
        if align == PAGE {
            let start = words.as_ptr().cast_mut().cast();
            // SAFETY: the range is memory of these words, and the advice changes none of it.
            unsafe { libc::madvise(start, size_of_val(&*words), libc::MADV_HUGEPAGE) };
        }
        words
    }
}

impl Deref for Words {
    type Target = [u64];

    #[inline(always)]
    fn deref(&self) -> &[u64] {
        // SAFETY: `zeros` makes as many words behind the first one.
        unsafe { self.all.get_unchecked(self.first..self.first + self.length) }
    }
}

impl DerefMut for Words {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: `zeros` makes as many words behind the first one.
        unsafe { self.all.get_unchecked_mut(self.first..self.first + self.length) }
    }
}
