"""A thin PyTorch engine for the DeepSeek-V4.1-Flash path: token ids in, token ids out.

Read in this order: config, ops, engram, model, cache, sampler, sequence, scheduler, engine.
"""

from .config import PRESETS, ConfigError, ModelConfig
from .engine import Capabilities, Delta, Engine, Stats, generate
from .limits import EngineConfig
from .sampler import RequestError, Sampled, SamplingParams
from .sequence import Request
from .weights import WeightsError

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "Capabilities",
    "ConfigError",
    "Delta",
    "Engine",
    "EngineConfig",
    "ModelConfig",
    "Request",
    "RequestError",
    "Sampled",
    "SamplingParams",
    "Stats",
    "WeightsError",
    "generate",
]
