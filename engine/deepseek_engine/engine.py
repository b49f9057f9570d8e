"""The engine: requests in, deltas out, one step at a time. It makes what the scheduler plans into tensors.

Not for several threads at once: whoever serves it calls all of it from one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence as Ids
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from . import weights as weights_module
from .cache import Cache, StepInput
from .config import PRESETS, ConfigError, ModelConfig
from .engram import compressed_vocabulary, look_back
from .limits import EngineConfig, default_limits
from .model import Model
from .sampler import MAX_LOGPROBS, RequestError, Sampled, sample
from .scheduler import Part, Plan, Scheduler
from .sequence import FinishReason, Request, Sequence
from .weights import Checkpoint, Weights


@dataclass(frozen=True)
class Delta:
    """New tokens of a request. The last one has the finish reason, and may have no tokens.

    logprobs: as many as tokens, if the request asked for them. stop_token_id: the token that ended the output; it is
    among the tokens. prompt_tokens, output_tokens: the request's, so far.
    """

    request_id: str
    token_ids: tuple[int, ...]
    logprobs: tuple[Sampled, ...] | None
    finish_reason: FinishReason | None
    stop_token_id: int | None
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Capabilities:
    """What requests can ask for."""

    vocab_size: int
    max_model_len: int
    eos_token_id: int
    logprobs: int = MAX_LOGPROBS
    logprobs_modes: tuple[str, ...] = ("processed", "raw")


@dataclass(frozen=True)
class Stats:
    """Sequences and pages at this moment, and preemptions so far."""

    running: int
    waiting: int
    pages_taken: int
    pages: int
    preemptions: int


class Engine:
    """One model with its cache and scheduler.

    compressed: for each id its compressed id (see `engram.compressed_vocabulary`), None: the id itself.

    Raises:
        ConfigError: the limits do not fit the model.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        limits: EngineConfig,
        *,
        compressed: np.ndarray | None = None,
    ) -> None:
        limits.check(config)
        self.config, self.limits = config, limits
        self.compressed = np.arange(config.vocab_size) if compressed is None else compressed
        sizes = len(self.compressed), int(self.compressed.max()) + 1
        if sizes != (config.vocab_size, config.engram_compressed_vocab_size):
            raise ConfigError(
                f"the compressed vocabulary maps {sizes[0]} ids to {sizes[1]}, expected {config.vocab_size} to "
                f"{config.engram_compressed_vocab_size}"
            )
        self.model = Model(config, weights)
        self.cache = Cache(config, limits, self.model.embed.dtype)
        self.scheduler = Scheduler(limits, config.eos_token_id)
        self._sequences: dict[str, Sequence] = {}
        self._arrivals = 0

    @classmethod
    def random(cls, preset: str = "tiny", limits: EngineConfig | None = None, *, seed: int = 0) -> Engine:
        """An engine with random weights. Its answers mean nothing; its numbers are those of the formulas."""
        config = PRESETS[preset]
        return cls(config, weights_module.random(config, seed), limits or default_limits(config))

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        limits: EngineConfig | None = None,
        *,
        layers: tuple[int, ...] | None = None,
        keep_quantised: bool = False,
    ) -> Engine:
        """An engine with the weights of a checkpoint folder, or of some of its layers.

        Raises:
            ConfigError, WeightsError: the folder does not hold a checkpoint of the model.
        """
        checkpoint = Checkpoint(folder, layers)
        config, compressed = checkpoint.config, None
        if config.engram_compressed_vocab_size != config.vocab_size:
            if not (folder / "tokenizer.json").is_file():
                raise ConfigError(f"{folder}: has no tokenizer.json, which the compressed vocabulary comes from")
            compressed = compressed_vocabulary(folder / "tokenizer.json")
        loaded = checkpoint.load(keep_quantised=keep_quantised)
        return cls(config, loaded, limits or default_limits(config), compressed=compressed)

    def capabilities(self) -> Capabilities:
        return Capabilities(self.config.vocab_size, self.scheduler.max_length, self.config.eos_token_id)

    def stats(self) -> Stats:
        scheduler = self.scheduler
        return Stats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            pages_taken=scheduler.pages.taken,
            pages=self.limits.num_pages - 1,
            preemptions=scheduler.preemptions,
        )

    @property
    def idle(self) -> bool:
        """Whether `step` would have nothing to say."""
        return not self._sequences

    def add(self, request: Request) -> None:
        """Queues a request.

        Raises:
            RequestError: an id is taken or outside the vocabulary, or a sampling parameter outside its range.
        """
        sampling, vocab = request.sampling, self.config.vocab_size
        if request.request_id in self._sequences:
            raise RequestError(f"'request_id' {request.request_id!r} is in use")
        tokens = [int(token) for token in request.prompt_token_ids]
        if not tokens:
            raise RequestError("'prompt_token_ids' is empty")
        for token in tokens:
            if not 0 <= token < vocab:
                raise RequestError(f"'prompt_token_ids' has {token}, the vocabulary has {vocab} ids")
        sampling.check(vocab)
        seed = secrets.randbits(64) if sampling.seed is None else sampling.seed
        sequence = Sequence(request, seed, self._arrivals, tokens)
        if sampling.min_tokens and len(self._banned(sequence)) == vocab:
            raise RequestError("'stop_token_ids' leaves no token that 'min_tokens' allows")
        self._arrivals += 1
        self._sequences[request.request_id] = sequence
        self.scheduler.add(sequence)

    def abort(self, request_id: str) -> bool:
        """Ends a request; its last delta comes with the next step. False if it is unknown or finished."""
        return self.scheduler.abort(request_id)

    def step(self) -> list[Delta]:
        """Computes one step. Returns the new tokens, and the ends of requests that got none."""
        deltas: dict[str, Delta] = {}
        plan = self.scheduler.schedule()
        if plan is not None:
            logits = self.model(self.build(plan), self.cache)
            sampled = self._sample(plan, logits)
            self.scheduler.update(plan, [None if token is None else token.token for token in sampled])
            for part, token in zip(plan.parts, sampled, strict=True):
                if token is not None:
                    deltas[part.sequence.request.request_id] = _delta(part.sequence, token)
        for sequence in self.scheduler.finished:
            request_id = sequence.request.request_id
            if request_id not in deltas:
                deltas[request_id] = _delta(sequence, None)
            del self._sequences[request_id]
        self.scheduler.finished.clear()
        return list(deltas.values())

    def build(self, plan: Plan) -> StepInput:
        """The tensors of a step."""
        parts = plan.parts
        counts = torch.tensor([part.stop - part.start for part in parts])
        q_start = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
        pages = max(len(part.sequence.pages) for part in parts)
        tables = [part.sequence.pages + [0] * (pages - len(part.sequence.pages)) for part in parts]
        return StepInput(
            ids=torch.tensor([token for part in parts for token in part.sequence.tokens[part.start : part.stop]]),
            pos=torch.cat([torch.arange(part.start, part.stop) for part in parts]),
            seq=torch.arange(len(parts)).repeat_interleave(counts),
            q_start=q_start,
            slot=torch.tensor([part.sequence.slot for part in parts]),
            tables=torch.tensor(tables),
            ngram=torch.from_numpy(np.concatenate([self._ngram(part) for part in parts])),
            logit_rows=torch.tensor(
                [int(stop) - 1 for part, stop in zip(parts, q_start[1:], strict=True) if part.complete],
                dtype=torch.int64,
            ),
        )

    def _ngram(self, part: Part) -> np.ndarray:
        size = self.config.engram_max_ngram_size
        first = max(0, part.start - size + 1)
        compressed = self.compressed[part.sequence.tokens[first : part.stop]]
        none = np.zeros(len(compressed), dtype=bool)
        pad = self.config.engram_pad_token_id
        return look_back(compressed, none, part.start - first, part.stop - first, size, pad)

    def _sample(self, plan: Plan, logits: Tensor) -> list[Sampled | None]:
        """The next token of each part that is complete."""
        rows = iter(logits)
        sampled: list[Sampled | None] = []
        for part in plan.parts:
            if not part.complete:
                sampled.append(None)
                continue
            sequence = part.sequence
            request, banned = sequence.request, self._banned(sequence)
            sampled.append(
                sample(next(rows), request.sampling, request.prompt_token_ids, sequence.output, banned, sequence.seed)
            )
        return sampled

    def _banned(self, sequence: Sequence) -> set[int]:
        """Ids that must not come next."""
        banned = set(self.limits.token_blacklist)
        if sequence.output_length < sequence.request.sampling.min_tokens:
            banned |= sequence.stop_ids(self.config.eos_token_id)
        return banned


def _delta(sequence: Sequence, token: Sampled | None) -> Delta:
    asked = sequence.request.sampling.logprobs is not None
    tokens = () if token is None else (token,)
    return Delta(
        request_id=sequence.request.request_id,
        token_ids=tuple(item.token for item in tokens),
        logprobs=tokens if asked else None,
        finish_reason=sequence.finish_reason,
        stop_token_id=sequence.stop_token_id,
        prompt_tokens=sequence.prompt_length,
        output_tokens=sequence.output_length,
    )


def generate(engine: Engine, requests: Ids[Request]) -> dict[str, list[Delta]]:
    """Runs requests to their ends. The deltas of each, in order."""
    deltas: dict[str, list[Delta]] = {request.request_id: [] for request in requests}
    for request in requests:
        engine.add(request)
    while not engine.idle:
        for delta in engine.step():
            deltas.setdefault(delta.request_id, []).append(delta)
    return deltas
