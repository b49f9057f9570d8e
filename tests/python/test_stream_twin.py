"""The parser against its slow twin, on random outputs: put together from fragments, or well formed and then mutated.

`TWIN_OUTPUTS` says how many; without it 6,000, a few seconds.
"""

import json
import os
import random
from typing import Any

import pytest

import deepseek_recipe as d
import stream_twin

DSML = stream_twin.DSML
SEEDS = [1, 2, 3, 4]
OUTPUTS = int(os.environ.get("TWIN_OUTPUTS", "6000")) // len(SEEDS)

FRAGMENTS = [
    *("<" + DSML, "</" + DSML, DSML, " calls>", "calls>", "tool_calls>", "function_calls>", " invoke", "parameter>"),
    *(' invoke name="f">', ' invoke name="g">', " invoke name='f' x=\"1\">", " parameter>", " invoke>", "invoke>"),
    *(' parameter name="a" string="true">', ' parameter name="b" string="false">', ' parameter name="n">'),
    *(' parameter name="arguments" string="false">', ' parameter string="x" name="a b">', 'name="', '="'),
    *('string="false"', "</think>", "<think>", "<｜end▁of▁sentence｜>", "<｜end▁of", "\n", "\n\n", " ", "\t", "\r"),
    *("abc", "x", "1", '{"a":1}', "{", "}", "[", "]", '"', ",", ":", "'", "\\", "\\u12", "True", "None", "nul"),
    *("1.5", "-", "é", "中", "😀", "<", "</", "<｜", "｜", "END", "ST", "```json\n", "```\n", "/", "hello world"),
    *('{"arguments": 1}', "{'k': 'v', 'w': [1,2,}", f'<{DSML} calls>\n<{DSML} invoke name="f">\n'),
    *(f"</{DSML} parameter>\n", f"</{DSML} invoke>\n</{DSML} calls>"),
]
VALUES: list[Any] = [1, -2.5, None, True, {"k": [1, {"z": 'q\\"é'}]}, [1, "a, b", {}], "str", {"a": {}}, []]
STRINGS = ["v", 'a"b\n', "<x>", "</x", "", "é中"]
KEYS = ["a", "b", "n", "arguments", "input", "a b", "q"]
STOPS = [["END"], ["ST", "END"], ["\n\n"], ["<｜end▁of▁sentence｜>"], ["}"], ["<"], ["bc", "abcx"]]
STAGES = [None, "ReasoningStart", "ReasoningStart", "ReasoningContinuation", "ContentContinuation"]
TOOLS: dict[str, Any] = {
    "f": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "number"}, "n": {"type": ["integer", "string"]}},
    },
    "g": {"type": "object", "properties": {"a": {"type": "object"}, "n": {"type": "integer"}}},
    "c": {"type": "object", "properties": {"input": {"type": "string"}}},
}
TOKENIZER = d.Tokenizer.builtin(d.ModelVersion.DeepseekV41Flash)
# The ids of the 256 bytes stand behind the three first special ones, printable Latin-1 first.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = {byte: 3 + n for n, byte in enumerate(PRINTABLE + sorted(set(range(256)) - set(PRINTABLE)))}


def parameter(r: random.Random) -> str:
    is_string = r.random() < 0.3
    value = r.choice(STRINGS) if is_string else json.dumps(r.choice(VALUES), ensure_ascii=r.random() < 0.5)
    attributes = f'name="{r.choice(KEYS)}" string="{json.dumps(is_string)}"'
    return f"<{DSML} parameter {attributes}>{value}</{DSML} parameter>\n"


def call(r: random.Random) -> str:
    parameters = "".join(parameter(r) for _ in range(r.randint(0, 3)))
    return f'<{DSML} invoke name="{r.choice("fgch")}">\n{parameters}</{DSML} invoke>\n'


def block(r: random.Random) -> str:
    calls = "".join(call(r) for _ in range(r.randint(0, 3)))
    behind = r.choice(["", "\nafter", "</think>more"])
    return f"\n\n<{DSML}{r.choice([' calls', 'tool_calls'])}>\n{calls}</{DSML} calls>{behind}"


def mutated(r: random.Random, output: str) -> str:
    text = list(output)
    for _ in range(r.randint(1, 6)):
        if not text:
            break
        at, kind = r.randrange(len(text)), r.random()
        if kind < 0.4:
            del text[at : at + r.randint(1, 4)]
        elif kind < 0.8:
            text[at:at] = r.choice(FRAGMENTS)
        else:
            other = r.randrange(len(text))
            text[at], text[other] = text[other], text[at]
    return "".join(text)


def output(r: random.Random) -> str:
    kind = r.random()
    if kind < 0.5:
        return "".join(r.choice(FRAGMENTS) for _ in range(r.randint(1, 25)))
    text = r.choice(["", "think</think>", "ans\n\n", "th\n"]) + "".join(block(r) for _ in range(r.randint(0, 2)))
    if kind > 0.65:
        text = mutated(r, text)
    return text[: r.randint(0, len(text))] if r.random() < 0.2 else text


def ids_of(text: str) -> list[int]:
    """One id a byte, and the special tokens that a parser knows."""
    ids: list[int] = []
    while text:
        special = next((s for s in (DSML, "</think>", "<think>") if text.startswith(s)), None)
        ids += [TOKENIZER.encode(special)[0]] if special else [BYTES[byte] for byte in text[0].encode()]
        text = text[len(special or text[0]) :]
    return ids


