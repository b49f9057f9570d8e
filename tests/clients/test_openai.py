"""The `openai` SDK reads every reply of Chat Completions and Responses, and builds the same message from its stream."""

from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel

import replies
from replies import Served, each
from validation import faults, further_fields, models_by_type, without_nulls

EVENTS = models_by_type(ResponseStreamEvent)
CHAT: Any = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
RESPONSES: Any = {"model": "m", "input": "q"}

MODEL = "DeepSeek-V4.1-Flash"
PARAMETERS: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Answer(BaseModel):
    """What the model is asked to fill in."""

    degrees: int
    sky: str


def client(answer: Callable[[bytes], Served]) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", base_url="http://server/v1", http_client=replies.server(answer), max_retries=0)


def client_of(served: Served) -> openai.OpenAI:
    """A client of a server that answers everything with this reply."""
    return client(lambda _: served)


# Fields that only DeepSeek has.
CHUNK_FIELDS = {
    "choices.delta.reasoning_content",
    "choices.logprobs.reasoning_content",
    "usage.prompt_cache_hit_tokens",
    "usage.prompt_cache_miss_tokens",
}
CHAT_FIELDS = {
    "choices.message.reasoning_content",
    "choices.message.tool_calls.index",
    "choices.logprobs.reasoning_content",
    "usage.prompt_cache_hit_tokens",
    "usage.prompt_cache_miss_tokens",
}


def starts_custom_call(chunk: Any) -> bool:
    """The SDK's chunks know function calls alone; its complete response knows custom ones, too."""
    calls = (call for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", []))
    return any(call.get("type") == "custom" for call in calls)


@each("chat")
def test_chat_models(served: Served) -> None:
    failed = "error" in served.response
    expected = {"choices.finish_reason"} if failed else set()
    custom = {"choices.delta.tool_calls.type"} if any(map(starts_custom_call, served.chunks)) else set()
    assert set().union(*(faults(ChatCompletionChunk, chunk) for chunk in served.chunks)) == expected | custom
    assert faults(ChatCompletion, served.response) == expected
    error = {"error"} if failed else set()
    for chunk in served.chunks:
        if custom and "tool_calls" in chunk["choices"][0]["delta"]:
            continue
        assert set(further_fields(ChatCompletionChunk.model_validate(without_reason(chunk)))) <= CHUNK_FIELDS | error
    complete = client_of(served).chat.completions.create(**CHAT)
    assert complete.to_dict() == served.response
    assert set(further_fields(complete)) <= CHAT_FIELDS | error


def without_reason(chunk: Any) -> Any:
    return {**chunk, "choices": [{**choice, "finish_reason": None} for choice in chunk["choices"]]}


@each("chat")
def test_chat_stream(served: Served) -> None:
    chunks: list[Any] = []
    stream = client_of(served).chat.completions.create(**CHAT, stream=True)
    if "error" not in served.response:
        assert [chunk.to_dict() for chunk in stream] == served.chunks
        return
    with pytest.raises(openai.APIError) as error:
        chunks.extend(chunk.to_dict() for chunk in stream)
    assert chunks == served.chunks[:-1]
    assert error.value.message == served.response["error"]["message"]
    assert error.value.code == served.response["error"]["code"]


ENDED_EARLY = {"length": openai.LengthFinishReasonError, "content_filter": openai.ContentFilterFinishReasonError}


@each("chat")
def test_chat_stream_helper(served: Served) -> None:
    reason = served.response["choices"][0]["finish_reason"]
    with client_of(served).chat.completions.stream(**CHAT) as stream:
        if any(map(starts_custom_call, served.chunks)):
            with pytest.raises((AttributeError, openai.APIError, openai.LengthFinishReasonError)):
                stream.get_final_completion()
            return
        if "error" in served.response:
            with pytest.raises(openai.APIError, match=served.response["error"]["message"]):
                stream.until_done()
            return
        if reason in ENDED_EARLY:
            with pytest.raises(ENDED_EARLY[reason]) as error:
                stream.get_final_completion()
            # The other error carries nothing.
            final = error.value.completion.to_dict() if reason == "length" else None  # type: ignore[attr-defined]
        else:
            final = stream.get_final_completion().to_dict()
    assert final is None or without_nulls(final) == without_nulls(without_reasoning_logprobs(served.response))


def without_reasoning_logprobs(response: Any) -> Any:
    """The helper does not gather the log probabilities of reasoning, which only DeepSeek has."""
    choices = [
        {**choice, "logprobs": choice["logprobs"] and {"content": choice["logprobs"].get("content")}}
        for choice in response["choices"]
    ]
    return {**response, "choices": choices}


def test_chat_with_several_choices() -> None:
    case = replies.cases("chat")["second-choice"]
    choices = [replies.by_classes("chat", case, index=index) for index in range(2)]
    sse = b"\n\n".join(b"\n\n".join(pair) for pair in zip(*(c.sse.split(b"\n\n")[:-2] for c in choices), strict=True))
    with client_of(Served(sse + b"\n\ndata: [DONE]\n\n", [], None)).chat.completions.stream(**CHAT) as stream:
        final = stream.get_final_completion()
    assert [(choice.index, choice.message.content) for choice in final.choices] == [(0, "hi"), (1, "hi")]


@pytest.mark.parametrize("streams", [False, True])
def test_chat_tool_loop(streams: bool) -> None:
    model = replies.Model("chat", [replies.CALL, "Fine.</think>21 degrees."])
    completions = client(model.answer).chat.completions
    tools: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    if streams:
        with completions.stream(model=MODEL, messages=messages, tools=tools) as stream:
            message: Any = stream.get_final_completion().choices[0].message
    else:
        message = completions.create(model=MODEL, messages=messages, tools=tools).choices[0].message
    (call,) = message.tool_calls
    assert (call.function.name, call.function.arguments) == ("get_weather", r'{"city": "\"Paris\" 中"}')
    messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "21"}]
    last = completions.create(model=MODEL, messages=messages, tools=tools)
    assert last.choices[0].message.content == "21 degrees."
    assert model.goes_on()


