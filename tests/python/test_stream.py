"""Chunks of an engine and the parsing of its output. What the parser finds is tested with the core."""

import deepseek_recipe as d
import pytest
from expressions import agrees, answer, recorded

OF_CHUNKS = ("d.Inf", "fields(d.Inf", "[fields(d.Inf", "{k")
CHUNKS = [facts for facts in recorded("stream") if facts[0].startswith(OF_CHUNKS)]


@pytest.mark.parametrize(("expression", "expected"), CHUNKS)
def test_as_the_reference(expression: str, expected: dict[str, str]) -> None:
    given = answer(d, expression)
    assert agrees(given, expected), given


def test_error_chunk() -> None:
    chunk = d.InferenceChunk.error("out of memory")
    assert (chunk.kind, chunk.content, chunk.finish_reason) == ("error", None, None)
    assert d.InferenceChunk.error("x", code="timeout").kind == "error"


@pytest.mark.parametrize("count", [-1, 2**32, 2**64])
def test_counts_have_a_range(count: int) -> None:
    for make in (
        lambda: d.PromptUsage(prompt_tokens=count),
        lambda: d.PromptUsage(prompt_cache_hit_tokens=count),
        lambda: d.InferenceChunk.text("", count),
        lambda: d.InferenceChunk.tokens([count]),
    ):
        with pytest.raises(OverflowError):
            make()
