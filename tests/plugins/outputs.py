"""Outputs of the model, and what the codec itself reads in them. Knows no engine."""

import random
from typing import Any, NamedTuple

import deepseek_recipe as d

TOKENIZER = d.Tokenizer.builtin(d.ModelVersion.DeepseekV41Flash)
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "s": {"type": "string"}}},
    },
}
CALLS = (
    '\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="add">\n'
    '<｜DSML｜ parameter name="a" string="false">2</｜DSML｜ parameter>\n'
    '<｜DSML｜ parameter name="s" string="true">你"好</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n'
    '<｜DSML｜ invoke name="add">\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
)
OUTPUTS = {
    "content": "I think 你好.</think>\n\nSaid 🙂.",
    "calls": f"I think.\n</think>Calling.{CALLS}",
    "calls alone": f"I think.</think>{CALLS}",
    "calls out of the reasoning": f"I think{CALLS}",
    "no end": "\n\nI think <",
    "unfinished call": f"So</think>{CALLS[:90]}",
    "nothing": "</think>",
    "a marker's part": "｜DSML｜ x</think>｜DSML｜ y",
    "markers in text": "a <b> ｜DS</think>b </think> <｜c",
}
END = 1
"""The id that ends a sentence, which engines give along with the rest."""


class Read(NamedTuple):
    reasoning: str
    content: str
    calls: list[tuple[str, str]]


def encoded(thinking: bool = True, **fields: Any) -> d.Encoded:
    """A request with a tool."""
    body = {"model": "DeepSeek-V4.1-Flash", "messages": [{"role": "user", "content": "Hi"}], "tools": [TOOL]}
    return d.encode(
        body | {"thinking": {"type": "enabled" if thinking else "disabled"}} | fields, protocol="chat_completions"
    )


def ids(name: str) -> list[int]:
    return [*TOKENIZER.encode(OUTPUTS[name]), END]


def read(output: list[int] | str, request: d.Encoded) -> Read:
    """By the codec itself."""
    parsed = d.parse_text(output, request)
    return Read(parsed.reasoning, parsed.content, [(call.name, call.arguments) for call in parsed.tool_calls])


def cuts(output: list[int]) -> list[list[list[int]]]:
    """The ids whole, one by one, and in random pieces."""
    ways = [[output], [[id] for id in output]]
    for seed in range(20):
        dice, pieces, at = random.Random(seed), [], 0
        while at < len(output):
            length = dice.randrange(1, 7)
            pieces.append(output[at : at + length])
            at += length
        ways.append(pieces)
    return ways


def joined(messages: list[Any]) -> Read:
    """vLLM's messages, one behind the other."""
    calls: list[list[str]] = []
    for message in messages:
        for call in message.tool_calls:
            if call.function.name is not None:
                assert call.id and call.index == len(calls)
                calls.append([call.function.name, ""])
            calls[call.index][1] += call.function.arguments or ""
    reasoning = "".join(message.reasoning or "" for message in messages)
    return Read(reasoning, "".join(message.content or "" for message in messages), [(n, a) for n, a in calls])
