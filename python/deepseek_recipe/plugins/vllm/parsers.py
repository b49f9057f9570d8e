"""vLLM's reasoning and tool parsers: ids, as they stream, to the codec's events, and these to vLLM's messages.

vLLM asks the reasoning parser until the reasoning has ended, and the tool parser for what comes behind it. What is not
streamed they get as text: there a marker that is spelled out is a marker.
"""

# What is inherited from vLLM has no types here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any, cast

from ..._native import (
    Event,
    InferenceChunk,
    ModelVersion,
    OutputParser,
    ParsingOptions,
    ThinkingInitialStage,
    ToolDefinition,
)
from ...recipe import finish_chunk
from .tokenizer import codec_of, ids_of, version

_reasoning: Any = importlib.import_module("vllm.reasoning")
_tools: Any = importlib.import_module("vllm.tool_parsers")
_protocol: Any = importlib.import_module("vllm.entrypoints.generate.base.protocol")

_THINK, _END, _MARKUP = "<think>", "</think>", "｜DSML｜"

_GRAMMARS = {ModelVersion.DeepseekV4Pro: "deepseek_v4", ModelVersion.DeepseekV41Flash: "deepseek_v4_1"}
"""vLLM's names of the grammars of calls."""


class RecipeReasoningParser(_reasoning.ReasoningParser):
    """The reasoning of one output. It ends with `</think>`, or where calls begin without it.

    The codec by itself goes back to the reasoning behind such calls; vLLM has no way back.
    """

    engine_based_streaming = True

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any):
        super().__init__(tokenizer, *args, **kwargs)
        self._codec = codec_of(tokenizer)
        self._think, self._end, self._markup, *turns = ids_of(
            self._codec, _THINK, _END, _MARKUP, "<｜User｜>", "<｜Assistant｜>"
        )
        self._turns = frozenset(turns)
        self._stage: ThinkingInitialStage | None = ThinkingInitialStage.ReasoningStart
        self._parser: OutputParser | None = None
        self._last: int | None = None
        self._ended = False
        self._rest: list[int] = []

    @property
    def reasoning_start_str(self) -> str:
        """What opens the reasoning."""
        return _THINK

    @property
    def reasoning_end_str(self) -> str:
        """What ends it."""
        return _END

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Whether the reasoning has ended in what was streamed."""
        return self._ended

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Whether no reasoning is open behind these ids, a prompt or an output."""
        for id in reversed(input_ids):
            if id == self._end or id in self._turns:
                return True
            if id == self._think:
                return False
        return False

    def is_reasoning_end_streaming(self, input_ids: Sequence[int], delta_ids: Iterable[int]) -> bool:
        """Whether the reasoning ends within the new ids."""
        return self._end in delta_ids

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """What stands behind the end of the reasoning: of the ids that were streamed last, or of a whole output."""
        if self._ended:
            return self._rest
        return input_ids[input_ids.index(self._end) + 1 :] if self._end in input_ids else []

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """How many of an output's ids belong to the reasoning, its end left out."""
        if self._stage is None:
            return 0
        end, _ = self._find_end(token_ids, None)
        return len(token_ids) if end is None else end

    def adjust_request(self, request: Any) -> Any:
        """Keeps markers in the text, for answers that are not streamed."""
        request.skip_special_tokens = False
        return request

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """Where the output begins."""
        if self.is_reasoning_end(prompt_token_ids):
            self._stage = None
        elif prompt_token_ids and prompt_token_ids[-1] == self._think:
            self._stage = ThinkingInitialStage.ReasoningStart
        else:
            self._stage = ThinkingInitialStage.ReasoningContinuation

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """The reasoning of a whole output, and the text behind it."""
        if self._stage is None:
            return None, model_output
        head, end, rest = model_output.partition(_END)
        before, opening, calls = head.partition("<" + _MARKUP)
        parser = self._new_parser()
        events = parser.push(InferenceChunk.text(before + ("" if opening else end))) + parser.push(finish_chunk("stop"))
        reasoning = _text(events, Event.Reasoning)
        if opening:
            reasoning, rest = reasoning.rstrip("\n"), opening + calls + end + rest
        return reasoning or None, rest or None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> Any:
        """The reasoning in the new ids. Where it ends, also the text behind it, for a server without a tool parser."""
        if self._parser is None:
            self._parser = self._new_parser()
        end, behind = self._find_end(delta_token_ids, self._last)
        if end is None:
            self._last = delta_token_ids[-1] if delta_token_ids else self._last
            return _message(self._parser.push(InferenceChunk.tokens(list(delta_token_ids))))
        self._ended = True
        self._rest = behind
        if delta_token_ids[end] == self._end:
            events = self._parser.push(InferenceChunk.tokens(list(delta_token_ids[: end + 1])))
            reasoning, content = _text(events, Event.Reasoning), delta_text.partition(_END)[2].lstrip("\n")
        else:
            events = self._parser.push(InferenceChunk.tokens(list(delta_token_ids[:end])))
            events += self._parser.push(finish_chunk("stop"))
            reasoning = _text(events, Event.Reasoning).removesuffix("<").rstrip("\n")
            content = "<" + _MARKUP + delta_text.partition(_MARKUP)[2]
        return _protocol.DeltaMessage(reasoning=reasoning or None, content=content or None)

    def finish_streaming(self) -> Any:
        """What was held back because it might have become a marker."""
        if self._parser is None or self._ended:
            return None
        return _message(self._parser.push(finish_chunk("stop")))

    def _new_parser(self) -> OutputParser:
        stage = self._stage or ThinkingInitialStage.ReasoningStart
        return OutputParser(ParsingOptions(thinking_initial_stage=stage), [], self._codec)

    def _find_end(self, ids: Sequence[int], last: int | None) -> tuple[int | None, list[int]]:
        """Where the reasoning ends, and the ids behind it. Calls open with the text `<` and an added token."""
        for place, id in enumerate(ids):
            if id == self._end:
                return place, list(ids[place + 1 :])
            if id == self._markup:
                before = ids[place - 1] if place else last
                text = None if before is None else self._codec.token(before)
                if isinstance(text, bytes) and text.endswith(b"<"):
                    return place, [*self._codec.encode("<"), *ids[place:]]
        return None, []


