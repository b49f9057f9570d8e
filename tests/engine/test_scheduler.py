"""The scheduler with a model that is a counter: P-20, P-23, P-25 and P-26."""

import math
import random
from collections import Counter
from dataclasses import replace

import pytest

from deepseek_engine.limits import EngineConfig
from deepseek_engine.sampler import SamplingParams
from deepseek_engine.scheduler import Plan, Scheduler
from deepseek_engine.sequence import Request, Sequence

EOS = 1
LIMITS = EngineConfig(page_size=4, num_pages=31, max_num_seqs=4, max_num_batched_tokens=24, max_model_len=80)


class Play:
    """A scheduler, the sequences that it was given, and a model whose next token is 5 or, rarely, the end."""

    def __init__(self, limits: EngineConfig, seed: int = 0) -> None:
        self.limits, self.scheduler = limits, Scheduler(limits, EOS)
        self.choices = random.Random(seed)
        self.sequences: list[Sequence] = []
        self.ended: list[Sequence] = []
        self.kinds: Counter[str] = Counter()

    def add(self, prompt: int, output: int = 5) -> Sequence:
        name = str(len(self.sequences))
        request = Request(name, [9] * prompt, SamplingParams(max_tokens=output))
        sequence = Sequence(request, 0, len(self.sequences), [9] * prompt)
        self.sequences.append(sequence)
        self.scheduler.add(sequence)
        return sequence

    def step(self, *, end: float = 0.0) -> Plan | None:
        plan = self.scheduler.schedule()
        if plan is not None:
            self.check_plan(plan)
            self.scheduler.update(plan, self.results(plan, end))
            self.kinds[plan.kind] += 1
        self.ended += self.scheduler.finished
        self.scheduler.finished.clear()
        self.check()
        return plan

    def results(self, plan: Plan, end: float = 0.0) -> list[int | None]:
        tokens = [EOS if self.choices.random() < end else 5 for _ in plan.parts]
        return [token if part.complete else None for part, token in zip(plan.parts, tokens, strict=True)]

    def check_plan(self, plan: Plan) -> None:
        """What a step may be: within the limits, from where each sequence stands, into pages that it holds."""
        sequences = [part.sequence for part in plan.parts]
        assert plan.parts and len(set(map(id, sequences))) == len(sequences)
        tokens = sum(part.stop - part.start for part in plan.parts)
        if plan.kind == "prefill":
            assert tokens <= self.limits.max_num_batched_tokens
            assert all(part.complete for part in plan.parts[:-1])
        else:
            assert tokens == len(plan.parts) <= self.limits.max_num_seqs
        for part in plan.parts:
            assert part.start == part.sequence.num_tokens < part.stop <= len(part.sequence.tokens)
            assert part.stop <= len(part.sequence.pages) * self.limits.page_size
            assert part.sequence.slot is not None

    def check(self) -> None:
        """Pages and slots belong to one live sequence each, the pools agree, and the books of every sequence do."""
        scheduler = self.scheduler
        live = [*scheduler.waiting, *scheduler.running]
        pages = [page for sequence in live for page in sequence.pages]
        slots = [sequence.slot for sequence in live if sequence.slot is not None]
        assert len(set(pages)) == len(pages) == scheduler.pages.taken and 0 not in pages
        assert len(set(slots)) == len(slots) == scheduler.slots.taken and 0 not in slots
        assert scheduler.pages.taken + scheduler.pages.free == self.limits.num_pages - 1
        alive_ids = set(map(id, live))
        for sequence in self.sequences:
            alive = id(sequence) in alive_ids
            assert alive == (sequence.finish_reason is None)
            assert alive or (not sequence.pages and sequence.slot is None)
            assert sequence.output_length <= sequence.request.sampling.max_tokens
            assert not alive or not sequence.output or len(sequence.tokens) <= scheduler.max_length
        for sequence in scheduler.running:
            assert sequence.num_tokens == len(sequence.tokens) - 1
        assert sum(sequence.slot is not None for sequence in scheduler.waiting) <= 1

    def run(self, limit: int = 10_000) -> None:
        for _ in range(limit):
            if self.step() is None:
                return
        raise AssertionError("sequences are still there")