def chunks_of(r: random.Random, text: str) -> list[list[Any]]:
    chunks: list[list[Any]] = []
    at = 0
    while at < len(text):
        size = 1 if r.random() < 0.3 else r.randint(1, 12)
        part = text[at : at + size]
        at += size
        if r.random() < 0.35:
            ids = ids_of(part)
            if r.random() < 0.05:
                ids.insert(r.randint(0, len(ids)), r.choice([0, 1, 128803, 200000]))
            if r.random() < 0.03:
                ids.pop(r.randrange(len(ids)))
            cut = r.randint(0, len(ids))
            chunks += [["tokens", some] for some in (ids[:cut], ids[cut:]) if some]
        else:
            chunks.append(["text", part])
        if r.random() < 0.03:
            chunks.append(["text", ""])
    end = r.random()
    if end < 0.75:
        chunks.append(["finish", "Stop"])
    elif end < 0.9:
        chunks.append(["finish", "Length"])
    elif end < 0.95:
        chunks.append(["error", "boom"])
    return chunks


def parsing_of(r: random.Random) -> dict[str, Any]:
    return {
        "parse_tool_calls": r.random() < 0.9,
        "starts_in_tool_calls": r.random() < 0.1,
        "parse_json_output": r.random() < 0.15,
        "thinking_initial_stage": r.choice(STAGES),
        "stop_sequences": r.choice(STOPS) if r.random() < 0.6 else [],
        "parallel_tool_calls": r.random() < 0.9,
    }


def chunk_of(chunk: list[Any]) -> d.InferenceChunk:
    kind, value = chunk
    if kind == "text":
        return d.InferenceChunk.text(value, 1)
    if kind == "tokens":
        return d.InferenceChunk.tokens(value)
    if kind == "error":
        return d.InferenceChunk.error(value)
    return d.InferenceChunk.finish(getattr(d.InferenceFinishReason, value))


def parsed(parsing: dict[str, Any], chunks: list[list[Any]]) -> list[list[Any]]:
    """What the package says, read back from the chunks of a Chat Completions reply."""
    tools = [{"type": "function", "function": {"name": n, "parameters": p}} for n, p in TOOLS.items()]
    body = {
        "model": "DeepSeek-V4.1-Flash",
        "messages": [{"role": "user", "content": "q"}],
        "thinking": {"type": "enabled" if parsing["thinking_initial_stage"] else "disabled"},
        "tools": tools,
        "stream": True,
    }
    request = d.ChatCompletionRequest(body).convert(d.ConversionOptions())
    generator = d.ChatCompletionRequest.chunk_generator(request, "id-1", "m")
    options = request.parsing_options
    for key, value in parsing.items():
        is_stage = key == "thinking_initial_stage" and value
        setattr(options, key, getattr(d.ThinkingInitialStage, value) if is_stage else value)
    processor = d.StreamProcessor(generator, options, TOKENIZER)
    replies: list[Any] = []
    for chunk in chunks:
        if not processor.finished:
            replies += [json.loads(reply.to_json()) for reply in processor.push(chunk_of(chunk))]
    if not processor.finished:
        replies += [json.loads(reply.to_json()) for reply in processor.finish()]
    return events_of(replies)


def events_of(replies: list[Any]) -> list[list[Any]]:
    out: list[list[Any]] = []
    for reply in replies:
        (choice,) = reply["choices"]
        delta = choice["delta"]
        for key, kind in (("reasoning_content", "reasoning"), ("content", "content")):
            if delta.get(key):
                out.append([kind, delta[key]])
        for call in delta.get("tool_calls", []):
            function = call["function"]
            if "name" in function:
                out.append(["call_start", call["index"], function["name"]])
            else:
                out.append(["call_arguments", call["index"], function["arguments"]])
        if "error" in reply:
            out.append(["error", reply["error"]["message"]])
        elif choice["finish_reason"]:
            out.append(["finish", choice["finish_reason"]])
    return out


def said_in_chat(events: list[list[Any]]) -> list[list[Any]]:
    """What Chat Completions can say of events: text behind a call is set apart, the stop sequence is missing."""
    out: list[list[Any]] = []
    calls, last = 0, dict[str, int]()
    for kind, *rest in events:
        if kind in ("reasoning", "content") and rest[0]:
            text = "\n\n" + rest[0] if last.get(kind, calls) < calls else rest[0]
            last[kind] = calls
            out.append([kind, text])
        elif kind == "finish":
            out.append([kind, rest[0]])
        elif kind != "call_end":
            calls += kind == "call_start"
            out.append([kind, *rest])
    return out


@pytest.mark.parametrize("seed", SEEDS)
def test_as_the_twin(seed: int) -> None:
    r = random.Random(seed)
    for _ in range(OUTPUTS):
        parsing, chunks = parsing_of(r), chunks_of(r, output(r))
        source = stream_twin.read(chunks, TOKENIZER.token)
        wanted = said_in_chat(stream_twin.Machine(source, parsing, TOOLS).run())
        given = parsed(parsing, chunks)
        assert stream_twin.merged(given) == stream_twin.merged(wanted), (parsing, chunks)
