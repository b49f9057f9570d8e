"""The `anthropic` SDK against the gateway, as its users call it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import pytest

from deepseek_recipe.adapters import RequestError, TokenDelta
from deepseek_recipe.adapters.replay import ReplayEngine, ReplayOutput
from gateway import ANSWER, WEATHER, gateway

REQUEST: Any = {
    "model": "claude-sonnet-example",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "The weather in Paris?"}],
}


@anthropic.beta_tool
def get_weather(city: str) -> str:
    """Looks out of the window.

    Args:
        city: where
    """
    return f"sunny in {city}"


@contextmanager
def client(*outputs: Any, prefix: str = "", **settings: Any) -> Iterator[anthropic.Anthropic]:
    with (
        gateway(*outputs, **settings) as url,
        anthropic.Anthropic(api_key="key", base_url=url + prefix, max_retries=0) as made,
    ):
        yield made


@pytest.mark.parametrize("prefix", ["", "/anthropic"])
def test_messages(prefix: str) -> None:
    with client(ANSWER, prefix=prefix) as sdk:
        message = sdk.messages.create(**REQUEST)
        thinking, text = message.content
        assert thinking.type == "thinking" and thinking.thinking == "Now I know."
        assert text.type == "text" and text.text == "It is sunny in Paris."
        assert message.stop_reason == "end_turn" and message.model == "claude-sonnet-example"
        with sdk.messages.stream(**REQUEST) as stream:
            assert "".join(stream.text_stream) == "It is sunny in Paris."
            assert stream.get_final_message().usage.output_tokens == message.usage.output_tokens
        counted = sdk.messages.count_tokens(model=REQUEST["model"], messages=REQUEST["messages"])
        assert counted.input_tokens == message.usage.input_tokens


def test_tool_runner() -> None:
    with client(WEATHER, ANSWER) as sdk:
        runner = sdk.beta.messages.tool_runner(**REQUEST, tools=[get_weather])
        last = runner.until_done()
        assert last.content[-1].type == "text" and last.content[-1].text == "It is sunny in Paris."


def test_structured_output() -> None:
    schema = {
        "type": "object",
        "properties": {"degrees": {"type": "integer"}},
        "required": ["degrees"],
        "additionalProperties": False,
    }
    output: Any = {"format": {"type": "json_schema", "schema": schema}}
    with client('So.</think>{"degrees": 20}') as sdk:
        message = sdk.messages.create(**REQUEST, output_config=output)
        assert message.content[-1].type == "text" and message.content[-1].text == '{"degrees": 20}'


def test_models() -> None:
    with client(ANSWER) as sdk:
        models = list(sdk.models.list())
        assert models[0].type == "model"
        assert sdk.models.retrieve(models[0].id).display_name == "DeepSeek V4.1 Flash"


class Busy(ReplayEngine):
    async def generate(self, request: Any) -> Any:
        raise RequestError("overloaded", "busy")
        yield TokenDelta()


def test_errors() -> None:
    with client(ReplayOutput([400], "error"), max_body_bytes=100_000) as sdk:
        with pytest.raises(anthropic.BadRequestError, match="at least one message is required") as error:
            sdk.messages.create(**{**REQUEST, "messages": []})
        assert error.value.request_id and error.value.request_id.startswith("req_")
        with pytest.raises(anthropic.APIStatusError) as error:
            sdk.messages.create(**{**REQUEST, "system": "x" * 100_000})
        assert error.value.status_code == 413
        with pytest.raises(anthropic.NotFoundError):
            sdk.models.retrieve("other")
        with pytest.raises(anthropic.InternalServerError, match="the engine broke off"):
            sdk.messages.create(**REQUEST)
        with pytest.raises(anthropic.APIStatusError, match="the engine broke off"):
            list(sdk.messages.create(**REQUEST, stream=True))
    with client(ANSWER, api_keys=("other",)) as sdk, pytest.raises(anthropic.AuthenticationError):
        sdk.messages.create(**REQUEST)
    with client(engine=Busy()) as sdk:
        with pytest.raises(anthropic.InternalServerError) as overloaded:
            sdk.messages.create(**REQUEST)
        assert overloaded.value.status_code == 529


def test_async_and_many_at_a_time() -> None:
    async def ask(sdk: anthropic.AsyncAnthropic) -> str:
        async with sdk.messages.stream(**REQUEST) as stream:
            return await stream.get_final_text()

    async def run(url: str) -> list[str]:
        async with anthropic.AsyncAnthropic(api_key="key", base_url=url, max_retries=0) as sdk:
            return await asyncio.gather(*(ask(sdk) for _ in range(30)))

    with gateway(engine=ReplayEngine([ANSWER], pace=0.001)) as url:
        assert asyncio.run(run(url)) == ["It is sunny in Paris."] * 30
