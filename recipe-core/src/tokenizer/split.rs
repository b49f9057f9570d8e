//! The splitter: plain text to pieces. A scanner for one fixed chain of split steps; knows no vocabulary.
//!
//! The steps of the released files, each applied to the results of the one before, matches and gaps alike:
//!
//! 1. `\p{N}{1,3}`
//! 2. `[一-龥぀-ゟ゠-ヿ]+`
//! 3. `[ASCII punctuation][A-Za-z]+` or `[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+` or ` ?[\p{P}\p{S}]+[\r\n]*`
//!    or `\s*[\r\n]+` or `\s+(?!\S)` or `\s+`
//!
//! Numbers and the CJK range never reach step 3, so each code point has just one [`Class`], and one pass does
//! all three. What ends at a number or at the CJK range ends like the text itself.

use super::unicode_tables::{class, Class};
use window::{low_bits, Classify, NoWindows, WINDOW};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "aarch64")]
mod neon;
mod window;

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;

/// The split patterns, as a tokenizer.json spells them.
pub(super) const PATTERNS: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^"##,
        "\r\n",
        r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[",
        "\r\n",
        r"]*|\s*[",
        "\r\n",
        r"]+|\s+(?!\S)|\s+"
    ),
];

/// The most pieces that are handed on at once. More than a window has.
pub(super) const BATCH: usize = 4 * WINDOW;

/// Calls `batch(start, ends)` for the pieces of a text, in order, up to [`BATCH`] at once: where the first one starts
/// and where each one ends. Joined the pieces are the text; none is empty.
#[inline]
pub(super) fn for_each_batch(text: &str, batch: impl FnMut(usize, &[usize])) {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = Avx2::detect() {
        // SAFETY: the processor has the features that the function needs.
        return unsafe { for_each_batch_with_avx2(avx2, text, batch) };
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(neon) = neon::Neon::detect() {
        return find_batches(Some(neon), text, batch);
    }
    find_batches(None::<NoWindows>, text, batch);
}

/// Whether vector instructions may be used: not in a process whose environment says `RECIPE_SIMD=off`. That takes the
/// portable way everywhere, which gives the same ids.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn is_simd_allowed() -> bool {
    std::env::var_os("RECIPE_SIMD").is_none_or(|value| value != "off")
}

/// # Safety
///
/// The processor must have the named features. A value of [`Avx2`] says that it has.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
unsafe fn for_each_batch_with_avx2(avx2: Avx2, text: &str, batch: impl FnMut(usize, &[usize])) {
    find_batches(Some(avx2), text, batch);
}

/// With `windows` the pieces of ASCII text are found many at once, without it one by one.
#[inline(always)]
fn find_batches(windows: Option<impl Classify>, text: &str, mut batch: impl FnMut(usize, &[usize])) {
    let bytes = text.as_bytes();
    let mut ends = [0; BATCH];
    let (mut start, mut at) = (0, 0);
    while start < bytes.len() {
        let mut count = 0;
        while at < bytes.len() && count <= BATCH - WINDOW {
            if let Some(classify) = windows {
                let is_stuck;
                (count, is_stuck) = add_window(classify, &bytes[at..], at, &mut ends, count);
                at = if count > 0 { ends[count - 1] } else { at };
                if !is_stuck {
                    continue;
                }
            }
            while at < bytes.len() && count < BATCH {
                at += piece_end(&text[at..]);
                ends[count] = at;
                count += 1;
                if windows.is_some() && is_worth_a_window(&bytes[at..]) {
                    break;
                }
            }
        }
        batch(start, &ends[..count]);
        start = at;
    }
}

/// Adds the ends of the pieces in the window that `rest` begins with, which is at `at`, to `count` others. Returns how
/// many there are then, and whether the next piece has to be found without a window.
#[inline(always)]
fn add_window(
    classify: impl Classify,
    rest: &[u8],
    at: usize,
    ends: &mut [usize; BATCH],
    mut count: usize,
) -> (usize, bool) {
    let padded;
    let window = match rest.first_chunk() {
        Some(window) => window,
        None => {
            padded = padded_window(rest);
            &padded
        }
    };
    let masks = classify.masks(window);
    let plain = masks.plain();
    let ends_here = plain as usize >= rest.len();
    let mut starts = match plain {
        0 => 0,
        _ if ends_here => masks.starts() & low_bits(rest.len() as u32) & !1,
        _ => masks.starts() & masks.certain(plain) & !1,
    };
    let is_stuck = starts == 0 || (plain as usize) < WINDOW;
    // There is room for the pieces of a window. The remainder says so without a check.
    while starts != 0 {
        ends[count % BATCH] = at + starts.trailing_zeros() as usize;
        count += 1;
        starts &= starts - 1;
    }
    if ends_here {
        ends[count % BATCH] = at + rest.len();
        count += 1;
    }
    (count, is_stuck && !ends_here)
}

