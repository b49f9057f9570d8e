"""Each route answers in its protocol's form."""

import asyncio
import json
import re
from typing import Any

import pytest

from deepseek_recipe.adapters import TokenDelta, Usage
from deepseek_recipe.adapters.replay import ReplayEngine
from support import BODIES, CHAT, END, MESSAGES, RESPONSES, THOUGHT, Scripted, events, run, serving

CALL = (
    "I look.</think>\n\n<｜DSML｜ calls>\n"
    '<｜DSML｜ invoke name="look">\n'
    '<｜DSML｜ parameter name="at" string="true">it</｜DSML｜ parameter>\n'
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
)


def text_of(path: str, response: dict[str, Any]) -> tuple[str, str]:
    """Reasoning and content of a whole response."""
    if path == CHAT:
        message = response["choices"][0]["message"]
        return message["reasoning_content"], message["content"]
    if path == MESSAGES:
        thinking, text = response["content"]
        return thinking["thinking"], text["text"]
    reasoning, message = response["output"]
    return reasoning["content"][0]["text"], message["content"][0]["text"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        *((path, path) for path in BODIES),
        (CHAT, "/chat/completions"),
        (CHAT, "/beta/chat/completions"),
        (RESPONSES, "/responses"),
        (MESSAGES, "/anthropic/v1/messages"),
    ],
)
def test_whole(path: str, shown: str) -> None:
    async def test() -> None:
        async with serving() as (client, _):
            reply = await client.post(shown, json=BODIES[path])
            assert reply.status_code == 200 and reply.headers["content-type"] == "application/json"
            assert text_of(path, reply.json()) == ("I think.", "Said.")
            assert reply.json()["model"] == "m"

    run(test())


@pytest.mark.parametrize("path", BODIES)
def test_stream_says_what_the_whole_response_says(path: str) -> None:
    async def test() -> None:
        async with serving() as (client, _):
            whole = (await client.post(path, json=BODIES[path])).json()
            reply = await client.post(path, json={**BODIES[path], "stream": True})
            assert reply.status_code == 200 and reply.headers["content-type"].startswith("text/event-stream")
            said = events(reply.text)
            if path == CHAT:
                deltas = [chunk["choices"][0]["delta"] for chunk in said]
                assert "".join(delta["content"] or "" for delta in deltas) == "Said."
                assert said[-1]["usage"] == whole["usage"]
                assert reply.text.endswith("data: [DONE]\n\n")
            elif path == MESSAGES:
                assert [said[0]["type"], said[-1]["type"]] == ["message_start", "message_stop"]
                assert said[-2]["usage"] == whole["usage"]
            else:
                last = said[-1]["response"]
                assert [event["sequence_number"] for event in said] == list(range(len(said)))
                assert text_of(path, last) == text_of(path, whole)
                assert last["usage"] == whole["usage"]
                assert last["usage"]["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}

    run(test())


def test_tool_call() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}

    async def test() -> None:
        async with serving(ReplayEngine([CALL])) as (client, _):
            reply = await client.post(CHAT, json={**BODIES[CHAT], "tools": [tool]})
            choice = reply.json()["choices"][0]
            assert choice["finish_reason"] == "tool_calls"
            assert choice["message"]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": "it"}'}

    run(test())


def test_cached_tokens_are_reported() -> None:
    first = TokenDelta(THOUGHT.token_ids, usage=Usage(10, 4))

    async def test() -> None:
        async with serving(Scripted(first, END)) as (client, _):
            usage = (await client.post(MESSAGES, json=BODIES[MESSAGES])).json()["usage"]
            assert usage["cache_read_input_tokens"] == 4
            details = (await client.post(CHAT, json=BODIES[CHAT])).json()["usage"]["prompt_tokens_details"]
            assert details == {"cached_tokens": 4}

    run(test())


