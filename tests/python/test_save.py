"""Streams that go on from saved bytes, and objects that are pickled and copied, in this process and in another."""

import copy
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import deepseek_recipe as d
from deepseek_recipe._native import OutputParser

FLASH = d.ModelVersion.DeepseekV41Flash
SEALER = d.ReasoningSealer(bytes(range(32)))
CASES = Path(__file__).parents[1] / "cases" / "reply"
PROTOCOLS: dict[str, tuple[Any, Any]] = {
    "chat": (d.ChatCompletionRequest, d.ChatCompletionResponse),
    "messages": (d.MessagesRequest, d.MessagesResponse),
    "responses": (d.ResponsesRequest, d.ResponsesResponse),
}
BODY: dict[str, Any] = {
    "model": "DeepSeek-V4.1-Flash",
    "messages": [{"role": "user", "content": "q"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "stop": ["never"],
}
OUTPUT = (
    'Hm. é</think>So: \n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n<｜DSML｜ parameter name="a" string="false">'
    '[1, "é", True</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
)
IDS = d.Tokenizer.builtin(FLASH).encode(OUTPUT)


def elsewhere(program: str, value: Any) -> Any:
    """What a program makes of `value` in a process of its own: it sets `result`."""
    code = (
        f"import pickle, sys\nvalue = pickle.load(sys.stdin.buffer)\n{program}\npickle.dump(result, sys.stdout.buffer)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(value), stdout=subprocess.PIPE, check=True)
    return pickle.loads(done.stdout)


def engine_chunk(kind: str, *fields: Any) -> d.InferenceChunk:
    """A chunk as the cases spell it."""
    match kind:
        case "ready":
            given: dict[str, Any] = dict(fields[0]) if fields else {}
            fingerprint = given.pop("system_fingerprint", None)
            usage = d.PromptUsage(**given) if given else None
            return d.InferenceChunk.ready(prompt_usage=usage, system_fingerprint=fingerprint)
        case "finish":
            return d.InferenceChunk.finish(getattr(d.InferenceFinishReason, fields[0]))
        case "tokens":
            logprobs = fields[1] and [(own, [(id, p) for id, p in top]) for own, top in fields[1]]
            return d.InferenceChunk.tokens(fields[0], logprobs)
        case _:
            return getattr(d.InferenceChunk, kind)(*fields)


def pushed(processor: d.StreamProcessor, response: Any, chunk: d.InferenceChunk) -> list[str]:
    """The chunks of the reply and the response with them, or what went wrong."""
    try:
        chunks = processor.push(chunk)
    except RuntimeError as error:
        return [str(error)]
    sent = [chunk.to_json() for chunk in chunks]
    for chunk in chunks:
        response.accumulate(chunk)
    return [*sent, response.to_json()]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_processor_goes_on_from_its_bytes_at_every_chunk(protocol: str) -> None:
    request_class, response_class = PROTOCOLS[protocol]
    options = d.ConversionOptions(reasoning_sealer=SEALER, max_choices=8)
    for line in (CASES / f"{protocol}.jsonl").read_text(encoding="utf-8").strip().split("\n"):
        case = json.loads(line)
        request = request_class(case["body"]).convert(options)
        index = {"index": case["index"]} if "index" in case else {}
        generator = request_class.chunk_generator(request, "id-1", "m", **index)
        parsing = request.parsing_options
        for name, value in case.get("parsing", {}).items():
            is_stage = name == "thinking_initial_stage" and value
            setattr(parsing, name, getattr(d.ThinkingInitialStage, value) if is_stage else value)
        tokenizer = None if case.get("tokenizer") is False else d.Tokenizer.builtin(request.model_version)
        processor = d.StreamProcessor(generator, parsing, tokenizer)
        response = response_class("id-1", "m", 0, 0, 0)
        for spelled in case["chunks"]:
            data = processor.save()
            restored = d.StreamProcessor.restore(data, reasoning_sealer=SEALER)
            assert restored.save() == data, case["id"]
            kept = pickle.loads(pickle.dumps(response))
            chunk = engine_chunk(*spelled)
            assert pushed(restored, kept, chunk) == pushed(processor, response, chunk), case["id"]
            assert restored.finished == processor.finished


def timeless(text: str) -> str:
    """A text without the time at which a response was completed: the processes have their own."""
    return re.sub(r'("completed_at": ?)\d+', r"\g<1>0", text)


@pytest.mark.parametrize("protocol", ["chat_completions", "messages", "responses"])
def test_a_reply_goes_on_in_another_process(protocol: d.recipe.ProtocolName) -> None:
    body = {"model": BODY["model"], "max_tokens": 50, "messages": BODY["messages"]}
    if protocol == "responses":
        body = {"model": BODY["model"], "input": "q"}
    encoded = d.encode(body, protocol=protocol)
    reply = encoded.reply(id="id-1")
    program = """
from deepseek_recipe import Reply
restored, unpickled, ids = Reply.restore(value[0]), value[1], value[2]
result = []
for reply in (restored, unpickled):
    sent = b"".join(reply.push_sse(id) for id in ids) + reply.finish_sse()
    result.append((sent, reply.response(), reply.id, reply.model, reply.finish_sse()))
"""
    for place, id in enumerate(IDS):
        if place % 20 == 5:
            plain = copy.copy(reply)
            sent = b"".join(plain.push_sse(id) for id in IDS[place:]) + plain.finish_sse()
            expected = (timeless(sent.decode()), timeless(json.dumps(plain.response())), "id-1", BODY["model"], b"")
            for sent, response, *rest in elsewhere(program, (reply.save(), reply, IDS[place:])):
                assert (timeless(sent.decode()), timeless(json.dumps(response)), *rest) == expected
        reply.push(id)


def test_a_parser_goes_on_from_its_bytes_at_every_token() -> None:
    encoded = d.encode(BODY)
    parser = OutputParser(encoded.parsing_options, encoded.conversation.tools, encoded.tokenizer)
    for id in IDS:
        others = [OutputParser.restore(parser.save()), pickle.loads(pickle.dumps(parser)), copy.deepcopy(parser)]
        chunk = d.InferenceChunk.tokens([id])
        events = parser.push(chunk)
        assert all(other.push(chunk) == events for other in others)
    assert parser.finish()[-1].type == "error"


def test_bytes_that_are_no_state_are_refused() -> None:
    reply = d.encode(BODY).reply(id="id-1")
    reply.push(IDS[:30])
    data = reply.save()
    for place in range(len(data)):
        for damaged in (data[:place], data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :]):
            with pytest.raises(ValueError, match="saved state: "):
                d.Reply.restore(damaged)
    for damaged, message in (
        (b"", "the bytes are not of this library"),
        (data + b"\0", "the bytes are damaged"),
        (data[:4] + b"\x63" + data[5:], "version 99, and this library reads 1"),
    ):
        with pytest.raises(ValueError, match=message):
            d.Reply.restore(damaged)
    with pytest.raises(ValueError, match="expected OutputParser, found ChatGenerator"):
        OutputParser.restore(data)
    with pytest.raises(ValueError, match="a StreamProcessor does not, and this is of the other one"):
        d.StreamProcessor.restore(data)
    with pytest.raises(ValueError, match="the tokenizer has another vocabulary than the saved one"):
        d.Reply.restore(data, d.Tokenizer.builtin(d.ModelVersion.DeepseekV4Pro))
    with pytest.raises(TypeError):
        d.Reply.restore("text")  # type: ignore[arg-type]


def test_keys_stay_where_they_are() -> None:
    recipe = d.Recipe(options=d.ConversionOptions(reasoning_sealer=SEALER))
    thinking = {"type": "adaptive", "display": "omitted"}
    body = {"model": BODY["model"], "max_tokens": 9, "messages": BODY["messages"], "thinking": thinking}
    encoded = recipe.encode(body)
    reply = encoded.reply(id="id-1")
    reply.push("Hm.")
    data = reply.save()
    assert bytes(range(32)) not in data
    with pytest.raises(ValueError, match="needs the reasoning sealer"):
        d.Reply.restore(data)
    restored = d.Reply.restore(data, reasoning_sealer=SEALER)
    for other in (restored, copy.copy(reply), copy.deepcopy(reply)):
        other.push("</think>Hello")
        other.finish()
        assert SEALER.open(other.response()["content"][0]["signature"], FLASH) == "Hm."
    for sealed in (SEALER, recipe, encoded, encoded.request, reply):
        copy.deepcopy(sealed)
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(sealed)


SOURCES = [
    d.UrlImageSource("http://example.com/a.png", "low", path="p"),
    d.DataUrlImageSource("data:image/png;base64,AA=="),
    d.BytesImageSource(b"\x00\xff", "original"),
]
TOOL = d.ToolDefinition("f", "does", {"a": [1, -1, 10**30, 1.5, None, True, "é"]}, True, True)
CONVERTED = d.ChatCompletionRequest(BODY).convert(d.ConversionOptions())
OBJECTS: list[Any] = [
    *SOURCES,
    TOOL,
    d.ToolCall("c", "f", "{}"),
    d.SystemMessage("s <｜image｜>", SOURCES[:1], [TOOL]),
    d.UserMessage("a <i> b", SOURCES[:1], image_token="<i>"),
    d.AssistantMessage("a", "r", [d.ToolCall("c", "f", "{}")], True),
    d.ToolMessage("t", "c"),
    d.LatestReminderMessage("r"),
    d.Conversation([d.UserMessage("q")], tools=[TOOL], reasoning_effort=7, response_schema={"b": 1, "a": 2}),
    d.SpecialTokens(bos="<s>"),
    d.ConversionOptions(max_choices=3).with_model_alias("m", FLASH).with_hosted_names(),
    d.ParsingOptions(stop_sequences=["a"], thinking_initial_stage=d.ThinkingInitialStage.ReasoningStart),
    CONVERTED,
    CONVERTED.inference_options,
    CONVERTED.inference_options.output_constraint,
    d.ResponsesRequest({"model": "DeepSeek-V4.1-Flash", "input": "q", "user": "u"}).echo(),
    d.DeepseekV41Encoding().render_conversation(CONVERTED.conversation),
    d.PromptUsage(prompt_tokens=3),
    d.InferenceChunk.ready(prompt_usage=d.PromptUsage(prompt_tokens=3), system_fingerprint="fp"),
    d.InferenceChunk.tokens([1, 2], [(-1.0, [(1, -0.5)]), (float("-inf"), [])]),
    d.InferenceChunk.finish(d.InferenceFinishReason.Length),
]


def fields(value: Any) -> Any:
    """All that an object shows, as plain values."""
    if isinstance(value, (list, tuple)):
        return [fields(item) for item in value]
    if isinstance(value, dict):
        return {key: fields(item) for key, item in value.items()}
    if isinstance(value, d.SpecialTokens):
        return [value.token(kind) for kind in vars(d.SpecialToken).values() if isinstance(kind, d.SpecialToken)]
    shown = {name: getattr(value, name) for name in dir(type(value)) if not name.startswith("_")}
    attributes = {
        name: item for name, item in shown.items() if not callable(item) and not isinstance(item, type(value))
    }
    if not type(value).__module__.startswith("deepseek_recipe") or not attributes:
        return value
    return type(value).__name__, {name: fields(item) for name, item in attributes.items()}


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_objects_are_the_same_again(value: Any) -> None:
    assert len(str(fields(value))) > 20
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert fields(pickle.loads(pickle.dumps(value, protocol))) == fields(value)
    assert fields(copy.copy(value)) == fields(value)
    assert fields(copy.deepcopy(value)) == fields(value)


def test_objects_are_the_same_in_another_process() -> None:
    assert fields(elsewhere("result = value", OBJECTS)) == fields(OBJECTS)
    conversation = d.Conversation([d.UserMessage("say <think>")])
    encodings = [d.DeepseekV41Encoding().with_tokenizer(d.Tokenizer.builtin(FLASH)), d.DeepseekV4Encoding()]
    program = "result = [value[0].encode(value[2]), value[1].render_conversation(value[2]).prompt]"
    ids, prompt = elsewhere(program, (*encodings, conversation))
    assert ids == encodings[0].encode(conversation)
    assert prompt == encodings[1].render_conversation(conversation).prompt


def test_parsing_options_are_copied() -> None:
    options = d.ParsingOptions()
    other = copy.copy(options)
    other.stop_sequences = ["x"]
    assert options.stop_sequences == []


def test_what_is_encoded_is_the_same_elsewhere() -> None:
    recipe = d.Recipe(model="DeepSeek-V4.1-Flash", options=d.ConversionOptions(default_thinking_mode=False))
    encoded = recipe.encode(BODY)
    program = (
        f"result = (value[0].encode({BODY!r}), value[1], value[1].reply(id='id-1').push({OUTPUT!r})[-1].to_json())"
    )
    again, same, chunk = elsewhere(program, (recipe, encoded))
    for other in (again, same, copy.copy(encoded), copy.deepcopy(encoded)):
        assert other.token_ids == encoded.token_ids and other.token_ids.format == "I" and other.token_ids.readonly
        assert (other.prompt, other.segments, other.protocol) == (encoded.prompt, encoded.segments, encoded.protocol)
        assert fields(other.request) == fields(encoded.request)
    assert json.loads(chunk)["choices"][0]["delta"]


def test_tokenizers_are_pickled_by_name_or_as_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CASES.parents[1] / "clients"))
    import tokenizer_file

    path = tmp_path / "tokenizer.json"
    tokenizer_file.write("v41", path)
    for known in (d.Tokenizer.builtin(FLASH), d.Tokenizer.from_file(path)):
        assert len(pickle.dumps(known)) < 300
        assert pickle.loads(pickle.dumps(known)).encode(OUTPUT) == IDS
    # Another vocabulary: single bytes and one added token.
    vocabulary = {character: id for id, character in enumerate(tokenizer_file.stand_in_of_byte())}
    added = {"id": 256, "content": "<x>", "normalized": False, "special": False}
    file = json.loads(path.read_text(encoding="utf-8"))
    file |= {"model": {"type": "BPE", "vocab": vocabulary, "merges": []}, "added_tokens": [added]}
    path.write_text(json.dumps(file), encoding="utf-8")
    small = d.Tokenizer.from_file(path)
    path.unlink()
    ids = small.encode("aé<x>")
    assert ids == [97, 195, 169, 256]
    assert elsewhere("result = value.encode('aé<x>')", small) == ids
    assert copy.deepcopy(small) is small

    parser = OutputParser(d.ParsingOptions(), [], small)
    parser.push(d.InferenceChunk.tokens(ids[:2]))
    with pytest.raises(ValueError, match="needs its tokenizer, which is not a built-in one"):
        OutputParser.restore(parser.save())
    for other in (OutputParser.restore(parser.save(), small), pickle.loads(pickle.dumps(parser))):
        assert other.push(d.InferenceChunk.tokens(ids[2:])) == [d.Event.Content("aé"), d.Event.Content("<x>")]
