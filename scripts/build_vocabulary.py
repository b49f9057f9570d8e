#!/usr/bin/env python3
"""Write the built-in vocabulary from the released tokenizer.json files.

    build_vocabulary.py V4.json V41.json

Run by hand; the result is committed. Inputs are known by their SHA-256. Written to recipe-core/data:

base.bin        what both versions share. All numbers are little endian:
                magic "RCPVOC01", first byte id (u32), number of merges (u32),
                256 bytes: the byte that each id from the first byte id on stands for,
                then (left id, right id) of each merge, 3 bytes each, in rank order.
                Merge r makes id first + 256 + r.
tokens.bin      what base.bin says, worked out, so that loading need not: for each id from 0 on where its bytes
                end (u32), then the bytes of all ids.
added.tsv       the added tokens that both versions have: id, "v" or "n", spelling.
added_v4.tsv    those of V4 alone.
added_v41.tsv   those of V4.1 alone.

"v" (verbatim) tokens are looked for in the raw text, before "n" tokens, which are looked for in what is left.
"""

import hashlib
import json
import pathlib
import sys

SHA256 = [
    "97d2f31b020d18b5aee5c9b3d5b4efb10ea210f3fe3f7dffe3f1cd90542d6b19",
    "81f64d1248a68ce3663e07ab3ee48b851e5df0e32d27cb98e4c9a268151e8d99",
]
OUT = pathlib.Path(__file__).resolve().parent.parent / "recipe-core" / "data"


def read(path, sha256):
    raw = pathlib.Path(path).read_bytes()
    found = hashlib.sha256(raw).hexdigest()
    if found != sha256:
        sys.exit(f"{path}: SHA-256 is {found}, not {sha256}")
    return json.loads(raw)


def byte_of_stand_in():
    """The printable character that stands for each byte in a byte-level vocabulary, reversed."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


def base(model):
    byte_of = byte_of_stand_in()
    ids = model["vocab"]
    bytes_by_id = sorted((ids[char], byte) for char, byte in byte_of.items())
    first = bytes_by_id[0][0]
    assert [i for i, _ in bytes_by_id] == list(range(first, first + 256))
    out = bytearray(b"RCPVOC01")
    out += first.to_bytes(4, "little") + len(model["merges"]).to_bytes(4, "little")
    out += bytes(byte for _, byte in bytes_by_id)
    for rank, merge in enumerate(model["merges"]):
        left, right = merge.split(" ")
        assert ids[left + right] == first + 256 + rank
        out += ids[left].to_bytes(3, "little") + ids[right].to_bytes(3, "little")
    assert len(ids) == first + 256 + len(model["merges"])
    return bytes(out)


def tokens(model, added_ids):
    byte_of = byte_of_stand_in()
    spellings = {i: spelling for spelling, i in model["vocab"].items()}
    by_id = {i: b"" if i in added_ids else bytes(map(byte_of.get, spelling)) for i, spelling in spellings.items()}
    ends, joined = bytearray(), bytearray()
    for i in range(max(by_id) + 1):
        joined += by_id[i]
        ends += len(joined).to_bytes(4, "little")
    return bytes(ends + joined)


def added(tokens):
    lines = set()
    for token in tokens:
        assert not (token["lstrip"] or token["rstrip"] or token["single_word"])
        assert not set(token["content"]) & set("\t\r\n")
        lines.add((token["id"], "n" if token["normalized"] else "v", token["content"]))
    assert len(lines) == len(tokens)
    return lines


def write(name, data):
    (OUT / name).write_bytes(data)
    print(f"{name}: {len(data)} bytes")


def table(lines):
    return "".join(f"{i}\t{kind}\t{spelling}\n" for i, kind, spelling in sorted(lines)).encode()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    v4, v41 = (read(path, sha256) for path, sha256 in zip(sys.argv[1:], SHA256, strict=True))
    assert v4["model"] == v41["model"]
    added_v4, added_v41 = added(v4["added_tokens"]), added(v41["added_tokens"])
    write("base.bin", base(v4["model"]))
    write("tokens.bin", tokens(v4["model"], {token["id"] for token in v4["added_tokens"]}))
    write("added.tsv", table(added_v4 & added_v41))
    write("added_v4.tsv", table(added_v4 - added_v41))
    write("added_v41.tsv", table(added_v41 - added_v4))


if __name__ == "__main__":
    main()
