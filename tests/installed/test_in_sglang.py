"""This package in the place of the official one, in the installed SGLang: its own adapter of chats, on real requests.

`tests/clients/test_sglang.py` compares the two packages under SGLang's renderer and parser; this is the layer above.
"""

import json
from types import SimpleNamespace
from typing import Any

import pytest
import transformers
from sglang.srt.entrypoints.openai import serving_deepseek_recipe as serving
from sglang.srt.entrypoints.openai.chat_encoding_adapters import (
    ChatEncodingAdapterContext,
    ChatOutputHooks,
    build_chat_encoding_adapter,
)
from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest
from sglang.srt.parser.deepseek_recipe_renderer import load_deepseek_recipe

import deepseek_recipe as d
import outputs
import tokenizer_file


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What SGLang's server of chats builds for a checkpoint of V4.1."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer_file.write("v41", path)
    context = ChatEncodingAdapterContext(
        chat_encoding_spec="dsv41",
        tokenizer=transformers.TokenizersBackend(tokenizer_file=str(path)),
        reasoning_parser="deepseek-v41",
        tool_call_parser="deepseekv41",
        chat_hooks=ChatOutputHooks(
            thinking_requested=lambda request: True,
            tool_call_parsing_active=lambda request: True,
            history_tool_calls_count=lambda request: 0,
            tool_call_id=lambda item, count: f"call_{count + item.tool_index}",
        ),
        hf_config=SimpleNamespace(),
        model_path="",
        revision=None,
    )
    return build_chat_encoding_adapter(context)


REQUEST = ChatCompletionRequest.model_validate(
    {"model": "the-model", "messages": [{"role": "user", "content": "Hi"}], "tools": [outputs.TOOL], "stream": True}
)


def test_sglang_loads_this_package(adapter: Any) -> None:
    assert load_deepseek_recipe() is d and adapter.output is adapter


def test_renders_as_the_codec(adapter: Any) -> None:
    ids = adapter.encode_messages(messages=[], request=REQUEST, tools=[outputs.TOOL], thinking=True, image_data=[])
    assert ids == outputs.encoded().token_ids.tolist()


@pytest.mark.parametrize("name", outputs.OUTPUTS)
@pytest.mark.parametrize("incremental", [False, True])
def test_streams_as_the_codec_reads(
    adapter: Any, name: str, incremental: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "get_serving", lambda: SimpleNamespace(incremental_streaming_output=incremental))
    output = outputs.ids(name)
    expected = outputs.read(output, outputs.encoded())
    for pieces in outputs.cuts(output):
        parsers: dict[int, Any] = {}
        messages: list[Any] = []
        made: list[int] = []
        for count, piece in enumerate(pieces, 1):
            made += piece
            finish = {"type": "stop", "matched": outputs.END} if count == len(pieces) else None
            meta = {"id": "r", "completion_tokens": len(made), "finish_reason": finish}
            for chunk in adapter.stream_chat_chunks(
                content={"output_ids": piece if incremental else list(made), "meta_info": meta},
                index=0,
                request=REQUEST,
                created=0,
                parser_dict=parsers,
                has_tool_calls={},
                choice_logprobs=None,
                finish_reason_type=finish and finish["type"],
                usage=None,
            ):
                delta = json.loads(chunk.removeprefix("data: "))["choices"][0]["delta"]
                messages.append(message_of(delta))
        assert outputs.joined(messages) == expected


def message_of(delta: dict[str, Any]) -> Any:
    """SGLang's delta with the names that vLLM's has."""
    calls = [
        SimpleNamespace(id=call["id"], index=call["index"], function=SimpleNamespace(**call["function"]))
        for call in delta.get("tool_calls") or ()
    ]
    return SimpleNamespace(reasoning=delta.get("reasoning_content"), content=delta.get("content"), tool_calls=calls)


@pytest.mark.parametrize("name", outputs.OUTPUTS)
def test_whole_outputs(adapter: Any, name: str) -> None:
    output = outputs.ids(name)
    reasoning, content, calls, finish = adapter.parse_chat_response(
        request=REQUEST, output_ids=output, finish_reason={"type": "stop", "matched": outputs.END}
    )
    found = (reasoning or "", content, [(call.function.name, call.function.arguments) for call in calls or ()])
    assert found == outputs.read(output, outputs.encoded())
    assert finish["type"] == ("tool_calls" if calls else "stop")
