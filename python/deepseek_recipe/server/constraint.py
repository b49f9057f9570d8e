"""Constrained decoding: what the codec wants, in the words of engines, and engines that cannot wait for a trigger."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

from .._native import SpecialToken
from ..adapters import Capabilities, ConstraintSpec, EngineAdapter, GenerateRequest, RequestError, TokenDelta, Usage
from ..recipe import Encoded


def constraint_of(encoded: Encoded) -> ConstraintSpec | None:
    """The constraint of a request. It begins behind the reasoning, where the output begins with reasoning.

    A schema or expression has to be kept. That a tool's call is well formed, and that JSON mode gives JSON, is what the
    model is trained for: an engine may help and need not.
    """
    wanted = encoded.inference_options.output_constraint
    if wanted is None:
        return None
    trigger: tuple[int, ...] = ()
    stage = encoded.parsing_options.thinking_initial_stage
    if stage is not None and stage.starts_in_reasoning():
        spelling = encoded.parsing_options.special_tokens.token(SpecialToken.ThinkingEnd)
        end = encoded.tokenizer.special_id(spelling)
        trigger = () if end is None else (end,)
    if wanted.kind == "regex":
        return ConstraintSpec("regex", wanted.schema, trigger)
    if wanted.kind == "json":
        if wanted.schema:
            return ConstraintSpec("json_schema", wanted.schema, trigger)
        return ConstraintSpec("json_object", "", trigger, enforce="best_effort")
    return ConstraintSpec("tools", wanted.schema, trigger, wanted.kind == "tool_call_required", "best_effort")


def generate(
    engine: EngineAdapter, capabilities: Capabilities, request: GenerateRequest
) -> AsyncGenerator[TokenDelta, None]:
    """The engine's output under the request's constraint, as far as the engine can keep it.

    Raises `RequestError` (`unsupported`) at once where the engine cannot keep one that has to be kept.
    """
    constraint = request.constraint
    if constraint is None:
        return engine.generate(request)
    if constraint.kind not in capabilities.constraints:
        if constraint.enforce == "required":
            raise RequestError("unsupported", f"the engine cannot constrain its output by {constraint.kind}")
        return engine.generate(replace(request, constraint=None))
    if not constraint.trigger_token_ids or capabilities.constraint_trigger:
        return engine.generate(request)
    return _in_two_parts(engine, request, constraint)


async def _in_two_parts(
    engine: EngineAdapter, request: GenerateRequest, constraint: ConstraintSpec
) -> AsyncGenerator[TokenDelta, None]:
    """The output up to the trigger without the constraint, then the rest with it, from a longer prompt.

    For engines that apply a constraint from the first token on. The second prompt is in their prefix cache.
    """
    sampling, trigger = request.sampling, constraint.trigger_token_ids[-1]
    stops = (*sampling.stop_token_ids, trigger)
    first = replace(request, constraint=None, sampling=replace(sampling, stop_token_ids=stops))
    ids: list[int] = []
    usage = None
    deltas = engine.generate(first)
    try:
        async for delta in deltas:
            ids += delta.token_ids
            if delta.usage is not None and usage is None:
                usage = delta.usage
            left = sampling.max_tokens - len(ids)
            if delta.finish_reason == "stop" and ids[-1:] == [trigger] and left > 0:
                yield replace(delta, finish_reason=None, usage=usage)
                break
            yield delta
        else:
            return
    finally:
        await deltas.aclose()
    second = replace(
        request,
        request_id=request.request_id + "-2",
        prompt_token_ids=[*request.prompt_token_ids, *ids],
        constraint=replace(constraint, trigger_token_ids=()),
        sampling=replace(sampling, max_tokens=left),
    )
    deltas = engine.generate(second)
    try:
        async for delta in deltas:
            if delta.usage is not None:
                made = None if delta.usage.completion is None else len(ids) + delta.usage.completion
                cached = 0 if usage is None else usage.cached_prompt
                delta = replace(delta, usage=Usage(request.prompt_tokens, cached, made))
            yield delta
    finally:
        await deltas.aclose()
