//! Piece borders in up to 64 bytes of ASCII at once, by arithmetic on bit masks. Knows no other characters.
//!
//! Bit `n` of a mask is about byte `n`. A window begins where a piece begins, so nothing before it matters.

/// Bytes of a window.
pub(in crate::tokenizer) const WINDOW: usize = 64;

/// What the bytes of a window are, one mask for each class. No bit is set for a byte that is not in `plain`.
#[cfg_attr(test, derive(Debug, PartialEq))]
pub(in crate::tokenizer) struct Masks {
    /// A-Z and a-z.
    pub(super) letter: u64,
    /// 0-9.
    pub(super) number: u64,
    /// The ASCII symbols.
    pub(super) symbol: u64,
    /// U+0020.
    pub(super) space: u64,
    /// White space but CR and LF, the space too.
    pub(super) blank: u64,
    /// CR or LF.
    pub(super) newline: u64,
}

impl Masks {
    /// How many bytes at the start of the window are of these classes: no controls, and no other characters.
    #[inline(always)]
    pub(super) fn plain(&self) -> u32 {
        (self.letter | self.number | self.symbol | self.blank | self.newline).trailing_ones()
    }

    /// Where pieces begin, if the text ends after the window or with a number: both end what stands before.
    #[inline(always)]
    pub(super) fn starts(&self) -> u64 {
        let &Self { letter, number, symbol, space, blank, newline } = self;
        // Adding the first bit of a run to the run clears it.
        let after_symbols = newline & !newline.wrapping_add(symbol << 1 & newline);
        let newline = newline & !after_symbols;
        let white = newline | blank;
        // Symbols go with a space before them; a single symbol without one goes with the letters after it.
        let symbols = symbol & !(symbol << 1) & !(space << 1);
        let letters = letter & !((letter | blank | symbols) << 1);
        // White space reaches to its last line break. The last of the rest goes with what follows, or stands alone.
        let newlines = newline & !(white << 1);
        let blanks = blank & !(blank << 1);
        let last_blanks = blank & !(blank >> 1) & (letter | symbol) >> 1;
        let mut starts = symbols | letters | newlines | blanks | last_blanks | numbers(number);
        // Blanks between line breaks are rare.
        let mut ends = blank.wrapping_add(blanks) & !blank & newline;
        while ends != 0 {
            let others = !blank & ((1 << ends.trailing_zeros()) - 1);
            if others != 0 {
                let before = 1 << (63 - others.leading_zeros());
                if newline & before != 0 {
                    starts &= !(before << 1);
                }
            }
            ends &= ends - 1;
        }
        starts
    }

    /// The bits of [`starts`](Self::starts) that no byte from `length` on can change. `length` is 1 to 64.
    #[inline(always)]
    pub(super) fn certain(&self, length: u32) -> u64 {
        // Of white space that touches the end, only the first byte is sure to begin a piece, or not.
        let white = ((self.blank | self.newline) << (WINDOW as u32 - length)).leading_ones().min(length);
        low_bits(length - white + u32::from(white > 0))
    }
}

/// Each third digit of a run, from the first one on.
#[inline(always)]
fn numbers(number: u64) -> u64 {
    let mut starts = number & !(number << 1);
    let fourth = number & number << 1 & number << 2 & number << 3;
    let mut next = starts << 3 & fourth;
    while next != 0 {
        starts |= next;
        next = next << 3 & fourth;
    }
    starts
}

/// The lowest `count` bits, up to 64.
#[inline(always)]
pub(super) fn low_bits(count: u32) -> u64 {
    u64::MAX.checked_shr(64 - count).unwrap_or_default()
}

/// Sorts the bytes of a window into classes.
pub(in crate::tokenizer) trait Classify: Copy {
    /// The masks of these bytes.
    fn masks(self, window: &[u8; WINDOW]) -> Masks;
}

/// Sorts nothing: where no way to do it is quicker than to find pieces one by one.
#[derive(Clone, Copy)]
pub(in crate::tokenizer) enum NoWindows {}

impl Classify for NoWindows {
    fn masks(self, _: &[u8; WINDOW]) -> Masks {
        match self {}
    }
}
