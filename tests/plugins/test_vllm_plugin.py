"""The plug-in of vLLM by its interfaces: on the installed package, or on stand-ins with its signatures.

Here `stream` stands for vLLM's server; `tests/installed/test_in_vllm.py` has the server's own code.
"""

import asyncio
import copy
import importlib
import importlib.metadata
import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import deepseek_recipe as d
import outputs
import tokenizer_file
from deepseek_recipe.plugins.vllm import NAME, register

VERSIONS = {"v4": d.ModelVersion.DeepseekV4Pro, "v41": d.ModelVersion.DeepseekV41Flash}


def tokenizer_of(version: d.ModelVersion) -> Any:
    """As far as parsers and renderers use it."""
    codec = d.Tokenizer.builtin(version)
    return SimpleNamespace(codec=codec, recipe=d.Recipe(model=version, tokenizer=codec))


TOKENIZER = tokenizer_of(d.ModelVersion.DeepseekV41Flash)


def request_of(**fields: Any) -> Any:
    """vLLM's request, as far as parsers look at it."""
    return SimpleNamespace(**{"tool_choice": "auto", "stop": None, "parallel_tool_calls": True, **fields})


def tools(vllm: Any) -> list[Any]:
    function = outputs.TOOL["function"]
    return [vllm.tool(function=vllm.function(name=function["name"], parameters=function["parameters"]))]


def stream(vllm: Any, pieces: list[list[int]], prompt: list[int], request: Any, declared: list[Any]) -> Any:
    """What vLLM does with the two parsers."""
    reasoning = vllm.parsers.RecipeReasoningParser(TOKENIZER, chat_template_kwargs={})
    tool = vllm.parsers.RecipeToolParser(TOKENIZER, declared)
    reasoning.set_prompt_token_ids(prompt)
    thinks = not reasoning.is_reasoning_end(prompt)
    messages: list[Any] = []
    for piece in pieces:
        if thinks:
            message = reasoning.extract_reasoning_streaming("", "", "", [], piece, piece)
            thinks = not reasoning.has_engine_confirmed_reasoning_end()
            if message is not None:
                message.content = None
                messages.append(message)
            piece = reasoning.extract_content_ids(piece)
        if not thinks:
            messages.append(tool.extract_tool_calls_streaming("", "", "", [], piece, piece, request))
    messages += [reasoning.finish_streaming() if thinks else None, tool.finish_streaming()]
    return outputs.joined([message for message in messages if message is not None])


def test_entry_point() -> None:
    (found,) = importlib.metadata.entry_points(group="vllm.general_plugins", name=NAME)
    assert found.load() is register


def test_registers_once(vllm: Any) -> None:
    for _ in range(2):
        register()
        known = [
            vllm.registries["tokenizers"][NAME],
            vllm.registries["renderers"][NAME],
            vllm.reasoning.ReasoningParserManager.lazy_parsers[NAME],
            vllm.tool_parsers.ToolParserManager.lazy_parsers[NAME],
        ]
        classes = [getattr(importlib.import_module(module), name) for module, name in known]
        assert [kind.__name__ for kind in classes] == [
            "RecipeTokenizer", "RecipeRenderer", "RecipeReasoningParser", "RecipeToolParser",
        ]  # fmt: skip


@pytest.mark.parametrize("name", outputs.OUTPUTS)
@pytest.mark.parametrize("thinking", [True, False])
def test_streams_as_the_codec_reads(vllm: Any, name: str, thinking: bool) -> None:
    encoded = outputs.encoded(thinking)
    output = outputs.ids(name)
    expected = outputs.read(output, encoded)
    for pieces in outputs.cuts(output):
        assert stream(vllm, pieces, list(encoded.token_ids), request_of(), tools(vllm)) == expected


def test_a_spelled_marker_is_text(vllm: Any) -> None:
    encoded = outputs.encoded()
    spelled = [id for part in ("</", "think", ">") for id in outputs.TOKENIZER.encode(part)]
    output = [*outputs.TOKENIZER.encode("So "), *spelled, 128822, *spelled]
    assert stream(vllm, [output], list(encoded.token_ids), request_of(), tools(vllm)) == ("So </think>", "</think>", [])


