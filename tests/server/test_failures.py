"""Bad engines, limits and keys: the protocol's own error, nothing left running, and the next request is served."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from deepseek_recipe.adapters import GenerateRequest, RequestError, TokenDelta
from deepseek_recipe.adapters.replay import ReplayEngine
from deepseek_recipe.server.job import Job
from support import BODIES, CHAT, DIED, END, MESSAGES, RESPONSES, THOUGHT, Scripted, events, message_of, run, serving


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("kind", "status"),
    [("too_long", 400), ("constraint_invalid", 400), ("unsupported", 400), ("overloaded", 503), ("engine_dead", 500)],
)
def test_engine_refuses(path: str, stream: bool, kind: Any, status: int) -> None:
    """Before the first byte the refusal has a status of its own, also where a stream was asked for."""

    async def test() -> None:
        async with serving(Scripted(RequestError(kind, "because"))) as (client, gateway):
            reply = await client.post(path, json={**BODIES[path], "stream": stream})
            assert reply.status_code == (529 if (path, status) == (MESSAGES, 503) else status)
            assert message_of(path, reply.json()) == "because"
            assert gateway.slots.running == 0 and not gateway.jobs

    run(test())


BROKEN: dict[str, tuple[tuple[Any, ...], str]] = {
    "dies": ((THOUGHT, DIED), "the engine is gone"),
    "ends": ((THOUGHT,), "the engine's output ended without a finish reason"),
    "bug": ((THOUGHT, KeyError("secret/path")), "the engine failed"),
    "id": ((THOUGHT, TokenDelta([129_280])), "the engine gave an id that is not in the vocabulary"),
    "negative id": ((THOUGHT, TokenDelta([-1])), "the engine gave an id that is not in the vocabulary"),
    "logprobs": (
        (THOUGHT, TokenDelta([400], [(0.0, []), (0.0, [])])),
        "the engine's log probabilities are not one an id",
    ),
    "reason": (
        (THOUGHT, TokenDelta((), finish_reason=cast(Any, "tired"))),
        "the engine ended for no known reason",
    ),
    "aborts": ((THOUGHT, TokenDelta((), finish_reason="abort")), "the engine aborted the request"),
    "hangs": ((THOUGHT, 20.0), "the engine stopped giving output"),
}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("broken", BROKEN)
def test_engine_fails_in_the_middle(path: str, broken: str) -> None:
    script, message = BROKEN[broken]

    async def test() -> None:
        engine = Scripted(*script)
        async with serving(engine, stall_timeout=0.05) as (client, gateway):
            reply = await client.post(path, json={**BODIES[path], "stream": True})
            assert reply.status_code == 200
            last = events(reply.text)[-1]
            if path == CHAT:
                assert last["choices"][0]["finish_reason"] == "insufficient_system_resource"
                assert "[DONE]" not in reply.text
            elif path == MESSAGES:
                assert last["type"] == "error"
            else:
                assert last["type"] == "response.failed"
                last = last["response"]
            assert last["error"]["message"] == message
            whole = await client.post(path, json=BODIES[path])
            assert whole.status_code == 500
            assert message_of(path, whole.json()) == message
            assert "secret" not in reply.text + whole.text
            assert gateway.slots.running == 0 and not gateway.jobs
            assert len(engine.closed) == len(engine.requests) == 2

    run(test())


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("broken", ["dies", "bug", "id", "negative id", "logprobs", "reason"])
def test_engine_fails_at_once(path: str, broken: str) -> None:
    """There is nothing yet that a stream could go on from."""
    script, message = BROKEN[broken]

    async def test() -> None:
        async with serving(Scripted(script[-1])) as (client, _):
            for stream in (False, True):
                reply = await client.post(path, json={**BODIES[path], "stream": stream})
                assert reply.status_code == 500
                assert message_of(path, reply.json()) == message

    run(test())


@pytest.mark.parametrize("path", BODIES)
def test_engine_that_never_begins(path: str) -> None:
    async def test() -> None:
        async with serving(Scripted(20.0), first_token_timeout=0.1) as (client, gateway):
            for stream in (False, True):
                reply = await client.post(path, json={**BODIES[path], "stream": stream})
                assert reply.status_code == 504
                assert message_of(path, reply.json()) == "the engine did not begin in time"
            assert gateway.slots.running == 0

    run(test())


@pytest.mark.parametrize("path", BODIES)
def test_failure_behind_keep_alives(path: str) -> None:
    """The headers have been sent: the error is the stream's only event."""

    async def test() -> None:
        async with serving(Scripted(1.3, DIED), keep_alive=0.2) as (client, _):
            reply = await client.post(path, json={**BODIES[path], "stream": True})
            assert reply.status_code == 200 and reply.text.startswith(": keep-alive\n\n")
            (event,) = events(reply.text)
            assert (event if path == RESPONSES else event["error"])["message"] == "the engine is gone"
            assert "[DONE]" not in reply.text

    run(test())


