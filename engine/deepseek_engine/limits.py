"""What the engine may use, and which limits fit a model. Knows no tensor."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from .config import ConfigError, ModelConfig


@dataclass(frozen=True)
class EngineConfig:
    """What the engine may use. Sizes are in tokens unless said.

    page_size: tokens whose compressed entries lie together. num_pages: pages of the pool, the dummy page 0 among them.
    max_num_seqs: sequences in one decode step. max_num_batched_tokens: tokens of one prefill step.
    max_model_len: tokens of a sequence that are processed at most. max_backtracking_tokens: tokens that a
    sequence can take back (rings are that much longer than the window). state_slots_ratio: state slots per sequence of
    `max_num_seqs`. prefill_watermark: share of the pool up to which prompts are admitted beside others.
    prefill_attempt_interval: decode steps between two prefill steps while sequences run. preemption: what happens with
    the sequence that gives its pages away. token_blacklist: ids that are never sampled.
    """

    page_size: int = 128
    num_pages: int = 257
    max_num_seqs: int = 16
    max_num_batched_tokens: int = 4096
    max_model_len: int = 4096
    max_backtracking_tokens: int = 6
    state_slots_ratio: float = 1.2
    prefill_watermark: float = 0.9
    prefill_attempt_interval: int = 1
    preemption: str = "recompute"
    token_blacklist: tuple[int, ...] = ()

    @property
    def num_slots(self) -> int:
        """State slots, the dummy slot 0 among them."""
        return max(int(self.state_slots_ratio * self.max_num_seqs), self.max_num_seqs) + 1

    def check(self, model: ModelConfig) -> None:
        """Raises `ConfigError` where the engine cannot run this model so."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and value <= 0 and field.name != "max_backtracking_tokens":
                raise ConfigError(f"'{field.name}' is {value}, must be positive")
        if self.max_backtracking_tokens < 0:
            raise ConfigError("'max_backtracking_tokens' is negative")
        for layer in model.kv_source_layer_ids:
            ratio = model.ratio(layer)
            if self.page_size % ratio:
                raise ConfigError(f"'page_size' is {self.page_size}, must be a multiple of the ratio {ratio}")
            # A candidate block must not cross a page.
            if layer == model.candidate_source_layer_id and self.page_size % (model.candidate_block_size * ratio):
                raise ConfigError(
                    f"'page_size' is {self.page_size}, must be a multiple of the candidate blocks' tokens"
                )
        if self.num_pages < 2:
            raise ConfigError("'num_pages' is less than 2: page 0 is never given out")
        if self.max_model_len > model.max_position_embeddings:
            raise ConfigError(
                f"'max_model_len' is {self.max_model_len}, the model has {model.max_position_embeddings} positions"
            )
        if not 0 < self.prefill_watermark <= 1:
            raise ConfigError("'prefill_watermark' is not in (0, 1]")
        if self.preemption not in ("recompute", "stop"):
            raise ConfigError(f"'preemption' is {self.preemption!r}, expected 'recompute' or 'stop'")
        if len(set(self.token_blacklist)) >= model.vocab_size:
            raise ConfigError("'token_blacklist' leaves no token")
        for token in self.token_blacklist:
            if not 0 <= token < model.vocab_size:
                raise ConfigError(f"'token_blacklist' has {token}, which is no id of the vocabulary")


def default_limits(config: ModelConfig) -> EngineConfig:
    """Limits for a model on one CPU: as many pages as sixteen sequences of half the length need."""
    limits = EngineConfig(page_size=16 if config.hidden_size < 1024 else 128)
    length = min(limits.max_model_len, config.max_position_embeddings)
    pages = limits.max_num_seqs * length // limits.page_size // 2 + 1
    return replace(limits, max_model_len=length, num_pages=pages)
