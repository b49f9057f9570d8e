"""Requests. What conversion makes of them is tested with the core; this is its Python face."""

import json
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import deepseek_recipe as d
from deepseek_recipe._native import read_request
from expressions import agrees, answer, chat, recorded


@pytest.mark.parametrize(("expression", "expected"), recorded("request"))
def test_as_the_reference(expression: str, expected: dict[str, str]) -> None:
    given = answer(d, expression)
    assert agrees(given, expected), given


@pytest.mark.parametrize("body", ["{", b"\xff", "[1]", {}, None, {"model": 1, "messages": []}, "\ufeff{}"])
def test_unreadable_bodies_are_value_errors_with_a_reply(body: object) -> None:
    with pytest.raises(ValueError) as caught:
        d.ChatCompletionRequest(body)
    assert type(caught.value) is ValueError
    assert caught.value.status_code == 400  # type: ignore[attr-defined]
    reply = json.loads(caught.value.body)  # type: ignore[attr-defined]
    assert reply["error"] == {
        "message": str(caught.value),
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_request_error",
    }


def test_conversion_errors_travel() -> None:
    with pytest.raises(d.ConversionError) as caught:
        d.ChatCompletionRequest(chat(model="x")).convert(d.ConversionOptions())
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is d.ConversionError
    assert (again.args, again.status_code, again.body) == (caught.value.args, 400, caught.value.body)


def test_half_a_surrogate_pair_becomes_the_replacement_character() -> None:
    body = {"model": "DeepSeek-V4-Pro", "messages": [{"role": "user", "content": "a\ud800"}]}
    options = d.ConversionOptions()
    for form in (body, json.dumps(body), json.dumps(body, ensure_ascii=False), json.dumps(body).encode()):
        converted = d.ChatCompletionRequest(form).convert(options)
        assert converted.conversation.messages[0].content == "a\ufffd"


def test_integers_keep_their_digits() -> None:
    schema = {"type": "object", "properties": {"x": {"maximum": 10**40}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    for form in (chat(tools=tools), json.dumps(chat(tools=tools))):
        converted = d.ChatCompletionRequest(form).convert(d.ConversionOptions())
        assert converted.conversation.tools[0].parameters == schema


def test_a_request_is_converted_once_by_many_threads() -> None:
    def convert(request: d.ChatCompletionRequest) -> bool:
        try:
            return bool(request.convert(d.ConversionOptions()))
        except RuntimeError:
            return False

    with ThreadPoolExecutor(4) as pool:
        for _ in range(50):
            request = d.ChatCompletionRequest(chat())
            assert sum(pool.map(convert, [request] * 4)) == 1


def test_options_reach_the_conversion() -> None:
    several = chat(n=3)
    assert d.ChatCompletionRequest(several).convert(d.ConversionOptions(max_choices=3)).inference_options.n == 3
    with pytest.raises(d.ConversionError, match=r"\[1, 2\]"):
        d.ChatCompletionRequest(several).convert(d.ConversionOptions(max_choices=2))
    for most in (0, 129):
        with pytest.raises(ValueError):
            d.ConversionOptions(max_choices=most)
        with pytest.raises(ValueError):
            d.ConversionOptions().with_max_choices(most)
    options = d.ConversionOptions().with_tool_pairing("refuse").with_forced_tool_choice("refuse").with_max_choices(1)
    assert (options.tool_pairing, options.forced_tool_choice, options.max_choices) == ("refuse", "refuse", 1)
    with pytest.raises(ValueError, match='invalid tool_pairing "x"; expected "repair" or "refuse"'):
        d.ConversionOptions(tool_pairing="x")  # type: ignore[arg-type]
    options = d.ConversionOptions(messages_continuation="close").with_unsupported("refuse")
    assert (options.messages_continuation, options.unsupported) == ("close", "refuse")
    with pytest.raises(d.ConversionError, match="logit_bias: 'logit_bias' is not supported"):
        d.ChatCompletionRequest(chat(logit_bias={"1": 1})).convert(options)


def test_hosted_names() -> None:
    options = d.ConversionOptions().with_hosted_names()
    for name, version in (
        ("deepseek-flash", d.ModelVersion.DeepseekV41Flash),
        ("deepseek-v4-pro[1m]", d.ModelVersion.DeepseekV4Pro),
        ("claude-opus-4-1", d.ModelVersion.DeepseekV4Pro),
    ):
        assert d.ChatCompletionRequest(chat(model=name)).convert(options).model_version == version
    assert d.Recipe(model="deepseek-flash", options=options).encode(chat(model="any")).model == "any"
    names = options.with_model_versions_by_name({"x": d.ModelVersion.DeepseekV4Pro})
    with pytest.raises(d.ConversionError, match="API model names are x, but"):
        d.ChatCompletionRequest(chat(model="claude-opus-4-1")).convert(names)


@pytest.mark.parametrize("form", [str, str.encode, lambda text: bytearray(text.encode()), None])
def test_a_body_may_be_any_bytes(form: Callable[[str], object] | None) -> None:
    text = json.dumps(chat(max_completion_tokens=1))
    # The third of every three bytes of a larger buffer.
    strided = memoryview(b"".join(b"xy" + bytes([byte]) for byte in text.encode()))[2::3]
    body = strided if form is None else form(text)
    assert read_request(body).model == "DeepSeek-V4-Pro"
    if isinstance(body, (bytearray, memoryview)):
        with pytest.raises(TypeError, match=f"{type(body).__name__} is not a JSON value"):
            d.ChatCompletionRequest(body)
