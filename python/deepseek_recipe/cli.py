"""The command line `deepseek-recipe`: what the library does, to look at. It decides nothing by itself."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ._native import (
    ConversionError,
    Event,
    InferenceChunk,
    InferenceFinishReason,
    ModelVersion,
    OutputParser,
    __version__,
)
from .adapters import EngineUnavailable
from .adapters.select import EXAMPLES
from .recipe import Chunk, Encoded, ProtocolName, encode, stream_parse

_PROTOCOLS: tuple[ProtocolName, ...] = ("chat_completions", "messages", "responses")

_MODELS = {
    "DeepSeek-V4.1-Flash": ModelVersion.DeepseekV41Flash,
    "DeepSeek-V4-Pro": ModelVersion.DeepseekV4Pro,
}

# Escape sequences of terminals.
_SPECIAL, _EVENT, _TITLE, _DIM = "36", "32", "1", "2"


class _Refused(Exception):
    """What the user is told in one line, with exit status 2."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns the exit status: 0, or 2 where the input cannot be used."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except _Refused as error:
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

    command = commands.add_parser("encode", help="a request to token ids")
    command.add_argument("request", metavar="REQUEST.json", help="the request; - is standard input")
    command.add_argument("--protocol", choices=_PROTOCOLS, help="where the request could be of two")
    form = command.add_mutually_exclusive_group()
    form.add_argument(
        "--prompt", action="store_true", help="print the prompt, on a terminal with its special tokens coloured"
    )
    form.add_argument("--json", action="store_true", help="print ids, prompt, segments and options as JSON")
    command.set_defaults(run=_encode)

    command = commands.add_parser("parse", help="a model's output to events")
    command.add_argument(
        "output",
        metavar="OUTPUT.txt",
        help="the output as text, special tokens spelled out, a line break at its end included; - is standard input",
    )
    command.add_argument("--request", metavar="REQUEST.json", required=True, help="the request that it answers")
    command.add_argument("--protocol", choices=_PROTOCOLS, help="where the request could be of two")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--sse", action="store_true", help="print the reply as server-sent events")
    form.add_argument("--response", action="store_true", help="print the complete response")
    command.set_defaults(run=_parse)

    _add_serve(commands.add_parser("serve", help="the three protocols over HTTP, in front of an engine"))

    command = commands.add_parser("demo", help="an agent's request and an output, played token by token")
    command.set_defaults(run=_demo)
    return parser


def _add_serve(command: argparse.ArgumentParser) -> None:
    command.add_argument("--engine", default="replay", help=f"one of: {EXAMPLES}; replay needs no model (default)")
    command.add_argument("--engine-model", metavar="NAME", help="what the engine calls its model, if it has several")
    command.add_argument("--model", choices=sorted(_MODELS), default="DeepSeek-V4.1-Flash", help="what the engine runs")
    command.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    command.add_argument("--port", type=int, default=8000, help="default: %(default)s; 0 takes a free one")
    command.add_argument("--reuse-port", action="store_true", help="share the port with other processes")
    command.add_argument(
        "--api-key",
        action="append",
        default=[],
        metavar="KEY",
        help="a key that is served; can be given again. Also one a line in the file that --api-key-file names",
    )
    command.add_argument("--api-key-file", metavar="FILE")
    command.add_argument(
        "--seal-key-file",
        metavar="FILE",
        help="keys that seal reasoning, 64 hexadecimal digits a line, the newest first",
    )
    command.add_argument(
        "--store", default="memory", metavar="STORE", help="of responses: memory (default), sqlite:FILE or none"
    )
    command.add_argument("--pace", type=float, default=0.02, help="the replay engine's seconds between two tokens")
    command.add_argument("--record", metavar="FILE", help="append the engine's outputs, for replay:FILE")
    command.add_argument("--max-running", type=int, default=512, help="requests at the engine (default: %(default)s)")
    command.add_argument("--max-waiting", type=int, default=1024, help="requests that wait (default: %(default)s)")
    command.add_argument("--drain-timeout", type=float, default=30.0, help="seconds for running requests at the end")
    command.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    command.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> None:
    try:
        from .server.run import run
    except ImportError as error:
        raise _Refused(f"serve needs: pip install 'deepseek-recipe[server]' ({error})") from error
    try:
        run(options, _MODELS[options.model])
    except (OSError, ValueError, EngineUnavailable) as error:
        raise _Refused(str(error)) from error


