"""What a request demands of its output reaches the engine, in one part or in two, or is refused."""

import json
from typing import Any

from deepseek_recipe.adapters import ConstraintSpec, GenerateRequest, TokenDelta, Usage
from support import BODIES, CHAT, END, THOUGHT, Scripted, events, run, serving

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
STRICT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
END_OF_THINKING = THOUGHT.token_ids[-1]
OFF: Any = {"thinking": {"type": "disabled"}}


async def constraint(body: dict[str, Any], **capabilities: Any) -> ConstraintSpec | None:
    """What the engine is asked for."""
    engine = Scripted(THOUGHT, END, **capabilities)
    async with serving(engine) as (client, _):
        reply = await client.post(CHAT, json={**BODIES[CHAT], **body})
        assert reply.status_code == 200, reply.text
        (request,) = engine.requests
        return request.constraint


ABLE: Any = {"constraints": frozenset({"json_schema", "json_object", "regex", "tools"}), "constraint_trigger": True}


def test_kinds() -> None:
    async def test() -> None:
        trigger = (END_OF_THINKING,)
        made = await constraint({"response_format": STRICT}, **ABLE)
        assert made is not None and json.loads(made.value) == SCHEMA
        assert (made.kind, made.trigger_token_ids, made.enforce) == ("json_schema", trigger, "required")
        made = await constraint({"response_format": STRICT, **OFF}, **ABLE)
        assert made is not None and made.trigger_token_ids == ()
        made = await constraint({"response_format": {"type": "regex", "regex": "a+"}}, **ABLE)
        assert made == ConstraintSpec("regex", "a+", trigger)
        messages = [{"role": "user", "content": "as json"}]
        made = await constraint({"response_format": {"type": "json_object"}, "messages": messages}, **ABLE)
        assert made == ConstraintSpec("json_object", "", trigger, enforce="best_effort")
        for choice in ("auto", "required"):
            made = await constraint({"tools": [TOOL], "tool_choice": choice}, **ABLE)
            assert made is not None and json.loads(made.value)[0]["function"]["name"] == "look"
            assert (made.kind, made.required, made.enforce) == ("tools", choice == "required", "best_effort")
        assert await constraint({}, **ABLE) is None

    run(test())


def test_engines_that_cannot() -> None:
    async def test() -> None:
        assert await constraint({"tools": [TOOL]}) is None
        async with serving(Scripted(THOUGHT, END)) as (client, _):
            for stream in (False, True):
                body = {**BODIES[CHAT], "response_format": STRICT, "stream": stream}
                reply = await client.post(CHAT, json=body)
                assert reply.status_code == 400
                message = reply.json()["error"]["message"]
                assert message == "the engine cannot constrain its output by json_schema"

    run(test())


class Parts(Scripted):
    """An engine that constrains from the first token on. It ends at its stop ids and counts what it was given."""

    async def generate(self, request: GenerateRequest) -> Any:
        self.requests.append(request)
        stops = request.sampling.stop_token_ids
        ids = THOUGHT.token_ids if stops else [90, 92]
        ids = ids[: request.sampling.max_tokens]
        reason = "length" if len(ids) == request.sampling.max_tokens else "stop"
        try:
            for id in ids:
                yield TokenDelta([id])
            yield TokenDelta((), None, reason, Usage(len(request.prompt_token_ids), 3, len(ids)))
        finally:
            self.closed.append(request.request_id)


def test_two_parts() -> None:
    async def test() -> None:
        engine = Parts(constraints=frozenset({"json_schema"}))
        async with serving(engine) as (client, _):
            body = {**BODIES[CHAT], "response_format": STRICT}
            reply = (await client.post(CHAT, json=body)).json()
            first, second = engine.requests
            assert first.constraint is None and first.sampling.stop_token_ids == (END_OF_THINKING,)
            assert second.constraint is not None and second.constraint.trigger_token_ids == ()
            assert list(second.prompt_token_ids) == [*first.prompt_token_ids, *THOUGHT.token_ids]
            assert second.sampling.max_tokens == first.sampling.max_tokens - len(THOUGHT.token_ids)
            assert second.sampling.stop_token_ids == ()
            assert reply["choices"][0]["message"]["reasoning_content"] == "I think."
            usage = reply["usage"]
            assert usage["prompt_tokens"] == len(first.prompt_token_ids)
            assert usage["completion_tokens"] == len(THOUGHT.token_ids) + 2
            streamed = events((await client.post(CHAT, json={**body, "stream": True})).text)
            assert streamed[-1]["usage"] == usage
            assert len(engine.closed) == len(engine.requests) == 4

    run(test())


def test_two_parts_cut_by_the_limit() -> None:
    async def test() -> None:
        engine = Parts(constraints=frozenset({"json_schema"}))
        async with serving(engine) as (client, _):
            body = {**BODIES[CHAT], "response_format": STRICT}
            for limit in (2, len(THOUGHT.token_ids)):
                reply = (await client.post(CHAT, json={**body, "max_tokens": limit})).json()
                assert reply["choices"][0]["finish_reason"] == "length"
                assert reply["usage"]["completion_tokens"] == limit
            assert len(engine.requests) == 2

    run(test())