/// Whether pieces end between two such characters, whatever stands before and after them. The texts on both sides
/// then have the pieces of the whole.
///
/// Numbers and the CJK range are split off first, so what is beside them never sees them. A run of letters ends at
/// white space, which begins a piece of its own there.
fn is_cut(before: Class, after: Class) -> bool {
    let is_split_off = |class| matches!(class, Class::Number | Class::Cjk);
    match (before, after) {
        (Class::Letter, Class::Blank | Class::Newline) => true,
        _ => before != after && (is_split_off(before) || is_split_off(after)),
    }
}

/// The first place from `from` on where a text can be cut in two that have the same pieces. Not an end of the text.
pub(super) fn cut_after(text: &str, from: usize) -> Option<usize> {
    let from = (from..text.len()).find(|&at| text.is_char_boundary(at))?;
    let mut before = None;
    for (at, character) in text[from..].char_indices() {
        let after = class(character);
        if before.is_some_and(|before| is_cut(before, after)) {
            return Some(from + at);
        }
        before = Some(after);
    }
    None
}

/// The last place before a space or a line feed where a text can be cut in two that have the same pieces.
pub(super) fn last_cut_before_white_space(text: &str) -> Option<usize> {
    let mut end = text.len();
    while let Some(at) = text.as_bytes()[..end].iter().rposition(|byte| matches!(byte, b' ' | b'\n')) {
        let before = text[..at].chars().next_back().map(class);
        if before.is_some_and(|before| is_cut(before, Class::Blank)) {
            return Some(at);
        }
        end = at;
    }
    None
}

/// Up to a window of text, and digits behind it: a piece ends at a number as it ends at the end of the text.
#[inline(always)]
fn padded_window(rest: &[u8]) -> [u8; WINDOW] {
    let mut window = [b'0'; WINDOW];
    window[..rest.len()].copy_from_slice(rest);
    window
}

/// Where the run of the CJK range that `text` begins with ends, if it begins with one.
#[inline]
fn cjk_end(text: &[u8]) -> usize {
    // As numbers, the bytes of characters are in the order of the characters.
    let is_cjk = |number: u32| (0xE4_B880..=0xE9_BEA5).contains(&number) || (0xE3_8180..=0xE3_83BF).contains(&number);
    let mut at = 0;
    // Four bytes are one load.
    while let Some(&bytes) = text[at..].first_chunk() {
        if !is_cjk(u32::from_be_bytes(bytes) >> 8) {
            return at;
        }
        at += 3;
    }
    match text[at..] {
        [first, second, third] if is_cjk(u32::from_be_bytes([0, first, second, third])) => at + 3,
        _ => at,
    }
}

/// Whether a window at the start of this text is likely to have more than a piece or two.
#[inline]
fn is_worth_a_window(text: &[u8]) -> bool {
    match text.first_chunk() {
        Some(&bytes) => u64::from_ne_bytes(bytes) & 0x8080_8080_8080_8080 == 0,
        None => text.is_ascii(),
    }
}

/// Where the first piece of `text` ends, in bytes.
fn piece_end(text: &str) -> usize {
    let cjk = cjk_end(text.as_bytes());
    if cjk > 0 {
        return cjk;
    }
    let Some(first) = text.chars().next() else {
        return 0;
    };
    let after = first.len_utf8();
    let next = class_at(text, after);
    match (class(first), next) {
        (Class::Number, _) => text.chars().take(3).take_while(|&c| class(c) == Class::Number).map(char::len_utf8).sum(),
        (Class::Cjk, _) => after,
        // All ASCII symbols are punctuation in the sense of step 3.
        (Class::Symbol, Some(Class::Letter)) if first.is_ascii() && text.as_bytes()[after].is_ascii_alphabetic() => {
            let letters = text[after..].bytes().take_while(u8::is_ascii_alphabetic).count();
            after + letters
        }
        (Class::Symbol, _) => symbols_end(text, after),
        (Class::Letter | Class::Blank | Class::Other, Some(Class::Letter)) => run_end(text, after, Class::Letter),
        (Class::Letter, _) => after,
        (Class::Blank, Some(Class::Symbol)) if first == ' ' => symbols_end(text, after),
        (Class::Blank | Class::Newline, _) => white_space_end(text),
        (Class::Other, _) => gap_end(text),
    }
}

fn class_at(text: &str, at: usize) -> Option<Class> {
    text[at..].chars().next().map(class)
}

/// The end of the run of `wanted` at `at`.
fn run_end(text: &str, at: usize, wanted: Class) -> usize {
    text[at..].char_indices().find(|&(_, c)| class(c) != wanted).map_or(text.len(), |(offset, _)| at + offset)
}

