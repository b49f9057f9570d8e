"""Writes the built-in vocabularies as tokenizer.json files, for programs that want a file. Knows no program.

The inverse of `scripts/build_vocabulary.py`, which describes the data.
"""

import json
import pathlib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "recipe-core" / "data"

SPLITS = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^"""
    + "\r\n"
    + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+["
    + "\r\n"
    + r"]*|\s*["
    + "\r\n"
    + r"]+|\s+(?!\S)|\s+",
]


def stand_in_of_byte() -> list[str]:
    """The printable character that stands for each byte in a byte-level vocabulary."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte if byte in printable else 256 + others.index(byte)) for byte in range(256)]


def model(added: list[dict[str, Any]]) -> dict[str, Any]:
    """The ordinary vocabulary. Added tokens with ids below it stand in it, too, or programs would number them anew."""
    data = (DATA / "base.bin").read_bytes()
    first, stand_in = int.from_bytes(data[8:12], "little"), stand_in_of_byte()
    spelling = {token["id"]: token["content"] for token in added if token["id"] < first}
    spelling |= {first + n: stand_in[byte] for n, byte in enumerate(data[16:272])}
    merges = []
    for rank, at in enumerate(range(272, len(data), 6)):
        left, right = (spelling[int.from_bytes(data[i : i + 3], "little")] for i in (at, at + 3))
        merges.append(f"{left} {right}")
        spelling[first + 256 + rank] = left + right
    return {"type": "BPE", "vocab": {text: id for id, text in spelling.items()}, "merges": merges}


def added_tokens(version: str) -> list[dict[str, Any]]:
    tokens: list[dict[str, Any]] = []
    for name in ("added.tsv", f"added_{version}.tsv"):
        for line in (DATA / name).read_text(encoding="utf-8").split("\n")[:-1]:
            id, kind, content = line.split("\t")
            tokens.append({"id": int(id), "content": content, "normalized": kind == "n", "special": kind == "v"})
    defaults = {"single_word": False, "lstrip": False, "rstrip": False}
    return [{**token, **defaults} for token in sorted(tokens, key=lambda token: token["id"])]


def write(version: str, path: pathlib.Path) -> None:
    """Writes the tokenizer.json of `v4` or `v41`."""
    splits = [{"type": "Split", "pattern": {"Regex": s}, "behavior": "Isolated", "invert": False} for s in SPLITS]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    added = added_tokens(version)
    file = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, byte_level]},
        "decoder": byte_level,
        "model": model(added),
    }
    path.write_text(json.dumps(file, ensure_ascii=False), encoding="utf-8")
