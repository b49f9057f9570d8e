"""The gateway: one recipe, one engine, one store, and the limits that all requests share.

Routes read and write protocols; everything they have in common is asked from here.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import anyio
from starlette.requests import ClientDisconnect, Request

from .._native import (
    ConversionError,
    ConversionOptions,
    ImageError,
    ImageQuota,
    ImageResolver,
    MultiModalData,
    OpenCvImagePreprocessor,
    ReasoningSealer,
    ReqwestImageFetcher,
    UrlImageSource,
)
from ..adapters import Capabilities, EngineAdapter, GenerateRequest, RequestError, SamplingSpec
from ..recipe import Encoded, Ids, ProtocolName, Recipe
from .constraint import constraint_of
from .errors import ApiError, of_refusal
from .files import Files
from .generation import Edit, Generation
from .job import Job
from .jsontext import dump, load, members
from .limits import Keys, Slots
from .metrics import Metrics, how_ended
from .settings import Settings
from .sse import COMMENT
from .store import ResponseStore
from .tracing import headers_for_engine

_Result = TypeVar("_Result")

_log = logging.getLogger("deepseek_recipe.server")

_INLINE = 256 * 1024
"""Bodies up to this size are encoded where they came in, in a few milliseconds; larger ones on another thread."""

_IMAGE_THREADS = 16
"""Requests whose images are fetched and resized at a time. Hosts that are slow hold up no other work."""

_PING = b'event: ping\ndata: {"type": "ping"}\n\n'


@dataclass(frozen=True)
class Call:
    """A request as it came: who sent it, and its body."""

    id: str
    owner: str
    body: bytes
    fields: dict[str, Any]
    """The body's members; empty where it is no JSON object, which the codec then says."""
    trace: Mapping[str, str]
    """The headers of a trace, for the engine."""

    def parsed(self) -> dict[str, Any]:
        """The body to change, as a new object by `jsontext.load`. Raises `ApiError` for nesting."""
        try:
            return load(self.body)
        except RecursionError:
            raise _too_deep() from None


