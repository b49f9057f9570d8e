"""Each difference that the documentation names is shown by a case."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_named_cases_exist() -> None:
    ids = {
        json.loads(line)["id"]
        for file in ROOT.glob("tests/cases/*/*.jsonl")
        for line in file.read_text(encoding="utf-8").split("\n")[:-1]
    }
    text = (ROOT / "docs/differences.md").read_text(encoding="utf-8")
    tables = re.findall(r"\n\| [^\n]* \| case \|\n\| --- [^\n]*\n((?:\|[^\n]*\n)+)", text)
    assert len(tables) == 3
    rows = [row for table in tables for row in table.splitlines()]
    for row in rows:
        named = re.findall(r"`([^`]+)`", row.split(" | ")[-1])
        assert named, row
        missing = [name for name in named if name not in ids and not (ROOT / name).exists()]
        assert not missing, row