def test_pings() -> None:
    async def test() -> None:
        async with serving(Scripted(THOUGHT, 0.3, END), keep_alive=0.1) as (client, _):
            reply = await client.post(MESSAGES, json={**BODIES[MESSAGES], "stream": True})
            pings = [event for event in events(reply.text) if event["type"] == "ping"]
            # One is the codec's own.
            assert len(pings) > 1
            assert ": keep-alive" in (await client.post(CHAT, json={**BODIES[CHAT], "stream": True})).text

    run(test())


@pytest.mark.parametrize("path", BODIES)
def test_whole_response_that_takes_long(path: str) -> None:
    async def test() -> None:
        async with serving(Scripted(0.3, THOUGHT, 0.3, END), keep_alive=0.1) as (client, gateway):
            reply = await client.post(path, json=BODIES[path])
            assert reply.status_code == 200 and reply.headers["content-type"] == "application/json"
            assert reply.text.startswith("\n\n") and reply.json()["id"]
            assert not gateway.jobs

    run(test())


def test_output_that_stops_in_a_character() -> None:
    ids = ReplayEngine().tokenizer.encode("🫨")
    assert len(ids) > 1

    async def test() -> None:
        thought = TokenDelta([*THOUGHT.token_ids, ids[0]])
        async with serving(Scripted(thought, END)) as (client, _):
            message = (await client.post(CHAT, json=BODIES[CHAT])).json()["choices"][0]["message"]
            assert message["content"] == "\ufffd"
        async with serving(Scripted(thought, DIED)) as (client, _):
            reply = await client.post(CHAT, json={**BODIES[CHAT], "stream": True})
            assert "\ufffd" in "".join(chunk["choices"][0]["delta"]["content"] or "" for chunk in events(reply.text))

    run(test())


def test_one_choice_fails_and_the_other_goes_on() -> None:
    class Half(Scripted):
        async def generate(self, request: Any) -> Any:
            first = not self.requests
            async for delta in super().generate(request):
                yield delta
            if first:
                raise DIED
            yield END

    async def test() -> None:
        async with serving(Half(THOUGHT)) as (client, _):
            reply = await client.post(CHAT, json={**BODIES[CHAT], "n": 2, "stream": True})
            ends = {
                chunk["choices"][0]["index"]: chunk["choices"][0]["finish_reason"]
                for chunk in events(reply.text)
                if chunk["choices"][0]["finish_reason"]
            }
            assert ends == {0: "insufficient_system_resource", 1: "stop"}
            assert "[DONE]" not in reply.text

    run(test())


def test_queue() -> None:
    async def test() -> None:
        engine = Scripted(THOUGHT, 0.2, END)
        async with serving(engine, max_running=1, max_waiting=1) as (client, gateway):
            replies = await asyncio.gather(*(client.post(CHAT, json=BODIES[CHAT]) for _ in range(3)))
            assert sorted(reply.status_code for reply in replies) == [200, 200, 429]
            (refused,) = (reply for reply in replies if reply.status_code == 429)
            assert refused.json()["error"]["type"] == "rate_limit_error"
            assert refused.headers["retry-after"] == "1"
            assert (gateway.slots.running, gateway.slots.waiting) == (0, 0)

    run(test())


def test_keys() -> None:
    async def test() -> None:
        async with serving(api_keys=("one", "zwei ü")) as (client, _):
            for path in BODIES:
                for headers in ({}, {"authorization": "Bearer"}, {"authorization": "Basic one"}, {"x-api-key": "On"}):
                    reply = await client.post(path, json=BODIES[path], headers=headers)
                    assert reply.status_code == 401
                    assert "API key" in message_of(path, reply.json())
                for headers in ({"authorization": "bearer one"}, {"x-api-key": "one"}):
                    assert (await client.post(path, json=BODIES[path], headers=headers)).status_code == 200
            for path in ("/v1/models", "/v1/responses/resp_1"):
                assert (await client.get(path)).status_code == 401
            assert (await client.post("/tokenize", json={"prompt": "a"})).status_code == 401
            assert (await client.get("/health")).status_code == 200

    run(test())


