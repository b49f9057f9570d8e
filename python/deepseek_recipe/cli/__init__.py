"""The command line `deepseek-recipe`: what the package does, to look at and to start. It decides nothing by itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .._native import __version__
from ..adapters import EngineUnavailable
from . import bench, chat, codec, count
from .engine import add_engine
from .terminal import MODELS, Refused


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns the exit status: 0, or 2 where the input cannot be used."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except Refused as error:
        print(f"deepseek-recipe: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader has seen enough. What Python would still write at its end goes nowhere, too.
        sys.stdout = None
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="deepseek-recipe",
        description="Requests of AI APIs to DeepSeek token ids, and model output back to replies.",
    )
    parser.add_argument("--version", action="version", version=f"deepseek-recipe {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    codec.add(commands)
    count.add(commands)
    _add_serve(
        commands.add_parser(
            "serve",
            help="the three protocols over HTTP, in front of an engine",
            description="Serves Chat Completions, Responses and Messages over HTTP, in front of an engine, until "
            "SIGTERM or Ctrl-C. Without a key everyone who reaches the port is served.",
        )
    )
    chat.add(commands)
    bench.add(commands)
    return parser


def _add_serve(command: argparse.ArgumentParser) -> None:
    add_engine(command)
    command.add_argument("--host", default="127.0.0.1", help="the address to listen at (default: %(default)s)")
    command.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: %(default)s)")
    command.add_argument("--reuse-port", action="store_true", help="share the port with other processes")
    command.add_argument(
        "--api-key",
        action="append",
        default=[],
        metavar="KEY",
        help="a key that is served; can be given again. Other users of the machine see it in the list of processes",
    )
    command.add_argument("--api-key-file", metavar="FILE", help="keys that are served, one a line")
    command.add_argument(
        "--seal-key-file",
        metavar="FILE",
        help="keys that seal reasoning, 64 hexadecimal digits a line, the newest first",
    )
    command.add_argument(
        "--store", default="memory", metavar="STORE", help="of responses: memory (default), sqlite:FILE or none"
    )
    command.add_argument("--record", metavar="FILE", help="append the engine's outputs, for replay:FILE")
    command.add_argument("--max-running", type=int, default=512, help="requests at the engine (default: %(default)s)")
    command.add_argument("--max-waiting", type=int, default=1024, help="requests that wait (default: %(default)s)")
    command.add_argument(
        "--drain-timeout",
        type=float,
        default=30.0,
        help="seconds for running requests at the end (default: %(default)g)",
    )
    command.add_argument("--no-fetch-images", action="store_true", help="refuse images behind URLs")
    command.add_argument("--no-docs", action="store_true", help="serve neither /openapi.json nor /playground")
    command.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info", help="default: %(default)s"
    )
    command.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> None:
    try:
        from ..server.run import run
    except ImportError as error:
        raise Refused(f"serve needs: pip install 'deepseek-recipe[server]' ({error})") from error
    try:
        run(options, MODELS[options.model])
    except (OSError, ValueError, EngineUnavailable) as error:
        raise Refused(str(error)) from error
