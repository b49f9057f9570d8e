"""Servers on loopback that answer as engines do. Their messages are those of vLLM 0.33.0 and SGLang 0.5.23.

The model says `OUTPUT`, again and again, and knows nothing else.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

OUTPUT = [40593, 3012, 16, 128822, 51166, 1]
CACHED = 7


@asynccontextmanager
async def loopback(app: ASGIApp) -> AsyncIterator[str]:
    """The URL of an application that is served while the context lasts."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined, method-assign]
    task = asyncio.ensure_future(server._serve([listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


class Fake:
    """What all of them do. `requests` are the bodies that came; `running` counts those that are not over.

    `pace` is the time between two messages, and without one all come at a time; `status` refuses every request;
    `breaks` ends the stream after so many messages; `message` comes before the first one.
    """

    def __init__(self, pace: float = 0.001):
        self.pace = pace
        self.status = 200
        self.breaks: int | None = None
        self.message: bytes | None = None
        self.requests: list[Any] = []
        self.running = 0

    def app(self) -> Starlette:
        return Starlette(routes=[*self.routes(), Route("/v1/models", self.models), Route("/health", self.health)])

    def routes(self) -> list[Route]:
        raise NotImplementedError

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "the-model", "max_model_len": 5000}]})

    async def health(self, request: Request) -> Response:
        return Response()

    def messages(self, body: Any) -> list[Any]:
        """The stream's messages."""
        raise NotImplementedError

    async def generate(self, request: Request) -> Response:
        body = await request.json()
        if self.status != 200 or not body:
            error = {"error": {"message": "no good", "code": self.status}}
            return JSONResponse(error, 400 if self.status == 200 else self.status)
        self.requests.append(body)
        return StreamingResponse(self._stream(body), media_type="text/event-stream")

    async def _stream(self, body: Any) -> AsyncIterator[bytes]:
        self.running += 1
        try:
            if not self.pace:
                yield b"".join(f"data: {json.dumps(message)}\n\n".encode() for message in self.messages(body))
                return
            if self.message is not None:
                yield b"data: " + self.message + b"\n\n"
            for count, message in enumerate(self.messages(body)):
                await asyncio.sleep(self.pace)
                if count == self.breaks:
                    return
                yield f"data: {json.dumps(message)}\n\n".encode()
            yield b"data: [DONE]\n\n"
        finally:
            self.running -= 1


def _said(limit: int, stops: list[int]) -> tuple[list[int], str]:
    ids: list[int] = []
    for id in OUTPUT:
        ids.append(id)
        if id in (1, *stops):
            return ids, "stop"
        if len(ids) == limit:
            return ids, "length"
    raise AssertionError


class Vllm(Fake):
    def routes(self) -> list[Route]:
        return [
            Route("/inference/v1/generate", self.generate, methods=["POST"]),
            Route("/version", lambda _: JSONResponse({"version": "0.33.0"})),
        ]

    def messages(self, body: Any) -> list[Any]:
        params = body["sampling_params"]
        ids, finish = _said(params["max_tokens"], params["stop_token_ids"])
        messages: list[Any] = []
        for count, id in enumerate(ids, 1):
            logprobs = None
            if "logprobs" in params:
                others = [{"token_id": id, "logprob": -0.5, "rank": 2}, {"token_id": 5, "logprob": -0.25, "rank": 1}]
                logprobs = {"content": [{**others[0], "top_logprobs": others}]}
            choice = {
                "index": 0,
                "finish_reason": finish if count == len(ids) else None,
                "stop_reason": None,
                "token_ids": [id],
                "routed_experts": None,
                "logprobs": logprobs,
            }
            messages.append({"request_id": "generate-tokens-r", "usage": None, "choices": [choice]})
        usage = {
            "prompt_tokens": len(body["token_ids"]),
            "total_tokens": len(body["token_ids"]) + len(ids),
            "completion_tokens": len(ids),
            "prompt_tokens_details": {"cached_tokens": CACHED},
        }
        return [*messages, {"request_id": "generate-tokens-r", "usage": usage, "choices": []}]


class Sglang(Fake):
    """`incremental` as the server's option of that name: only new ids in each message."""

    def __init__(self, incremental: bool = False, pace: float = 0.001):
        super().__init__(pace)
        self.incremental = incremental

    def routes(self) -> list[Route]:
        return [
            Route("/generate", self.generate, methods=["POST"]),
            Route("/model_info", lambda _: JSONResponse({"model_path": "m", "has_image_understanding": True})),
            Route("/server_info", lambda _: JSONResponse({"version": "0.5.23"})),
        ]

    def messages(self, body: Any) -> list[Any]:
        params = body["sampling_params"]
        ids, finish = _said(params["max_new_tokens"], params["stop_token_ids"])
        messages: list[Any] = []
        for count in range(1, len(ids) + 1):
            shown = ids[count - 1 : count] if self.incremental else ids[:count]
            meta: dict[str, Any] = {
                "id": body["rid"],
                "finish_reason": None,
                "prompt_tokens": len(body["input_ids"]),
                "completion_tokens": count,
                "cached_tokens": CACHED,
            }
            if count == len(ids):
                meta["finish_reason"] = {"type": finish, "matched": ids[-1]}
            if body.get("return_logprob"):
                meta["output_token_logprobs"] = [[-0.5, id, None] for id in shown]
                meta["output_top_logprobs"] = [[[-0.25, 5, None], [-0.5, id, None]] for id in shown]
            messages.append({"text": "", "output_ids": shown, "meta_info": meta})
        return messages


class Completions(Fake):
    """`returns`: `ids` with the text, or `text` alone; `strict`: unknown fields are refused."""

    def __init__(self, returns: str = "ids", strict: bool = False, pace: float = 0.001):
        super().__init__(pace)
        self.returns = returns
        self.strict = strict

    def routes(self) -> list[Route]:
        return [Route("/v1/completions", self.complete, methods=["POST"])]

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        if self.strict and "return_token_ids" in body:
            return JSONResponse({"error": {"message": "unknown field"}}, 422)
        if body.get("stream"):
            return await self.generate(request)
        choice: dict[str, Any] = {"index": 0, "text": "Simple", "finish_reason": "length"}
        if self.returns == "ids":
            choice["token_ids"] = OUTPUT[:1]
        return JSONResponse({"choices": [choice], "usage": {}})

    def messages(self, body: Any) -> list[Any]:
        ids, finish = _said(body["max_tokens"], body.get("stop_token_ids", []))
        texts = ["Simple", " addition", ".", "</think>", "Adding", ""]
        messages: list[Any] = []
        for count, id in enumerate(ids, 1):
            choice: dict[str, Any] = {"index": 0, "text": texts[count - 1], "finish_reason": None}
            if self.returns == "ids":
                choice["token_ids"] = [id]
            if count == len(ids):
                choice["finish_reason"] = finish
            messages.append({"id": "cmpl-1", "choices": [choice], "usage": None})
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(ids)}
        return [*messages, {"id": "cmpl-1", "choices": [], "usage": usage}]