class RecipeToolParser(_tools.ToolParser):
    """The content and the calls of one output, from the end of its reasoning on."""

    engine_based_streaming = True
    supports_required_and_named = False

    def __init__(self, tokenizer: Any, tools: Any = None):
        super().__init__(tokenizer, tools)
        self._codec = codec_of(tokenizer)
        self.structural_tag_model = _GRAMMARS[version(self._codec)]
        self._declared = bool(tools)
        self._parser: OutputParser | None = None

    def adjust_request(self, request: Any) -> Any:
        """Keeps markers in the text, for answers that are not streamed."""
        request = super().adjust_request(request)
        request.skip_special_tokens = False
        return request

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        """The content and the calls in the text behind the reasoning."""
        parser = self._new_parser(request)
        events = parser.push(InferenceChunk.text(model_output))
        if not parser.finished:
            events += parser.push(finish_chunk("stop"))
        calls: list[tuple[Event.ToolCallStart, list[str]]] = []
        for event in events:
            if isinstance(event, Event.ToolCallStart):
                calls.append((event, []))
            elif isinstance(event, Event.ToolCallArguments):
                calls[event.index][1].append(event.text)
        return _protocol.ExtractedToolCallInformation(
            tools_called=bool(calls),
            tool_calls=[
                _protocol.ToolCall(
                    id=start.id, function=_protocol.FunctionCall(name=start.name, arguments="".join(arguments))
                )
                for start, arguments in calls
            ],
            content=_text(events, Event.Content) or None,
        )

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> Any:
        """The content and the calls in the new ids."""
        if self._parser is None:
            self._parser = self._new_parser(request)
        if self._parser.finished:
            return None
        return _message(self._parser.push(InferenceChunk.tokens(list(delta_token_ids))))

    def finish_streaming(self) -> Any:
        """What was held back because it might have become a marker."""
        if self._parser is None or self._parser.finished:
            return None
        return _message(self._parser.push(finish_chunk("stop")))

    def _new_parser(self, request: Any) -> OutputParser:
        # vLLM ends the output at a stop sequence, too, but it gives the ids of the sequence along.
        stop = [] if getattr(request, "include_stop_str_in_output", False) else getattr(request, "stop", None) or []
        options = ParsingOptions(
            parse_tool_calls=self._declared and request.tool_choice != "none",
            stop_sequences=[stop] if isinstance(stop, str) else stop,
            parallel_tool_calls=request.parallel_tool_calls is not False,
        )
        return OutputParser(options, [_definition(tool) for tool in self.tools], self._codec)


def _definition(tool: Any) -> ToolDefinition:
    """A tool of Chat Completions, which has a `function`, or of Responses."""
    function = getattr(tool, "function", tool)
    return ToolDefinition(function.name, parameters=function.parameters or {})


def _text(events: Iterable[Event], kind: type[Event.Reasoning | Event.Content]) -> str:
    return "".join(cast(Any, event).text for event in events if isinstance(event, kind))


def _message(events: Sequence[Event]) -> Any:
    """vLLM's message for some events; `None` where they say nothing."""
    calls: list[Any] = []
    for event in events:
        if isinstance(event, Event.ToolCallStart):
            function = _protocol.DeltaFunctionCall(name=event.name, arguments="")
            calls.append(_protocol.DeltaToolCall(id=event.id, type="function", index=event.index, function=function))
        elif isinstance(event, Event.ToolCallArguments):
            function = _protocol.DeltaFunctionCall(arguments=event.text)
            calls.append(_protocol.DeltaToolCall(index=event.index, function=function))
    reasoning, content = _text(events, Event.Reasoning), _text(events, Event.Content)
    if not (reasoning or content or calls):
        return None
    return _protocol.DeltaMessage(reasoning=reasoning or None, content=content or None, tool_calls=calls)
