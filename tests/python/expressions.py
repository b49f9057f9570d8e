"""Python expressions that say how the API behaves, and the way to write down what each gives.

`record.py` asks the reference, the tests ask this package. `d` is the package. Knows no answers.
"""

import json
import re
import sys
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


CONVERSATION = """
d.ToolCall("a", "b", "c\\n'é\\"")
d.ToolCall("it's", "\\u200b\\x7f", "")
d.ToolCall(id="a", name="b", arguments="{}").arguments
d.ToolCall()
d.ToolCall("1")
d.ToolCall(1, 2, 3)
d.ToolCall("1", "2", "3", "4")
d.ToolCall("1", "2", "3", other=1)
d.ToolCall("1", id="2")
assign(d.ToolCall("1", "2", "3"), "id", "x")
assign(d.ToolCall("1", "2", "3"), "other", "x")
remove(d.ToolCall("1", "2", "3"), "id")
fields(d.ToolCall("1", "2", "3"))
d.ToolCall("1", "2", "3") == d.ToolCall("1", "2", "3")
len({d.ToolCall("1", "2", "3"), d.ToolCall("1", "2", "3")})
type("X", (d.ToolCall,), {})
d.ToolDefinition("n")
d.ToolDefinition("n", "d", {"a": [1, 2.5, None, True]}, True, True)
fields(d.ToolDefinition("n", "d", {"a": [1, 2.5, None, True]}, False, True))
fields(d.ToolDefinition("n"))
d.ToolDefinition("n", parameters="x").parameters
d.ToolDefinition()
d.ToolDefinition(None)
d.ToolDefinition("n", 1)
d.ToolDefinition("n", strict=1)
d.ToolDefinition("n", defer_loading=None)
d.ToolDefinition("n", defer_loading=0)
d.Message()
d.Message("x")
d.SystemMessage("s")
d.SystemMessage("s", None, [d.ToolDefinition("n")])
d.SystemMessage("s").tools
d.SystemMessage("s", tools=[]).tools
d.SystemMessage("s", tools=(d.ToolDefinition("n"),)).tools
d.SystemMessage("s", tools=[1])
d.UserMessage("x").tools
d.UserMessage("it's \\"q\\" \\n é \\x00 \\u200b")
d.UserMessage("u<｜image｜>", [d.UrlImageSource("http://x")])
d.UserMessage("a", [])
d.UserMessage("a", [d.UrlImageSource("x"), d.BytesImageSource(b""), d.DataUrlImageSource("x")]).image_sources
d.UserMessage("a", (d.UrlImageSource("x"),)).image_sources
d.UserMessage("a", [1])
d.UserMessage("a", "b")
d.UserMessage("a", image_token="")
d.UserMessage("a", [], image_token="")
d.UserMessage("a", [], "x")
d.UserMessage(None)
d.UserMessage(b"x")
d.UserMessage(Text("x"))
d.UserMessage()
d.SystemMessage("a", image_token="")
d.ToolMessage("a", image_token="")
d.AssistantMessage("a")
d.AssistantMessage("a", "r", [d.ToolCall("a", "b", "c")], True)
d.AssistantMessage("a", tool_calls=[]).tool_calls
d.AssistantMessage("a", "").reasoning_content
d.AssistantMessage("a", tool_calls=[1])
d.AssistantMessage("a", tool_calls="abc")
d.AssistantMessage("a", tool_calls=iter([]))
d.AssistantMessage("a", prefix=1)
d.AssistantMessage("a", 1)
d.ToolMessage("t")
d.ToolMessage("t", "id")
d.ToolMessage("a", 5)
d.LatestReminderMessage("l")
d.LatestReminderMessage("l", "m")
[fields(m) for m in (d.SystemMessage("s"), d.UserMessage("u"), d.ToolMessage("t", "i"), d.LatestReminderMessage("l"))]
fields(d.AssistantMessage("a"))
fields(d.AssistantMessage("a", "r", [d.ToolCall("a", "b", "c")], True))
assign(d.UserMessage("u"), "content", "x")
d.UserMessage("x") == d.UserMessage("x")
isinstance(d.UserMessage("x"), d.Message)
type("X", (d.UserMessage,), {})
type("X", (d.Message,), {})
d.ImageSource()
d.UrlImageSource("http://x")
d.UrlImageSource("http://x", "low", path="p")
d.UrlImageSource("")
d.DataUrlImageSource("no data")
d.BytesImageSource(b"abc", "auto")
d.BytesImageSource(bytearray(b"x")).data
d.BytesImageSource([1, 2]).data
d.BytesImageSource("x")
d.BytesImageSource([1, 256])
d.UrlImageSource(b"x")
d.UrlImageSource("x", "original").detail
d.UrlImageSource("x", "x")
d.UrlImageSource("x", "HIGH")
d.UrlImageSource("x", None)
d.UrlImageSource("x", path=None)
d.UrlImageSource("x", "low", "p")
[fields(i) for i in (d.UrlImageSource("u"), d.DataUrlImageSource("d", "low"), d.BytesImageSource(b"b", path="p"))]
d.UrlImageSource("x") == d.UrlImageSource("x")
isinstance(d.BytesImageSource(b""), d.ImageSource)
d.Conversation()
fields(d.Conversation())
fields(d.Conversation([d.UserMessage("u")], thinking_mode=False, tools=[d.ToolDefinition("n")], tool_choice="none"))
d.Conversation((d.UserMessage("u"),)).messages
d.Conversation([d.UserMessage("u"), d.SystemMessage("x"), d.AssistantMessage("x")])
d.Conversation([d.ToolMessage("x"), d.LatestReminderMessage("x")]).messages
d.Conversation(x for x in [])
d.Conversation("abc")
d.Conversation([1])
d.Conversation([None])
d.Conversation(1)
d.Conversation([], True)
d.Conversation(other=1)
d.Conversation(thinking_mode=1)
d.Conversation(thinking_mode=None)
d.Conversation(tool_choice="x")
d.Conversation(tool_choice='"\\n')
d.Conversation(tool_choice=None)
d.Conversation(tool_choice="required")
d.Conversation(reasoning_effort="")
d.Conversation(reasoning_effort="medium")
[d.Conversation(reasoning_effort=e).reasoning_effort for e in ("low", "high", "xhigh", "max", None)]
d.Conversation(reasoning_effort=1.5)
[d.Conversation(response_format=f).response_format for f in ("text", "json_object")]
d.Conversation(response_format="json_schema")
d.Conversation(response_format="regex")
d.Conversation(response_format=None)
fields(d.Conversation(response_schema={"a": 1}))
fields(d.Conversation(response_regex="a+"))
fields(d.Conversation(response_schema=None))
d.Conversation(response_schema=False).response_schema
d.Conversation(response_regex="a+", response_schema={})
d.Conversation(response_format="json_object", response_schema={})
d.Conversation(response_format="json_object", response_regex="x")
d.Conversation(response_format="json_object", response_schema={}, response_regex="x")
d.Conversation(response_format="text", response_schema={})
d.Conversation(response_format="json_schema", response_schema={})
d.Conversation(response_format="x", response_schema={1: 1}, response_regex="x")
d.Conversation(response_format="json_object", response_schema={1: 1})
d.Conversation(tool_choice="x", reasoning_effort="x")
d.Conversation(reasoning_effort="x", response_format="x")
d.Conversation(response_schema={1: 1}, tool_choice="x")
d.Conversation(response_format="x", tool_choice="x")
d.Conversation(response_schema={1: 1}, response_regex="x")
d.Conversation(response_regex="(")
d.Conversation(response_regex=1)
d.Conversation(tools=[1])
d.Conversation(tools={})
d.Conversation(tools=(d.ToolDefinition("n"),)).tools
d.Conversation([], tools=[d.ToolDefinition("n")] * 2, reasoning_effort="max", response_regex="x'")
d.Conversation().messages is d.Conversation().messages
assign(d.Conversation(), "messages", [])
type("X", (d.Conversation,), {})
"""

