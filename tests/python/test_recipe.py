"""The short way: `encode`, `stream_parse` and `reply`."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

import deepseek_recipe as recipe

ADD = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}},
}
CALL = (
    '<｜DSML｜ calls>\n<｜DSML｜ invoke name="add">\n<｜DSML｜ parameter name="a" string="false">2'
    "</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>"
)


def body(**more: Any) -> dict[str, Any]:
    return {"model": "DeepSeek-V4.1-Flash", "messages": [{"role": "user", "content": "Hi"}], **more}


def joined(events: Iterator[recipe.Event]) -> list[tuple[Any, ...]]:
    """Events as tuples, deltas of a kind joined, made-up ids and counts left out."""
    found: list[tuple[Any, ...]] = []
    for event in events:
        fields = [
            value
            for name, value in event.to_dict().items()
            if name not in ("id", "code", "remaining_text", "remaining_ids") and "tokens" not in name
        ]
        if found and "text" in event.to_dict() and found[-1][:-1] == tuple(fields[:-1]):
            found[-1] = (*found[-1][:-1], found[-1][-1] + fields[-1])
        else:
            found.append(tuple(fields))
    return found


class Model:
    def model_dump(self) -> dict[str, Any]:
        return body()


@pytest.mark.parametrize("request_", [body(), json.dumps(body()), json.dumps(body()).encode(), Model()])
def test_every_form_of_a_request_gives_the_same(request_: Any) -> None:
    encoded = recipe.encode(request_)
    assert encoded.prompt.endswith("<｜User｜>Hi<｜Assistant｜><think>")
    assert encoded.model_version == recipe.ModelVersion.DeepseekV41Flash
    assert not encoded.stream
    assert "".join(segment.text for segment in encoded.segments) == encoded.prompt


def test_ids_are_a_read_only_buffer_and_those_of_the_long_way() -> None:
    encoded = recipe.encode(body(tools=[ADD]))
    ids = encoded.token_ids
    long = recipe.DeepseekV41Encoding().with_tokenizer(encoded.tokenizer).encode(encoded.conversation)
    assert ids.tolist() == long == list(ids)
    assert (len(ids), ids[0], ids[-1]) == (len(long), 0, 128821)
    assert ids.readonly and ids.itemsize == 4 and memoryview(ids).nbytes == 4 * len(long)
    array = np.asarray(ids)
    assert array.dtype == np.uint32 and not array.flags.owndata and array.tolist() == long
    del encoded, ids
    assert array.tolist() == long


def test_special_segments_and_no_others_are_special() -> None:
    encoded = recipe.encode(body(messages=[{"role": "user", "content": "<think><｜User｜>"}]))
    assert [segment.text for segment in encoded.segments if segment.kind == "special"] == [
        "<｜begin▁of▁sentence｜>",
        "<｜System｜>",
        "<｜User｜>",
        "<｜Assistant｜>",
        "<think>",
    ]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["a</think>b"], [("reasoning", "a"), ("content", "b"), ("finish", "stop", None)]),
        ([67, [128822], (68,)], [("reasoning", "a"), ("content", "b"), ("finish", "stop", None)]),
        ([], [("finish", "stop", None)]),
        (
            ["</think>x" + CALL],
            [
                ("content", "x"),
                ("tool_call_start", 0, "add"),
                ("tool_call_arguments", 0, '{"a": 2}'),
                ("tool_call_end", 0),
                ("finish", "tool_calls", None),
            ],
        ),
    ],
)
def test_pieces_become_events(pieces: list[Any], expected: list[Any]) -> None:
    encoded = recipe.encode(body(tools=[ADD]))
    assert joined(recipe.stream_parse(pieces, encoded)) == expected

    async def pieces_later() -> AsyncIterator[Any]:
        for piece in pieces:
            yield piece

    async def collect() -> list[recipe.Event]:
        return [event async for event in recipe.stream_parse(pieces_later(), encoded)]

    assert joined(iter(asyncio.run(collect()))) == expected


def test_without_a_request_the_output_starts_with_reasoning() -> None:
    assert joined(recipe.stream_parse(["a</think>b"]))[:2] == [("reasoning", "a"), ("content", "b")]
    plain = recipe.Recipe(options=recipe.ConversionOptions(default_thinking_mode=False))
    assert joined(plain.stream_parse(["ab"]))[0] == ("content", "ab")


def test_the_end_of_an_iterable() -> None:
    assert joined(recipe.stream_parse(["a"], finish_reason="length"))[-1] == ("finish", "length", None)
    message = "the output ended without a finish reason"
    assert joined(recipe.stream_parse(["a"], finish_reason=None))[-1] == ("error", message)

    def broken() -> Iterator[str]:
        yield "a"
        raise OSError("the engine is gone")

    assert joined(recipe.stream_parse(broken())) == [("reasoning", "a"), ("error", "the engine is gone")]


def test_a_chunk_brings_its_own_finish_and_a_stop_sequence_ends_the_output() -> None:
    finish = recipe.InferenceChunk.finish(recipe.InferenceFinishReason.Length)
    assert joined(recipe.stream_parse(["a", finish, "never"]))[-1] == ("finish", "length", None)
    encoded = recipe.encode(body(stop=["END"], thinking={"type": "disabled"}))
    assert joined(recipe.stream_parse(["aEN", "Db", "c"], encoded)) == [("content", "a"), ("finish", "stop", "END")]


def test_what_remains_behind_the_end_is_told() -> None:
    encoded = recipe.encode(body(stop=["END"], thinking={"type": "disabled"}))
    before, behind = (encoded.tokenizer.encode(text) for text in ("a END", " more</think>"))
    *_, end = recipe.stream_parse([[*before, *behind]], encoded)
    assert isinstance(end, recipe.Event.Finish)
    assert (end.stop_sequence, end.remaining_text, end.remaining_ids) == ("END", " more</think>", behind)
    reply = encoded.reply()
    reply.push(before + behind)
    assert (reply.stop_sequence, reply.remaining_text, reply.remaining_ids) == ("END", " more</think>", behind)
    reply = encoded.reply()
    reply.push(before[:1])
    assert (reply.stop_sequence, reply.remaining_text, reply.remaining_ids) == (None, "", [])


@pytest.mark.parametrize(
    ("messages", "thinking", "stage"),
    [
        ([recipe.UserMessage("Hi")], True, recipe.ThinkingInitialStage.ReasoningStart),
        ([recipe.UserMessage("Hi")], False, None),
        (
            [recipe.UserMessage("Hi"), recipe.AssistantMessage("It", prefix=True)],
            True,
            recipe.ThinkingInitialStage.ContentContinuation,
        ),
        (
            [recipe.UserMessage("Hi"), recipe.AssistantMessage("", reasoning_content="Hm", prefix=True)],
            True,
            recipe.ThinkingInitialStage.ReasoningContinuation,
        ),
    ],
)
@pytest.mark.parametrize("required", [False, True])
def test_the_start_of_an_output_is_known_from_its_conversation(
    messages: Any, thinking: bool, stage: Any, required: bool
) -> None:
    choice = "required" if required else "auto"
    tool = recipe.ToolDefinition("add", None, {"type": "object"})
    conversation = recipe.Conversation(messages, thinking_mode=thinking, tools=[tool], tool_choice=choice)
    options = recipe.parse_start(conversation)
    assert options.parse_tool_calls and options.thinking_initial_stage == stage
    prompt = recipe.DeepseekV41Encoding().render_conversation(conversation).prompt
    assert options.starts_in_tool_calls == prompt.endswith("<｜DSML｜ calls>\n")
    opened = CALL.split("\n", 1)[1] if options.starts_in_tool_calls else CALL
    parsed = recipe.parse_text(opened, conversation)
    assert [(call.name, call.arguments, call.finished) for call in parsed.tool_calls] == [("add", '{"a": 2}', True)]


def test_a_whole_output_is_read_at_once() -> None:
    encoded = recipe.encode(body(tools=[ADD]))
    text = "a</think>b" + CALL + "c" + CALL.removesuffix("</｜DSML｜ invoke>\n</｜DSML｜ calls>")
    for output in (text, encoded.tokenizer.encode(text)):
        reasoning, content, calls, end = recipe.parse_text(output, encoded, finish_reason="length")
        assert (reasoning, content) == ("a", "b\n\nc")
        assert [tuple(call)[1:] for call in calls] == [("add", '{"a": 2}', True), ("add", '{"a": 2', False)]
        assert len({call.id for call in calls}) == 2
        assert isinstance(end, recipe.Event.Finish) and end.reason == "length"
    assert recipe.parse_text("a</think>b")[:3] == ("a", "b", [])


def test_custom_tools_are_read_as_such() -> None:
    custom = {"type": "custom", "custom": {"name": "run"}}
    encoded = recipe.encode(body(tools=[custom]))
    parameter = '<｜DSML｜ parameter name="{}" string="true">x</｜DSML｜ parameter>\n'
    output = '</think><｜DSML｜ invoke name="run">\n' + parameter.format("input") + parameter.format("more")
    parsed = recipe.parse_text(output, encoded)
    assert parsed.tool_calls[0].arguments == '{"input": "x"}' and parsed.content == "x"


PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAGUlEQVR4AQEOAPH/AP8AAAD/AAAA"
    "AP///wAe7wT8KriCFwAAAABJRU5ErkJggg=="
)  # 2 by 2 pixels.


def test_images_have_their_place_and_count() -> None:
    url = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    text = {"type": "text", "text": "what is this? <｜image｜>"}
    request = body(messages=[{"role": "user", "content": [text, url]}, {"role": "user", "content": [url, text]}])
    encoded = recipe.encode(request)
    assert [repr(image.source) for image in encoded.images] == [repr(source) for source in encoded.image_sources]
    assert len(encoded.images) == 2
    assert {encoded.token_ids[image.position] for image in encoded.images} == {recipe.IMAGE_SPECIAL_TOKEN_ID}
    assert recipe.encode(body()).images == []

    assert recipe.count_tokens(body()) == len(recipe.encode(body()).token_ids)
    assert recipe.count_tokens(request) == len(encoded.token_ids) + 2 * 1023
    url["image_url"]["url"] = f"data:image/png;base64,{PNG}"
    near = body(messages=[{"role": "user", "content": [text, url]}])
    assert recipe.count_tokens(near) == len(recipe.encode(near).token_ids) + recipe.image_tokens(2, 2) - 1
    url["image_url"]["url"] = "data:image/png;base64,AAAA"
    with pytest.raises(recipe.ImageError):
        recipe.count_tokens(near)
    with pytest.raises(recipe.ConversionError, match="Empty input messages"):
        recipe.count_tokens(body(messages=[]))


def test_ids_may_be_numpy_integers_and_other_things_are_refused_at_once() -> None:
    ids = np.array([67, 128822, 68], dtype=np.uint32)
    for pieces in ([ids], list(ids), [ids.tolist()], [memoryview(ids)]):
        assert joined(recipe.stream_parse(pieces)) == [("reasoning", "a"), ("content", "b"), ("finish", "stop", None)]
    for piece in (b"a", 1.5, None, [1.5], ["a"], {}.items):
        with pytest.raises(TypeError, match="expected an id, a list of ids, text or an InferenceChunk, not"):
            list(recipe.stream_parse([piece]))  # type: ignore[list-item]
    with pytest.raises(ValueError, match="invalid finish_reason 'zz'"):
        recipe.stream_parse([], finish_reason="zz")  # type: ignore[call-overload]


def test_a_stream_is_read_no_further_than_its_end() -> None:
    encoded = recipe.encode(body(stop="END", thinking={"type": "disabled"}))
    taken: list[str] = []

    def pieces() -> Iterator[str]:
        for piece in ("aEND", "b", "c"):
            taken.append(piece)
            yield piece

    list(recipe.stream_parse(pieces(), encoded))
    assert taken == ["aEND"]


def test_a_reply_streams_and_adds_up() -> None:
    encoded = recipe.encode(body(tools=[ADD], stream=True))
    reply = encoded.reply(id="id-1", model="shown")
    chunks = [json.loads(chunk.to_json()) for chunk in (*reply.push("a</think>b" + CALL), *reply.finish())]
    assert {(chunk["id"], chunk["model"]) for chunk in chunks} == {("id-1", "shown")}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    message = reply.response()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("a", "b")
    assert message["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 2}'}
    assert reply.finished and reply.finish() == []


def test_server_sent_events_are_the_chunks() -> None:
    encoded = recipe.encode(body(stream=True))
    sse, plain = encoded.reply(id="id-1"), encoded.reply(id="id-1")
    sent = b"".join([sse.push_sse(43), sse.push_sse([2118, 128822]), sse.push_sse("x"), sse.finish_sse("length")])
    chunks = [*plain.push(43), *plain.push([2118, 128822]), *plain.push("x"), *plain.finish("length")]
    lines = sent.decode().removesuffix("\n\n").split("\n\n")
    created = [json.loads(line.removeprefix("data: ")) | {"created": 0} for line in lines[:-1]]
    assert created == [json.loads(chunk.to_json()) | {"created": 0} for chunk in chunks]
    assert lines[-1] == "data: [DONE]"
    assert sse.finish_sse() == b""


def test_a_failed_reply_says_so_and_has_no_end_mark() -> None:
    reply = recipe.encode(body()).reply()
    sent = (reply.push_sse("a") + reply.finish_sse(None)).decode()
    assert "insufficient_system_resource" in sent and "[DONE]" not in sent
    assert reply.response()["error"]["code"] == "server_error"


def test_a_recipe_takes_any_name_as_its_model() -> None:
    flash = recipe.Recipe(model=recipe.ModelVersion.DeepseekV4Pro)
    encoded = flash.encode(body(model="whatever"))
    assert encoded.model_version == recipe.ModelVersion.DeepseekV4Pro and encoded.model == "whatever"
    with pytest.raises(ValueError, match="unknown model 'nope'"):
        recipe.Recipe(model="nope")


def test_refusals_carry_status_and_body() -> None:
    with pytest.raises(recipe.ConversionError) as refused:
        recipe.encode(body(model="nope"))
    assert refused.value.status_code == 400
    with pytest.raises(ValueError, match="invalid request body: missing field `model`") as unreadable:
        recipe.encode({"messages": []})
    assert unreadable.value.status_code == 400  # type: ignore[attr-defined]
    assert json.loads(unreadable.value.body)["error"]["message"] == str(unreadable.value)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="invalid JSON request: EOF"):
        recipe.encode(b"")


USER = [{"role": "user", "content": "Hi"}]
BLOCKS = [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}]


@pytest.mark.parametrize(
    ("protocol", "fields"),
    [
        ("chat_completions", {"messages": USER}),
        ("chat_completions", {"messages": [{"role": "system", "content": "s"}, *USER], "max_tokens": 5}),
        ("chat_completions", {"messages": USER, "max_tokens": 5, "stop": "x"}),
        ("chat_completions", {"messages": USER, "max_tokens": 5, "tools": [ADD]}),
        ("messages", {"messages": USER, "max_tokens": 5, "system": "s"}),
        ("messages", {"messages": BLOCKS}),
        ("messages", {"messages": USER, "tools": [{"name": "add", "input_schema": {"type": "object"}}]}),
        ("messages", {"messages": [{"role": "system", "content": "s"}, *USER], "stop_sequences": ["x"]}),
        ("messages", {"messages": USER, "thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ("responses", {"input": "Hi"}),
        ("responses", {"instructions": "Hi"}),
    ],
)
def test_the_shape_shows_the_protocol(protocol: Any, fields: dict[str, Any]) -> None:
    request = {"model": "DeepSeek-V4.1-Flash", **fields}
    encoded = recipe.encode(request)
    assert encoded.protocol == protocol
    assert encoded.token_ids == recipe.encode(json.dumps(request), protocol=protocol).token_ids
    reply = encoded.reply()
    sent = reply.push_sse("a</think>b") + reply.finish_sse()
    mark = {
        "chat_completions": b"[DONE]",
        "messages": b"event: message_stop",
        "responses": b"event: response.completed",
    }
    assert mark[protocol] in sent
    assert json.dumps(reply.response()).count('"b"') == 1


@pytest.mark.parametrize(
    ("fields", "protocols"),
    [
        ({"messages": USER, "max_tokens": 5}, "Chat Completions and Messages"),
        ({"messages": USER, "stop": "x", "system": "s"}, "Chat Completions and Messages"),
        ({"messages": USER, "input": "x"}, "Responses"),
    ],
)
def test_an_ambiguous_body_is_refused_and_protocol_chooses(fields: dict[str, Any], protocols: str) -> None:
    request = {"model": "DeepSeek-V4.1-Flash", **fields}
    with pytest.raises(ValueError, match=f"one of {protocols}.*argument protocol, chat_completions"):
        recipe.encode(request)
    assert recipe.encode(request, protocol="messages").protocol == "messages"
    with pytest.raises(
        ValueError, match='invalid protocol "x"; expected "chat_completions", "messages", or "responses"'
    ):
        recipe.encode(request, protocol="x")  # type: ignore[arg-type]


def test_a_session_keeps_its_ids() -> None:
    turns = [{"role": "user", "content": "Hi"}]
    encoded = recipe.encode(body(messages=turns, tools=[ADD]))
    assert (encoded.shared, encoded.reason) == (0, None)
    for _ in range(3):
        # "Hello" as no encoder would have it, then a call.
        output = [*encoded.tokenizer.encode("a</think>Hel"), *encoded.tokenizer.encode("lo" + CALL)]
        reply = encoded.reply()
        reply.push(output)
        reply.finish()
        message = reply.response()["choices"][0]["message"]
        call = message["tool_calls"][0]["id"]
        turns = [*turns, message, {"role": "tool", "tool_call_id": call, "content": "2"}]
        before, encoded = (
            encoded,
            recipe.encode(body(messages=turns, tools=[ADD]), previous=(encoded.token_ids, np.asarray(output))),
        )
        assert encoded.reason is None
        assert encoded.token_ids[: encoded.shared].tolist() == [*before.token_ids, *output, 1]
    changed = recipe.encode(body(messages=turns), previous=(encoded.token_ids, [67]))
    assert (changed.reason, changed.token_ids.tolist()) == (
        "tools_changed",
        recipe.encode(body(messages=turns)).token_ids.tolist(),
    )
    with pytest.raises((TypeError, OverflowError)):
        recipe.encode(body(), previous=([-1], []))


def test_each_choice_has_a_reply_of_its_own() -> None:
    encoded = recipe.Recipe(options=recipe.ConversionOptions(max_choices=2)).encode(
        {"model": "DeepSeek-V4.1-Flash", "n": 2, "messages": [{"role": "user", "content": "Hi"}]}
    )
    for index in range(encoded.inference_options.n):
        reply = encoded.reply(id="id", index=index)
        reply.push("</think>Hi")
        reply.finish()
        assert reply.response()["choices"][0]["index"] == index
        assert json.loads(reply.response_json()) == reply.response()
