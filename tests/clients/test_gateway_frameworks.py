"""Frameworks on the SDKs complete a tool loop against the gateway, streamed and whole."""

import asyncio
from typing import Any

import pytest

from gateway import ANSWER, WEATHER, gateway

MODEL = "deepseek-flash"
QUESTION = "The weather in Paris?"
SUNNY = "It is sunny in Paris."


def weather(city: str) -> str:
    """Looks out of the window."""
    assert city == "Paris"
    return "sunny"


@pytest.mark.parametrize("protocol", ["chat", "responses"])
@pytest.mark.parametrize("stream", [False, True])
def test_openai_agents(protocol: str, stream: bool) -> None:
    import agents
    import openai

    agents.set_tracing_disabled(True)

    @agents.function_tool
    def get_weather(city: str) -> str:
        """Looks out of the window."""
        return weather(city)

    async def run(url: str) -> str:
        async with openai.AsyncOpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0) as client:
            kind = agents.OpenAIChatCompletionsModel if protocol == "chat" else agents.OpenAIResponsesModel
            agent: Any = agents.Agent(name="a", tools=[get_weather], model=kind(MODEL, client))
            if not stream:
                return (await agents.Runner.run(agent, QUESTION)).final_output
            result = agents.Runner.run_streamed(agent, QUESTION)
            async for _ in result.stream_events():
                pass
            return result.final_output

    with gateway(WEATHER, ANSWER) as url:
        assert asyncio.run(run(url)) == SUNNY


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
@pytest.mark.parametrize("stream", [False, True])
def test_pydantic_ai(protocol: str, stream: bool) -> None:
    import pydantic_ai
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    async def run(url: str) -> str:
        model: Any
        if protocol == "messages":
            import anthropic

            client = anthropic.AsyncAnthropic(api_key="key", base_url=url, max_retries=0)
            model = AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client))
        else:
            kind = OpenAIChatModel if protocol == "chat" else OpenAIResponsesModel
            model = kind(MODEL, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="key"))
        agent = pydantic_ai.Agent(model)
        agent.tool_plain(weather, name="get_weather")

        async def take(_: Any, events: Any) -> None:
            async for _ in events:
                pass

        # With a handler the framework streams.
        return (await agent.run(QUESTION, event_stream_handler=take if stream else None)).output

    with gateway(WEATHER, ANSWER) as url:
        assert asyncio.run(run(url)) == SUNNY


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_langchain(protocol: str) -> None:
    from langchain_anthropic import ChatAnthropic
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    get_weather = tool("get_weather")(weather)
    with gateway(WEATHER, ANSWER) as url:
        made: Any
        if protocol == "messages":
            made = ChatAnthropic(model=MODEL, base_url=url, api_key="key", max_retries=0)
        else:
            made = ChatOpenAI(
                model=MODEL,
                base_url=f"{url}/v1",
                api_key="key",
                max_retries=0,
                use_responses_api=protocol == "responses",
            )
        model = made.bind_tools([get_weather])
        first = model.invoke(QUESTION)
        (called,) = first.tool_calls
        assert called["args"] == {"city": "Paris"}
        result = ToolMessage(weather(**called["args"]), tool_call_id=called["id"])
        chunks = list(model.stream([("user", QUESTION), first, result]))
        assert "".join(chunk.text for chunk in chunks) == SUNNY


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [False, True])
def test_litellm(provider: str, stream: bool) -> None:
    import litellm

    tool = {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }

    def complete(url: str, messages: list[Any]) -> Any:
        reply: Any = litellm.completion(
            model=f"{provider}/{MODEL}",
            api_base=f"{url}/v1" if provider == "openai" else url,
            api_key="key",
            messages=messages,
            tools=[tool],
            stream=stream,
            num_retries=0,
        )
        whole = litellm.stream_chunk_builder(list(reply)) if stream else reply
        assert whole is not None
        return whole.choices[0].message

    with gateway(WEATHER, ANSWER) as url:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        first = complete(url, messages)
        (called,) = first.tool_calls
        assert called.function.arguments == '{"city": "Paris"}'
        messages += [first.model_dump(), {"role": "tool", "tool_call_id": called.id, "content": "sunny"}]
        assert complete(url, messages).content == SUNNY