JSON = """
d.ToolDefinition("n", parameters={1: 1})
d.ToolDefinition("n", parameters={None: 1})
d.ToolDefinition("n", parameters={True: 1})
d.ToolDefinition("n", parameters={b"a": 1})
d.ToolDefinition("n", parameters=object())
d.ToolDefinition("n", parameters=Opaque())
d.ToolDefinition("n", parameters=int)
d.ToolDefinition("n", parameters={"a": {1}})
d.ToolDefinition("n", parameters=b"x")
d.ToolDefinition("n", parameters=bytearray(b"x"))
d.ToolDefinition("n", parameters=1j)
d.ToolDefinition("n", parameters=...)
d.ToolDefinition("n", parameters=range(3))
d.ToolDefinition("n", parameters={}.keys())
d.ToolDefinition("n", parameters=float("nan"))
d.ToolDefinition("n", parameters=[float("inf")])
d.ToolDefinition("n", parameters={"a": -float("inf")})
d.ToolDefinition("n", parameters=(1, (2,), [])).parameters
d.ToolDefinition("n", parameters=2**64 - 1).parameters
d.ToolDefinition("n", parameters=-(2**63)).parameters
d.ToolDefinition("n", parameters=[0, -1, 2**63, 1, 255]).parameters
d.ToolDefinition("n", parameters=[-0.0, 1e400 * 0 if False else 1e308, 5e-324, 0.1]).parameters
d.ToolDefinition("n", parameters=[True, False, None]).parameters
d.ToolDefinition("n", parameters={"b": 1, "a": {"": []}, "é": "\\x00"}).parameters
d.ToolDefinition("n", parameters=Text("x")).parameters
d.ToolDefinition("n", parameters=Number(3)).parameters
d.ToolDefinition("n", parameters={Text("k"): 1}).parameters
d.ToolDefinition("n", parameters=circular())
d.ToolDefinition("n", parameters={"a": circular()})
d.ToolDefinition("n", parameters=[[]] * 3).parameters
len(repr(d.ToolDefinition("n", parameters=nested(128)).parameters))
d.ToolDefinition("n", parameters=nested(129))
d.Conversation(response_schema={1: 2})
d.Conversation(response_schema={"a": {1}})
"""

