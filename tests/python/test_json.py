"""Python objects as JSON values."""

import json

import pytest

import deepseek_recipe as d
from expressions import agrees, answer, chat, recorded


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


# The last ones are longer than what Python writes or reads at once; some are where the parts of a long one meet.
WIDE = [2**63, 2**64, 10**511, 10**512 - 1, 10**512, 10**1024 - 1, 10**1024, 10**1536 + 1]
WIDE += [10**5000, 10**5000 - 1, 7 * 10**5000 + 7, 3**20000]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("index", range(len(WIDE)))
def test_integers_keep_their_digits(index: int, sign: int) -> None:
    value = sign * WIDE[index] - (sign < 0)
    assert (through([value]) == [value]) is True  # A failure could not be printed.


def converted(digits: str) -> d.Conversation:
    """A conversation from JSON text with a number in the schema of a tool."""
    schema = {"type": "object", "maximum": "DIGITS"}
    body = chat(tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}])
    text = json.dumps(body).replace('"DIGITS"', digits)
    return d.ChatCompletionRequest(text).convert(d.ConversionOptions()).conversation


@pytest.mark.parametrize("digits", ["9" * 5000, "-1" + "0" * 5000, "1" + "0" * 511 + "2" * 6000])
def test_long_integers_of_json_text(digits: str) -> None:
    conversation = converted(digits)
    again = d.Conversation(tools=[d.ToolDefinition("f", parameters=conversation.tools[0].parameters)])
    for shown in (conversation, again):
        assert f'"maximum": {digits}}}' in d.DeepseekV4Encoding().render_conversation(shown).prompt


def test_a_million_digits_are_read_in_no_quadratic_time() -> None:
    assert (converted("9" * 10**6).tools[0].parameters["maximum"] == 10 ** (10**6) - 1) is True


def test_a_dictionary_of_many_keys_keeps_its_order() -> None:
    many = {f"k{i * 7919 % 1000}": i for i in range(1000)}
    assert list(through(many)) == list(many)  # type: ignore[call-overload]
