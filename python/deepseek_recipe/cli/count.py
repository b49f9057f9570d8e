"""`count`: how many tokens requests or texts are."""

from __future__ import annotations

import argparse

from .._native import ConversionError, ImageError, Tokenizer
from ..recipe import PROTOCOLS, Recipe
from .terminal import MODELS, OPTIONS, Commands, Refused, read, read_text


def add(commands: Commands) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "count",
        help="the tokens of a request or of a text",
        description="Prints the prompt tokens of each request; an image behind a URL counts as the largest.",
    )
    command.add_argument("files", nargs="+", metavar="FILE", help="a request as JSON; - is standard input")
    command.add_argument("--text", action="store_true", help="the files are text: special tokens may be spelled out")
    command.add_argument("--protocol", choices=PROTOCOLS, help="where the request could be of two")
    command.add_argument("--model", choices=sorted(MODELS), help="instead of the one that the request names")
    command.set_defaults(run=_count)


def _count(options: argparse.Namespace) -> None:
    counts = [_tokens(path, options) for path in options.files]
    for path, tokens in zip(options.files, counts, strict=True):
        print(tokens if len(counts) == 1 else f"{tokens}\t{path}")


def _tokens(path: str, options: argparse.Namespace) -> int:
    version = None if options.model is None else MODELS[options.model]
    if options.text:
        return len(Tokenizer.builtin(version or MODELS["DeepSeek-V4.1-Flash"]).encode(read_text(path)))
    try:
        return Recipe(model=version, options=OPTIONS).count_tokens(read(path), protocol=options.protocol)
    except (ConversionError, ImageError, ValueError) as error:
        raise Refused(f"{path}: {error}") from error
