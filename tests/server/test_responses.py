"""Responses that are kept: continued, listed, followed, cancelled, forgotten, and seen by their owner alone."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

import deepseek_recipe as d
from deepseek_recipe.adapters import EngineAdapter, TokenDelta
from deepseek_recipe.adapters.replay import ReplayEngine, ReplayOutput
from deepseek_recipe.server import Gateway, MemoryStore, ResponseStore, SqliteStore, StoredResponse
from deepseek_recipe.server.jsontext import dump, load
from support import DIED, RESPONSES, THOUGHT, Scripted, events, run, serving

each = pytest.mark.parametrize("kind", ["memory", "sqlite"])


def new_store(kind: str, path: Path, **options: Any) -> ResponseStore:
    return MemoryStore(**options) if kind == "memory" else SqliteStore(path / "store.db", **options)


@asynccontextmanager
async def kept(
    kind: str, path: Path, engine: EngineAdapter | None = None, **settings: Any
) -> AsyncIterator[tuple[httpx2.AsyncClient, Gateway]]:
    async with serving(engine, store=new_store(kind, path), **settings) as served:
        yield served


async def create(client: httpx2.AsyncClient, **body: Any) -> dict[str, Any]:
    reply = await client.post(RESPONSES, json={"model": "m", "input": "Hi", **body})
    assert reply.status_code == 200, reply.text
    return reply.json()


@each
def test_continuing_is_as_sending_the_history(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        engine = Scripted(THOUGHT, TokenDelta([400], finish_reason="stop"))
        async with kept(kind, tmp_path, engine) as (client, _):
            first = await create(client, instructions="Be brief.")
            second = await create(client, input=[{"role": "user", "content": "And?"}], previous_response_id=first["id"])
            assert second["previous_response_id"] == first["id"]
            third = {"model": "m", "input": "Then?", "previous_response_id": second["id"], "stream": True}
            streamed = await client.post(RESPONSES, json=third)
            assert events(streamed.text)[-1]["type"] == "response.completed"
            user = {"role": "user"}
            whole = [
                {**user, "content": "Hi"},
                *first["output"],
                {**user, "content": "And?"},
                *second["output"],
                {**user, "content": "Then?"},
            ]
            # Instructions are not carried over.
            expected = d.encode({"model": "DeepSeek-V4.1-Flash", "input": whole}, protocol="responses")
            assert list(engine.requests[-1].prompt_token_ids) == expected.token_ids.tolist()
            counted = await client.post(RESPONSES + "/input_tokens", json=third)
            assert counted.json()["input_tokens"] == len(expected.token_ids)

    run(test())


@each
def test_continuing_goes_on_from_the_very_ids(kind: str, tmp_path: Path) -> None:
    """A text has many spellings in ids; the model's own one stays in the prompt."""
    made = ReplayEngine().tokenizer
    sampled = [*THOUGHT.token_ids, *made.encode("Hel"), *made.encode("lo")]
    assert made.encode("I think.</think>Hello") != sampled

    async def test() -> None:
        engine = Scripted(TokenDelta([*sampled, 1], finish_reason="stop"))
        async with kept(kind, tmp_path, engine) as (client, _):
            tools: Any = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]
            first = await create(client, tools=tools)
            await create(client, input="And?", previous_response_id=first["id"], tools=tools)
            one, two = (list(request.prompt_token_ids) for request in engine.requests)
            assert two[: len(one) + len(sampled) + 1] == [*one, *sampled, 1]

    run(test())


