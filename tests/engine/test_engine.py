"""The whole engine: P-18, P-21, P-22, P-23, P-25, P-56, and what it refuses."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import reference
from deepseek_engine import ConfigError, Delta, Engine, EngineConfig, Request, RequestError, SamplingParams, generate
from deepseek_engine.config import PRESETS
from deepseek_engine.limits import default_limits
from deepseek_engine.weights import MODEL_PARTS, export
from deepseek_engine.weights import random as random_weights
from steps import TINY, prompt, tiny_weights

LIMITS = EngineConfig(page_size=16, num_pages=101, max_num_seqs=8, max_num_batched_tokens=256, max_model_len=512)
WEIGHTS = tiny_weights()


def engine(limits: EngineConfig = LIMITS) -> Engine:
    return Engine(TINY, WEIGHTS, limits)


def tokens(deltas: Sequence[Delta]) -> list[int]:
    return [token for delta in deltas for token in delta.token_ids]


def outputs(limits: EngineConfig, requests: Sequence[Request]) -> dict[str, list[int]]:
    return {name: tokens(deltas) for name, deltas in generate(engine(limits), requests).items()}


def requests(sampling: SamplingParams, lengths: Sequence[int] = (40, 3, 17, 90, 1, 25)) -> list[Request]:
    return [Request(str(n), prompt(length, n), replace(sampling, seed=n)) for n, length in enumerate(lengths)]


GREEDY = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
SEEDED = SamplingParams(temperature=1.3, top_p=0.95, top_k=50, max_tokens=12, ignore_eos=True)


def test_greedy_output_is_that_of_the_twin() -> None:
    """Each token is the best of the dense twin's for prompt and output so far, and its log probability the twin's."""
    ids = prompt(30)
    found = generate(engine(), [Request("a", ids, replace(GREEDY, logprobs=3, logprobs_mode="raw"))])["a"]
    for delta in found:
        logits = reference.forward(TINY, {name: WEIGHTS.plain(name) for name in WEIGHTS}, ids).logits[-1]
        assert delta.token_ids == (int(logits.argmax()),)
        assert delta.logprobs is not None
        expected = torch.log_softmax(logits, -1)
        assert delta.logprobs[0].logprob == pytest.approx(expected[delta.token_ids[0]].item(), abs=1e-3)
        ids = [*ids, *delta.token_ids]


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_p21_p56_outputs_do_not_depend_on_the_batch(sampling: SamplingParams) -> None:
    """The same requests give the same tokens alone, in any order of arrival and however prompts are cut."""
    alone: dict[str, list[int]] = {}
    for request in requests(sampling):
        alone |= outputs(LIMITS, [request])
    assert all(len(output) == 12 for output in alone.values())
    assert len({tuple(output) for output in alone.values()}) == len(alone)
    for size, seed in ((256, 0), (64, 1), (13, 2)):
        shuffled = requests(sampling)
        random.Random(seed).shuffle(shuffled)
        assert outputs(replace(LIMITS, max_num_batched_tokens=size), shuffled) == alone


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_p22_preempted_requests_give_the_same_tokens(sampling: SamplingParams) -> None:
    """With too few pages, sequences are preempted and computed again; nobody can tell by the tokens."""
    many = requests(replace(sampling, max_tokens=40), (10, 20, 30, 14))
    expected = outputs(LIMITS, many)
    tight = engine(replace(LIMITS, num_pages=8, max_num_batched_tokens=33))
    found = {name: tokens(deltas) for name, deltas in generate(tight, many).items()}
    assert tight.stats().preemptions > 1
    assert found == expected
    assert tight.stats().pages_taken == 0 and tight.idle


def test_p23_preempted_requests_can_end() -> None:
    """With `preemption="stop"` the victim's tokens are a beginning of what it would have made."""
    many = requests(replace(GREEDY, max_tokens=60), (20, 20))
    expected = outputs(LIMITS, many)
    tight = engine(replace(LIMITS, num_pages=7, preemption="stop", prefill_watermark=1.0))
    found = generate(tight, many)
    reasons = {name: deltas[-1].finish_reason for name, deltas in found.items()}
    assert sorted(map(str, reasons.values())) == ["length", "preempted"]
    for name, deltas in found.items():
        made = tokens(deltas)
        assert made == expected[name][: len(made)] and deltas[-1].output_tokens == len(made)
    assert tight.stats().pages_taken == 0


@pytest.mark.parametrize("steps", range(6))
def test_p25_abort_leaves_the_others_alone(steps: int) -> None:
    """Aborted after any number of steps, a request ends with one last delta and the others give the same tokens."""
    limits = replace(LIMITS, max_num_batched_tokens=32)
    many = requests(replace(GREEDY, max_tokens=4), (10, 70, 20))
    expected = outputs(limits, many)
    running, deltas = engine(limits), list[Delta]()
    for request in many:
        running.add(request)
    for _ in range(steps):
        deltas += running.step()
    known = not any(delta.request_id == "1" and delta.finish_reason for delta in deltas)
    assert running.abort("1") == known and not running.abort("unknown")
    assert not (known and running.abort("1"))
    while not running.idle:
        deltas += running.step()
    for name in ("0", "2"):
        assert tokens([delta for delta in deltas if delta.request_id == name]) == expected[name]
    mine = [delta for delta in deltas if delta.request_id == "1"]
    assert [delta.finish_reason for delta in mine if delta.finish_reason] == ["abort" if known else "length"]
    assert mine[-1].finish_reason and mine[-1].output_tokens == len(tokens(mine))
    assert tokens(mine) == expected["1"][: len(tokens(mine))]
    assert running.stats().pages_taken == 0 and not running.abort("1")


