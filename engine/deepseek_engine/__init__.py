"""A thin PyTorch engine for the DeepSeek-V4.1-Flash path: token ids in, token ids out.

Read in this order: config, ops, engram, model, cache, sampler, sequence, scheduler, engine.
"""

from .config import PRESETS, ConfigError, EngineConfig, ModelConfig

__all__ = ["PRESETS", "ConfigError", "EngineConfig", "ModelConfig"]
