"""The options that say which engine a command talks to."""

from __future__ import annotations

import argparse

from ..adapters.select import EXAMPLES
from .terminal import MODELS


def add_engine(command: argparse.ArgumentParser) -> None:
    """Adds `--engine`, `--engine-model`, `--model` and `--pace`."""
    command.add_argument("--engine", default="replay", help=f"one of: {EXAMPLES}; replay needs no model (default)")
    command.add_argument("--engine-model", metavar="NAME", help="what the engine calls its model, if it has several")
    command.add_argument(
        "--model", choices=sorted(MODELS), default="DeepSeek-V4.1-Flash", help="what it runs (default: %(default)s)"
    )
    command.add_argument(
        "--pace", type=float, default=0.02, help="the replay engine's seconds between two tokens (default: %(default)s)"
    )
