"""The `openai` SDK against the gateway: everything that it offers for the two protocols, as its users call it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from deepseek_recipe.adapters.replay import ReplayEngine, ReplayOutput
from gateway import ANSWER, WEATHER, call, gateway

MODEL = "deepseek-flash"
MESSAGES: Any = [{"role": "user", "content": "The weather in Paris?"}]
PARAMETERS: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT_TOOL: Any = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
RESPONSES_TOOL: Any = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": False}


class Weather(BaseModel):
    """What the model is asked to fill in."""

    city: str
    degrees: int


FILLED = 'So.</think>{"city": "Paris", "degrees": 20}'


@contextmanager
def client(*outputs: Any, **settings: Any) -> Iterator[openai.OpenAI]:
    with (
        gateway(*outputs, **settings) as url,
        openai.OpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0) as made,
    ):
        yield made


def test_chat() -> None:
    with client(ANSWER) as sdk:
        completion = sdk.chat.completions.create(model=MODEL, messages=MESSAGES)
        assert completion.choices[0].message.content == "It is sunny in Paris."
        assert completion.choices[0].finish_reason == "stop"
        assert completion.usage is not None and completion.usage.completion_tokens > 0
        chunks = list(sdk.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "It is sunny in Paris."


def test_chat_tool_loop_with_the_stream_helper() -> None:
    with client(WEATHER, ANSWER) as sdk:
        with sdk.chat.completions.stream(model=MODEL, messages=MESSAGES, tools=[CHAT_TOOL]) as stream:
            stream.until_done()
            message = stream.get_final_completion().choices[0].message
        (called,) = message.tool_calls or ()
        assert called.function.arguments == '{"city": "Paris"}'
        result: Any = {"role": "tool", "tool_call_id": called.id, "content": "sunny"}
        turns = [*MESSAGES, message.to_dict(), result]
        completion = sdk.chat.completions.create(model=MODEL, messages=turns, tools=[CHAT_TOOL])
        assert completion.choices[0].message.content == "It is sunny in Paris."


def test_chat_parse_and_choices() -> None:
    with client(FILLED) as sdk:
        completion = sdk.chat.completions.parse(model=MODEL, messages=MESSAGES, response_format=Weather, n=2)
        assert [choice.message.parsed for choice in completion.choices] == [Weather(city="Paris", degrees=20)] * 2
        with sdk.chat.completions.stream(model=MODEL, messages=MESSAGES, response_format=Weather, n=2) as stream:
            final = stream.get_final_completion()
        assert [choice.message.parsed for choice in final.choices] == [Weather(city="Paris", degrees=20)] * 2
        assert final.usage == completion.usage


def test_responses() -> None:
    with client(ANSWER) as sdk:
        response = sdk.responses.create(model=MODEL, input="The weather?", metadata={"a": "b"})
        assert response.output_text == "It is sunny in Paris." and response.metadata == {"a": "b"}
        with sdk.responses.stream(model=MODEL, input="The weather?") as stream:
            kinds = [event.type for event in stream]
            assert stream.get_final_response().output_text == response.output_text
        assert kinds[0] == "response.created" and kinds[-1] == "response.completed"


def test_responses_parse() -> None:
    with client(FILLED) as sdk:
        parsed = sdk.responses.parse(model=MODEL, input="?", text_format=Weather)
        assert parsed.output_parsed == Weather(city="Paris", degrees=20)


def test_responses_tool_loop_by_reference() -> None:
    with client(WEATHER, ANSWER) as sdk:
        first = sdk.responses.create(model=MODEL, input="The weather in Paris?", tools=[RESPONSES_TOOL])
        called = next(item for item in first.output if item.type == "function_call")
        assert called.arguments == '{"city": "Paris"}'
        result: Any = {"type": "function_call_output", "call_id": called.call_id, "output": "sunny"}
        second = sdk.responses.create(
            model=MODEL, input=[result], previous_response_id=first.id, tools=[RESPONSES_TOOL]
        )
        assert second.output_text == "It is sunny in Paris."
        items = list(sdk.responses.input_items.list(second.id, order="asc", limit=2))
        assert [item.type for item in items] == [
            "message", "reasoning", "message", "function_call", "function_call_output",
        ]  # fmt: skip
        assert sdk.responses.retrieve(second.id).output_text == second.output_text
        sdk.responses.delete(second.id)
        with pytest.raises(openai.NotFoundError):
            sdk.responses.retrieve(second.id)


def test_responses_in_the_background() -> None:
    with client(engine=ReplayEngine([ANSWER], pace=0.01)) as sdk:
        response = sdk.responses.create(model=MODEL, input="?", background=True)
        assert response.status == "queued"
        while response.status in ("queued", "in_progress"):
            time.sleep(0.02)
            response = sdk.responses.retrieve(response.id)
        assert response.output_text == "It is sunny in Paris."

        stream = sdk.responses.create(model=MODEL, input="?", background=True, stream=True)
        seen: list[Any] = []
        for event in stream:
            seen.append(event)
            if len(seen) == 6:
                break
        stream.close()
        id, last = seen[0].response.id, seen[-1].sequence_number
        seen += sdk.responses.retrieve(id, stream=True, starting_after=last)
        assert [event.sequence_number for event in seen] == list(range(len(seen)))
        assert seen[-1].response.output_text == "It is sunny in Paris."


def test_responses_cancel() -> None:
    with client(engine=ReplayEngine([ReplayOutput([400] * 100_000)], pace=0.01)) as sdk:
        response = sdk.responses.create(model=MODEL, input="?", background=True)
        assert sdk.responses.cancel(response.id).status == "cancelled"


def test_counting_and_models() -> None:
    with client(ANSWER) as sdk:
        counted = sdk.responses.input_tokens.count(model=MODEL, input="The weather?")
        response = sdk.responses.create(model=MODEL, input="The weather?")
        assert response.usage is not None and counted.input_tokens == response.usage.input_tokens
        models = list(sdk.models.list())
        assert MODEL in [model.id for model in models]
        assert sdk.models.retrieve(MODEL).id == MODEL


def test_errors() -> None:
    with client(ReplayOutput([400], "error"), max_body_bytes=100_000) as sdk:
        with pytest.raises(openai.BadRequestError) as error:
            sdk.chat.completions.create(model=MODEL, messages=[])
        assert error.value.body == {
            "message": "Empty input messages",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_request_error",
        }
        assert error.value.request_id and error.value.request_id.startswith("req_")
        with pytest.raises(openai.APIStatusError, match="larger than"):
            sdk.responses.create(model=MODEL, input="x" * 100_000)
        with pytest.raises(openai.NotFoundError):
            sdk.models.retrieve("other")
        with pytest.raises(openai.InternalServerError, match="the engine broke off"):
            sdk.chat.completions.create(model=MODEL, messages=MESSAGES)
        with pytest.raises(openai.APIError, match="the engine broke off"):
            list(sdk.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True))
        failed = list(sdk.responses.create(model=MODEL, input="?", stream=True))[-1]
        assert failed.type == "response.failed"
    with client(ANSWER, api_keys=("other",)) as sdk, pytest.raises(openai.AuthenticationError):
        sdk.models.list()


def test_response_that_takes_long() -> None:
    with client(engine=ReplayEngine([ANSWER], pace=0.05), keep_alive=0.1) as sdk:
        completion = sdk.chat.completions.create(model=MODEL, messages=MESSAGES)
        assert completion.choices[0].message.content == "It is sunny in Paris."
    broken = ReplayEngine([ReplayOutput([400] * 5, "error")], pace=0.1)
    with client(engine=broken, keep_alive=0.1) as sdk, pytest.raises(openai.APIConnectionError):
        sdk.chat.completions.create(model=MODEL, messages=MESSAGES)


def test_async_and_many_at_a_time() -> None:
    async def ask(sdk: openai.AsyncOpenAI) -> str:
        text = ""
        async for event in await sdk.responses.create(model=MODEL, input="?", stream=True):
            if event.type == "response.output_text.delta":
                text += event.delta
        return text

    async def run(url: str) -> list[str]:
        async with openai.AsyncOpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0) as sdk:
            return await asyncio.gather(*(ask(sdk) for _ in range(30)))

    with gateway(engine=ReplayEngine([ANSWER], pace=0.001)) as url:
        assert asyncio.run(run(url)) == ["It is sunny in Paris."] * 30


def test_custom_tool() -> None:
    tool: Any = {"type": "custom", "name": "shell", "description": "Runs it."}
    with client(call("shell", {"input": "ls -l"}, "Hm.</think>")) as sdk:
        response = sdk.responses.create(model=MODEL, input="List the files.", tools=[tool])
        called = next(item for item in response.output if item.type == "custom_tool_call")
        assert (called.name, called.input) == ("shell", "ls -l")
