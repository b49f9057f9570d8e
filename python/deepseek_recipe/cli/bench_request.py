"""The requests that `bench` sends, in each protocol: a short one, and one of a coding agent. Knows no connection."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ..recipe import ProtocolName


class Wire(NamedTuple):
    """What a protocol calls things."""

    path: str
    limit: str
    """The field of the most output tokens."""
    turns: str
    no_thinking: dict[str, Any]


WIRES: dict[ProtocolName, Wire] = {
    "chat_completions": Wire("/v1/chat/completions", "max_tokens", "messages", {"thinking": {"type": "disabled"}}),
    "messages": Wire("/v1/messages", "max_tokens", "messages", {"thinking": {"type": "disabled"}}),
    "responses": Wire("/v1/responses", "max_output_tokens", "input", {"reasoning": {"effort": "none"}, "store": False}),
}


def short_request(protocol: ProtocolName, model: str, max_tokens: int) -> dict[str, Any]:
    """One sentence of a user; the reply is streamed."""
    wire = WIRES[protocol]
    turns = [{"role": "user", "content": "Write a word, many times."}]
    return {"model": model, "stream": True, wire.limit: max_tokens, wire.turns: turns}


def agent_request(protocol: ProtocolName, model: str, max_tokens: int, size: int) -> dict[str, Any]:
    """At least so many bytes: 30 tools, and a history of calls with what they gave."""
    request = {**short_request(protocol, model, max_tokens), "tools": [_tool(protocol, n) for n in range(30)]}
    turns = request[WIRES[protocol].turns]
    number = 0
    while len(json.dumps(request)) < size:
        turns += _step(protocol, number)
        number += 1
    return request


def _tool(protocol: ProtocolName, number: int) -> dict[str, Any]:
    properties = {f"field_{n}": {"type": "string", "description": "What to look for, and where."} for n in range(8)}
    schema = {"type": "object", "properties": properties}
    named = {"name": f"tool_{number}", "description": "Does a thing. " * 30}
    if protocol == "messages":
        return {**named, "input_schema": schema}
    if protocol == "responses":
        return {"type": "function", **named, "parameters": schema}
    return {"type": "function", "function": {**named, "parameters": schema}}


def _step(protocol: ProtocolName, number: int) -> list[dict[str, Any]]:
    """The model read a file."""
    id, said, arguments = f"call_{number}", "I read on.", {"field_1": f"src/file_{number}.rs"}
    text = "\n".join(f"{line}: let value_{line} = parse(input, {line})?;" for line in range(40))
    if protocol == "messages":
        use = {"type": "tool_use", "id": id, "name": "tool_1", "input": arguments}
        result = {"type": "tool_result", "tool_use_id": id, "content": text}
        return [
            {"role": "assistant", "content": [{"type": "text", "text": said}, use]},
            {"role": "user", "content": [result]},
        ]
    called = {"name": "tool_1", "arguments": json.dumps(arguments)}
    if protocol == "responses":
        return [
            {"role": "assistant", "content": said},
            {"type": "function_call", "call_id": id, **called},
            {"type": "function_call_output", "call_id": id, "output": text},
        ]
    call = {"id": id, "type": "function", "function": called}
    return [
        {"role": "assistant", "content": said, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": text},
    ]