def test_prefix_of_the_reasoning_and_of_the_answer(vllm: Any) -> None:
    """Where the output begins is seen in the prompt."""
    for answer, expected in (({"reasoning_content": "I", "content": ""}, ("\na", "b")), ({"content": "I"}, ("", "ab"))):
        messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "prefix": True, **answer}]
        encoded = outputs.encoded("content" not in answer or not answer["content"], messages=messages, tools=None)
        text = "\na</think>b" if expected[0] else "ab"
        found = stream(vllm, [outputs.TOKENIZER.encode(text)], list(encoded.token_ids), request_of(), [])
        assert found == (*expected, [])


def test_what_the_request_says(vllm: Any) -> None:
    encoded = outputs.encoded()
    prompt = list(encoded.token_ids)
    output = outputs.TOKENIZER.encode("a stop</think>one stop two")
    for stop in ("stop", ["x", "stop"]):
        assert stream(vllm, [output], prompt, request_of(stop=stop), []) == ("a stop", "one ", [])
    shown = request_of(stop="stop", include_stop_str_in_output=True)
    assert stream(vllm, [output], prompt, shown, []) == ("a stop", "one stop two", [])
    calls = outputs.ids("calls")
    assert len(stream(vllm, [calls, [40593]], prompt, request_of(parallel_tool_calls=False), tools(vllm)).calls) == 1
    for request, declared in ((request_of(tool_choice="none"), tools(vllm)), (request_of(), [])):
        found = stream(vllm, [calls], prompt, request, declared)
        assert found.calls == [] and found.content == f"Calling.{outputs.CALLS}"


@pytest.mark.parametrize("name", outputs.OUTPUTS)
def test_whole_texts(vllm: Any, name: str) -> None:
    """What is not streamed comes as text."""
    encoded, text = outputs.encoded(), outputs.OUTPUTS[name]
    reasoning = vllm.parsers.RecipeReasoningParser(TOKENIZER)
    reasoning.set_prompt_token_ids(list(encoded.token_ids))
    thought, rest = reasoning.extract_reasoning(text, request_of())
    found = vllm.parsers.RecipeToolParser(TOKENIZER, tools(vllm)).extract_tool_calls(rest or "", request_of())
    calls = [(call.function.name, call.function.arguments) for call in found.tool_calls]
    assert (thought or "", found.content or "", calls) == outputs.read(text, encoded)
    assert found.tools_called == bool(calls) and all(call.id for call in found.tool_calls)


def test_an_answer_without_reasoning_is_left_whole(vllm: Any) -> None:
    reasoning = vllm.parsers.RecipeReasoningParser(TOKENIZER)
    reasoning.set_prompt_token_ids(list(outputs.encoded(False).token_ids))
    assert reasoning.extract_reasoning("a</think>b", request_of()) == (None, "a</think>b")
    assert reasoning.count_reasoning_tokens([5, 128822]) == 0


def test_where_reasoning_ends(vllm: Any) -> None:
    """What vLLM's grammars ask."""
    parser = vllm.parsers.RecipeReasoningParser(TOKENIZER)
    think, end = 128821, 128822
    assert (parser.reasoning_start_str, parser.reasoning_end_str) == ("<think>", "</think>")
    assert parser.is_reasoning_end(list(outputs.encoded(False).token_ids))
    assert not parser.is_reasoning_end(list(outputs.encoded(True).token_ids))
    assert [parser.is_reasoning_end(ids) for ids in ([5], [end, 5], [think, end], [end, think])] == [
        False, True, True, False,
    ]  # fmt: skip
    assert parser.is_reasoning_end_streaming([think, 5, end], [5, end])
    assert not parser.is_reasoning_end_streaming([think, end, 5], [5])
    assert parser.extract_content_ids([5, end, 6]) == [6] and parser.extract_content_ids([5]) == []
    (opening,) = outputs.TOKENIZER.encode("<")
    counted = ([5, 6], 2), ([5, end, 6], 1), ([5, opening, 128825], 2), ([5, 128825], 2)
    assert [parser.count_reasoning_tokens(ids) for ids, _ in counted] == [count for _, count in counted]