def test_request_ids() -> None:
    async def test() -> None:
        async with serving() as (client, _):
            reply = await client.post(MESSAGES, json={}, headers={"x-request-id": "mine-1"})
            assert reply.headers["x-request-id"] == reply.headers["request-id"] == "mine-1"
            assert reply.json()["request_id"] == "mine-1"
            made = await client.post(MESSAGES, json={}, headers={"x-request-id": "no good"})
            assert made.headers["x-request-id"].startswith("req_")

    run(test())


def test_logs_say_nothing_of_what_is_said(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving(ReplayEngine(["secret thought</think>secret answer"])) as (client, _):
            body = {**BODIES[CHAT], "messages": [{"role": "user", "content": "secret question"}]}
            assert (await client.post(CHAT, json=body)).status_code == 200
            assert (await client.post(CHAT, content=b'{"secret": ')).status_code == 400

    with caplog.at_level("DEBUG", "deepseek_recipe.server"):
        run(test())
    lines = [json.dumps(vars(record), default=str) for record in caplog.records]
    assert [record.getMessage() for record in caplog.records] == ["answer", "request", "request"]
    assert not any("secret" in line for line in lines)


def test_health() -> None:
    async def test() -> None:
        async with serving() as (client, gateway):
            assert (await client.get("/health")).json() == {"status": "ready", "detail": "", "engine": "replay"}
            gateway.draining = True
            assert (await client.get("/health")).status_code == 503
            assert (await client.post(CHAT, json=BODIES[CHAT])).status_code == 503
        async with serving(Scripted()) as (client, _):
            assert (await client.get("/health")).json()["status"] == "dead"

    run(test())


@pytest.mark.parametrize("path", BODIES)
def test_shutdown_before_the_first_byte(path: str) -> None:
    async def test() -> None:
        async with serving(Scripted(20.0), max_running=1) as (client, gateway):
            asked = [asyncio.ensure_future(client.post(path, json=BODIES[path])) for _ in range(2)]
            while gateway.slots.waiting != 1:
                await asyncio.sleep(0.01)
            gateway.expire_all()
            for reply in await asyncio.gather(*asked):
                assert reply.status_code == (529 if path == MESSAGES else 503)
                assert message_of(path, reply.json()) == "the server is shutting down"

    run(test())


class Clinging(Scripted):
    """It does not end its requests: it hangs there, or fails."""

    def __init__(self, *script: Any, fails: bool = False):
        super().__init__(*script)
        self._fails = fails

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        deltas = super().generate(request)
        try:
            async for delta in deltas:
                yield delta
        finally:
            await deltas.aclose()
            if self._fails:
                raise KeyError("secret/path")
            await asyncio.sleep(1000)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_engine_that_does_not_end_its_requests(
    path: str, stream: bool, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is whole all the same, and its place becomes free."""
    monkeypatch.setattr("deepseek_recipe.server.job._CLOSING", 0.05)
    ends = {CHAT: "[DONE]", MESSAGES: "message_stop", RESPONSES: "response.completed"}

    async def test() -> None:
        async with serving(Clinging(THOUGHT, END, fails=fails), stall_timeout=0.1) as (client, gateway):
            reply = await client.post(path, json={**BODIES[path], "stream": stream})
            assert reply.status_code == 200 and "secret" not in reply.text
            assert ends[path] in reply.text if stream else "I think." in reply.text
            assert gateway.slots.running == 0 and not gateway.jobs
        async with serving(Clinging(THOUGHT, 20.0, fails=fails), stall_timeout=0.1) as (client, gateway):
            reply = await client.post(path, json={**BODIES[path], "stream": stream})
            assert "the engine stopped giving output" in reply.text or (fails and "the engine failed" in reply.text)
            assert gateway.slots.running == 0 and not gateway.jobs

    run(test())


def test_job_that_is_cancelled_at_once() -> None:
    async def test() -> None:
        async with serving(Scripted(THOUGHT, END)) as (_, gateway):
            job = Job([], gateway.slots, gateway.settings)
            job.cancel()
            assert await job.read() == b"" and job.done

    run(test())


def test_metrics() -> None:
    async def test() -> None:
        async with serving() as (client, _):
            await client.post(CHAT, json=BODIES[CHAT])
            await client.get("/made/up/by/a/client")
            text = (await client.get("/metrics")).text
            assert 'deepseek_recipe_requests_total{route="/v1/chat/completions",status="200"} 1.0' in text
            assert 'deepseek_recipe_requests_total{route="unknown",status="404"} 1.0' in text
            assert 'deepseek_recipe_generations_total{end="stop"} 1.0' in text
            assert "made/up" not in text

    run(test())
