"""Who computes what next. Queues, pages and slots as numbers; no tensor, no model.

A step is either a prefill step or a decode step. Prompts are served in order of arrival; when pages run out, running
sequences give theirs back and are computed again later, or end.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence as List
from dataclasses import dataclass
from typing import Literal

from .cache import Pool
from .limits import EngineConfig
from .sequence import FinishReason, Sequence


@dataclass(frozen=True)
class Part:
    """Tokens `[start, stop)` of one sequence."""

    sequence: Sequence
    start: int
    stop: int

    @property
    def complete(self) -> bool:
        """Whether the sequence's newest token is computed, so that the next one can be sampled."""
        return self.stop == len(self.sequence.tokens)


@dataclass(frozen=True)
class Plan:
    """One step."""

    kind: Literal["prefill", "decode"]
    parts: list[Part]


class Scheduler:
    """The queues. `finished` collects the sequences that ended, for the engine to report and to clear."""

    def __init__(self, limits: EngineConfig, eos: int) -> None:
        self.limits, self.eos = limits, eos
        self.pages = Pool(limits.num_pages)
        self.slots = Pool(limits.num_slots)
        # No sequence can be longer than the pool, so one that runs alone always finds its pages.
        self.max_length = min(limits.max_model_len, (limits.num_pages - 1) * limits.page_size)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.finished: list[Sequence] = []
        self.preemptions = 0
        self._decodes = 0  # decode steps since the last prefill step

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def abort(self, request_id: str) -> bool:
        """Ends a sequence, wherever it is, with the tokens made so far. False if there is none of this name."""
        for sequence in (*self.waiting, *self.running):
            if sequence.request.request_id == request_id:
                self._finish(sequence, "abort")
                return True
        return False

    def schedule(self) -> Plan | None:
        """The next step, or None where nothing is to be done."""
        if not self.running or self._decodes >= self.limits.prefill_attempt_interval:
            if parts := self._prefill():
                self._decodes = 0
                return Plan("prefill", parts)
        if parts := self._decode():
            self._decodes += 1
            return Plan("decode", parts)
        # Everything that ran may have given its pages away to a prompt that is half computed.
        if parts := self._prefill():
            return Plan("prefill", parts)
        return None

    def update(self, plan: Plan, sampled: List[int | None]) -> None:
        """Takes the results of a step: one token for each part that is complete."""
        for part, token in zip(plan.parts, sampled, strict=True):
            sequence = part.sequence
            if sequence.finish_reason is not None:  # aborted since
                continue
            sequence.num_tokens = part.stop
            if token is not None:
                sequence.push([token], self.eos, self.max_length)
                if sequence.finish_reason is not None:
                    self._finish(sequence, sequence.finish_reason)

    def _prefill(self) -> list[Part]:
        parts: list[Part] = []
        budget = self.limits.max_num_batched_tokens
        while self.waiting and budget:
            sequence = self.waiting[0]
            if len(sequence.tokens) > self.max_length:
                self._finish(sequence, "ignored")
                continue
            if sequence.slot is None and not self._admit(sequence):
                break
            stop = min(len(sequence.tokens), sequence.num_tokens + budget)
            parts.append(Part(sequence, sequence.num_tokens, stop))
            budget -= stop - sequence.num_tokens
            if stop < len(sequence.tokens):
                break  # it stays at the front
            self.running.append(self.waiting.popleft())
        return parts

    def _admit(self, sequence: Sequence) -> bool:
        """Gives a sequence its slot and the pages of all its tokens, or nothing."""
        needed = self._pages_for(len(sequence.tokens))
        allowed = self.limits.prefill_watermark * (self.limits.num_pages - 1)
        if self.pages.taken and self.pages.taken + needed > allowed:
            return False
        pages = self.pages.take(needed) if self.slots.free else None
        if pages is None:
            return False
        slots = self.slots.take(1)
        assert slots is not None
        sequence.pages, sequence.slot = pages, slots[0]
        return True

    def _decode(self) -> list[Part]:
        """One token each of the oldest running sequences. The shortest outputs get pages first."""
        batch = self.running[: self.limits.max_num_seqs]
        by_output = sorted(self.running, key=lambda sequence: (sequence.output_length, sequence.arrival))
        for sequence in [sequence for sequence in by_output if sequence in batch]:
            needed = self._pages_for(len(sequence.tokens)) - len(sequence.pages)
            while sequence.slot is not None and needed > 0:
                pages = self.pages.take(needed)
                if pages is not None:
                    sequence.pages += pages
                    break
                self._preempt(by_output.pop())
        return [
            Part(sequence, sequence.num_tokens, len(sequence.tokens)) for sequence in batch if sequence in self.running
        ]

    def _preempt(self, sequence: Sequence) -> None:
        """Takes everything away from a running sequence."""
        self.preemptions += 1
        if self.limits.preemption == "stop":
            self._finish(sequence, "preempted")
            return
        self._release(sequence)
        self.running.remove(sequence)
        sequence.num_tokens = 0
        # Behind a prompt that is half computed: that one has its pages and must be able to go on.
        self.waiting.insert(1 if self.waiting and self.waiting[0].slot is not None else 0, sequence)

    def _finish(self, sequence: Sequence, reason: FinishReason) -> None:
        sequence.finish_reason = reason
        self._release(sequence)
        for queue in (self.waiting, self.running):
            if sequence in queue:
                queue.remove(sequence)
        self.finished.append(sequence)

    def _release(self, sequence: Sequence) -> None:
        self.pages.give_back(sequence.pages)
        if sequence.slot is not None:
            self.slots.give_back([sequence.slot])
        sequence.pages, sequence.slot = [], None

    def _pages_for(self, tokens: int) -> int:
        return math.ceil(tokens / self.limits.page_size)
