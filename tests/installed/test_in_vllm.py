"""The plug-in in the installed vLLM: its registries, its parser of both parts, its renderer, its grammars.

`scripts/test.sh --plugins` installs what this needs, and no GPU is used: prompts go as far as the engine's input, and
outputs come as what the engine gives.
"""

import asyncio
import importlib
import inspect
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from vllm import plugins
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.chat_completion.stream_processor import ChatStreamProcessor
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.exceptions import VLLMValidationError
from vllm.parser.parser_manager import ParserManager
from vllm.renderers.online_renderer import OnlineRenderer
from vllm.renderers.registry import RENDERER_REGISTRY
from vllm.sampling_params import SamplingParams
from vllm.tokenizers.registry import get_tokenizer
from vllm.v1.engine.detokenizer import FastIncrementalDetokenizer, uses_fast_detokenizer

import deepseek_recipe as d
import outputs
import stand_ins
import tokenizer_file
from deepseek_recipe.plugins.vllm import NAME


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """As vLLM loads it, after it has loaded the plug-in by its entry point."""
    plugins.load_general_plugins()
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    tokenizer_file.write("v41", folder / "tokenizer.json")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<｜begin▁of▁sentence｜>",
        "eos_token": "<｜end▁of▁sentence｜>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return get_tokenizer(str(folder), tokenizer_mode=NAME)


def compose(tokenizer: Any, tools: bool = True) -> Any:
    """vLLM's parser of both parts, checked against the tokenizer as at its start."""
    return ParserManager.get_parser(
        tool_parser_name=NAME if tools else None,
        reasoning_parser_name=NAME,
        enable_auto_tools=tools,
        model_name="the-model",
        tokenizer=tokenizer,
    )


def chat(**fields: Any) -> ChatCompletionRequest:
    body = {"messages": [{"role": "user", "content": "Hi"}], "tools": [outputs.TOOL], "tool_choice": "auto"}
    return ChatCompletionRequest.model_validate({"model": "the-model", **body, **fields})


def stream(
    tokenizer: Any, pieces: list[list[int]], prompt: list[int], request: Any, tools: bool = True
) -> outputs.Read:
    """What vLLM's server of Chat Completions makes of an output."""
    cls = compose(tokenizer, tools)
    parser = cls(tokenizer, request.tools, chat_template_kwargs={}, model_config=None)
    processor = ChatStreamProcessor(request, parser, enable_auto_tools=tools, parser_cls=cls)
    steps = []
    for count, piece in enumerate(pieces, 1):
        text = tokenizer.decode([id for id in piece if id != outputs.END])
        reason = "stop" if count == len(pieces) else None
        steps.append(processor.step(text, piece, reason, prompt if count == 1 else None))
    read = outputs.joined([step.delta for step in steps if step.delta is not None])
    assert steps[-1].finish_reason == ("tool_calls" if read.calls else "stop")
    return read


def test_stand_ins_have_the_signatures() -> None:
    compared = 0
    for module, members in stand_ins.MODULES.items():
        for name, stand_in in members.items():
            real = getattr(importlib.import_module(module), name)
            if inspect.isfunction(stand_in):
                assert list(inspect.signature(stand_in).parameters) == list(inspect.signature(real).parameters), name
                compared += 1
            elif inspect.isclass(stand_in) and module.startswith("vllm."):
                for method, function in vars(stand_in).items():
                    fields = hasattr(stand_in, "__dataclass_fields__")
                    if inspect.isfunction(function) and not method.startswith("__") and not fields:
                        theirs = inspect.signature(getattr(real, method)).parameters
                        assert list(inspect.signature(function).parameters) == list(theirs), f"{name}.{method}"
                        compared += 1
                for field in getattr(stand_in, "__dataclass_fields__", ()):
                    known = getattr(real, "model_fields", None) or real.__dataclass_fields__
                    assert field in known, f"{name}.{field}"
                    compared += 1
    assert compared > 40


def test_the_tokenizer_serves_vllm(tokenizer: Any) -> None:
    assert uses_fast_detokenizer(tokenizer) and tokenizer.is_fast
    assert tokenizer.decode(tokenizer("a</think>你好")["input_ids"]) == "a</think>你好"


@pytest.mark.parametrize("name", outputs.OUTPUTS)
@pytest.mark.parametrize("thinking", [True, False])
def test_streams_as_the_codec_reads(tokenizer: Any, name: str, thinking: bool) -> None:
    encoded = outputs.encoded(thinking)
    output = outputs.ids(name)
    expected = outputs.read(output, encoded)
    for pieces in outputs.cuts(output):
        assert stream(tokenizer, pieces, list(encoded.token_ids), chat()) == expected


def test_stop_sequences(tokenizer: Any) -> None:
    """vLLM holds text back that may become one, and cuts it; the ids come at once, those of the sequence among them."""
    encoded, output = outputs.encoded(), outputs.TOKENIZER.encode("I stop.</think>\n\nOne, two, stop three")
    for stop, expected in ((["wo, st"], ("I stop.", "One, t", [])), (["three"], ("I stop.", "One, two, stop ", []))):
        request = chat(stop=stop)
        params = SamplingParams(stop=stop, skip_special_tokens=False)
        engine: Any = SimpleNamespace(sampling_params=params, prompt_token_ids=list(encoded.token_ids), request_id="r")
        detokenizer = FastIncrementalDetokenizer(tokenizer, engine)
        cls = compose(tokenizer)
        parser = cls(tokenizer, request.tools, chat_template_kwargs={}, model_config=None)
        processor = ChatStreamProcessor(request, parser, enable_auto_tools=True, parser_cls=cls)
        deltas = []
        for count, id in enumerate(output):
            matched = detokenizer.update([id], False)
            text = detokenizer.get_next_output_text(matched is not None, True)
            step = processor.step(text, [id], "stop" if matched else None, None if count else engine.prompt_token_ids)
            deltas.append(step.delta)
            if matched:
                break
        assert matched == stop[0]
        assert outputs.joined([delta for delta in deltas if delta is not None]) == expected


