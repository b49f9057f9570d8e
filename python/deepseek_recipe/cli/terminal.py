"""What all commands need: reading what is given, refusing it in one line, and colours where there is a terminal."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Protocol

from .._native import ConversionError, ConversionOptions, ModelVersion
from ..recipe import Encoded, ProtocolName, Recipe

MODELS = {
    "DeepSeek-V4.1-Flash": ModelVersion.DeepseekV41Flash,
    "DeepSeek-V4-Pro": ModelVersion.DeepseekV4Pro,
}

OPTIONS = ConversionOptions().with_hosted_names()
"""Requests name their model as those to the gateway do."""

# Escape sequences of terminals.
SPECIAL, EVENT, TITLE, DIM = "36", "32", "1", "2"


# Control characters but tab and line break: some would change how a terminal works.
_PICTURES = {c: 0x2400 + c for c in range(32) if c not in (9, 10)} | {
    127: 0x2421,
    **dict.fromkeys(range(128, 160), "�"),
}


class Commands(Protocol):
    """What `ArgumentParser.add_subparsers` returns."""

    def add_parser(self, name: str, **kwargs: Any) -> argparse.ArgumentParser: ...


class Refused(Exception):
    """What the user is told in one line, with exit status 2."""


def read(path: str) -> bytes:
    """A file, or standard input for `-`. Raises `Refused`."""
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error


def read_text(path: str) -> str:
    """A text file in UTF-8, or standard input for `-`. Raises `Refused`."""
    try:
        return read(path).decode()
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: {error}") from error


def read_request(path: str, protocol: ProtocolName | None) -> Encoded:
    """A request's ids. Raises `Refused`."""
    try:
        return Recipe(options=OPTIONS).encode(read(path), protocol=protocol)
    except (ConversionError, ValueError) as error:
        raise Refused(f"{path}: {error}") from error


def harmless(text: str) -> str:
    """Text that others wrote; on a terminal, pictures stand for its control characters."""
    return text.translate(_PICTURES) if sys.stdout.isatty() else text


def coloured(text: str, colour: str) -> str:
    """The text, on a terminal in a colour."""
    return f"\x1b[{colour}m{text}\x1b[0m" if sys.stdout.isatty() else text


def print_title(title: str) -> None:
    """Prints a line that stands above others."""
    print("\n" + coloured(f"== {title}", TITLE))