def test_several_choices() -> None:
    body = {**BODIES[CHAT], "n": 3, "seed": 7}

    async def test() -> None:
        engine = Scripted(THOUGHT, 0.001, TokenDelta([400]), END)
        async with serving(engine) as (client, _):
            whole = (await client.post(CHAT, json=body)).json()
            assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2]
            assert [request.sampling.seed for request in engine.requests] == [7, 8, 9]
            assert len({request.request_id for request in engine.requests}) == 3
            usage = whole["usage"]
            each = len(THOUGHT.token_ids) + 1
            assert usage["completion_tokens"] == 3 * each
            assert usage["total_tokens"] == usage["prompt_tokens"] + 3 * each
            assert usage["completion_tokens_details"] == {"reasoning_tokens": 3 * (each - 2)}

            reply = await client.post(CHAT, json={**body, "stream": True})
            chunks = events(reply.text)
            assert len({chunk["id"] for chunk in chunks}) == 1
            assert [chunk["usage"] for chunk in chunks if chunk.get("usage")] == [usage]
            assert chunks[-1]["usage"] == usage
            assert reply.text.count("[DONE]") == 1 and reply.text.endswith("data: [DONE]\n\n")
            for index in range(3):
                own = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == index]
                assert own[0]["delta"]["role"] == "assistant" and own[-1]["finish_reason"] == "stop"
            refused = await client.post(CHAT, json={**body, "n": 9})
            assert refused.status_code == 400 and "n" in refused.json()["error"]["message"]

    run(test())


def test_stop_sequence_ends_the_engine() -> None:
    async def test() -> None:
        engine = Scripted(THOUGHT, TokenDelta(ReplayEngine().tokenizer.encode("one stop two")), 20.0)
        async with serving(engine) as (client, _):
            body = {**BODIES[MESSAGES], "stop_sequences": ["stop"]}
            message = (await client.post(MESSAGES, json=body)).json()
            assert message["stop_reason"] == "stop_sequence" and message["stop_sequence"] == "stop"
            assert message["content"][1]["text"] == "one "
            assert len(engine.closed) == 1

    run(test())


def test_counting() -> None:
    async def test() -> None:
        async with serving() as (client, _):
            counted = (await client.post(MESSAGES + "/count_tokens", json=BODIES[MESSAGES])).json()
            used = (await client.post(MESSAGES, json=BODIES[MESSAGES])).json()["usage"]["input_tokens"]
            assert counted == {"input_tokens": used}
            reply = await client.post(RESPONSES + "/input_tokens", json=BODIES[RESPONSES])
            assert reply.json() == {"object": "response.input_tokens", "input_tokens": used}

    run(test())


def test_tokens_and_back() -> None:
    async def test() -> None:
        async with serving() as (client, _):
            plain = (await client.post("/tokenize", json={"prompt": "中 <｜User｜>"})).json()
            assert plain["count"] == len(plain["tokens"]) == 3
            back = await client.post("/detokenize", json={"tokens": plain["tokens"]})
            assert back.json() == {"prompt": "中 <｜User｜>"}
            chat = (await client.post("/tokenize", json=BODIES[CHAT])).json()
            assert chat["tokens"][0] == 0 and chat["count"] > 3
            for tokens in ([-1], [2**40], ["a"], [True], [129_999]):
                refused = await client.post("/detokenize", json={"tokens": tokens})
                assert refused.status_code == 400
                assert refused.json()["error"]["message"] == "tokens[0]: not an id of the vocabulary"

    run(test())


def test_models() -> None:
    async def test() -> None:
        async with serving() as (client, _):
            listed = (await client.get("/v1/models")).json()
            assert listed["object"] == "list" and listed["data"][0]["object"] == "model"
            name = listed["data"][0]["id"]
            assert (await client.get(f"/v1/models/{name}")).json() == listed["data"][0]
            headers = {"anthropic-version": "2023-06-01"}
            anthropic = (await client.get("/v1/models", headers=headers)).json()
            assert anthropic["data"][0]["type"] == "model" and anthropic["first_id"] == name
            missing = await client.get("/v1/models/no")
            assert missing.status_code == 404 and missing.json()["error"]["code"] == "model_not_found"

    run(test())


def test_logprobs() -> None:
    async def test() -> None:
        body = {**BODIES[CHAT], "logprobs": True, "top_logprobs": 1}
        async with serving() as (client, _):
            logprobs = (await client.post(CHAT, json=body)).json()["choices"][0]["logprobs"]
            assert [entry["token"] for entry in logprobs["content"]] == ["S", "aid", "."]
        async with serving(Scripted(THOUGHT, END)) as (client, _):
            refused = await client.post(CHAT, json=body)
            assert refused.status_code == 400 and refused.json()["error"]["param"] == "logprobs"

    run(test())