def test_without_a_tool_parser(tokenizer: Any) -> None:
    encoded = outputs.encoded(tools=None)
    output = outputs.ids("content")
    for pieces in ([output], [output[:9], output[9:]]):
        found = stream(tokenizer, pieces, list(encoded.token_ids), chat(tools=None, tool_choice=None), tools=False)
        assert found == outputs.read(output, encoded)


@pytest.mark.parametrize("name", outputs.OUTPUTS)
def test_whole_texts(tokenizer: Any, name: str) -> None:
    encoded, request = outputs.encoded(), chat()
    parser = compose(tokenizer)(tokenizer, request.tools, chat_template_kwargs={}, model_config=None)
    parser.set_prompt_token_ids(list(encoded.token_ids))
    reasoning, content, calls = parser.parse(outputs.OUTPUTS[name], request, enable_auto_tools=True)
    found = (reasoning or "", content or "", [(call.name, call.arguments) for call in calls or ()])
    assert found == outputs.read(outputs.OUTPUTS[name], encoded)


def online_renderer(tokenizer: Any) -> OnlineRenderer:
    model = SimpleNamespace(
        model="the-model",
        max_model_len=5000,
        renderer_num_workers=1,
        supports_multimodal_inputs=False,
        is_multimodal_model=False,
        is_encoder_decoder=False,
        enable_prompt_embeds=False,
        multimodal_config=None,
        encoder_config=None,
        hf_config=SimpleNamespace(model_type="deepseek_v41"),
        get_vocab_size=lambda: 129_280,
        allowed_local_media_path="",
        allowed_media_domains=None,
    )
    config = SimpleNamespace(model_config=model, parallel_config=SimpleNamespace(_api_process_rank=0))
    renderer = RENDERER_REGISTRY.load_renderer(NAME, config, tokenizer)
    return OnlineRenderer(
        model_config=model,
        renderer=renderer,
        request_logger=None,
        chat_template=None,
        chat_template_content_format="auto",
        enable_auto_tools=True,
        tool_parser=NAME,
        reasoning_parser=NAME,
    )


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ({}, {}),
        ({"reasoning_effort": "max"}, {"reasoning_effort": "max"}),
        ({"reasoning_effort": "none"}, {"reasoning_effort": "none"}),
        ({"chat_template_kwargs": {"thinking": False}}, {"thinking": {"type": "disabled"}}),
        ({"tools": None, "tool_choice": None}, {"tools": None}),
        ({"tool_choice": "none"}, {"tool_choice": "none"}),
        ({"tool_choice": "required"}, {}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}},
        ),
    ],
)
def test_renders_chat_as_the_codec(tokenizer: Any, fields: dict[str, Any], same: dict[str, Any]) -> None:
    result: Any = asyncio.run(online_renderer(tokenizer).render_chat(chat(**fields)))
    _, (prompt,) = result
    body = {
        "model": "DeepSeek-V4.1-Flash",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [outputs.TOOL],
        **same,
    }
    expected = d.encode({key: value for key, value in body.items() if value is not None}, protocol="chat_completions")
    assert prompt["prompt_token_ids"] == expected.token_ids.tolist()


def test_renders_a_history_of_responses(tokenizer: Any) -> None:
    tool = {"type": "function", "name": "add", "parameters": outputs.TOOL["function"]["parameters"]}
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
        {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 1.50}'},
        {"type": "function_call_output", "call_id": "c", "output": "3"},
    ]
    body = {"model": "DeepSeek-V4.1-Flash", "input": items, "tools": [tool], "instructions": "Be short."}
    request = ResponsesRequest.model_validate({**body, "store": False})
    result: Any = asyncio.run(online_renderer(tokenizer).render_responses(request))
    assert result.engine_input["prompt_token_ids"] == d.encode(body, protocol="responses").token_ids.tolist()


def test_bad_requests_are_refused(tokenizer: Any) -> None:
    with pytest.raises(VLLMValidationError, match="messages"):
        asyncio.run(online_renderer(tokenizer).render_chat(chat(messages=[{"role": "tool", "content": "x"}])))


def test_a_forced_call_has_vllms_grammar(tokenizer: Any) -> None:
    request = chat(tool_choice="required")
    parser = compose(tokenizer)(tokenizer, request.tools, chat_template_kwargs={}, model_config=None)
    adjusted = parser.adjust_request(request)
    assert adjusted.skip_special_tokens is False
    assert "｜DSML｜ calls>" in json.dumps(json.loads(adjusted.structured_outputs.structural_tag), ensure_ascii=False)


def test_another_tokenizer_mode_is_refused_at_the_start(tokenizer: Any) -> None:
    other = get_tokenizer(tokenizer.name_or_path, tokenizer_mode="hf")
    with pytest.raises(TypeError, match="--tokenizer-mode deepseek_recipe"):
        compose(other)