def test_a_server_without_a_tool_parser_gets_the_content(vllm: Any) -> None:
    for text, delta, content in (
        ("a</think>\n\nb", "a</think>\n\nb", "b"),
        ("a\n<｜DSML｜ c", "｜DSML｜ c", "<｜DSML｜ c"),
    ):
        parser = vllm.parsers.RecipeReasoningParser(TOKENIZER)
        ids = outputs.TOKENIZER.encode(text)
        message = parser.extract_reasoning_streaming("", "", delta, [], ids, ids)
        assert (message.reasoning, message.content) == ("a", content)


def test_markers_stay_in_the_text(vllm: Any) -> None:
    for parser in (vllm.parsers.RecipeReasoningParser(TOKENIZER), vllm.parsers.RecipeToolParser(TOKENIZER, None)):
        request = request_of(tools=None, skip_special_tokens=True)
        assert parser.adjust_request(request).skip_special_tokens is False


def test_the_grammar_is_that_of_the_model(vllm: Any) -> None:
    for version, name in (
        (d.ModelVersion.DeepseekV4Pro, "deepseek_v4"),
        (d.ModelVersion.DeepseekV41Flash, "deepseek_v4_1"),
    ):
        parser = vllm.parsers.RecipeToolParser(tokenizer_of(version))
        assert parser.structural_tag_model == name and not parser.supports_required_and_named


def test_another_tokenizer_mode_is_refused(vllm: Any) -> None:
    for kind in (vllm.parsers.RecipeReasoningParser, vllm.parsers.RecipeToolParser):
        with pytest.raises(ValueError, match="--tokenizer-mode deepseek_recipe"):
            kind(SimpleNamespace())


HI = {"role": "user", "content": "Hi"}
FORM = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "default": None}}}


def call_with(arguments: Any) -> dict[str, Any]:
    return {"id": "1", "type": "function", "function": {"name": "add", "arguments": arguments}}


RENDERED: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any]]] = {
    # What vLLM gives, messages and options, and the fields of the request that it stands for.
    "plain": ([HI], {}, {}),
    "nulls": ([{**HI, "name": None}], {"reasoning_effort": None}, {}),
    "no thinking": ([HI], {"enable_thinking": False}, {"thinking": {"type": "disabled"}}),
    "either name": ([HI], {"thinking": True, "enable_thinking": False}, {"thinking": {"type": "enabled"}}),
    "effort": ([HI], {"reasoning_effort": "max", "enable_thinking": True}, {"reasoning_effort": "max"}),
    "budget": ([HI], {"reasoning_effort": 30}, {"reasoning_effort": 30}),
    "effort none": ([HI], {"reasoning_effort": "none", "enable_thinking": False}, {"reasoning_effort": "none"}),
    "tools": (
        [HI],
        {"tools": [{**outputs.TOOL, "function": {**outputs.TOOL["function"], "description": None}}]},
        {"tools": [outputs.TOOL]},
    ),
    "tools and a choice": ([HI], {"tools": [outputs.TOOL], "tool_choice": "required"}, {"tools": [outputs.TOOL]}),
    "no choice": (
        [HI],
        {"tools": [outputs.TOOL], "tool_choice": "none"},
        {"tools": [outputs.TOOL], "tool_choice": "none"},
    ),
    "form": ([HI], {"response_format": FORM}, {"response_format": FORM}),
    "form as an object": (
        [HI],
        {"response_format": SimpleNamespace(model_dump=lambda **_: FORM)},
        {"response_format": FORM},
    ),
    "form of the grammar": ([HI], {"response_format": {"type": "structural_tag"}}, {}),
    "continued": (
        [HI, {"role": "assistant", "content": "He"}],
        {"continue_final_message": True, "add_generation_prompt": False, "enable_thinking": False},
        {
            "messages": [HI, {"role": "assistant", "content": "He", "prefix": True}],
            "thinking": {"type": "disabled"},
        },
    ),
    "reasoning": (
        [
            HI,
            {"role": "assistant", "reasoning": "r", "content": "c"},
            {"role": "tool", "tool_call_id": "1", "content": "x"},
        ],
        {"tools": [outputs.TOOL]},
        {
            "messages": [
                HI,
                {"role": "assistant", "reasoning_content": "r", "content": "c"},
                {"role": "tool", "tool_call_id": "1", "content": "x"},
            ],
            "tools": [outputs.TOOL],
        },
    ),
    "arguments as an object": (
        [HI, {"role": "assistant", "content": "", "tool_calls": [call_with({"a": 1})]}],
        {"tools": [outputs.TOOL]},
        {
            "messages": [HI, {"role": "assistant", "content": "", "tool_calls": [call_with('{"a": 1}')]}],
            "tools": [outputs.TOOL],
        },
    ),
    "parts": (
        [{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}]}],
        {},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
    ),
}