def test_p18_outputs_end_where_they_must() -> None:
    """End token, stop ids and limits end a request; the token that stops is the last one; a prompt that is too long is
    ignored."""
    free = outputs(LIMITS, [Request("a", prompt(20), GREEDY)])["a"]
    stop = free[5]
    first = free.index(stop)

    def last(sampling: SamplingParams, ids: list[int] | None = None) -> tuple[Delta, list[int]]:
        found = generate(engine(), [Request("a", ids or prompt(20), sampling)])["a"]
        assert all(delta.finish_reason is None for delta in found[:-1])
        return found[-1], tokens(found)

    delta, made = last(replace(GREEDY, stop_token_ids=(stop,)))
    assert (delta.finish_reason, delta.stop_token_id, made) == ("stop", stop, free[: first + 1])
    assert (delta.prompt_tokens, delta.output_tokens) == (20, first + 1)
    delta, made = last(replace(GREEDY, stop_token_ids=(stop,), min_tokens=first + 2))
    assert made[:first] == free[:first] and stop not in made[: first + 2]
    delta, made = last(replace(GREEDY, logit_bias={1: 100.0}, ignore_eos=False))
    assert (delta.finish_reason, delta.stop_token_id, made) == ("stop", 1, [1])
    delta, made = last(replace(GREEDY, logit_bias={1: 100.0}))
    assert (delta.finish_reason, made) == ("length", [1] * 12)
    delta, made = last(GREEDY, prompt(510))
    assert (delta.finish_reason, len(made)) == ("length", 3)
    delta, made = last(GREEDY, prompt(513))
    assert (delta.finish_reason, made, delta.token_ids) == ("ignored", [], ())


def test_blacklisted_ids_never_come() -> None:
    """What the engine's settings forbid is not sampled, whatever a request says."""
    free = outputs(LIMITS, [Request("a", prompt(20), GREEDY)])["a"]
    limits = replace(LIMITS, token_blacklist=(free[0], 7))
    made = outputs(limits, [Request("a", prompt(20), replace(GREEDY, logit_bias={7: 100.0}))])["a"]
    assert not {free[0], 7} & set(made)


def test_a_request_without_a_seed_is_random() -> None:
    """Two requests without a seed differ."""
    sampling = SamplingParams(temperature=2.0, max_tokens=20, ignore_eos=True)
    found = outputs(LIMITS, [Request("a", prompt(5), sampling), Request("b", prompt(5), sampling)])
    assert found["a"] != found["b"]


def test_requests_that_cannot_be_served_are_refused() -> None:
    """An error names what is wrong, and the engine goes on."""
    running = engine()
    running.add(Request("a", [3], GREEDY))
    for request, text in (
        (Request("a", [3], GREEDY), "in use"),
        (Request("b", [], GREEDY), "is empty"),
        (Request("b", [3, 512], GREEDY), "has 512"),
        (Request("b", [-1], GREEDY), "has -1"),
        (Request("b", [3], replace(GREEDY, top_p=2.0)), "top_p"),
        (Request("b", [3], replace(GREEDY, min_tokens=1, stop_token_ids=tuple(range(512)))), "min_tokens"),
    ):
        with pytest.raises(RequestError, match=text):
            running.add(request)
    assert [delta.request_id for delta in running.step()] == ["a"]


def test_limits_are_checked_at_the_start() -> None:
    """Settings outside the guards, or a compressed vocabulary of another size, do not start."""
    with pytest.raises(ConfigError, match="page_size"):
        engine(replace(LIMITS, page_size=2))
    with pytest.raises(ConfigError, match="compressed vocabulary"):
        Engine(TINY, WEIGHTS, LIMITS, compressed=np.zeros(512, dtype=np.int64))


def test_an_engine_from_a_folder_is_the_engine_itself(tmp_path: Path) -> None:
    """Weights that were written and read give the same tokens; a compressed vocabulary needs the tokenizer."""
    export(random_weights(TINY, 0, parts=(*MODEL_PARTS, "draft")), TINY, tmp_path)
    request = Request("a", prompt(20), replace(SEEDED, seed=1))
    found = generate(Engine.from_folder(tmp_path, LIMITS), [request])["a"]
    assert tokens(found) == outputs(LIMITS, [request])["a"]
    config = replace(TINY, engram_compressed_vocab_size=500)
    export(random_weights(config, 0, parts=(*MODEL_PARTS, "draft")), config, tmp_path)
    for content in (None, "{}"):
        if content is not None:
            (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(ConfigError, match=r"tokenizer\.json"):
            Engine.from_folder(tmp_path)


def test_tiny_tok_has_the_vocabulary_of_the_model() -> None:
    """The preset that the gateway runs takes and gives ids of DeepSeek-V4.1."""
    running = Engine.random("tiny-tok")
    assert running.capabilities().vocab_size == 129280
    assert running.limits == default_limits(PRESETS["tiny-tok"])
    found = tokens(generate(running, [Request("a", [0, 128803, 129279], replace(GREEDY, max_tokens=4))])["a"])
    assert len(found) == 4 and all(0 <= token < 129280 for token in found)


def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """What the page shows is what the package does."""
    page = Path(__file__).parents[2] / "engine" / "README.md"
    (block,) = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    exec(compile(block, str(page), "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and lines[-1].endswith("length")
