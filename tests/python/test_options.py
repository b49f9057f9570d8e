"""Options, their enumerations and special tokens."""

import copy
import pickle
import re
from pathlib import Path
from threading import Thread

import pytest

import deepseek_recipe as d
from expressions import agrees, answer, recorded


@pytest.mark.parametrize(("expression", "expected"), recorded("options"))
def test_as_the_reference(expression: str, expected: dict[str, str]) -> None:
    given = answer(d, expression)
    assert agrees(given, expected), given


def test_enumerations_are_keys() -> None:
    kinds = [getattr(d.SpecialToken, name) for name in dir(d.SpecialToken) if name[0].isupper()]
    assert len({kind: None for kind in kinds}) == len(kinds) == 18
    for kind in kinds:
        assert pickle.loads(pickle.dumps(kind)) is copy.deepcopy(kind) is kind


def test_options_of_the_documentation_are_keywords() -> None:
    table = (Path(__file__).parents[2] / "docs" / "differences.md").read_text(encoding="utf-8")
    named = set(re.findall(r'[Oo]ption `(\w+)(?:="(\w+)")?`', table))
    assert {"tool_pairing", "messages_continuation", "max_choices"} <= {name for name, _ in named}
    for name, value in named:
        given = value or 2
        assert getattr(d.ConversionOptions(**{name: given}), name) == given
        assert getattr(getattr(d.ConversionOptions(), f"with_{name}")(given), name) == given


def test_model_names_are_sorted() -> None:
    options = d.ConversionOptions().with_model_alias("A", d.ModelVersion.DeepseekV4Pro)
    assert list(options.model_versions_by_name) == ["A", "DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"]


def test_parsing_options_from_many_threads() -> None:
    options = d.ParsingOptions()

    def work(text: str) -> None:
        for _ in range(2000):
            options.stop_sequences = [text, text]
            first, second = options.stop_sequences
            assert first == second

    threads = [Thread(target=work, args=(text,)) for text in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = options.stop_sequences
    assert first == second