@each
def test_references_to_items(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        engine = Scripted(THOUGHT, TokenDelta([400], finish_reason="stop"))
        async with kept(kind, tmp_path, engine) as (client, _):
            first = await create(client)
            listed = (await client.get(f"{RESPONSES}/{first['id']}/input_items")).json()["data"]
            items = [listed[0], *first["output"]]
            references = [{"type": "item_reference", "id": item["id"]} for item in items]
            await create(client, input=[*references, {"role": "user", "content": "And?"}])
            by_reference = engine.requests[-1].prompt_token_ids
            await create(client, input=[*items, {"role": "user", "content": "And?"}])
            assert list(by_reference) == list(engine.requests[-1].prompt_token_ids)
            reply = await client.post(
                RESPONSES, json={"model": "m", "input": [{"type": "item_reference", "id": "msg_resp_0_1"}]}
            )
            assert reply.status_code == 400
            assert reply.json()["error"]["message"] == "Item with id 'msg_resp_0_1' not found."

    run(test())


@each
def test_get_delete_and_what_is_not_stored(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(kind, tmp_path) as (client, _):
            made = await create(client, metadata={"a": "b"}, prompt_cache_key="k", safety_identifier="s")
            assert made["store"] is True and made["metadata"] == {"a": "b"}
            assert (made["prompt_cache_key"], made["safety_identifier"]) == ("k", "s")
            path = f"{RESPONSES}/{made['id']}"
            assert (await client.get(path)).json() == made
            deleted = await client.delete(path)
            assert deleted.json() == {"id": made["id"], "object": "response", "deleted": True}
            for method, missing in (("GET", path), ("DELETE", path), ("GET", path + "/input_items")):
                assert (await client.request(method, missing)).status_code == 404
            passing = await create(client, store=False)
            assert passing["store"] is False
            assert (await client.get(f"{RESPONSES}/{passing['id']}")).status_code == 404
            refused = await client.post(
                RESPONSES, json={"model": "m", "input": "Hi", "previous_response_id": passing["id"]}
            )
            assert refused.status_code == 400
            assert refused.json()["error"] == {
                "message": f"Previous response with id '{passing['id']}' not found.",
                "type": "invalid_request_error",
                "param": "previous_response_id",
                "code": "previous_response_not_found",
            }

    run(test())


@each
def test_no_key_sees_anothers(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(kind, tmp_path, api_keys=("one", "two")) as (client, _):
            one, two = ({"authorization": f"Bearer {key}"} for key in ("one", "two"))
            body = {"model": "m", "input": "Hi", "background": True}
            made = (await client.post(RESPONSES, json=body, headers=one)).json()
            path = f"{RESPONSES}/{made['id']}"
            reference = [{"type": "item_reference", "id": f"item_{made['id']}_0"}]
            for method, shown in (
                ("GET", path),
                ("GET", path + "?stream=true"),
                ("GET", path + "/input_items"),
                ("POST", path + "/cancel"),
                ("DELETE", path),
            ):
                assert (await client.request(method, shown, headers=two)).status_code == 404
            for further in ({"previous_response_id": made["id"]}, {"input": reference}):
                refused = await client.post(RESPONSES, json={"model": "m", "input": "Hi", **further}, headers=two)
                assert refused.status_code == 400 and "not found" in refused.json()["error"]["message"]
            assert (await client.get(path, headers=one)).status_code == 200

    run(test())


@each
def test_input_items(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(kind, tmp_path) as (client, _):
            first = await create(client)
            second = await create(client, input="And?", previous_response_id=first["id"])
            path = f"{RESPONSES}/{second['id']}/input_items"
            listed = (await client.get(path, params={"order": "asc"})).json()
            assert [item["type"] for item in listed["data"]] == ["message", "reasoning", "message", "message"]
            assert listed["data"][0]["content"] == [{"type": "input_text", "text": "Hi"}]
            assert not listed["has_more"] and listed["first_id"] == listed["data"][0]["id"]
            pages: list[Any] = []
            after: dict[str, str] = {}
            while True:
                page = (await client.get(path, params={"limit": 3, **after})).json()
                pages += page["data"]
                if not page["has_more"]:
                    break
                after = {"after": page["last_id"]}
            assert pages == listed["data"][::-1]
            for params in ({"limit": "0"}, {"limit": "x"}, {"limit": "9" * 5000}, {"order": "up"}, {"after": "no"}):
                assert (await client.get(path, params=params)).status_code == 400

    run(test())


@each
def test_background(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(kind, tmp_path, ReplayEngine(["one two three"], pace=0.1)) as (client, _):
            queued = await create(client, background=True)
            assert (queued["status"], queued["background"], queued["output"]) == ("queued", True, [])
            path = f"{RESPONSES}/{queued['id']}"
            refused = await client.post(
                RESPONSES, json={"model": "m", "input": "Hi", "previous_response_id": queued["id"]}
            )
            assert refused.status_code == 400 and "cannot be continued" in refused.json()["error"]["message"]
            seen: list[str] = []
            while not seen or seen[-1] in ("queued", "in_progress"):
                seen.append((await client.get(path)).json()["status"])
                await asyncio.sleep(0.01)
            # The first state may be over before it is asked for.
            assert {"in_progress", "completed"} <= set(seen) <= {"queued", "in_progress", "completed"}
            done = (await client.get(path)).json()
            followed = events((await client.get(path, params={"stream": "true"})).text)
            assert [event["sequence_number"] for event in followed] == list(range(len(followed)))
            assert followed[-1]["response"] == done
            rest = events((await client.get(path, params={"stream": "true", "starting_after": 4})).text)
            assert rest == followed[5:]
            for wrong in ("-1", "x", "9" * 5000, str(2**64)):
                refused = await client.get(path, params={"stream": "true", "starting_after": wrong})
                assert refused.status_code == 400 and refused.json()["error"]["param"] == "starting_after"
            nothing = await client.get(path, params={"stream": "true", "starting_after": len(followed)})
            assert nothing.status_code == 200 and not events(nothing.text)
            assert (await client.post(path + "/cancel")).json() == done
            streamed = await client.post(
                RESPONSES, json={"model": "m", "input": "Hi", "background": True, "stream": True}
            )
            assert [event["type"] for event in events(streamed.text)] == [event["type"] for event in followed]

    run(test())


@each
def test_cancelling(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        engine = ReplayEngine([ReplayOutput([400] * 100_000)], pace=0.01)
        async with kept(kind, tmp_path, engine) as (client, gateway):
            made = await create(client, background=True)
            path = f"{RESPONSES}/{made['id']}"
            following = asyncio.ensure_future(client.get(path, params={"stream": "true"}))
            await asyncio.sleep(0.2)
            assert engine.running == 1
            cancelled = (await client.post(path + "/cancel")).json()
            assert cancelled["status"] == "cancelled"
            assert events((await following).text)
            for _ in range(100):
                if not gateway.tasks:
                    break
                await asyncio.sleep(0.01)
            assert engine.running == 0 and not gateway.background and not gateway.tasks
            assert (await client.get(path)).json()["status"] == "cancelled"

    run(test())


def test_another_process_cancels(tmp_path: Path) -> None:
    """The store is all that they share."""

    async def test() -> None:
        engine = ReplayEngine([ReplayOutput([400] * 100_000)], pace=0.01)
        async with kept("sqlite", tmp_path, engine) as (client, _), kept("sqlite", tmp_path) as (other, _):
            path = f"{RESPONSES}/{(await create(client, background=True))['id']}"
            followed = asyncio.ensure_future(other.get(path, params={"stream": "true"}))
            await asyncio.sleep(0.3)
            await other.post(path + "/cancel")
            assert events((await followed).text)[0]["type"] == "response.created"
            for _ in range(300):
                if not engine.running:
                    break
                await asyncio.sleep(0.01)
            assert engine.running == 0

    run(test())


@each
@pytest.mark.parametrize("script", [(DIED,), (THOUGHT, DIED)])
def test_background_that_fails(kind: str, tmp_path: Path, script: Any) -> None:
    async def test() -> None:
        async with kept(kind, tmp_path, Scripted(*script)) as (client, gateway):
            path = f"{RESPONSES}/{(await create(client, background=True))['id']}"
            followed = events((await client.get(path, params={"stream": "true"})).text)
            assert followed[-1]["type"] == "response.failed"
            failed = (await client.get(path)).json()
            assert failed["status"] == "failed" and failed["error"]["message"] == "the engine is gone"
            assert not gateway.jobs

    run(test())


def test_store_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """The answer is given all the same."""

    class Full(MemoryStore):
        async def put(self, stored: StoredResponse) -> None:
            raise OSError("the disk is full")

    async def test() -> None:
        async with serving(store=Full()) as (client, _):
            assert (await create(client))["output"][1]["content"][0]["text"] == "Said."
            reply = await client.post(RESPONSES, json={"model": "m", "input": "Hi", "stream": True})
            assert events(reply.text)[-1]["type"] == "response.completed"

    run(test())
    assert [record.getMessage() for record in caplog.records].count("an answer could not be kept") == 2


def test_requests_that_contradict_themselves() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"background": True, "store": False}, "store"),
        ({"previous_response_id": "resp_1", "conversation": "conv_1"}, "previous_response_id"),
        ({"previous_response_id": 3}, "previous_response_id"),
        ({"metadata": 3}, "metadata"),
        ({"metadata": {"a": 3}}, "metadata"),
        ({"metadata": {"a": "b" * 513}}, "metadata"),
        ({"metadata": {str(number): "" for number in range(17)}}, "metadata"),
    ]

    async def test() -> None:
        async with serving() as (client, _):
            for further, param in cases:
                reply = await client.post(RESPONSES, json={"model": "m", "input": "Hi", **further})
                assert reply.status_code == 400 and reply.json()["error"]["param"] == param

    run(test())


def test_without_a_store() -> None:
    async def test() -> None:
        async with serving() as (client, gateway):
            gateway.store = None
            for further in ({"previous_response_id": "resp_1"}, {"background": True}):
                reply = await client.post(RESPONSES, json={"model": "m", "input": "Hi", **further})
                assert reply.status_code == 400 and "is not supported" in reply.json()["error"]["message"]
            assert (await create(client))["store"] is False
            assert (await client.get(RESPONSES + "/resp_1")).status_code == 404

    run(test())


def stored(id: str, owner: str = "o", text: str = "", **fields: Any) -> StoredResponse:
    item = load(f'{{"type": "message", "wide": 123456789012345678901234567890, "small": 1.50, "text": "{text}"}}')
    return StoredResponse(id, owner, [item], {"id": id, "status": "completed", "output": []}, **fields)


@each
def test_store(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        store = new_store(kind, tmp_path, ttl=100)
        one = stored("1")
        await store.put(one)
        found = await store.get("1", "o")
        assert found is not None and dump(found.input) == dump(one.input) and found.response == one.response
        assert b'"wide":123456789012345678901234567890,"small":1.50' in dump(found.input)
        assert await store.get("1", "other") is None and not await store.delete("1", "other")
        await store.append("1", "o", [b"a", b"b"])
        await store.append("1", "other", [b"x"])
        await store.put(stored("1", previous_id="0"))
        await store.append("1", "o", [b"c"])
        assert await store.events("1", "o", 1) == [b"b", b"c"]
        assert await store.events("1", "other", 0) == []
        assert await store.delete("1", "o") and not await store.delete("1", "o")
        assert await store.get("1", "o") is None and await store.events("1", "o", 0) == []
        await store.put(stored("old", created_at=time.time() - 101))
        assert await store.get("old", "o") is None
        await store.aclose()

    run(test())


def test_memory_is_bounded() -> None:
    async def test() -> None:
        store = MemoryStore(max_bytes=1000)
        for number in range(10):
            await store.put(stored(str(number), text="x" * 200))
        assert await store.get("0", "o") is None and await store.get("9", "o") is not None
        await store.append("9", "o", [b"x" * 2000])
        assert await store.get("9", "o") is None
        await store.put(stored("large", text="x" * 2000))
        assert await store.get("large", "o") is None
        await store.put(stored("small"))
        assert await store.get("small", "o") is not None

    run(test())