def _encode(options: argparse.Namespace) -> None:
    encoded = _request(options.request, options.protocol)
    if options.prompt:
        _print_prompt(encoded)
    elif options.json:
        print(json.dumps(_described(encoded), ensure_ascii=False))
    else:
        print(json.dumps(encoded.token_ids.tolist()))


def _parse(options: argparse.Namespace) -> None:
    if options.output == options.request == "-":
        raise _Refused("the output and the request cannot both be standard input")
    encoded = _request(options.request, options.protocol)
    try:
        text = _read(options.output).decode()
    except UnicodeDecodeError as error:
        raise _Refused(f"{options.output}: {error}") from error
    output = InferenceChunk.text(text, len(encoded.tokenizer.encode(text)))
    reply = encoded.reply()
    if options.sse:
        sys.stdout.buffer.write(reply.push_sse(output) + reply.finish_sse())
        sys.stdout.buffer.flush()
    elif options.response:
        reply.push(output)
        reply.finish()
        print(json.dumps(reply.response(), ensure_ascii=False, indent=2))
    else:
        for event in stream_parse([output], encoded):
            print(json.dumps(event.to_dict(), ensure_ascii=False))


def _demo(options: argparse.Namespace) -> None:
    files = resources.files("deepseek_recipe") / "demo"
    encoded = encode(files.joinpath("request.json").read_bytes())
    output = encoded.tokenizer.encode(files.joinpath("output.txt").read_text(encoding="utf-8"))

    _print_title("A Chat Completions request as a prompt: special tokens come from the template alone")
    _print_prompt(encoded)
    ids = encoded.token_ids.tolist()
    _print_title(f"The same as {len(ids)} token ids")
    print(*ids[:16], "...", *ids[-8:])

    _print_title(f"A model's output of {len(output)} tokens, one at a time: token, events, chunks of the reply")
    parser = OutputParser(encoded.parsing_options, encoded.conversation.tools, encoded.tokenizer)
    reply = encoded.reply(id="chatcmpl-demo")
    for token in output:
        text = encoded.tokenizer.token(token)
        shown = repr(text.decode(errors="replace") if isinstance(text, bytes) else text)
        _print_step(f"{token} {shown}", parser.push(InferenceChunk.tokens([token])), reply.push(token))
    end = InferenceChunk.finish(InferenceFinishReason.Stop)
    _print_step("end", parser.push(end), reply.finish())

    _print_title("The complete response")
    print(json.dumps(reply.response(), ensure_ascii=False, indent=2))


def _request(path: str, protocol: ProtocolName | None) -> Encoded:
    try:
        return encode(_read(path), protocol=protocol)
    except (ConversionError, ValueError) as error:
        raise _Refused(f"{path}: {error}") from error


def _read(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise _Refused(f"{path}: {error.strerror}") from error


def _described(encoded: Encoded) -> dict[str, Any]:
    inference = encoded.inference_options
    constraint = inference.output_constraint
    fields = ("max_tokens", "temperature", "top_p", "logprobs", "top_logprobs", "seed", "n")
    return {
        "protocol": encoded.protocol,
        "model": encoded.model,
        "model_version": "DeepseekV4Pro" if encoded.model_version == ModelVersion.DeepseekV4Pro else "DeepseekV41Flash",
        "stream": encoded.stream,
        "token_ids": encoded.token_ids.tolist(),
        "prompt": encoded.prompt,
        "segments": [list(segment) for segment in encoded.segments],
        "inference_options": {
            **{field: getattr(inference, field) for field in fields},
            "output_constraint": constraint and {"kind": constraint.kind, "schema": constraint.schema},
        },
    }


def _coloured(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if sys.stdout.isatty() else text


def _print_title(title: str) -> None:
    print("\n" + _coloured(f"== {title}", _TITLE))


def _print_prompt(encoded: Encoded) -> None:
    for segment in encoded.segments:
        sys.stdout.write(segment.text if segment.kind == "plain" else _coloured(segment.text, _SPECIAL))
    print()


def _print_step(token: str, events: list[Event], chunks: list[Chunk]) -> None:
    print(token)
    for event in events:
        print("   ", _coloured(json.dumps(event.to_dict(), ensure_ascii=False), _EVENT))
    for chunk in chunks:
        print("   ", _coloured(f"data: {chunk.to_json()}", _DIM))