OPTIONS = """
d.ModelVersion.DeepseekV4Pro
[int(v) for v in (d.ModelVersion.DeepseekV4Pro, d.ModelVersion.DeepseekV41Flash)]
d.ModelVersion.DeepseekV4Pro == d.ModelVersion.DeepseekV4Pro
d.ModelVersion.DeepseekV4Pro == d.ModelVersion.DeepseekV41Flash
d.ModelVersion.DeepseekV4Pro == 0
d.ModelVersion.DeepseekV4Pro != 0
d.ModelVersion.DeepseekV4Pro == "DeepseekV4Pro"
d.ModelVersion.DeepseekV4Pro < d.ModelVersion.DeepseekV41Flash
d.ModelVersion.DeepseekV4Pro is d.ModelVersion.DeepseekV4Pro
hash(d.ModelVersion.DeepseekV4Pro) == hash(d.ModelVersion.DeepseekV4Pro)
{d.ModelVersion.DeepseekV4Pro: 1}[d.ModelVersion.DeepseekV4Pro]
str(d.ModelVersion.DeepseekV4Pro)
bool(d.ModelVersion.DeepseekV4Pro)
d.ModelVersion(0)
d.ModelVersion()
d.ModelVersion.DeepseekV4Pro.name
list(d.ModelVersion)
assign(d.ModelVersion.DeepseekV4Pro, "other", 1)
type("X", (d.ModelVersion,), {})
[(b, int(b)) for b in (d.ReasoningContentBehavior.FillEmpty, d.ReasoningContentBehavior.Reject)]
[(b, int(b)) for b in (d.WebSearchBehavior.Drop, d.WebSearchBehavior.Reject)]
d.WebSearchBehavior.Reject == d.ReasoningContentBehavior.Reject
[(s, int(s)) for s in (d.ThinkingInitialStage.ReasoningStart, d.ThinkingInitialStage.ReasoningContinuation)]
(d.ThinkingInitialStage.ContentContinuation, int(d.ThinkingInitialStage.ContentContinuation))
d.ThinkingInitialStage.ReasoningStart.starts_in_reasoning()
d.ThinkingInitialStage.ReasoningContinuation.starts_in_reasoning()
d.ThinkingInitialStage.ContentContinuation.starts_in_reasoning()
[(n, int(getattr(d.SpecialToken, n))) for n in dir(d.SpecialToken) if n[0].isupper()]
[getattr(d.SpecialToken, n).default_str() for n in dir(d.SpecialToken) if n[0].isupper()]
d.SpecialToken.Bos
d.SpecialToken.Bos.default_str(1)
d.SpecialTokens()
d.SpecialTokens() == d.SpecialTokens()
[d.SpecialTokens(bos="X").token(t) for t in (d.SpecialToken.Bos, d.SpecialToken.Eos)]
[d.SpecialTokens().token(getattr(d.SpecialToken, n)) for n in dir(d.SpecialToken) if n[0].isupper()]
[d.SpecialTokens(ref="").token(d.SpecialToken.Ref), d.SpecialTokens(bos="").token(d.SpecialToken.Bos)]
[d.SpecialTokens(**{k: None}).token(d.SpecialToken.Box) for k in ("bos", "ref", "ref_end", "box", "box_end", "image")]
d.SpecialTokens(box="[", polygon_end=")").token(d.SpecialToken.Box)
d.SpecialTokens(box="[", polygon_end=")").token(d.SpecialToken.PolygonEnd)
d.SpecialTokens().token("bos")
d.SpecialTokens().token(0)
d.SpecialTokens(bos=1)
d.SpecialTokens("x")
d.SpecialTokens(other="x")
d.ConversionOptions()
{k: v for k, v in fields(d.ConversionOptions()).items() if k != "model_versions_by_name"}
sorted(d.ConversionOptions().model_versions_by_name.items(), key=str)
d.ConversionOptions().model_versions_by_name is d.ConversionOptions().model_versions_by_name
d.ConversionOptions() == d.ConversionOptions()
assign(d.ConversionOptions(), "default_thinking_mode", False)
d.ConversionOptions(default_thinking_mode=False).default_thinking_mode
d.ConversionOptions(default_thinking_mode=1)
d.ConversionOptions(True)
d.ConversionOptions(other=True)
[d.ConversionOptions(thinking_max_tokens_upper_bound=n).thinking_max_tokens_upper_bound for n in (0, True, 2**32 - 1)]
d.ConversionOptions(thinking_max_tokens_upper_bound=-1)
d.ConversionOptions(thinking_max_tokens_upper_bound=2**32)
d.ConversionOptions(thinking_max_tokens_upper_bound=2**99)
d.ConversionOptions(thinking_max_tokens_upper_bound=1.5)
d.ConversionOptions(thinking_max_tokens_upper_bound="1")
d.ConversionOptions(thinking_max_tokens_upper_bound=None)
d.ConversionOptions(non_thinking_max_tokens_upper_bound=7).non_thinking_max_tokens_upper_bound
d.ConversionOptions(non_thinking_max_tokens_upper_bound=7).thinking_max_tokens_upper_bound
d.ConversionOptions(reasoning_content_behavior=None)
d.ConversionOptions(reasoning_content_behavior="Reject")
d.ConversionOptions(reasoning_content_behavior=d.ReasoningContentBehavior.Reject).reasoning_content_behavior
d.ConversionOptions(responses_web_search=d.ReasoningContentBehavior.Reject)
d.ConversionOptions(responses_web_search=d.WebSearchBehavior.Reject).responses_web_search
d.ConversionOptions(messages_web_search=d.WebSearchBehavior.Drop).messages_web_search
d.ConversionOptions().with_default_thinking_mode(False).default_thinking_mode
d.ConversionOptions().with_default_thinking_mode(default_thinking_mode=False).default_thinking_mode
d.ConversionOptions().with_default_thinking_mode()
d.ConversionOptions().with_reasoning_content_behavior(d.ReasoningContentBehavior.Reject).reasoning_content_behavior
d.ConversionOptions().with_responses_web_search(d.WebSearchBehavior.Reject).responses_web_search
d.ConversionOptions().with_messages_web_search(d.WebSearchBehavior.Drop).messages_web_search
d.ConversionOptions().with_thinking_max_tokens_upper_bound(5).thinking_max_tokens_upper_bound
d.ConversionOptions().with_thinking_max_tokens_upper_bound(-5)
d.ConversionOptions().with_non_thinking_max_tokens_upper_bound(5).non_thinking_max_tokens_upper_bound
d.ConversionOptions().with_model_alias("x", d.ModelVersion.DeepseekV4Pro).model_versions_by_name["x"]
len(d.ConversionOptions().with_model_alias("x", d.ModelVersion.DeepseekV4Pro).model_versions_by_name)
len(d.ConversionOptions().with_model_alias("DeepSeek-V4-Pro", d.ModelVersion.DeepseekV4Pro).model_versions_by_name)
d.ConversionOptions().with_model_alias("x", "DeepseekV4Pro")
d.ConversionOptions().with_model_versions_by_name({"b": d.ModelVersion.DeepseekV4Pro}).model_versions_by_name
d.ConversionOptions().with_model_versions_by_name({}).model_versions_by_name
d.ConversionOptions().with_model_versions_by_name([])
d.ConversionOptions().with_model_versions_by_name({"b": 1})
d.ConversionOptions().with_model_versions_by_name({1: d.ModelVersion.DeepseekV4Pro})
d.ConversionOptions().with_special_tokens(None)
d.ConversionOptions().with_special_tokens(d.SpecialTokens(bos="X")).special_tokens.token(d.SpecialToken.Bos)
d.ParsingOptions()
{k: v for k, v in fields(d.ParsingOptions()).items() if k != "parallel_tool_calls"}
d.ParsingOptions(True)
d.ParsingOptions(parse_tool_calls=1)
d.ParsingOptions(parse_tool_calls=False).parse_tool_calls
d.ParsingOptions(starts_in_tool_calls=True).starts_in_tool_calls
d.ParsingOptions(parse_json_output=True).parse_json_output
d.ParsingOptions(stop_sequences="ab")
d.ParsingOptions(stop_sequences=["ab", ""]).stop_sequences
d.ParsingOptions(thinking_initial_stage="x")
d.ParsingOptions(thinking_initial_stage=d.ThinkingInitialStage.ReasoningStart).thinking_initial_stage
d.ParsingOptions(special_tokens=d.SpecialTokens(dsml="X")).special_tokens.token(d.SpecialToken.Dsml)
d.ParsingOptions(special_tokens=1)
assign(d.ParsingOptions(), "parse_tool_calls", False)
assign(d.ParsingOptions(), "parse_tool_calls", 0)
assign(d.ParsingOptions(), "parse_tool_calls", None)
assign(d.ParsingOptions(), "starts_in_tool_calls", True)
assign(d.ParsingOptions(), "parse_json_output", True)
assign(d.ParsingOptions(), "thinking_initial_stage", d.ThinkingInitialStage.ContentContinuation)
assign(d.ParsingOptions(), "thinking_initial_stage", None)
assign(d.ParsingOptions(), "thinking_initial_stage", 5)
assign(d.ParsingOptions(), "stop_sequences", ("a", "b"))
assign(d.ParsingOptions(), "stop_sequences", "ab")
assign(d.ParsingOptions(), "stop_sequences", [1])
assign(d.ParsingOptions(), "stop_sequences", None)
assign(d.ParsingOptions(), "stop_sequences", iter("ab"))
assign(d.ParsingOptions(), "special_tokens", None)
assign(d.ParsingOptions(), "special_tokens", d.SpecialTokens(dsml="X")).token(d.SpecialToken.Dsml)
assign(d.ParsingOptions(), "other", 1)
remove(d.ParsingOptions(), "parse_tool_calls")
remove(d.ParsingOptions(), "stop_sequences")
d.InferenceOptions()
d.OutputConstraint()
"""

EXPRESSIONS = {
    topic: [line for line in text.strip().splitlines()]
    for topic, text in (("conversation", CONVERSATION), ("json", JSON), ("options", OPTIONS))
}


def recorded(topic: str) -> list[tuple[str, dict[str, str]]]:
    """The expressions of a topic with the answers of the reference."""
    answers = json.loads((Path(__file__).parent / "data" / "answers.json").read_text(encoding="utf-8"))
    return [(expression, expected) for expression, expected in answers[topic]]


def agrees(given: dict[str, str], expected: dict[str, str]) -> bool:
    """Whether two answers are one. Texts of PyO3, which change with its version, need not be the same."""
    text = expected.get("text", "")
    if text.startswith("argument '") or text == "can't delete attribute":
        return given.get("error") == expected["error"]
    return given == expected
