"""The page's Python examples run, one after the other, as a reader would type them."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_examples_run() -> None:
    page = README.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 6
    names: dict[str, object] = {}
    for block in blocks:
        line = page[: page.index(block)].count("\n")
        exec(compile("\n" * line + block, str(README), "exec"), names)  # the line numbers are those of the page


def test_the_first_two_shell_blocks_are_the_two_commands() -> None:
    page = README.read_text(encoding="utf-8")
    install, test = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[:2]
    assert install.endswith("deepseek-recipe serve\n") and "pip install '.[server]'" in install
    assert test == "scripts/test.sh\n"
    assert (README.parent / "scripts/test.sh").exists()
