"""Reasoning that clients carry without reading it."""

import json
from typing import Any

import pytest

import deepseek_recipe as d

FLASH = d.ModelVersion.DeepseekV41Flash
SEALER = d.ReasoningSealer(bytes(range(32)))
RECIPE = d.Recipe(options=d.ConversionOptions(reasoning_sealer=SEALER))
QUESTION = {"role": "user", "content": "Hi"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}


def messages(*turns: Any, **more: Any) -> dict[str, Any]:
    thinking = {"type": "adaptive", "display": "omitted"}
    return {
        "model": "DeepSeek-V4.1-Flash",
        "max_tokens": 9,
        "messages": [QUESTION, *turns],
        "thinking": thinking,
        **more,
    }


def responses(*items: Any, **more: Any) -> dict[str, Any]:
    return {"model": "DeepSeek-V4.1-Flash", "input": [QUESTION, *items], **more}


def reply(recipe: d.Recipe, request: dict[str, Any], output: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    protocol = "messages" if "messages" in request else "responses"
    found = recipe.encode(request, protocol=protocol).reply(id="id-1")
    chunks = [*found.push(output[:5]), *found.push(output[5:]), *found.finish()]
    return [json.loads(chunk.to_json()) for chunk in chunks], found.response()


def reasoning(recipe: d.Recipe, request: dict[str, Any]) -> list[str | None]:
    turns = recipe.encode(request).conversation.messages
    return [turn.reasoning_content for turn in turns if turn.role == "assistant"]


def test_a_sealed_text_opens_with_its_key() -> None:
    sealed = SEALER.seal("Hm. é", FLASH)
    assert SEALER.open(sealed, FLASH) == "Hm. é"
    assert SEALER.open(sealed, d.ModelVersion.DeepseekV4Pro) is None
    assert SEALER.seal("Hm. é", FLASH) != sealed
    changed = d.ReasoningSealer(bytes(32), bytes(range(32)))
    assert changed.open(sealed, FLASH) == "Hm. é"
    assert SEALER.open(changed.seal("x", FLASH), FLASH) is None
    for key in (b"", b"short", bytes(33)):
        with pytest.raises(ValueError, match="a key has 32 bytes"):
            d.ReasoningSealer(key)


def test_messages_omit_the_thinking_and_take_it_back() -> None:
    chunks, response = reply(RECIPE, messages(), "I think.</think>Hello")
    thinking = {"type": "thinking", "thinking": "", "signature": response["content"][0]["signature"]}
    assert response["content"] == [thinking, {"type": "text", "text": "Hello"}]
    assert SEALER.open(thinking["signature"], FLASH) == "I think."
    kinds = [chunk["delta"]["type"] for chunk in chunks if chunk["type"] == "content_block_delta"]
    assert kinds == ["signature_delta", "text_delta"]
    text = {"type": "text", "text": "Hello"}
    redacted = {"type": "redacted_thinking", "data": thinking["signature"]}
    for block in (thinking, redacted):
        turn = {"role": "assistant", "content": [block, text]}
        assert reasoning(RECIPE, messages(turn, QUESTION, tools=[TOOL])) == ["I think."]
    plain = {**thinking, "thinking": "Plain."}
    assert reasoning(RECIPE, messages({"role": "assistant", "content": [plain, text]}, QUESTION)) == ["Plain."]


def test_what_does_not_open_is_missing() -> None:
    strict = d.ConversionOptions(reasoning_content_behavior=d.ReasoningContentBehavior.Reject)
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "1"}]}
    for block in (
        {"type": "thinking", "thinking": "", "signature": "foreign"},
        {"type": "redacted_thinking", "data": "foreign"},
    ):
        request = messages({"role": "assistant", "content": [block, call]}, result, tools=[TOOL])
        assert reasoning(RECIPE, request) == [""]
        with pytest.raises(d.ConversionError, match="must be passed back"):
            d.Recipe(options=strict.with_reasoning_sealer(SEALER)).encode(request)


def test_responses_carry_sealed_reasoning() -> None:
    asked = {"include": ["reasoning.encrypted_content"]}
    chunks, response = reply(RECIPE, responses(**asked), "I think.</think>Hello")
    sealed = response["output"][0]["encrypted_content"]
    assert SEALER.open(sealed, FLASH) == "I think."
    items = {
        chunk["type"]: chunk["item"] for chunk in reversed(chunks) if "item" in chunk and chunk["output_index"] == 0
    }
    assert items["response.output_item.added"]["encrypted_content"] is None
    assert items["response.output_item.done"]["encrypted_content"] == sealed
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "S"}], "encrypted_content": sealed}
    answer = {"role": "assistant", "content": "Hello"}
    assert reasoning(RECIPE, responses(item, answer, QUESTION)) == ["I think."]
    assert reasoning(RECIPE, responses({**item, "encrypted_content": "id-1-0"}, answer, QUESTION)) == ["S"]
    plain = {**item, "content": [{"type": "reasoning_text", "text": "Plain."}]}
    assert reasoning(RECIPE, responses(plain, answer, QUESTION)) == ["Plain."]


def test_without_a_sealer_or_a_wish_replies_are_those_of_the_reference() -> None:
    for recipe, request in ((d.Recipe(), responses(include=["reasoning.encrypted_content"])), (RECIPE, responses())):
        chunks, response = reply(recipe, request, "I think.</think>Hello")
        assert response["output"][0]["encrypted_content"] == "id-1-0"
        added = next(chunk["item"] for chunk in chunks if chunk["type"] == "response.output_item.added")
        assert added["encrypted_content"] == "id-1-0"
    shown = {**messages(), "thinking": {"type": "adaptive"}}
    for recipe, request in ((d.Recipe(), messages()), (RECIPE, shown)):
        _, response = reply(recipe, request, "I think.</think>Hello")
        assert response["content"][0] == {"type": "thinking", "thinking": "I think.", "signature": "id-1"}
