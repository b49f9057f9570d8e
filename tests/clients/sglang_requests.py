"""What SGLang is asked: requests in the form that its server hands to the renderer, and outputs to parse.

Outputs are well formed: what happens to broken ones is decided otherwise than by the reference, and tested elsewhere.
"""

import random
from collections.abc import Iterator
from typing import Any

Job = dict[str, Any]

SPECS = ("dsv4", "dsv41")

USER = {"role": "user", "content": "What is the weather in Paris? 中文 😀 <think>"}
SYSTEM = {"role": "system", "content": "You are terse.\n\nAnswer in French."}


def function(name: str, parameters: Job | None = None, **further: object) -> Job:
    return {"type": "function", "function": {"name": name, "parameters": parameters, **further}}


WEATHER = function(
    "get_weather",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": 'A "city"'},
            "days": {"type": "integer", "minimum": 1, "default": 1.0},
            "units": {"enum": ["°C", "°F"]},
        },
        "required": ["city"],
    },
    description="Looks the weather up.",
)
SEARCH = function("search-web", {"type": "object", "properties": {}}, description="")
STRICT = function(
    "book",
    {
        "type": "object",
        "properties": {"seat": {"type": "string"}, "row": {"type": ["integer", "null"]}},
        "required": ["seat", "row"],
        "additionalProperties": False,
    },
    description="Books a seat.",
    strict=True,
)


def call(id: str, name: str, arguments: str) -> Job:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(id: str, content: object) -> Job:
    return {"role": "tool", "tool_call_id": id, "content": content}


PAST_CALLS = [
    SYSTEM,
    USER,
    {
        "role": "assistant",
        "content": "",
        "reasoning_content": "I look it up.",
        "tool_calls": [
            call("call_1", "get_weather", '{"city": "Paris", "days": 2}'),
            call("call_2", "search-web", '{"q": "Paris \\"now\\"", "n": [1, {"x": null}], "f": 1.50}'),
        ],
    },
    result("call_1", '{"temperature": 21}'),
    result("call_2", [{"type": "text", "text": "nothing"}, {"type": "text", "text": "found"}]),
    {"role": "assistant", "content": "21 degrees.", "reasoning_content": "Now I know."},
    {"role": "user", "content": "And tomorrow?"},
    {"role": "assistant", "content": None, "tool_calls": [call("call_3", "get_weather", "{}")]},
    result("call_3", ""),
]

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}

BODIES: dict[str, Job] = {
    "plain": {"messages": [USER]},
    "system": {"messages": [SYSTEM, USER]},
    "system later": {"messages": [USER, {"role": "assistant", "content": "Hi."}, SYSTEM, USER]},
    "developer": {"messages": [{"role": "developer", "content": "Be kind."}, USER]},
    "text parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": t} for t in ("a", "", "b\n")]}]},
    "empty text": {"messages": [{"role": "user", "content": ""}]},
    "two users": {"messages": [USER, USER]},
    "history": {
        "messages": [USER, {"role": "assistant", "content": "Sunny.", "reasoning_content": "Look outside."}, USER]
    },
    "markup in text": {"messages": [{"role": "user", "content": "<｜User｜>a</think>\n<｜DSML｜ calls>\n"}]},
    "tools": {"messages": [SYSTEM, USER], "tools": [WEATHER, SEARCH]},
    "strict tool": {"messages": [USER], "tools": [STRICT]},
    "tool choice none": {"messages": [USER], "tools": [WEATHER], "tool_choice": "none"},
    "tool choice auto": {"messages": [USER], "tools": [WEATHER], "tool_choice": "auto"},
    "past calls": {"messages": PAST_CALLS, "tools": [WEATHER, SEARCH]},
    "past calls, then a user": {"messages": [*PAST_CALLS, USER], "tools": [WEATHER, SEARCH]},
    "past calls without tools": {"messages": PAST_CALLS},
    "json object": {
        "messages": [{"role": "system", "content": "Answer in JSON."}, USER],
        "response_format": {"type": "json_object"},
    },
    "json schema": {
        "messages": [USER],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
    },
    "continued text": {
        "messages": [USER, {"role": "assistant", "content": "It is"}],
        "continue_final_message": True,
    },
    "long": {"messages": [{"role": "user", "content": "The quick brown fox, 12345.\n" * 500}]},
}

