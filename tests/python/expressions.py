"""Python expressions that say how the API behaves, and the way to write down what each gives.

`record.py` asks the reference, the tests ask this package. `d` is the package. Knows no answers.
"""

import json
import os
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


def nested(depth: int) -> object:
    """`depth` lists inside each other around a 1."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def circular() -> list[object]:
    """A list that holds itself."""
    value: list[object] = []
    value.append(value)
    return value


def assign(target: object, name: str, value: object) -> object:
    """Sets an attribute and reads it again."""
    setattr(target, name, value)
    return getattr(target, name)


def remove(target: object, name: str) -> object:
    """Deletes an attribute."""
    return delattr(target, name)


def fields(target: object) -> dict[str, object]:
    """The public attributes that are no methods."""
    names = [name for name in dir(target) if not name.startswith("_")]
    values = {name: getattr(target, name) for name in names}
    return {name: value for name, value in values.items() if not callable(value)}


class Text(str):
    """A string of another class."""


class Number(int):
    """An integer of another class."""

    def __repr__(self) -> str:
        return "another text"


class Opaque:
    """No JSON value."""


def answer(module: Any, expression: str) -> dict[str, str]:
    """What an expression gives: `value`, or `error` with `text`. Addresses are left out."""
    names = {name: value for name, value in globals().items() if not name.startswith("_")}
    try:
        value = eval(expression, {**names, "d": module, "sys": sys})
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)}
    return {"value": re.sub(r" at 0x[0-9a-f]+", "", repr(value))}


DATA = Path(__file__).parent / "data"
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}


def chat(**further: object) -> dict[str, object]:
    """A small body."""
    return {"model": "DeepSeek-V4-Pro", "messages": [{"role": "user", "content": "hi"}], **further}


@cache
def tokenizer(module: Any, version: str) -> Any:
    """A tokenizer. The reference has none built in: `TOKENIZERS` says where its files are."""
    if hasattr(module.Tokenizer, "builtin"):
        return module.Tokenizer.builtin(
            module.ModelVersion.DeepseekV4Pro if version == "v4" else module.ModelVersion.DeepseekV41Flash
        )
    return module.Tokenizer.from_file(os.path.join(os.environ["TOKENIZERS"], version, "tokenizer.json"))


def hello(module: Any) -> Any:
    """A small conversation."""
    return module.Conversation([module.UserMessage("hi")])


def shown(options: object) -> dict[str, object]:
    """The fields that the reference has, too."""
    further: tuple[str, ...] = ("segments", "message_ranges")
    further += ("n", "parallel_tool_calls", "tool_pairing", "forced_tool_choice", "max_choices")
    further += ("messages_continuation", "unsupported", "reasoning_sealer")
    further += ("special_tokens", "model_versions_by_name")  # Asked for by themselves.
    return {name: value for name, value in fields(options).items() if name not in further}


SIDES = (0, 1, 5, 13, 14, 41, 42, 43, 224, 512, 543, 544, 545, 640, 768, 1024, 1080, 1302, 1303, 1920, 2048, 3000)
SIDES += (4096, 8000, 16380, 21462, 21463, 42882, 42883, 10**6, 10**9, 2**31, 2**32 - 1)


def image_tokens(module: Any, width: int, height: int) -> int:
    """What an image of this size adds to a prompt."""
    return module.MultiModalData([module.ImageInfo(b"", width, height)]).image_token_adjustment()


def resolver(module: Any) -> Any:
    return module.ImageResolver(module.ReqwestImageFetcher(), module.OpenCvImagePreprocessor())


def unchanged_parsing_options(request: Any) -> object:
    request.parsing_options.parse_tool_calls = False
    return request.parsing_options.parse_tool_calls


def raised(error: Exception) -> object:
    raise error


def details(call: Callable[[], object]) -> dict[str, object]:
    """What an exception carries, but for what the reference's does not."""
    try:
        call()
    except Exception as error:
        return {
            "type": type(error).__name__,
            "args": error.args,
            **{k: v for k, v in vars(error).items() if k != "path"},
        }
    return {}