def test_chat_structured_output() -> None:
    model = replies.Model("chat", ['Hm.</think>{"degrees": 21, "sky": "blue"}'])
    completions = client(model.answer).chat.completions
    parsed = completions.parse(model=MODEL, messages=CHAT["messages"], response_format=Answer)
    assert parsed.choices[0].message.parsed == Answer(degrees=21, sky="blue")


def test_refused_chat_request() -> None:
    with pytest.raises(openai.BadRequestError) as error:
        client(replies.Model("chat", []).answer).chat.completions.create(model=MODEL, messages=[])
    assert (error.value.type, error.value.body["message"]) == ("invalid_request_error", "Empty input messages")


# The SDK requires a field that the reference's objects lack.
MISSING = "usage.input_tokens_details.cache_write_tokens"
RESPONSE_FIELDS = {"content_filters", "frequency_penalty", "presence_penalty", "store", "output.status"}


def known_faults(served: Served, prefix: str = "") -> set[str]:
    found = {prefix + MISSING} if served.response["usage"] else set()
    # This request names a tool that the SDK does not know, and the response reports it.
    if served.response["tool_choice"] == {"type": "web_search"}:
        found.add(prefix + "tool_choice")
    return found


def shortened(paths: set[str]) -> set[str]:
    """The paths, those of the members of the union of tool choices as one."""
    return {path.split("tool_choice")[0] + "tool_choice" if "tool_choice." in path else path for path in paths}


@each("responses")
def test_responses_models(served: Served) -> None:
    assert shortened(faults(Response, served.response)) == known_faults(served)
    found = set().union(*(faults(EVENTS[event["type"]], event) for event in served.chunks))
    assert shortened(found) == known_faults(served, "response.")
    complete = client_of(served).responses.create(**RESPONSES)
    assert complete.to_dict(mode="json", warnings=False) == served.response
    assert set(further_fields(complete)) <= RESPONSE_FIELDS
    messages = [item for item in served.response["output"] if item["type"] == "message"]
    assert complete.output_text == "".join(part["text"] for item in messages for part in item["content"])


@each("responses")
def test_responses_stream(served: Served) -> None:
    events = list(client_of(served).responses.create(**RESPONSES, stream=True))
    assert [event.to_dict(mode="json", warnings=False) for event in events] == served.chunks
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last: Any = events[-1]
    assert last.type == f"response.{served.response['status']}"
    assert last.response.to_dict(mode="json", warnings=False) == served.response


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # The tool that the SDK does not know.
@each("responses")
def test_responses_stream_helper(served: Served) -> None:
    snapshots: dict[int, str] = {}
    with client_of(served).responses.stream(**RESPONSES) as stream:
        for event in stream:
            if event.type == "response.output_text.delta" or event.type == "response.function_call_arguments.delta":
                snapshots[event.output_index] = event.snapshot
        if served.response["status"] == "completed":
            final = stream.get_final_response().to_dict(mode="json", warnings=False)
            assert without_nulls(final) == without_nulls(served.response)
        else:
            # The helper knows no response that ended early: its last event has it.
            with pytest.raises(RuntimeError, match=r"response\.completed"):
                stream.get_final_response()
    texts: dict[int, str] = {}
    for index, item in enumerate(served.response["output"]):
        if item["type"] == "message":
            texts[index] = "".join(part["text"] for part in item["content"])
        elif item["type"] == "function_call":
            texts[index] = item["arguments"]
    assert snapshots == texts


@pytest.mark.parametrize("streams", [False, True])
def test_responses_tool_loop(streams: bool) -> None:
    model = replies.Model("responses", [replies.CALL, "Fine.</think>21 degrees."])
    responses = client(model.answer).responses
    tools: Any = [{"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": False}]
    items: list[Any] = [{"role": "user", "content": "Weather?"}]
    if streams:
        with responses.stream(model=MODEL, input=items, tools=tools) as stream:
            output: list[Any] = list(stream.get_final_response().output)
    else:
        output = list(responses.create(model=MODEL, input=items, tools=tools).output)
    assert [item.type for item in output] == ["reasoning", "message", "function_call"]
    assert output[-1].arguments == r'{"city": "\"Paris\" 中"}'
    items += [*output, {"type": "function_call_output", "call_id": output[-1].call_id, "output": "21"}]
    assert responses.create(model=MODEL, input=items, tools=tools).output_text == "21 degrees."
    assert model.goes_on()


def test_responses_structured_output() -> None:
    model = replies.Model("responses", ['Hm.</think>{"degrees": 21, "sky": "blue"}'])
    parsed = client(model.answer).responses.parse(model=MODEL, input="Weather?", text_format=Answer)
    assert parsed.output_parsed == Answer(degrees=21, sky="blue")


def test_refused_responses_request() -> None:
    with pytest.raises(openai.BadRequestError) as error:
        client(replies.Model("responses", []).answer).responses.create(model="unknown", input="q")
    assert error.value.type == "invalid_request_error"