class Gateway:
    """What serves requests. Call `start` before the first and `aclose` behind the last.

    `store` keeps responses for `previous_response_id` and background work; without one, requests that need it are
    refused. `files` reads documents and file ids. `sealer` seals reasoning for clients that carry it.
    """

    def __init__(
        self,
        engine: EngineAdapter,
        settings: Settings | None = None,
        *,
        store: ResponseStore | None = None,
        files: Files | None = None,
        sealer: ReasoningSealer | None = None,
    ):
        self.engine: EngineAdapter = engine
        self.settings: Settings = settings or Settings()
        self.store: ResponseStore | None = store
        self.files: Files = files or Files()
        self._image_threads = ThreadPoolExecutor(_IMAGE_THREADS, "images")
        self.resolver: ImageResolver = ImageResolver(ReqwestImageFetcher(), OpenCvImagePreprocessor())
        options = ConversionOptions(
            unsupported="refuse", max_choices=self.settings.max_choices, reasoning_sealer=sealer
        ).with_hosted_names()
        self.recipe: Recipe = Recipe(model=self.settings.model, options=options)
        self.keys: Keys = Keys(self.settings.api_keys)
        self.slots: Slots = Slots(self.settings.max_running, self.settings.max_waiting)
        self.metrics: Metrics = Metrics(self.slots)
        self.jobs: set[Job] = set()
        """What is running, in the background, too."""
        self.background: dict[tuple[str, str], Job] = {}
        """Jobs without a connection, by the owner and id of their response."""
        self.tasks: set[asyncio.Future[None]] = set()
        """What writes their state."""
        self.draining: bool = False
        self._capabilities: Capabilities | None = None

    async def start(self) -> None:
        """Asks the engine what it can do. Raises `EngineUnavailable`."""
        if self._capabilities is None:
            self._capabilities = await self.engine.capabilities()

    @property
    def capabilities(self) -> Capabilities:
        """What the engine said when the gateway started."""
        if self._capabilities is None:
            raise RuntimeError("the gateway has not started")
        return self._capabilities

    async def aclose(self) -> None:
        """Ends what still runs, and closes engine and store."""
        self.expire_all()
        await asyncio.gather(*(job.task for job in self.jobs), *self.tasks, return_exceptions=True)
        await self.engine.aclose()
        if self.store is not None:
            await self.store.aclose()

    def expire_all(self) -> None:
        """Ends all jobs as failed."""
        for job in list(self.jobs):
            job.expire(RequestError("overloaded", "the server is shutting down"))

    async def call(self, request: Request) -> Call:
        """Reads a request. Raises `ApiError` where it may not be served or is too large or too slow."""
        owner = self.authorize(request)
        body = await self._body(request)
        trace = headers_for_engine(request.headers)
        return Call(request.state.request_id, owner, body, members(body), trace)

    def authorize(self, request: Request) -> str:
        """Who asks. Raises `ApiError` with 401."""
        return self.keys.owner(request.headers.get("authorization"), request.headers.get("x-api-key"))

    async def _body(self, request: Request) -> bytes:
        limit = self.settings.max_body_bytes
        too_large = ApiError(413, f"The request body is larger than {limit} bytes.", code="request_too_large")
        if request.headers.get("content-encoding", "identity") != "identity":
            raise ApiError(415, "Compressed request bodies are not supported.")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 18 or int(length) > limit):
            raise too_large

        parts: list[bytes] = []
        size = 0
        try:
            with anyio.fail_after(self.settings.body_timeout):
                async for part in request.stream():
                    size += len(part)
                    if size > limit:
                        raise too_large
                    parts.append(part)
        except TimeoutError:
            raise ApiError(408, "The request body did not come in time.", headers={"connection": "close"}) from None
        except ClientDisconnect:
            raise ApiError(499, "The client closed the connection.") from None
        return b"".join(parts)

    async def encode(
        self,
        body: bytes | dict[str, Any],
        protocol: ProtocolName,
        call: Call,
        previous: tuple[Ids, Ids] | None = None,
    ) -> Encoded:
        """A request's ids. `body` is the call's own, or what became of `Call.parsed`; `previous` as in `Recipe.encode`.

        Raises `ApiError`.
        """
        try:
            text = body if isinstance(body, bytes) else dump(body)
            if self.files.wants(call.fields, protocol):
                request = load(text)
                await self.files.resolve(request, protocol, call.owner)
                text = dump(request)
        except RecursionError:
            raise _too_deep() from None

        def run() -> Encoded:
            return self.recipe.encode(text, protocol=protocol, previous=previous)

        try:
            encoded = run() if len(call.body) <= _INLINE else await asyncio.to_thread(run)
        except (ConversionError, ValueError) as error:
            raise of_refusal(error) from error
        return encoded

    async def count_tokens(self, encoded: Encoded) -> int:
        """What the prompt would be charged. Raises `ApiError` where an image cannot be had."""
        return await self._with_images(lambda: encoded.count_tokens(fetch_images=self.settings.fetch_images))

    async def _images(self, encoded: Encoded) -> MultiModalData:
        """The images of a prompt, fetched and resized. Raises `ApiError`."""
        sources = encoded.image_sources
        if not sources:
            return MultiModalData()
        path = sources[0].path.removeprefix(".")
        if not self.capabilities.images:
            raise ApiError(400, f"{path}: images are not supported by this server", param=path)
        if not self.settings.fetch_images and any(isinstance(source, UrlImageSource) for source in sources):
            raise ApiError(400, f"{path}: this server fetches no images; send them as data URLs", param=path)
        return await self._with_images(lambda: self.resolver.resolve(sources, ImageQuota()))

    async def _with_images(self, work: Callable[[], _Result]) -> _Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._image_threads, work)
        except ImageError as error:
            raise ApiError(400, str(error), code="invalid_image") from error

    async def generations(
        self,
        encoded: Encoded,
        call: Call,
        *,
        edit: Edit | None = None,
        on_finish: Callable[[Generation], Awaitable[None]] | None = None,
    ) -> list[Generation]:
        """The answers that a request wants, ready to run.

        Raises `ApiError` where prompt and limit do not fit, and for images that cannot be had.
        """
        images = await self._images(encoded)
        prompt_tokens = len(encoded.token_ids) + images.image_token_adjustment()
        try:
            max_tokens = encoded.request.resolve_max_tokens(prompt_tokens, self.capabilities.max_model_len)
        except ConversionError as error:
            raise of_refusal(error) from error
        options = encoded.inference_options
        seed = options.seed
        first = encoded.reply()
        made: list[Generation] = []
        for index in range(options.n):
            sampling = SamplingSpec(
                max_tokens=max_tokens,
                temperature=1.0 if options.temperature is None else options.temperature,
                top_p=1.0 if options.top_p is None else options.top_p,
                seed=None if seed is None else (seed + index) % 2**63,
                logprobs=(options.top_logprobs or 0) if options.logprobs else None,
                **self._further_sampling(call.fields),
            )
            if sampling.logprobs is not None and self.capabilities.logprobs is None:
                raise ApiError(400, "logprobs: the engine gives no log probabilities", param="logprobs")
            request = GenerateRequest(
                request_id=f"{call.id}-{uuid.uuid4().hex[:8]}",
                prompt_token_ids=encoded.token_ids,
                images=images,
                sampling=sampling,
                constraint=constraint_of(encoded),
                cache_salt=_cache_salt(call),
                metadata=call.trace,
            )
            reply = first if index == 0 else encoded.reply(id=first.id, index=index)
            made.append(Generation(self.engine, self.capabilities, request, reply, edit=edit, on_finish=on_finish))
        return made

    def _further_sampling(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Fields that open servers have beyond the protocols, for engines that honour them."""
        found: dict[str, Any] = {}
        for name, kind, low, high in _FURTHER_SAMPLING:
            value = fields.get(name)
            if value is None or name not in self.capabilities.sampling:
                continue
            if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
                raise ApiError(400, f"Invalid '{name}': expected a number from {low} to {high}", param=name)
            found[name] = value
        return found

    def run(self, generations: Sequence[Generation], call: Call, protocol: ProtocolName, *, keep: bool) -> Job:
        """Starts the answers. `keep`: somebody takes the stream."""
        if self.draining:
            raise ApiError(503, "The server is shutting down.", code="overloaded", headers={"retry-after": "1"})

        def ended(job: Job) -> None:
            self.jobs.discard(job)
            self.metrics.ended(job)
            _log_job(job, call, protocol)

        ping = _PING if protocol == "messages" else COMMENT
        job = Job(generations, self.slots, self.settings, keep=keep, ping=ping, on_end=ended)
        self.jobs.add(job)
        return job


_FURTHER_SAMPLING = (
    ("top_k", int, -1, 2**31 - 1),
    ("min_p", (int, float), 0, 1),
    ("repetition_penalty", (int, float), 0.01, 10),
)


def _too_deep() -> ApiError:
    return ApiError(400, "invalid JSON request: recursion limit exceeded")


def _cache_salt(call: Call) -> str | None:
    """Who shares prefix caches: requests of one key and one user (`user_id`, `user`, `metadata.user_id`).

    A digest: users are named in any length, and an engine needs no names.
    """
    fields, metadata = call.fields, call.fields.get("metadata")
    user = fields.get("user_id") or fields.get("user") or fields.get("safety_identifier")
    if not user and isinstance(metadata, dict):
        user = cast("dict[str, Any]", metadata).get("user_id")
    user = user if isinstance(user, str) else ""
    if not call.owner and not user:
        return None
    return hashlib.sha256(f"{call.owner}:{user}".encode("utf-8", "replace")).hexdigest()[:32]


def _log_job(job: Job, call: Call, protocol: ProtocolName) -> None:
    for generation in job.generations:
        first = generation.first_at
        _log.info(
            "answer",
            extra={
                "request_id": call.id,
                "protocol": protocol,
                "model": generation.reply.model[:128],
                "owner": call.owner[:8],
                "prompt_tokens": generation.request.prompt_tokens,
                "cached_tokens": generation.cached_tokens,
                "completion_tokens": len(generation.output_ids),
                "end": how_ended(job, generation.finish_reason),
                "first_token_s": None if first is None else round(first - job.started, 4),
            },
        )