def after_refused_argument(request: Any) -> object:
    """A refused argument does not use a request up."""
    details(lambda: request.convert(None))
    return request.model


def used_up(module: Any, request: Any) -> object:
    details(lambda: request.convert(module.ConversionOptions()))
    return [details(lambda: request.model), details(lambda: request.convert(module.ConversionOptions()))]


def converted(module: Any) -> Any:
    return module.ChatCompletionRequest(chat()).convert(module.ConversionOptions())


def generator(module: Any) -> Any:
    return module.ChatCompletionRequest.chunk_generator(converted(module), "i", "m")


def processor(module: Any, decodes: bool = True) -> Any:
    options = converted(module).parsing_options
    return module.StreamProcessor(generator(module), options, tokenizer(module, "v4") if decodes else None)


def reused(module: Any, generator: Any) -> object:
    module.StreamProcessor(generator, module.ParsingOptions())
    return module.StreamProcessor(generator, module.ParsingOptions())


def reused_after_refused_argument(module: Any, generator: Any) -> object:
    details(lambda: module.StreamProcessor(generator, None))
    return module.StreamProcessor(generator, module.ParsingOptions())


def chunks(module: Any) -> dict[str, Any]:
    chunk, reason = module.InferenceChunk, module.InferenceFinishReason
    return {
        "ready": chunk.ready(prompt_usage=module.PromptUsage(prompt_tokens=3), system_fingerprint="f"),
        "text": chunk.text("hello</think>there", 2),
        "tokens": chunk.tokens([33310]),
        "bad logprobs": chunk.tokens([1, 2], [(0.5, [])]),
        "stop": chunk.finish(reason.Stop),
        "length": chunk.finish(reason.Length),
        "filter": chunk.finish(reason.ContentFilter),
    }


def trace(module: Any, steps: list[str], decodes: bool = True) -> list[object]:
    """What a processor says to each step."""
    target, inputs = processor(module, decodes), chunks(module)

    def step(name: str) -> object:
        if name == "finished":
            return target.finished
        if name == "close":
            return target.close()
        if name == "finish()":
            return len(target.finish())
        return [re.sub(r'"created":[0-9]+', '"created":0', event.to_json()) for event in target.push(inputs[name])]

    seen: list[object] = []
    for name in steps:
        try:
            seen.append(step(name))
        except Exception as error:
            seen.append(repr(error))
    return seen


def accumulated(module: Any, steps: list[str]) -> str:
    """The response after these chunks."""
    target, inputs = processor(module), chunks(module)
    response = module.ChatCompletionResponse("i", "m", 7, 1, 0)
    for name in steps:
        for event in target.push(inputs[name]):
            response.accumulate(event)
    return response.to_json()


def twice(module: Any, event: Any) -> object:
    response = module.ChatCompletionResponse("i", "m", 0, 1, 2)
    response.accumulate(event)
    return response.accumulate(event)


def after_accumulating(module: Any, event: Any) -> object:
    module.ChatCompletionResponse("i", "m", 0, 1, 2).accumulate(event)
    return [details(lambda: event.to_json()), details(lambda: module.ChatCompletionResponse.sse_event_name(event))]


def topics() -> dict[str, list[str]]:
    """The expressions of each topic, one a line of `data/expressions/TOPIC.txt`."""
    files = sorted((DATA / "expressions").glob("*.txt"))
    return {file.stem: file.read_text(encoding="utf-8").splitlines() for file in files}


def recorded(topic: str) -> list[tuple[str, dict[str, str]]]:
    """The expressions of a topic with the answers of the reference."""
    answers = json.loads((DATA / "answers.json").read_text(encoding="utf-8"))
    return [(expression, expected) for expression, expected in answers[topic]]


def agrees(given: dict[str, str], expected: dict[str, str]) -> bool:
    """Whether two answers are one."""
    return given == expected
