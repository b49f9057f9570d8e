"""Images of requests: resolved and charged, or refused in the protocol's own words."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any, cast

import httpx2

from deepseek_recipe import MultiModalData
from deepseek_recipe.adapters import Capabilities, GenerateRequest, TokenDelta
from deepseek_recipe.adapters.replay import ReplayEngine
from support import BODIES, CHAT, MESSAGES, run, serving

_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAGUlEQVR4AQEOAPH/AP8AAAD/AAAAAP///wAe7wT8KriCFwAAAABJRU5ErkJggg=="
)


def with_image(url: str) -> dict[str, Any]:
    part = {"type": "image_url", "image_url": {"url": url}}
    return {**BODIES[CHAT], "messages": [{"role": "user", "content": [part]}]}


class TextEngine(ReplayEngine):
    """An engine that takes no images."""

    async def capabilities(self) -> Capabilities:
        return replace(await super().capabilities(), images=False)


def test_images_that_cannot_be_had_are_refused() -> None:
    async def refusal(client: httpx2.AsyncClient, url: str) -> dict[str, Any]:
        reply = await client.post(CHAT, json=with_image(url))
        assert reply.status_code == 400
        return reply.json()["error"]

    async def test() -> None:
        async with serving(TextEngine()) as (client, _):
            error = await refusal(client, f"data:image/png;base64,{_PNG}")
            assert error["param"] == "messages[0]"
            assert error["message"] == "messages[0]: images are not supported by this server"
        async with serving(fetch_images=False) as (client, _):
            assert "fetches no images" in (await refusal(client, "https://images/1.png"))["message"]
        async with serving() as (client, _):
            assert (await refusal(client, "http://127.0.0.1/1.png"))["code"] == "invalid_image"
            assert (await refusal(client, "data:image/png;base64,AAAA"))["code"] == "invalid_image"

    run(test())


def test_images_are_resolved_and_charged() -> None:
    async def test() -> None:
        async with serving(fetch_images=False) as (client, gateway):
            seen: list[GenerateRequest] = []
            generate = gateway.engine.generate

            def record(request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
                seen.append(request)
                return generate(request)

            gateway.engine.generate = record
            reply = (await client.post(CHAT, json=with_image(f"data:image/png;base64,{_PNG}"))).json()
            (request,) = seen
            (image,) = request.images.images
            assert image.data[8:12] == b"WEBP"
            assert reply["usage"]["prompt_tokens"] == len(request.prompt_token_ids) + 183
            source = {"type": "base64", "media_type": "image/png", "data": _PNG}
            content = [{"type": "image", "source": source}]
            body = {**BODIES[MESSAGES], "messages": [{"role": "user", "content": content}]}
            counted = (await client.post(MESSAGES + "/count_tokens", json=body)).json()
            assert counted == {"input_tokens": reply["usage"]["prompt_tokens"]}

    run(test())


def test_images_that_take_long_hold_up_no_other_work() -> None:
    go_on = threading.Event()

    class Slow:
        def resolve(self, sources: Any, quota: Any) -> MultiModalData:
            assert go_on.wait(20)
            return MultiModalData()

    async def test() -> None:
        async with serving() as (client, gateway):
            gateway.resolver = cast(Any, Slow())
            body = with_image(f"data:image/png;base64,{_PNG}")
            slow = [asyncio.ensure_future(client.post(CHAT, json=body)) for _ in range(12)]
            await asyncio.sleep(0.1)
            # Large enough to be encoded on a thread.
            large = {**BODIES[CHAT], "messages": [{"role": "user", "content": "word " * 80_000}]}
            assert (await asyncio.wait_for(client.post(CHAT, json=large), 10)).status_code == 200
            assert not any(task.done() for task in slow)
            go_on.set()
            assert [reply.status_code for reply in await asyncio.gather(*slow)] == [200] * 12

    run(test())
