"""Replies of this package as a server would send them, and a server that sends them. Knows no SDK.

A case is one line of `tests/cases/reply/PROTOCOL.jsonl`: a request's body, and the chunks of an engine.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

import deepseek_recipe as d

CASES = Path(__file__).resolve().parents[1] / "cases" / "reply"
ID = "id-1"
OPTIONS = d.ConversionOptions(max_choices=8)
RECIPE = d.Recipe(options=OPTIONS)

CLASSES: dict[str, tuple[Any, Any]] = {
    "chat": (d.ChatCompletionRequest, d.ChatCompletionResponse),
    "messages": (d.MessagesRequest, d.MessagesResponse),
    "responses": (d.ResponsesRequest, d.ResponsesResponse),
}
PROTOCOL_NAMES: dict[str, Any] = {"chat": "chat_completions", "messages": "messages", "responses": "responses"}


@dataclass
class Served:
    """A reply: the bytes of its stream, its chunks, and the complete response."""

    sse: bytes
    chunks: list[Any]
    response: Any


def cases(protocol: str) -> dict[str, Any]:
    """The cases of a protocol by id, but for those whose engine is used wrongly: they have no whole reply."""
    files = CASES.glob(f"{protocol}*.jsonl")
    lines = [line for file in files for line in file.read_text(encoding="utf-8").split("\n") if line]
    found = {case["id"]: case for case in map(json.loads, lines)}
    return {id: case for id, case in found.items() if not {"refused", "error"} & case["expect"].keys()}


def engine_chunk(parts: list[Any]) -> d.InferenceChunk:
    kind, *values = parts
    if kind == "ready":
        usage = dict(values[0]) if values else {}
        fingerprint = usage.pop("system_fingerprint", None)
        prompt_usage = d.PromptUsage(**usage) if usage else None
        return d.InferenceChunk.ready(prompt_usage=prompt_usage, system_fingerprint=fingerprint)
    if kind == "finish":
        return d.InferenceChunk.finish(getattr(d.InferenceFinishReason, values[0]))
    if kind == "tokens" and len(values) > 1 and values[1] is not None:
        values[1] = [(logprob, [tuple(pair) for pair in top]) for logprob, top in values[1]]
    if kind == "error":
        return d.InferenceChunk.error(values[0], code=values[1])
    return getattr(d.InferenceChunk, kind)(*values)


def parsing_options(case: Any, options: d.ParsingOptions) -> d.ParsingOptions:
    """The options, with what the case changes."""
    for key, value in case.get("parsing", {}).items():
        if key == "thinking_initial_stage" and value is not None:
            value = getattr(d.ThinkingInitialStage, value)
        setattr(options, key, value)
    return options


def by_classes(protocol: str, case: Any, **further: Any) -> Served:
    """With the classes that the reference has, too, and server-sent events written by the caller.

    `further` are arguments of the generator.
    """
    request_type, response_type = CLASSES[protocol]
    request, options = request_type(case["body"]), OPTIONS
    model = request.model
    extra = [request.echo(), request.namespace_tool_map(options)] if protocol == "responses" else []
    converted = request.convert(options)
    generator = request_type.chunk_generator(converted, ID, model, **further)
    if protocol == "responses":
        generator = generator.with_echo(extra[0]).with_namespace_tool_map(extra[1])
    if "signature" in case:
        generator = generator.with_signature(case["signature"])
    tokenizer = d.Tokenizer.builtin(converted.model_version)
    processor = d.StreamProcessor(generator, parsing_options(case, converted.parsing_options), tokenizer)
    sent: list[Any] = []
    served = Served(b"", [], None)

    def send(chunks: list[Any]) -> None:
        for chunk in chunks:
            name = response_type.sse_event_name(chunk)
            text = chunk.to_json()
            served.sse += (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()
            served.chunks.append(json.loads(text))
            sent.append(chunk)

    for parts in case["chunks"]:
        if not processor.finished:
            send(processor.push(engine_chunk(parts)))
    if not processor.finished:
        send(processor.finish())
    processor.close()
    done = response_type.sse_done_data()
    # A failed reply ends without the mark of a whole one.
    served.sse += f"data: {done}\n\n".encode() if done and "error" not in served.chunks[-1] else b""
    response = response_type(ID, model, served.chunks[0].get("created", 0), 0, 0)
    for chunk in sent:
        response.accumulate(chunk)
    served.response = json.loads(response.to_json())
    return served


def by_recipe(protocol: str, case: Any) -> Served:
    """The short way."""
    encoded = RECIPE.encode(case["body"], protocol=PROTOCOL_NAMES[protocol])
    reply = encoded.reply(id=ID)
    sse = b"".join(reply.push_sse(engine_chunk(parts)) for parts in case["chunks"] if not reply.finished)
    sse += reply.finish_sse(None)
    chunks = [json.loads(line[6:]) for line in sse.decode().split("\n") if line.startswith("data: {")]
    return Served(sse, chunks, reply.response())


def each(protocol: str) -> Any:
    """Runs a test with the reply to every case, made both ways where both can make it."""
    replies = []
    for id, case in cases(protocol).items():
        replies.append(pytest.param(by_classes(protocol, case), id=f"{id}-classes"))
        if not {"parsing", "signature"} & case.keys():
            replies.append(pytest.param(by_recipe(protocol, case), id=f"{id}-recipe"))
    return pytest.mark.parametrize("served", replies)


def server(answer: Callable[[bytes], Served]) -> httpx2.Client:
    """An HTTP client whose server gives this answer to a request's body: its stream, or the complete response.

    A request that is refused gets the error reply.
    """

    def respond(request: httpx2.Request) -> httpx2.Response:
        try:
            served = answer(request.content)
        except (d.ConversionError, ValueError) as error:
            return httpx2.Response(error.status_code, content=error.body)
        if json.loads(request.content).get("stream"):
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=served.sse)
        return httpx2.Response(200, json=served.response)

    return httpx2.Client(transport=httpx2.MockTransport(respond))


CALL = (
    "Let me see.</think>I look it up.\n\n<｜DSML｜ calls>\n"
    '<｜DSML｜ invoke name="get_weather">\n'
    '<｜DSML｜ parameter name="city" string="true">"Paris" 中</｜DSML｜ parameter>\n'
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
)
"""An output with reasoning, content and a call."""


class Model:
    """A server whose model says these outputs, one a request. `prompts` are the ids that it got."""

    def __init__(self, protocol: str, outputs: list[str]):
        self.protocol = protocol
        self.tokenizer = d.Tokenizer.builtin(d.ModelVersion.DeepseekV41Flash)
        self.outputs = [self.tokenizer.encode(output) for output in outputs]
        self.prompts: list[list[int]] = []

    def answer(self, body: bytes) -> Served:
        encoded = RECIPE.encode(body, protocol=PROTOCOL_NAMES[self.protocol])
        reply = encoded.reply()
        output = self.outputs[len(self.prompts)]
        self.prompts.append(encoded.token_ids.tolist())
        sse = b"".join(reply.push_sse(id) for id in output) + reply.finish_sse("stop")
        return Served(sse, [], reply.response())

    def goes_on(self) -> bool:
        """Whether the second prompt begins with the first one and what the model said to it."""
        (first, second), end = self.prompts, [1]
        said = [*first, *self.outputs[0], *end]
        return second[: len(said)] == said
