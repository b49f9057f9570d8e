"""Python objects as JSON values."""

import pytest

import deepseek_recipe as d
from expressions import agrees, answer, recorded


def through(value: object) -> object:
    return d.ToolDefinition("n", parameters=value).parameters


@pytest.mark.parametrize(("expression", "expected"), recorded("json"))
def test_as_the_reference(expression: str, expected: dict[str, str]) -> None:
    given = answer(d, expression)
    assert agrees(given, expected), given


def test_half_a_surrogate_pair_becomes_the_replacement_character() -> None:
    assert through({"\ud800": ["\udfffx"]}) == {"\ufffd": ["\ufffdx"]}


def test_keys_that_become_one_merge() -> None:
    assert through(dict([("\ud800", 1), ("a", 2), ("\udfff", 3)])) == {"\ufffd": 3, "a": 2}


@pytest.mark.parametrize("value", [2**63, 2**64, -(2**63) - 1, 10**1000, -(10**1000)])
def test_integers_keep_their_digits(value: int) -> None:
    assert through([value]) == [value]


def test_integers_past_the_limit_of_python_are_refused() -> None:
    with pytest.raises(ValueError, match="digits"):
        through(10**5000)


def test_a_dictionary_of_many_keys_keeps_its_order() -> None:
    many = {f"k{i * 7919 % 1000}": i for i in range(1000)}
    assert list(through(many)) == list(many)  # type: ignore[call-overload]
