"""Conversations, messages, tools and image sources."""

import copy
import pickle

import pytest

import deepseek_recipe as d
from expressions import agrees, answer, recorded


@pytest.mark.parametrize(("expression", "expected"), recorded("conversation"))
def test_as_the_reference(expression: str, expected: dict[str, str]) -> None:
    given = answer(d, expression)
    assert agrees(given, expected), given


def test_half_a_surrogate_pair_becomes_the_replacement_character() -> None:
    assert d.UserMessage("a\ud800b\udfff").content == "a\ufffdb\ufffd"
    # Two halves that stand apart in a Python string are no pair.
    assert d.UserMessage("\ud83d\ude00").content == "\ufffd\ufffd"
    assert d.ToolCall("\ud800", "é\udc00", "\U0001f600\ud83d").arguments == "\U0001f600\ufffd"
    assert d.UserMessage("<｜image｜>\ud800", [d.UrlImageSource("u\ud800")]).image_sources[0].url == "u\ufffd"


def test_integers_keep_their_digits() -> None:
    schema = {"maximum": 2**64, "minimum": -(2**63) - 1, "enum": [10**400, -(10**400)]}
    assert d.ToolDefinition("n", parameters=schema).parameters == schema
    assert d.Conversation(response_schema=schema).response_schema == schema


def test_objects_are_independent_of_what_they_were_made_from() -> None:
    schema = {"a": [1]}
    tools = [d.ToolDefinition("n", parameters=schema)]
    conversation = d.Conversation(tools=tools)
    schema["a"].append(2)
    tools.clear()
    conversation.tools[0].parameters["a"].append(3)
    assert conversation.tools[0].parameters == {"a": [1]}


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies(again: object) -> None:
    assert callable(again)
    call = again(d.ToolCall("a", "b", "{}"))
    assert (call.id, call.name, call.arguments) == ("a", "b", "{}")
    tool = again(d.ToolDefinition("n", None, {"a": 2**70}, False, True))
    assert (tool.name, tool.description, tool.strict, tool.defer_loading) == ("n", None, False, True)
    assert tool.parameters == {"a": 2**70}
    assert again(d.ModelVersion.DeepseekV41Flash) is d.ModelVersion.DeepseekV41Flash


def test_effort_by_number() -> None:
    for number in (1, 50, 100):
        conversation = d.Conversation(reasoning_effort=number)
        assert conversation.reasoning_effort == number
        assert f"reasoning_effort=Some({number})" in repr(conversation)
    for wrong in (0, 101, -1, 2**70):
        with pytest.raises(ValueError, match=f"invalid reasoning_effort {wrong}; expected 1 to 100"):
            d.Conversation(reasoning_effort=wrong)
        with pytest.raises(ValueError, match=f"invalid reasoning_effort {wrong}"):
            d.Conversation(reasoning_effort=wrong, tool_choice="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        d.Conversation(reasoning_effort=True)