/// The end of `[\p{P}\p{S}]*[\r\n]*` at `at`.
fn symbols_end(text: &str, at: usize) -> usize {
    run_end(text, run_end(text, at, Class::Symbol), Class::Newline)
}

/// The end of the piece of white space that `text` begins with.
///
/// It reaches to the last line break of the white space. Without one it is all of it at the end of the text
/// that step 3 sees, else all but the last character, which may belong to what follows.
fn white_space_end(text: &str) -> usize {
    let mut after_newline = None;
    let mut last = 0;
    for (at, c) in text.char_indices() {
        match class(c) {
            Class::Blank => last = at,
            Class::Newline => {
                last = at;
                after_newline = Some(at + 1);
            }
            Class::Number | Class::Cjk => return after_newline.unwrap_or(at),
            Class::Letter | Class::Symbol | Class::Other if last == 0 => return after_newline.unwrap_or(at),
            Class::Letter | Class::Symbol | Class::Other => return after_newline.unwrap_or(last),
        }
    }
    after_newline.unwrap_or(text.len())
}

/// The end of the run that nothing matches: it stops before a character that goes with the letters after it.
fn gap_end(text: &str) -> usize {
    let mut last = 0;
    for (at, c) in text.char_indices() {
        match class(c) {
            Class::Other => last = at,
            // The caller has seen that the first character is not followed by a letter.
            Class::Letter => return last,
            _ => return at,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::window::Masks;
    use super::*;

    /// The slow twin: byte by byte.
    #[derive(Clone, Copy)]
    struct Bytewise;

    impl Classify for Bytewise {
        fn masks(self, window: &[u8; WINDOW]) -> Masks {
            let mask = |is: fn(&u8) -> bool| window.iter().rev().fold(0, |mask, byte| mask << 1 | u64::from(is(byte)));
            Masks {
                letter: mask(u8::is_ascii_alphabetic),
                number: mask(u8::is_ascii_digit),
                symbol: mask(u8::is_ascii_punctuation),
                space: mask(|byte| *byte == b' '),
                blank: mask(|byte| matches!(byte, b' ' | b'\t' | 0x0B | 0x0C)),
                newline: mask(|byte| matches!(byte, b'\n' | b'\r')),
            }
        }
    }

    /// The vector instructions that this process uses.
    fn detect() -> Option<impl Classify> {
        #[cfg(target_arch = "x86_64")]
        let detected = Avx2::detect();
        #[cfg(target_arch = "aarch64")]
        let detected = neon::Neon::detect();
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let detected = None::<NoWindows>;
        if detected.is_none() {
            println!("this process uses no vector instructions");
        }
        detected
    }

    /// Numbers below `below`, the same ones each time.
    fn numbers() -> impl FnMut(usize) -> usize {
        let mut state = 1u64;
        move |below| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        }
    }

    /// Every byte at every place, among random ones.
    #[test]
    fn vector_instructions_sort_as_the_twin_does() {
        let Some(classify) = detect() else { return };
        let mut random = numbers();
        for byte in 0..=u8::MAX {
            for at in 0..WINDOW {
                let mut window: [u8; WINDOW] = std::array::from_fn(|_| random(256) as u8);
                window[at] = byte;
                assert_eq!(classify.masks(&window), Bytewise.masks(&window), "{window:?}");
            }
        }
    }

    fn ends(text: &str, windows: Option<impl Classify>) -> Vec<usize> {
        let mut ends = Vec::new();
        find_batches(windows, text, |start, batch| {
            assert_eq!(start, ends.last().copied().unwrap_or_default());
            assert!((1..=BATCH).contains(&batch.len()));
            ends.extend_from_slice(batch);
        });
        assert!(
            ends.windows(2).all(|pair| pair[0] < pair[1]) && ends.last().copied().unwrap_or_default() == text.len()
        );
        ends
    }

    /// Windows begin and end everywhere: random texts of few characters, with runs of each length.
    #[test]
    fn windows_give_the_same_pieces() {
        let detected = detect();
        let pools = ["a1! \n\t", "a \n\r!", "zZ09~ \u{b}\n", "ab1 !\u{1}\u{7f}", "aé!中 \n\u{3000}1٣\u{301}", " \na"];
        let mut random = numbers();
        for n in 0..if cfg!(miri) { 200 } else { 400_000 } {
            let pool: Vec<char> = pools[n % pools.len()].chars().collect();
            let mut text = String::new();
            for _ in 0..random(40) {
                let unit = pool[random(pool.len())];
                let longest = if random(10) == 0 { 70 } else { 4 };
                text.extend(std::iter::repeat_n(unit, 1 + random(longest)));
            }
            let expected = ends(&text, None::<NoWindows>);
            assert_eq!(ends(&text, Some(Bytewise)), expected, "{text:?}");
            if detected.is_some() {
                assert_eq!(ends(&text, detected), expected, "{text:?}");
            }
        }
    }
}
