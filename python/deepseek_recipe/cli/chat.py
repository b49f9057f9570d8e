"""`chat`: a conversation in the terminal, through any engine. Shows thinking and tool calls as they stream."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Coroutine
from types import FrameType
from typing import Any

from .._native import ConversionError, Event, InferenceChunk, TokenIds
from ..adapters import EngineAdapter, EngineUnavailable, GenerateRequest, SamplingSpec
from ..adapters.select import open_engine
from ..recipe import Encoded, FinishReason, Recipe, finish_chunk
from .engine import add_engine
from .terminal import DIM, EVENT, MODELS, Commands, Refused, coloured, harmless, read

_NOTE = "Ctrl-C stops an answer, Ctrl-D ends the chat."


def add(commands: Commands) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "chat",
        help="talk to a model in the terminal, through any engine",
        description="Each line of standard input is a turn; where the model calls tools, the next lines are their "
        f"results. {_NOTE}",
    )
    add_engine(command)
    command.add_argument("--system", metavar="TEXT", help="what the system message says")
    command.add_argument("--no-thinking", action="store_true", help="the model answers at once")
    command.add_argument("--effort", metavar="LEVEL", help="how much it thinks, as reasoning_effort")
    command.add_argument("--tools", metavar="TOOLS.json", help="a JSON list of tools, as in Chat Completions")
    command.add_argument("--max-tokens", type=int, metavar="N", help="of each answer, the thinking included")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    body = _body(options)
    loop = asyncio.new_event_loop()
    try:
        engine = loop.run_until_complete(
            open_engine(options.engine, version=MODELS[options.model], model=options.engine_model, pace=options.pace)
        )
        try:
            _Chat(loop, engine, Recipe(model=MODELS[options.model]), body).run()
        finally:
            loop.run_until_complete(engine.aclose())
    except (OSError, ValueError, EngineUnavailable) as error:
        raise Refused(str(error)) from error
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _body(options: argparse.Namespace) -> dict[str, Any]:
    """The request without its turns."""
    body: dict[str, Any] = {
        "model": options.model,
        "thinking": {"type": "disabled" if options.no_thinking else "enabled"},
        "messages": [{"role": "system", "content": options.system}] if options.system else [],
    }
    if options.effort is not None:
        body["reasoning_effort"] = options.effort
    if options.max_tokens is not None:
        body["max_tokens"] = options.max_tokens
    if options.tools is not None:
        try:
            body["tools"] = json.loads(read(options.tools))
        except ValueError as error:
            raise Refused(f"{options.tools}: {error}") from error
    return body


class _Chat:
    """The turns so far. The ids of each answer are kept, so that the next prompt goes on from exactly these."""

    def __init__(self, loop: asyncio.AbstractEventLoop, engine: EngineAdapter, recipe: Recipe, body: dict[str, Any]):
        self._loop = loop
        self._engine = engine
        self._recipe = recipe
        self._body = body
        self._messages: list[dict[str, Any]] = body["messages"]
        self._previous: tuple[TokenIds, list[int]] | None = None

    def run(self) -> None:
        """Asks and answers until the input ends. Raises `Refused` where the first request cannot be served."""
        if sys.stdin.isatty():
            print(coloured(_NOTE, DIM))
        limit = self._loop.run_until_complete(self._engine.capabilities()).max_model_len
        while (said := _ask("> ")) is not None:
            self._messages.append({"role": "user", "content": said})
            while calls := self._turn(limit):
                for call in calls:
                    if (result := _ask(f"{call['function']['name']} gives> ")) is None:
                        return
                    self._messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    def _turn(self, limit: int) -> list[dict[str, Any]]:
        """One answer. Returns its tool calls."""
        try:
            encoded = self._recipe.encode(self._body, protocol="chat_completions", previous=self._previous)
            max_tokens = encoded.resolve_max_tokens(limit)
        except (ConversionError, ValueError) as error:
            raise Refused(str(error)) from error
        answer = _Answer(self._engine, self._recipe, encoded, max_tokens)
        finished = _until_interrupted(self._loop, answer.show())
        self._messages.append(answer.message(finished))
        self._previous = (encoded.token_ids, answer.ids)
        return self._messages[-1].get("tool_calls", [])


class _Answer:
    """An answer while it streams."""

    def __init__(self, engine: EngineAdapter, recipe: Recipe, encoded: Encoded, max_tokens: int):
        self._engine = engine
        self._recipe = recipe
        self._encoded = encoded
        options = encoded.inference_options
        self._request = GenerateRequest(
            request_id=f"chat-{uuid.uuid4().hex}",
            prompt_token_ids=encoded.token_ids,
            sampling=SamplingSpec(
                max_tokens,
                temperature=1.0 if options.temperature is None else options.temperature,
                top_p=1.0 if options.top_p is None else options.top_p,
            ),
        )
        self._texts = {"reasoning": "", "content": ""}
        self._calls: list[dict[str, Any]] = []
        self._ended: set[int] = set()
        self._shown = ""
        self.ids: list[int] = []
        """What the engine gave."""

    async def show(self) -> None:
        """Prints the answer as it comes."""
        try:
            async for event in self._recipe.stream_parse(self._pieces(), self._encoded, finish_reason=None):
                self._take(event)
        finally:
            print(flush=True)

    async def _pieces(self) -> AsyncIterator[list[int] | InferenceChunk]:
        deltas = self._engine.generate(self._request)
        try:
            async for delta in deltas:
                self.ids += delta.token_ids
                yield list(delta.token_ids)
                if delta.finish_reason in ("stop", "length", "content_filter"):
                    reason: FinishReason = delta.finish_reason
                    yield finish_chunk(reason)
        finally:
            await deltas.aclose()

    def _take(self, event: Event) -> None:
        match event:
            case Event.Reasoning(text=text) | Event.Content(text=text):
                self._texts[event.type] += text
                is_reasoning = event.type == "reasoning"
                self._print(event.type, "[thinking] " if is_reasoning else "", text, DIM if is_reasoning else "")
            case Event.ToolCallStart(id=id, name=name):
                self._calls.append({"id": id, "type": "function", "function": {"name": name, "arguments": ""}})
                self._print(f"call {len(self._calls)}", f"[call] {name} ", "", EVENT)
            case Event.ToolCallArguments(index=index, text=text):
                self._calls[index]["function"]["arguments"] += text
                self._print(f"call {index + 1}", "", text, EVENT)
            case Event.ToolCallEnd(index=index):
                self._ended.add(index)
            case Event.Finish(reason=reason) if reason in ("length", "content_filter"):
                self._print("end", f"[ended: {reason}]", "", DIM)
            case Event.Error(message=message):
                self._print("end", f"[failed: {message}]", "", DIM)
            case _:
                pass

    def _print(self, channel: str, head: str, text: str, colour: str) -> None:
        """Prints text; where another kind of it begins, on a line of its own behind `head`."""
        text = harmless(text if channel == self._shown else head + text)
        if channel != self._shown:
            if self._shown:
                print()
            self._shown = channel
        print(coloured(text, colour) if colour else text, end="", flush=True)

    def message(self, finished: bool) -> dict[str, Any]:
        """The answer as a message of the next request. An interrupted one has the calls that had ended."""
        calls = [call for index, call in enumerate(self._calls) if finished or index in self._ended]
        message: dict[str, Any] = {"role": "assistant", "content": self._texts["content"]}
        if self._texts["reasoning"]:
            message["reasoning_content"] = self._texts["reasoning"]
        return {**message, "tool_calls": calls} if calls else message


def _ask(prompt: str) -> str | None:
    """A line of standard input, `None` at its end."""
    try:
        return input(prompt if sys.stdin.isatty() else "")
    except (EOFError, KeyboardInterrupt):
        if sys.stdin.isatty():
            print()
        return None


def _until_interrupted(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> bool:
    """Runs `work` to its end, or until Ctrl-C cancels it. Returns whether it came to its end."""
    task = loop.create_task(work)

    def stop(signum: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGINT, stop)
    try:
        loop.run_until_complete(task)
        return True
    except asyncio.CancelledError:
        print(coloured("[stopped]", DIM))
        return False
    finally:
        signal.signal(signal.SIGINT, before)