def test_sampling_beyond_the_protocol() -> None:
    async def test() -> None:
        body = {**BODIES[CHAT], "top_k": 5, "min_p": 0.5}
        engine = Scripted(THOUGHT, END, sampling=frozenset({"top_k"}))
        async with serving(engine) as (client, _):
            await client.post(CHAT, json=body)
            assert (engine.requests[0].sampling.top_k, engine.requests[0].sampling.min_p) == (5, 0.0)
            refused = await client.post(CHAT, json={**body, "top_k": "5"})
            assert refused.json()["error"]["param"] == "top_k"

    run(test())


def test_context_edits_of_claude_code_pass() -> None:
    async def test() -> None:
        async with serving() as (client, _):
            edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
            plain = await client.post(MESSAGES + "/count_tokens", json=BODIES[MESSAGES])
            passed = await client.post(
                MESSAGES + "/count_tokens", json={**BODIES[MESSAGES], "context_management": edits}
            )
            assert passed.json() == plain.json()
            unknown = {**BODIES[MESSAGES], "context_management": {"edits": [{"type": "rewrite"}]}}
            refused = await client.post(MESSAGES, json=unknown)
            assert refused.status_code == 400
            assert refused.json()["error"]["message"] == "context_management: 'context_management' is not supported"

    run(test())


def test_wide_integers_keep_their_digits() -> None:
    wide = 123456789012345678901234567890
    tool = {
        "type": "function",
        "name": "look",
        "parameters": {"type": "object", "properties": {"at": {"enum": [wide]}}},
    }

    async def test() -> None:
        async with serving() as (client, _):
            reply = await client.post(RESPONSES, json={**BODIES[RESPONSES], "tools": [tool]})
            assert json.loads(reply.text)["tools"][0]["parameters"]["properties"]["at"]["enum"] == [wide]

    run(test())


def test_nothing_leaks_between_requests() -> None:
    """The engine says each request's last message back."""

    async def ask(client: Any, number: int) -> None:
        path = list(BODIES)[number % 3]
        said = f"message {number} of its own"
        name = "input" if path == RESPONSES else "messages"
        body = {**BODIES[path], name: [{"role": "user", "content": said}], "stream": number % 2 == 0}
        text = (await client.post(path, json=body)).text
        if body["stream"]:
            deltas = [event.get("delta") or event.get("choices", [{}])[0].get("delta", {}) for event in events(text)]
            parts = [delta if isinstance(delta, str) else delta.get("text") or delta.get("content") for delta in deltas]
            text = "".join(part for part in parts if part)
        assert re.findall(r"message (\d+) of its own", text) == [str(number)]

    async def test() -> None:
        async with serving(ReplayEngine(pace=0.001), max_running=20) as (client, _):
            await asyncio.gather(*(ask(client, number) for number in range(60)))

    run(test())


def test_prefix_caches_are_shared_by_key_and_user() -> None:
    bodies: list[dict[str, Any]] = [
        {},
        {"user": "a"},
        {"user": "b"},
        {"user": "a" * 10_000},
        {"metadata": {"user_id": "a"}},
    ]

    async def test() -> None:
        engine = Scripted(THOUGHT, END)
        async with serving(engine, api_keys=("one", "two")) as (client, _):
            for key in ("one", "two", "one"):
                for body in bodies:
                    reply = await client.post(CHAT, json={**BODIES[CHAT], **body}, headers={"x-api-key": key})
                    assert reply.status_code == 200
            salts = [request.cache_salt for request in engine.requests]
            one, two, again = salts[:5], salts[5:10], salts[10:]
            assert one == again and not set(one) & set(two)
            assert one[1] == one[4] and len(set(one)) == 4
            assert all(salt is not None and len(salt) == 32 for salt in salts)
        engine = Scripted(THOUGHT, END)
        async with serving(engine) as (client, _):
            await client.post(CHAT, json=BODIES[CHAT])
            assert engine.requests[0].cache_salt is None

    run(test())