@pytest.mark.parametrize("preemption", ["recompute", "stop"])
@pytest.mark.parametrize("seed", range(3))
def test_p20_random_arrivals_ends_and_aborts(preemption: str, seed: int) -> None:
    """Over 2,000 steps every invariant of pages, slots and books holds; afterwards everything that came has ended once,
    with a reason, and the pools are empty: nothing starves."""
    play = Play(replace(LIMITS, preemption=preemption), seed)
    choices = random.Random(seed + 100)
    for _ in range(2000):
        if choices.random() < 0.25:
            play.add(choices.choice((1, 3, 8, 20, 40, 80, 81)), choices.choice((1, 5, 30, 200)))
        if choices.random() < 0.03 and play.sequences:
            play.scheduler.abort(choices.choice(play.sequences).request.request_id)
        play.step(end=0.02)
    play.run()
    assert sorted(map(id, play.ended)) == sorted(map(id, play.sequences))
    reasons = Counter(sequence.finish_reason for sequence in play.sequences)
    assert {"stop", "length", "abort", "ignored"} <= reasons.keys() and None not in reasons
    assert play.scheduler.pages.taken == play.scheduler.slots.taken == 0
    assert play.scheduler.preemptions > 0 and ("preempted" in reasons) == (preemption == "stop")
    for sequence in play.sequences:
        if sequence.finish_reason == "length":
            longest = len(sequence.tokens) > play.scheduler.max_length
            assert longest or sequence.output_length == sequence.request.sampling.max_tokens


def test_p20_prompts_are_served_in_order_of_arrival() -> None:
    """Without preemption sequences start in the order in which they came, short or long."""
    play, started = Play(replace(LIMITS, num_pages=200)), list[Sequence]()
    for prompt in (70, 1, 30, 2, 60, 1):
        play.add(prompt)
    while (plan := play.step()) is not None:
        started += [part.sequence for part in plan.parts if part.sequence not in started]
    assert started == play.sequences


def test_p20_prefill_and_decode_take_turns() -> None:
    """While sequences run, a decode step comes between two prefill steps, or as many as the setting says."""
    for interval in (1, 3):
        play = Play(replace(LIMITS, prefill_attempt_interval=interval))
        play.add(4, output=50)
        play.step()
        play.add(70)
        kinds = [plan.kind for _ in range(2 * interval + 2) if (plan := play.step())]
        assert kinds == (["decode"] * interval + ["prefill"]) * 2


def test_p22_the_longest_output_gives_its_pages_away() -> None:
    """The victim is the sequence with the longest output, of equals the latest; it goes to the front of the queue and
    keeps its tokens."""
    six_pages = replace(LIMITS, num_pages=7, prefill_watermark=1.0)
    play = Play(six_pages)
    early = play.add(8, output=40)
    for _ in range(4):
        play.step()
    late = play.add(4, output=40)
    while not play.scheduler.preemptions:
        play.step()
    assert list(play.scheduler.waiting) == [early] and late in play.scheduler.running
    assert (early.num_tokens, early.pages, early.slot) == (0, [], None)
    assert early.output_length > late.output_length > 0
    play.run()
    # 6 pages of 4 tokens: no sequence grows beyond 25 tokens.
    assert [(s.finish_reason, len(s.tokens)) for s in (early, late)] == [("length", 25)] * 2

    play = Play(six_pages)
    first, second = play.add(8, output=40), play.add(8, output=40)
    while not play.scheduler.preemptions:
        play.step()
    assert list(play.scheduler.waiting) == [second] and first in play.scheduler.running


def test_p22_a_half_computed_prompt_goes_on_before_a_preempted_sequence() -> None:
    """A prompt that holds its pages finishes although everything that ran was preempted: there is no deadlock."""
    play = Play(replace(LIMITS, num_pages=13, max_num_batched_tokens=8, prefill_watermark=1.0))
    short, long = play.add(6, output=30), play.add(40, output=1)
    while not play.scheduler.preemptions:
        play.step()
    assert list(play.scheduler.waiting) == [long, short] and long.slot is not None
    play.run()
    assert [(s.finish_reason, s.output_length) for s in (short, long)] == [("length", 30), ("length", 1)]


def test_p23_preempted_sequences_can_end() -> None:
    """With `preemption="stop"` the victim ends as `preempted` with its tokens so far, and its pages serve others."""
    play = Play(replace(LIMITS, num_pages=6, preemption="stop", prefill_watermark=1.0))
    first, second = play.add(8, output=30), play.add(8, output=30)
    play.run()
    assert (first.finish_reason, second.finish_reason) == ("length", "preempted")
    assert 0 < second.output_length < 30 and len(first.tokens) == 21
    assert play.scheduler.pages.taken == play.scheduler.slots.taken == 0