NOT_THINKING: dict[str, Job] = {
    "tool choice required": {"messages": [USER], "tools": [WEATHER, SEARCH], "tool_choice": "required"},
    "one tool chosen": {
        "messages": [USER],
        "tools": [WEATHER, SEARCH],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    },
}

THINKING: dict[str, Job] = {
    "continued reasoning": {
        "messages": [USER, {"role": "assistant", "content": "", "reasoning_content": "Let me"}],
        "continue_final_message": True,
    },
    **{f"effort {e}": {"messages": [SYSTEM, USER], "reasoning_effort": e} for e in ("low", "medium", "high", "max")},
}

REFUSED: dict[str, Job] = {
    "no messages": {"messages": []},
    "unknown role": {"messages": [{"role": "critic", "content": "x"}]},
    "no content": {"messages": [{"role": "user"}]},
    "bad tool name": {"messages": [USER], "tools": [function("a b", SCHEMA)]},
    "unknown format": {"messages": [USER], "response_format": {"type": "xml"}},
    "image": {
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://a.org/b.png"}}]}]
    },
}
"""What is refused with the reference's words. The image only on V4.1: its token is not in the vocabulary."""

TASKS = ("action", "query", "authority", "domain", "title", "read_url")


def encode_jobs() -> Iterator[tuple[str, Job]]:
    for spec in SPECS:
        for thinking in (False, True):
            for name, body in {**BODIES, **(THINKING if thinking else NOT_THINKING), **REFUSED}.items():
                job = {"step": "encode", "spec": spec, "body": {**body, "thinking": thinking}}
                yield f"{name}, {spec}{', thinking' * thinking}", job
        for task in TASKS:
            job = {"step": "encode", "spec": spec, "body": {"messages": [SYSTEM, USER], "thinking": False}}
            yield f"task {task}, {spec}", {**job, "options": {"task": task}}
    for budget in (1, 33, 100):
        job = {"step": "encode", "spec": "dsv41", "body": {"messages": [USER], "thinking": True}}
        yield f"effort {budget}", {**job, "options": {"effort_budget": budget}}


def parameter(name: str, value: str, string: bool = True) -> str:
    return f'<｜DSML｜ parameter name="{name}" string="{str(string).lower()}">{value}</｜DSML｜ parameter>\n'


def invoke(name: str, *parameters: str) -> str:
    return f'<｜DSML｜ invoke name="{name}">\n{"".join(parameters)}</｜DSML｜ invoke>\n'


def calls(*invokes: str) -> str:
    return f"\n\n<｜DSML｜ calls>\n{''.join(invokes)}</｜DSML｜ calls>"


PARIS = invoke("get_weather", parameter("city", "Paris"), parameter("days", "2", False))
NESTED = parameter("filter", '{"a": [1, 2.5, {"b": null}], "c": "x \\"y\\" 中"}', False)
OUTPUTS: dict[str, str] = {
    "text": "Hello, world. This is 中文, and it goes on to 😀👩‍👩‍👧.\n\n- one\n- two\n",
    "one call": calls(PARIS),
    "text and a call": "I look it up." + calls(PARIS),
    "two calls": "Both.\n" + calls(PARIS, invoke("search-web", parameter("q", 'a "b" \\ <b>x</b>\n\tç 😀'), NESTED)),
    "call without parameters": calls(invoke("now")),
    "scalars": calls(invoke("f", *(parameter(v, v, False) for v in ("true", "null", "-1.5e3", "12345678901")))),
    "code": "```python\nif a < b and c > d:\n    print('<think>')\n```\nDone.",
    "one character": "x",
    "JSON": '{"answer": "x, y", "list": [1, 2, {"z": null}]}',
}


