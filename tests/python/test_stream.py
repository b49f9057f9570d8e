"""Chunks of an engine and the parsing of its output. What the parser finds is tested with the core."""

import copy
import json
from typing import Any

import pytest

import deepseek_recipe as d
from expressions import agrees, answer, chunks, generator, processor, recorded


@pytest.mark.parametrize(("expression", "expected"), recorded("stream"))
def test_as_the_reference(expression: str, expected: dict[str, str]) -> None:
    given = answer(d, expression)
    assert agrees(given, expected), given


def test_error_chunk() -> None:
    chunk = d.InferenceChunk.error("out of memory")
    assert (chunk.kind, chunk.content, chunk.finish_reason) == ("error", None, None)
    assert d.InferenceChunk.error("x", code="timeout").kind == "error"


def test_counts_have_a_range() -> None:
    makes = (
        lambda count: d.PromptUsage(prompt_tokens=count).prompt_tokens,
        lambda count: d.PromptUsage(prompt_cache_hit_tokens=count).prompt_cache_hit_tokens,
        lambda count: d.InferenceChunk.text("", count).token_count,
    )
    for make in makes:
        assert make(2**64 - 1) == 2**64 - 1
        for count in (-1, 2**64):
            with pytest.raises(OverflowError):
                make(count)
    for token in (-1, 2**32):
        with pytest.raises(OverflowError):
            d.InferenceChunk.tokens([token])


def said(events: list[d.ChatCompletionChunk]) -> str:
    """The texts of chunks, joined."""
    deltas: list[Any] = [json.loads(event.to_json())["choices"][0]["delta"] for event in events]
    return "".join((delta.get("reasoning_content") or "") + (delta.get("content") or "") for delta in deltas)


def test_a_copy_goes_on_by_itself() -> None:
    first = processor(d)
    first.push(d.InferenceChunk.text("a"))
    second = copy.copy(first)
    assert said(first.push(d.InferenceChunk.text("b"))) == "b"
    assert said(second.push(d.InferenceChunk.text("c"))) == "c"
    second.close()
    assert not first.finished
    first.push(chunks(d)["stop"])
    assert first.finished


def test_an_input_that_ends_is_a_failure() -> None:
    last = json.loads(processor(d).finish()[-1].to_json())
    assert last["error"]["message"] == "the output ended without a finish reason"


def test_choices_have_their_own_generators() -> None:
    request = d.ConversationRequest(d.Conversation(), d.ModelVersion.DeepseekV4Pro)
    second = d.ChatCompletionRequest.chunk_generator(request, "i", "m", index=1)
    event = d.StreamProcessor(second, d.ParsingOptions()).push(d.InferenceChunk.ready())[0]
    assert json.loads(event.to_json())["choices"][0]["index"] == 1


def test_call_ids_differ_between_generators() -> None:
    text = '<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
    ids = set()
    for _ in range(20):
        events = d.StreamProcessor(generator(d), d.ParsingOptions()).push(d.InferenceChunk.text(text))
        deltas = [json.loads(event.to_json())["choices"][0]["delta"] for event in events]
        ids |= {call["id"] for delta in deltas for call in delta.get("tool_calls", []) if "id" in call}
    assert len(ids) == 20


def test_options_are_read_when_the_processor_is_made() -> None:
    options = d.ParsingOptions(stop_sequences=["x"])
    target = d.StreamProcessor(generator(d), options)
    options.stop_sequences = []
    target.push(d.InferenceChunk.text("axb"))
    assert target.finished


def test_many_tokens_at_once() -> None:
    tokenizer = d.Tokenizer.builtin(d.ModelVersion.DeepseekV4Pro)
    text = "The quick brown fox. " * 1000
    events = d.StreamProcessor(generator(d), d.ParsingOptions(), tokenizer).push(
        d.InferenceChunk.tokens(tokenizer.encode(text))
    )
    assert said(events) == text