def test_p25_abort_in_every_state() -> None:
    """Queued, half computed, running, preempted and between a plan and its results: the sequence ends at once with what
    it has, its pages are free, and results that come later are dropped. Unknown and ended ones are not found."""
    play = Play(replace(LIMITS, num_pages=200))
    queued, partial = play.add(5), play.add(60)
    running = play.add(5)
    assert play.scheduler.abort("0") and queued.finish_reason == "abort"
    play.step()
    assert partial.slot is not None and partial in play.scheduler.waiting
    assert play.scheduler.abort("1") and partial.finish_reason == "abort"
    play.step()
    play.step()
    assert running in play.scheduler.running and running.output_length == 2
    assert play.scheduler.abort("2") and running.output == [5, 5]

    in_flight, other = play.add(5, output=3), play.add(5, output=3)
    for _ in range(2):
        plan = play.scheduler.schedule()
        assert plan is not None
        if plan.kind == "decode":
            assert play.scheduler.abort("3")
        play.scheduler.update(plan, play.results(plan))
    assert (in_flight.output, in_flight.finish_reason) == ([5], "abort")
    play.step()
    assert (other.output, other.finish_reason) == ([5, 5, 5], "length")
    assert not play.scheduler.abort("3") and not play.scheduler.abort("unknown")
    play.check()
    assert [sequence.finish_reason for sequence in play.ended] == ["abort"] * 4 + ["length"]

    play = Play(replace(LIMITS, num_pages=6, prefill_watermark=1.0))
    _, victim = play.add(8, output=30), play.add(8, output=30)
    while not play.scheduler.preemptions:
        play.step()
    assert play.scheduler.abort("1") and victim.output_length > 0
    play.step()
    assert not play.scheduler.waiting


def test_p26_prompts_that_never_fit_are_ignored() -> None:
    """A prompt longer than the limit or than all pages ends as `ignored` without a token; one of just that length gives
    one token. Those behind it are served."""
    for limits, longest in ((LIMITS, 80), (replace(LIMITS, num_pages=11), 40)):
        play = Play(limits)
        too_long, fits, short = play.add(longest + 1), play.add(longest), play.add(1)
        play.run()
        assert (too_long.finish_reason, too_long.output) == ("ignored", [])
        assert (fits.finish_reason, fits.output) == ("length", [5])
        assert short.finish_reason == "length"


def test_p26_prompts_wait_for_pages_slots_and_the_watermark() -> None:
    """What does not fit now waits, and those behind it too. Beside others a prompt is admitted up to the watermark
    only; alone it may take the whole pool."""
    play = Play(replace(LIMITS, num_pages=11, max_num_batched_tokens=100))  # 10 pages, of which 9 below the watermark
    first, second, third = play.add(16, output=3), play.add(21, output=3), play.add(1, output=3)
    play.step()
    assert first.slot is not None and second.slot is None and third.slot is None
    play.run()
    assert [sequence.finish_reason for sequence in (first, second, third)] == ["length"] * 3

    alone = play.add(40, output=1)
    play.step()
    assert alone.finish_reason == "length"

    play = Play(replace(LIMITS, max_num_seqs=2, num_pages=100, max_num_batched_tokens=100))
    sequences = [play.add(2, output=4) for _ in range(5)]
    play.step()
    assert [sequence.slot is not None for sequence in sequences] == [True, True, False, False, False]
    assert play.limits.num_slots == 3


def test_p26_sequences_beyond_the_batch_wait_for_their_turn() -> None:
    """With more slots than `max_num_seqs` a prompt may be computed ahead; it decodes when a place is free."""
    play = Play(replace(LIMITS, max_num_seqs=2, state_slots_ratio=2.0, num_pages=100))
    sequences = [play.add(2, output=4) for _ in range(4)]
    play.step()
    play.step()
    assert [sequence.output_length for sequence in sequences] == [2, 2, 1, 1]
    play.run()
    assert [sequence.output_length for sequence in sequences] == [4] * 4


def test_pages_are_taken_as_a_sequence_grows() -> None:
    """A sequence holds the pages of its tokens, no more."""
    play = Play(LIMITS)
    sequence = play.add(3, output=20)
    while play.step() is not None and sequence.finish_reason is None:
        assert len(sequence.pages) == math.ceil((len(sequence.tokens) - 1) / 4)