def parse_jobs() -> Iterator[tuple[str, Job]]:
    dice = random.Random(0)
    for name, text in OUTPUTS.items():
        for thinking in (False, True):
            whole = (
                f"Let me think it over, step by step, from the start.\n\n中 {name} 😀</think>{text}"
                if thinking
                else text
            )
            job = {
                "step": "parse",
                "spec": dice.choice(SPECS),
                "text": whole,
                "start": {"thinking": thinking},
                "options": {"parse_tool_calls": True},
                "finish": {"type": "stop", "matched": 1},
                "further_ids": [1],
            }
            label = f"{name}{', thinking' * thinking}"
            for seed in range(5):
                yield f"{label}, cut {seed}", {**job, "seed": seed}
            yield f"{label}, without call parsing", {**job, "seed": 1, "options": {"parse_tool_calls": False}}
            for switch in ("separate_reasoning", "stream_reasoning"):
                options = {"parse_tool_calls": True, switch: False}
                yield f"{label}, without {switch}", {**job, "seed": 0, "options": options}
            for length in dice.sample(range(1, 12), 4):
                cut = {"length": length, "further_ids": [], "finish": {"type": "length", "length": length}}
                yield f"{label}, the first {length} ids", {**job, **cut, "seed": length % 2}
        options = {"parse_tool_calls": True}
        yield f"{name}, whole", {"step": "parse_whole", "spec": "dsv4", "text": text, "options": options}
    yield from special_parse_jobs()


def special_parse_jobs() -> Iterator[tuple[str, Job]]:
    """Stop strings, JSON mode, continued answers, and whole texts that show their reasoning."""
    job = {"step": "parse", "spec": "dsv41", "start": {"thinking": False}, "options": {"parse_tool_calls": True}}
    for seed in range(4):
        stop = {"text": "One, two, three END", "finish": {"type": "stop", "matched": "END"}, "seed": seed}
        options = {"parse_tool_calls": True, "stop": ["END", "STOP"]}
        yield f"stop string, cut {seed}", {**job, **stop, "options": options}
        yield f"kept stop string, cut {seed}", {**job, **stop, "options": options, "keep_matched_stop": True}
        end = {"finish": {"type": "stop", "matched": 1}, "further_ids": [1], "seed": seed}
        options = {"parse_tool_calls": False, "parse_json_output": True}
        yield f"JSON mode, cut {seed}", {**job, **end, "text": OUTPUTS["JSON"], "options": options}
        for name, continued in (
            ("text", {"role": "assistant", "content": "It is", "reasoning_content": "x"}),
            ("reasoning", {"role": "assistant", "content": "", "reasoning_content": "Let me"}),
        ):
            text = " see.</think>Fine." if name == "reasoning" else " fine." + calls(PARIS)
            start = {"thinking": True, "continued": continued}
            yield f"continued {name}, cut {seed}", {**job, **end, "text": text, "start": start}
    texts = {"opened": "<think>Hm.</think>Yes." + calls(PARIS), "closed": "Hm.</think>Yes.", "no": "Yes."}
    for name, text in texts.items():
        for thinking in (None, True, False):
            # Reasoning that opens twice: PARTED.
            if (name, thinking) != ("opened", True):
                options = {"parse_tool_calls": True, "thinking": thinking}
                whole = {**job, "step": "parse_whole", "text": text, "options": options}
                yield f"{name} reasoning, thinking {thinking}", whole


PARTED: dict[str, tuple[Job, str, str]] = {
    "a character cut off": (
        {
            "step": "parse",
            "spec": "dsv4",
            "text": "a 😀",
            "length": 2,
            "seed": 0,
            "start": {"thinking": False},
            "options": {"parse_tool_calls": True},
            "finish": {"type": "length", "length": 2},
        },
        "a \N{REPLACEMENT CHARACTER}",
        "a",
    ),
    "reasoning opened twice": (
        {
            "step": "parse_whole",
            "spec": "dsv4",
            "text": "<think>Hm.",
            "options": {"parse_tool_calls": True, "thinking": True},
        },
        "Hm.",
        "<think>Hm.",
    ),
}
"""Where this package parts from the reference on purpose: the text here, and the text there."""


def jobs() -> dict[str, Job]:
    """All that has the same answer on both, by name."""
    return dict([*encode_jobs(), *parse_jobs()])
