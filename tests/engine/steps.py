"""Steps of the model built by hand: sequences, their pages and slots, without a scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from deepseek_engine import weights
from deepseek_engine.cache import Cache, StepInput
from deepseek_engine.config import PRESETS, ModelConfig
from deepseek_engine.engram import look_back
from deepseek_engine.limits import EngineConfig
from deepseek_engine.model import Model
from deepseek_engine.weights import Weights

TINY = PRESETS["tiny"]
LIMITS = EngineConfig(page_size=16, num_pages=41, max_num_seqs=5, max_model_len=1024)


def tiny_weights(seed: int = 0, dtype: torch.dtype = torch.float32) -> Weights:
    return weights.random(TINY, seed, dtype)


def prompt(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(3, TINY.vocab_size, length).tolist()


@dataclass
class Text:
    """A sequence by hand: its ids, what of it was computed, and its place in the cache."""

    ids: list[int]
    slot: int
    pages: list[int]
    image: list[bool] = field(default_factory=list)
    inputs: Tensor | None = None
    done: int = 0


class Runner:
    """A model with a cache. Unused pages and slots hold NaN, so that a read of them shows."""

    def __init__(
        self,
        model_weights: Weights,
        config: ModelConfig = TINY,
        limits: EngineConfig = LIMITS,
    ) -> None:
        self.model = Model(config, model_weights)
        self.config = config
        self.cache = Cache(config, limits, self.model.embed.dtype)
        for store in (self.cache.windows, self.cache.entries, self.cache.index_keys, self.cache.groups):
            for tensor in store.values():
                tensor.fill_(torch.nan)

    def run(self, *parts: tuple[Text, int]) -> list[Tensor]:
        """Computes the next tokens of some texts in one step; the logits of each text's tokens."""
        step = build(self.config, [(text, text.done, text.done + count) for text, count in parts])
        logits = self.model(step, self.cache)
        for text, count in parts:
            text.done += count
        return list(logits.split([count for _, count in parts]))

    def run_chunks(self, text: Text, chunks: Sequence[int]) -> Tensor:
        """Computes a text chunk by chunk; the logits of all its tokens."""
        return torch.cat([self.run((text, count))[0] for count in chunks])


def contents(runner: Runner, text: Text) -> dict[str, Tensor]:
    """What the cache holds of a text: entries and index keys in order, rings by position, oldest first."""
    cache, config, found = runner.cache, runner.config, dict[str, Tensor]()
    for source in config.kv_sources:
        count = text.done // config.ratio(source)
        for name, store in (("entries", cache.entries), ("index_keys", cache.index_keys)):
            found[f"{name}.{source}"] = store[source][text.pages].flatten(0, 1)[:count]
    for layer, ring in cache.windows.items():
        found[f"window.{layer}"] = _in_order(ring[text.slot], text.done)
    for source, ring in cache.groups.items():
        found[f"group.{source}"] = _in_order(ring[text.slot], text.done)
    return found


def _in_order(ring: Tensor, done: int) -> Tensor:
    positions = torch.arange(max(0, done - len(ring)), done)
    return ring[positions % len(ring)]


def build(config: ModelConfig, parts: Sequence[tuple[Text, int, int]]) -> StepInput:
    counts = [stop - start for _, start, stop in parts]
    longest = max(len(text.pages) for text, _, _ in parts)
    images = [text.image or [False] * len(text.ids) for text, _, _ in parts]
    ngram = [
        look_back(
            np.array(text.ids),
            np.array(image),
            start,
            stop,
            config.engram_max_ngram_size,
            config.engram_pad_token_id,
        )
        for (text, start, stop), image in zip(parts, images, strict=True)
    ]
    shown = [
        text.inputs[sum(text.image[:start]) : sum(text.image[:stop])]
        for text, start, stop in parts
        if text.inputs is not None
    ]
    return StepInput(
        ids=torch.tensor([token for text, start, stop in parts for token in text.ids[start:stop]]),
        pos=torch.cat([torch.arange(start, stop) for _, start, stop in parts]),
        seq=torch.arange(len(parts)).repeat_interleave(torch.tensor(counts)),
        q_start=torch.tensor([0, *np.cumsum(counts)]),
        slot=torch.tensor([text.slot for text, _, _ in parts]),
        tables=torch.tensor([text.pages + [0] * (longest - len(text.pages)) for text, _, _ in parts]),
        ngram=torch.from_numpy(np.concatenate(ngram)),
        logit_rows=torch.arange(sum(counts)),
        image_rows=torch.tensor([i for (_, a, b), image in zip(parts, images, strict=True) for i in image[a:b]]),
        inputs=torch.cat(shown) if shown else None,
    )


def relative_error(found: Tensor, expected: Tensor) -> float:
    """The largest difference over the largest expected value."""
    return float((found - expected).abs().max() / expected.abs().max())
