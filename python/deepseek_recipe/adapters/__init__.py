"""Engines behind one protocol: token ids in, token ids out. Knows no API protocol, no template and no text."""

from .base import (
    Capabilities,
    ConstraintSpec,
    EngineAdapter,
    EngineUnavailable,
    FinishReason,
    GenerateRequest,
    Health,
    RequestError,
    RequestErrorKind,
    SamplingSpec,
    TokenDelta,
    TokenLogprob,
    Usage,
    Wrapped,
)

__all__ = [
    "Capabilities",
    "ConstraintSpec",
    "EngineAdapter",
    "EngineUnavailable",
    "FinishReason",
    "GenerateRequest",
    "Health",
    "RequestError",
    "RequestErrorKind",
    "SamplingSpec",
    "TokenDelta",
    "TokenLogprob",
    "Usage",
    "Wrapped",
]
