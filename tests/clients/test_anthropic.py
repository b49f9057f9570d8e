"""The `anthropic` SDK reads every reply of Messages, and builds the same message from its stream."""

from collections.abc import Callable
from typing import Any

import anthropic
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import BaseModel

import replies
from replies import Served, each
from validation import faults, further_fields, models_by_type

EVENTS = models_by_type(RawMessageStreamEvent)
REQUEST: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]}

MODEL = "DeepSeek-V4.1-Flash"
THINKING: Any = {"type": "enabled", "budget_tokens": 1024}
TOOLS: Any = [
    {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}},
]


class Answer(BaseModel):
    """What the model is asked to fill in."""

    degrees: int
    sky: str


def client(answer: Callable[[bytes], Served]) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="k", base_url="http://server", http_client=replies.server(answer), max_retries=0)


def client_of(served: Served) -> anthropic.Anthropic:
    """A client of a server that answers everything with this reply."""
    return client(lambda _: served)


@each("messages")
def test_models(served: Served) -> None:
    for event in served.chunks:
        # The SDK deals with these two itself; its union lacks them.
        if event["type"] not in ("ping", "error"):
            assert faults(EVENTS[event["type"]], event) == set()
    assert faults(Message, served.response) == set()
    complete = client_of(served).messages.create(**REQUEST)
    assert complete.to_dict() == served.response
    assert set(further_fields(complete)) == served.response.keys() & {"error"}


@each("messages")
def test_stream(served: Served) -> None:
    # The SDK drops pings.
    expected = [event for event in served.chunks if event["type"] != "ping"]
    stream = client_of(served).messages.create(**REQUEST, stream=True)
    if "error" not in served.response:
        assert [event.to_dict() for event in stream] == expected
        return
    events: list[Any] = []
    with pytest.raises(anthropic.APIStatusError) as error:
        events.extend(event.to_dict() for event in stream)
    assert [*events, error.value.body] == expected
    assert expected[-1]["error"] == served.response["error"]


@each("messages")
def test_stream_helper(served: Served) -> None:
    with client_of(served).messages.stream(**REQUEST) as stream:
        if "error" in served.response:
            with pytest.raises(anthropic.APIStatusError, match=served.response["error"]["message"]):
                stream.until_done()
            return
        text = "".join(stream.text_stream)
        final = stream.get_final_message().to_dict()
    # The SDK copies a field that it knows.
    assert final.pop("stop_details", None) is None
    whole, cut = final["content"], []
    if served.response["stop_reason"] in ("max_tokens", "refusal"):
        # The complete message leaves out a call that was cut off. The SDK, which has seen its beginning, cannot.
        count = len(served.response["content"])
        whole, cut = whole[:count], whole[count:]
    assert {**final, "content": whole} == served.response
    assert [block["type"] for block in cut] in ([], ["tool_use"])
    assert text == "".join(block["text"] for block in served.response["content"] if block["type"] == "text")


@pytest.mark.parametrize("streams", [False, True])
def test_tool_loop(streams: bool) -> None:
    model = replies.Model("messages", [replies.CALL, "Fine.</think>21 degrees."])
    endpoint = client(model.answer).messages
    request: Any = {"model": MODEL, "max_tokens": 2048, "thinking": THINKING, "tools": TOOLS}
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    if streams:
        with endpoint.stream(messages=messages, **request) as stream:
            content: list[Any] = list(stream.get_final_message().content)
    else:
        content = list(endpoint.create(messages=messages, **request).content)
    assert [block.type for block in content] == ["thinking", "text", "tool_use"]
    assert content[-1].input == {"city": '"Paris" 中'}
    messages.append({"role": "assistant", "content": content})
    result = {"type": "tool_result", "tool_use_id": content[-1].id, "content": "21"}
    messages.append({"role": "user", "content": [result]})
    last: Any = endpoint.create(messages=messages, **request)
    assert last.content[-1].text == "21 degrees."
    assert model.goes_on()


def test_structured_output() -> None:
    model = replies.Model("messages", ['{"degrees": 21, "sky": "blue"}'])
    parsed = client(model.answer).messages.parse(
        model=MODEL,
        max_tokens=99,
        thinking={"type": "disabled"},
        messages=REQUEST["messages"],
        output_format=Answer,
    )
    assert parsed.parsed_output == Answer(degrees=21, sky="blue")


def test_refused_requests() -> None:
    with pytest.raises(anthropic.BadRequestError) as error:
        client(replies.Model("messages", []).answer).messages.create(model=MODEL, max_tokens=9, messages=[])
    assert error.value.type == "invalid_request_error"