def test_renders_as_the_codec(vllm: Any) -> None:
    for name, (messages, options, fields) in RENDERED.items():
        for version, model in zip(VERSIONS.values(), ("DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"), strict=True):
            if name == "budget" and version == d.ModelVersion.DeepseekV4Pro:
                continue
            before = copy.deepcopy(messages)
            encoded = vllm.renderer.encode(tokenizer_of(version), vllm.renderer.body(messages, options))
            expected = d.encode({"model": model, "messages": messages, **fields}, protocol="chat_completions")
            assert encoded.token_ids.tolist() == expected.token_ids.tolist(), name
            assert messages == before


@pytest.mark.parametrize(
    ("messages", "options"),
    [
        ([], {}),
        ([{"role": "user", "content": [{"type": "audio"}]}], {}),
        ([HI], {"add_generation_prompt": False}),
        ([HI], {"reasoning_effort": "loud"}),
    ],
)
def test_what_cannot_be_rendered_is_the_clients_fault(vllm: Any, messages: Any, options: Any) -> None:
    with pytest.raises(vllm.exceptions.VLLMValidationError):
        vllm.renderer.encode(TOKENIZER, vllm.renderer.body(messages, options))


def image(name: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": name}}


def test_images_go_where_their_placeholders_are(vllm: Any) -> None:
    """The prompt sorts results by their calls, so the second image comes first."""
    calls = [{"id": id, "type": "function", "function": {"name": "add", "arguments": "{}"}} for id in ("1", "2")]
    results = [{"role": "tool", "tool_call_id": id, "content": [image(f"http://x/{id}")]} for id in ("2", "1")]
    messages = [HI, {"role": "assistant", "content": "", "tool_calls": calls}, *results]
    renderer = vllm.renderer.RecipeRenderer.__new__(vllm.renderer.RecipeRenderer)
    renderer.tokenizer = TOKENIZER
    data, uuids = {"image": ["of 2", "of 1"]}, {"image": ["b", "a"]}
    prompt = renderer._prompt(vllm.renderer.body(messages, {"tools": [outputs.TOOL]}), data, uuids)
    assert prompt["multi_modal_data"] == {"image": ["of 1", "of 2"]}
    assert prompt["multi_modal_uuids"] == {"image": ["a", "b"]}
    assert prompt["prompt_token_ids"].count(129264) == 2


@pytest.mark.parametrize("name", VERSIONS)
def test_tokenizer(vllm: Any, name: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer_file.write(name, path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    source = tmp_path if vllm.installed else path
    tokenizer = vllm.tokenizer.RecipeTokenizer.from_pretrained(source)
    builtin = d.Tokenizer.builtin(VERSIONS[name])
    assert vllm.tokenizer.version(tokenizer.codec) == VERSIONS[name]
    text = "Text, <think> and 你好"
    assert tokenizer.encode(text, add_special_tokens=False) == builtin.encode(text)
    before = tokenizer("")["input_ids"]
    assert before == ([] if vllm.installed else [0])
    assert tokenizer(text, truncation=True, max_length=99)["input_ids"] == [*before, *builtin.encode(text)]
    expected = tokenizer_of(VERSIONS[name]).recipe.encode({"model": "", "messages": [HI]}, protocol="chat_completions")
    assert tokenizer.apply_chat_template([HI]) == expected.token_ids.tolist()
    assert tokenizer.apply_chat_template([HI], tokenize=False) == expected.prompt
    for other in (copy.copy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert other.encode("ab") == [*before, *builtin.encode("ab")]
    if vllm.installed:
        assert tokenizer(text, truncation=True, max_length=3)["input_ids"] == builtin.encode(text)[:3]
        assert tokenizer([text])["input_ids"] == [builtin.encode(text)]
    else:
        assert tokenizer(text, truncation=True, max_length=3)["input_ids"] == ["transformers"]
        assert tokenizer([text])["input_ids"] == ["transformers"]


def test_another_vocabulary_is_refused(vllm: Any) -> None:
    for text in ("{}", "no JSON"):
        tokenizer = SimpleNamespace(backend_tokenizer=SimpleNamespace(to_str=lambda text=text: text))
        with pytest.raises(ValueError, match="deepseek_recipe cannot use this tokenizer"):
            vllm.tokenizer.with_codec(tokenizer)


def test_an_older_vocabulary_is_refused(vllm: Any, tmp_path: Path) -> None:
    tokenizer_file.write("v4", tmp_path / "tokenizer.json")
    text = (tmp_path / "tokenizer.json").read_text(encoding="utf-8").replace('"｜DSML｜"', '"<unused>"')
    with pytest.raises(ValueError, match="the tokenizer has no ｜DSML｜"):
        vllm.tokenizer.with_codec(SimpleNamespace(), d.Tokenizer.from_str(text))


class Behind:
    """A tokenizer that puts these ids behind texts."""

    def __init__(self, *behind: int):
        self.behind = behind

    def __call__(self, text: str) -> Any:
        return {"input_ids": [*outputs.TOKENIZER.encode(text), *self.behind]}


def test_tokens_behind_texts_are_refused(vllm: Any) -> None:
    with pytest.raises(ValueError, match="puts tokens behind texts"):
        vllm.tokenizer.with_codec(Behind(outputs.END), outputs.TOKENIZER)


def test_the_placeholder_of_checkpoints(vllm: Any, tmp_path: Path) -> None:
    """They spell it otherwise than the built-in vocabulary; the id is the same."""
    tokenizer_file.write("v41", tmp_path / "tokenizer.json")
    text = (tmp_path / "tokenizer.json").read_text(encoding="utf-8").replace('"<｜image｜>"', '"<｜deepseek_image｜>"')
    tokenizer = vllm.tokenizer.with_codec(Behind(), d.Tokenizer.from_str(text))
    messages = [{"role": "user", "content": [image("http://x/1"), {"type": "text", "text": "<｜deepseek_image｜>"}]}]
    encoded = vllm.renderer.encode(tokenizer, vllm.renderer.body(messages, {}))
    assert encoded.token_ids.tolist().count(129264) == 1


def test_renders_in_vllms_threads(vllm: Any) -> None:
    """As vLLM calls it, on the stand-in of its base class."""
    if vllm.installed:
        pytest.skip("tests/installed has it with vLLM's own configuration")
    config = SimpleNamespace(model_config=SimpleNamespace())
    renderer = vllm.renderer.RecipeRenderer(config, TOKENIZER)
    params = vllm.params.ChatParams(chat_template_kwargs={"enable_thinking": False})
    messages = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    conversation, prompt = renderer.render_messages(messages, params)
    assert conversation is messages
    assert prompt == {"prompt_token_ids": outputs.encoded(False, tools=None).token_ids.tolist()}
    assert asyncio.run(renderer.render_messages_async(messages, params)) == (conversation, prompt)
