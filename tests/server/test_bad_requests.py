"""Bad requests: the protocol's own error, whatever is wrong, and the server lives."""

from typing import Any

import pytest

from deepseek_recipe.adapters.replay import ReplayEngine
from deepseek_recipe.server import Files
from support import BODIES, CHAT, MESSAGES, RESPONSES, message_of, run, serving


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"null",
        b'{"model": 3}',
        b"item_reference",
        b'["item_reference"]',
        b"\xff\xfe",
        b'{"model":"m"',
        b"[" * 5000,
        b'{"a":' * 5000,
    ],
)
def test_bodies_that_are_no_requests(path: str, content: bytes) -> None:
    async def test() -> None:
        async with serving() as (client, _):
            for shown in (path, path + "/count_tokens") if path == MESSAGES else (path,):
                reply = await client.post(shown, content=content)
                assert reply.status_code == 400
                assert message_of(path, reply.json()).startswith(("invalid JSON request: ", "invalid request body: "))

    run(test())


@pytest.mark.parametrize("path", BODIES)
def test_codec_refusals(path: str) -> None:
    name = "input" if path == RESPONSES else "messages"

    async def test() -> None:
        async with serving() as (client, _):
            for stream in (False, True):
                reply = await client.post(path, json={**BODIES[path], name: [], "stream": stream})
                assert reply.status_code == 400
                assert message_of(path, reply.json())

    run(test())


@pytest.mark.parametrize("path", BODIES)
def test_too_large(path: str) -> None:
    async def test() -> None:
        async with serving(max_body_bytes=1000) as (client, _):
            reply = await client.post(path, content=b" " * 1001)
            assert reply.status_code == 413
            assert message_of(path, reply.json()) == "The request body is larger than 1000 bytes."

            async def parts() -> Any:
                for _ in range(20):
                    yield b" " * 100

            reply = await client.post(path, content=parts())
            assert reply.status_code == 413
            assert (await client.post(path, json=BODIES[path])).status_code == 200

    run(test())


@pytest.mark.parametrize("depth", [130, 500, 1000, 1020, 100_000])
def test_nesting(depth: int) -> None:
    """Also where the body is read in Python, because something in it is dealt with there."""
    deep = b"[" * depth + b"]" * depth
    contents = b'[{"content":' * (depth // 2) + b"1" + b"}]" * (depth // 2)
    bodies = {
        CHAT: b'{"model":"m","messages":%s}' % contents,
        MESSAGES: b'{"model":"m","messages":[],"context_management":{"edits":[]},"a":%s}' % deep,
        RESPONSES: b'{"model":"m","input":"Hi","background":true,"a":%s}' % deep,
    }

    async def test() -> None:
        async with serving(files=Files(Hook())) as (client, _):
            for path, body in bodies.items():
                reply = await client.post(path, content=body)
                assert reply.status_code == 400, reply.text
                message_of(path, reply.json())

    run(test())


def test_numbers() -> None:
    """Those that JSON has keep their digits, also where the body is changed on its way."""

    async def test() -> None:
        async with serving() as (client, _):
            good = ("1" * 5000, "-" + "7" * 30, "0.1")
            for number in ("1e999", "-1e999", "NaN", "Infinity", *good):
                for further in ("", ',"background":true'):
                    parameters = f'{{"type":"object","minimum":{number}}}'
                    tools = f'[{{"type":"function","name":"f","parameters":{parameters}}}]'
                    body = f'{{"model":"m","input":"Hi","tools":{tools}{further}}}'
                    reply = await client.post(RESPONSES, content=body)
                    assert reply.status_code == (200 if number in good else 400), reply.text
                    assert number not in good or f'"minimum":{number}' in reply.text

    run(test())


def test_half_a_surrogate_pair() -> None:
    """Clients send it where they cut a text. What is dealt with in Python is dealt with all the same."""
    said = r'"cut \ud83d"'
    bodies = {
        MESSAGES: f'{{"model":"m","messages":[{{"role":"user","content":{said}}}],"context_management":{{}}}}',
        RESPONSES: f'{{"model":"m","input":{said},"metadata":{{"a":"b"}}}}',
    }

    async def test() -> None:
        async with serving(ReplayEngine()) as (client, _):
            for path, body in bodies.items():
                reply = await client.post(path, content=body)
                assert reply.status_code == 200 and "cut \ufffd" in reply.text, reply.text
            made = reply.json()
            assert made["metadata"] == {"a": "b"}
            body = f'{{"model":"m","input":{said},"previous_response_id":"{made["id"]}"}}'
            assert (await client.post(RESPONSES, content=body)).status_code == 200

    run(test())


class Hook:
    """Knows no file."""

    async def resolve(self, file_id: str, owner: str) -> None:
        return None


def test_compressed_bodies_and_unknown_paths() -> None:
    async def test() -> None:
        async with serving() as (client, _):
            reply = await client.post(CHAT, content=b"x", headers={"content-encoding": "gzip"})
            assert reply.status_code == 415
            assert (await client.get(CHAT)).status_code == 405
            missing = await client.post("/anthropic/v1/complete", json={})
            assert missing.status_code == 404 and missing.json()["type"] == "error"

    run(test())


def test_context_length() -> None:
    async def test() -> None:
        async with serving(ReplayEngine(max_model_len=40)) as (client, _):
            error = (await client.post(CHAT, json={**BODIES[CHAT], "max_tokens": 30})).json()["error"]
            assert error["code"] == "context_length_exceeded"
            assert error["message"].startswith(
                "This model's maximum context length is 40 tokens. However, you requested"
            )

    run(test())
