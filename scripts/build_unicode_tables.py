#!/usr/bin/env python3
"""Write recipe-core/src/tokenizer/unicode_tables.rs from the ranges of Unicode 16.0.0.

    build_unicode_tables.py recipe-core/data/unicode_classes.json

Run by hand; the result is committed. The input lists [first, last] ranges of the categories N, L, M, P, S and of
White_Space, as "space". Two levels: the index names the block of each 128 code points.
"""

import json
import pathlib
import sys

OUT = pathlib.Path(__file__).resolve().parent.parent / "recipe-core" / "src" / "tokenizer" / "unicode_tables.rs"
BLOCK = 128
CJK = [(0x4E00, 0x9FA5), (0x3040, 0x309F), (0x30A0, 0x30FF)]
HEAD = """\
//! Classes of all code points, Unicode 16.0.0. Written by scripts/build_unicode_tables.py: do not edit.
//!
//! The version matters: the vocabulary was trained, and is used, with the classes of 16.0.0.

/// What a code point is to the splitter. Each has one class: the split steps look for numbers first, then for
/// the CJK range, and neither of these takes part in what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Controls, format characters, private use, unassigned.
    Other,
    /// Categories L and M outside the CJK range.
    Letter,
    /// Category N.
    Number,
    /// U+4E00 to U+9FA5 and U+3040 to U+30FF, whatever their category.
    Cjk,
    /// Categories P and S outside the CJK range.
    Symbol,
    /// White space but CR and LF.
    Blank,
    /// CR or LF.
    Newline,
}

use Class::{Blank as B, Cjk as C, Letter as L, Newline as R, Number as N, Other as O, Symbol as S};

/// The class of `character`.
#[inline]
pub(super) fn class(character: char) -> Class {
    let code = character as usize;
    BLOCKS[INDEX[code / BLOCK] as usize][code % BLOCK]
}

"""


def classes(ranges):
    out = ["O"] * 0x110000

    def fill(pairs, letter, over):
        for first, last in pairs:
            for code in range(first, last + 1):
                assert out[code] in over, hex(code)
                out[code] = letter

    fill(ranges["N"], "N", "O")
    fill(ranges["L"] + ranges["M"], "L", "O")
    fill(ranges["P"] + ranges["S"], "S", "O")
    fill(ranges["space"], "B", "O")
    # Numbers are split off first, so none may be in the range.
    fill(CJK, "C", "OLS")
    fill([(0x0A, 0x0A), (0x0D, 0x0D)], "R", "B")
    # The splitter takes any ASCII symbol for one of the marks that may stand before ASCII letters.
    assert [c for c in range(128) if out[c] == "S"] == [ord(c) for c in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"]
    return "".join(out)


def rows(items, width):
    return "".join("    " + ",".join(items[at : at + width]) + ",\n" for at in range(0, len(items), width))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    letters = classes(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    blocks = [letters[at : at + BLOCK] for at in range(0, len(letters), BLOCK)]
    distinct = list(dict.fromkeys(blocks))
    assert len(distinct) <= 256
    place = {block: str(n) for n, block in enumerate(distinct)}
    text = HEAD
    text += f"const BLOCK: usize = {BLOCK};\n\n#[rustfmt::skip]\n"
    text += f"static INDEX: [u8; {len(blocks)}] = [\n{rows([place[b] for b in blocks], 28)}];\n\n#[rustfmt::skip]\n"
    text += f"static BLOCKS: [[Class; BLOCK]; {len(distinct)}] = [\n"
    for block in distinct:
        text += "    [\n" + rows(list(block), 64).replace("    ", "        ") + "    ],\n"
    text += "];\n"
    OUT.write_text(text)
    print(f"{OUT.name}: {len(distinct)} blocks, {len(blocks) + BLOCK * len(distinct)} bytes")


if __name__ == "__main__":
    main()
