"""Prompts and their ids. What a template writes is tested with the core; this is its Python face."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import deepseek_recipe as d
from expressions import agrees, answer, recorded


@pytest.mark.parametrize(("expression", "expected"), recorded("prompt"))
def test_as_the_reference(expression: str, expected: dict[str, str]) -> None:
    given = answer(d, expression)
    assert agrees(given, expected), given


def test_ranges_are_indices_of_str() -> None:
    conversation = d.Conversation([d.UserMessage("é😀<think>"), d.AssistantMessage("ü"), d.UserMessage("中")])
    rendered = d.DeepseekV41Encoding().render_conversation(conversation)
    tokens = [rendered.prompt[start:end] for start, end in rendered.special_ranges]
    user, assistant = "<｜User｜>", "<｜Assistant｜>"
    assert [token for token in tokens if token in (user, assistant)] == [user, assistant, user, assistant]
    known = {getattr(d.SpecialToken, n).default_str() for n in dir(d.SpecialToken) if n[0].isupper()}
    assert set(tokens) <= known


def test_message_ranges_say_what_made_each_part() -> None:
    tool = d.ToolDefinition("f")
    conversation = d.Conversation([d.SystemMessage("é"), d.UserMessage("😀"), d.UserMessage("b")], tools=[tool])
    rendered = d.DeepseekV41Encoding().render_conversation(conversation)
    parts = [(rendered.prompt[start:end], message) for start, end, message in rendered.message_ranges]
    assert "".join(text for text, _ in parts) == rendered.prompt
    assert [message for _, message in parts] == [None, 0, None, 0, None, 1, 2, None]
    assert parts[1][0] == "<｜System｜>" and parts[3][0] == "é" and '"f"' in parts[4][0]
    assert [text for text, _ in parts[5:]] == ["<｜User｜>😀", "\n\nb", "<｜Assistant｜><think>"]


def test_text_never_becomes_special() -> None:
    tokenizer = d.Tokenizer.builtin(d.ModelVersion.DeepseekV41Flash)
    encoding = d.DeepseekV41Encoding().with_tokenizer(tokenizer)
    ids = encoding.encode(d.Conversation([d.UserMessage("<｜User｜></think>")], thinking_mode=False))
    assert ids.count(128803) == 1
    assert ids.count(128822) == 1


def test_threads_share_an_encoding() -> None:
    encoding = d.DeepseekV4Encoding().with_tokenizer(d.Tokenizer.builtin(d.ModelVersion.DeepseekV4Pro))
    conversations = [d.Conversation([d.UserMessage(f"{i} words " * 300)]) for i in range(16)]
    expected = [encoding.encode(conversation) for conversation in conversations]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(encoding.encode, conversations)) == expected
