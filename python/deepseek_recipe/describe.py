"""An encoded request as plain values, for people to look at: on the command line and in the playground."""

from __future__ import annotations

from typing import Any

from ._native import ModelVersion
from .recipe import Encoded

_FIELDS = ("max_tokens", "temperature", "top_p", "logprobs", "top_logprobs", "seed", "n")


def describe(encoded: Encoded) -> dict[str, Any]:
    """What a request is and what the engine is told. Everything in it is JSON."""
    inference = encoded.inference_options
    constraint = inference.output_constraint
    return {
        "protocol": encoded.protocol,
        "model": encoded.model,
        "model_version": "DeepseekV4Pro" if encoded.model_version == ModelVersion.DeepseekV4Pro else "DeepseekV41Flash",
        "stream": encoded.stream,
        "inference_options": {
            **{field: getattr(inference, field) for field in _FIELDS},
            "output_constraint": constraint and {"kind": constraint.kind, "schema": constraint.schema},
        },
    }
