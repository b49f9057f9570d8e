"""`encode`, `parse` and `demo`: requests to ids, outputs to events and replies."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import resources
from typing import Any

from .._native import Event, InferenceChunk, OutputParser
from ..describe import describe
from ..recipe import PROTOCOLS, Chunk, Encoded, encode, finish_chunk, stream_parse
from .terminal import DIM, EVENT, SPECIAL, Commands, Refused, coloured, harmless, print_title, read_request, read_text


def add(commands: Commands) -> None:
    """Adds the three commands."""
    command = commands.add_parser("encode", help="a request to token ids")
    command.add_argument("request", metavar="REQUEST.json", help="the request; - is standard input")
    command.add_argument("--protocol", choices=PROTOCOLS, help="where the request could be of two")
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
    command.add_argument("--protocol", choices=PROTOCOLS, help="where the request could be of two")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--sse", action="store_true", help="print the reply as server-sent events")
    form.add_argument("--response", action="store_true", help="print the complete response")
    command.set_defaults(run=_parse)

    command = commands.add_parser("demo", help="an agent's request and an output, played token by token")
    command.set_defaults(run=_demo)


def _encode(options: argparse.Namespace) -> None:
    encoded = read_request(options.request, options.protocol)
    if options.prompt:
        _print_prompt(encoded)
    elif options.json:
        print(json.dumps(_described(encoded), ensure_ascii=False))
    else:
        print(json.dumps(encoded.token_ids.tolist()))


def _parse(options: argparse.Namespace) -> None:
    if options.output == options.request == "-":
        raise Refused("the output and the request cannot both be standard input")
    encoded = read_request(options.request, options.protocol)
    text = read_text(options.output)
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

    print_title("A Chat Completions request as a prompt: special tokens come from the template alone")
    _print_prompt(encoded)
    ids = encoded.token_ids.tolist()
    print_title(f"The same as {len(ids)} token ids")
    print(*ids[:16], "...", *ids[-8:])

    print_title(f"A model's output of {len(output)} tokens, one at a time: token, events, chunks of the reply")
    parser = OutputParser(encoded.parsing_options, encoded.conversation.tools, encoded.tokenizer)
    reply = encoded.reply(id="chatcmpl-demo")
    for token in output:
        text = encoded.tokenizer.token(token)
        shown = repr(text.decode(errors="replace") if isinstance(text, bytes) else text)
        _print_step(f"{token} {shown}", parser.push(InferenceChunk.tokens([token])), reply.push(token))
    _print_step("end", parser.push(finish_chunk("stop")), reply.finish())

    print_title("The complete response")
    print(json.dumps(reply.response(), ensure_ascii=False, indent=2))


def _described(encoded: Encoded) -> dict[str, Any]:
    return {
        **describe(encoded),
        "token_ids": encoded.token_ids.tolist(),
        "prompt": encoded.prompt,
        "segments": [list(segment) for segment in encoded.segments],
    }


def _print_prompt(encoded: Encoded) -> None:
    for segment in encoded.segments:
        text = harmless(segment.text)
        sys.stdout.write(text if segment.kind == "plain" else coloured(text, SPECIAL))
    print()


def _print_step(token: str, events: list[Event], chunks: list[Chunk]) -> None:
    print(token)
    for event in events:
        print("   ", coloured(json.dumps(event.to_dict(), ensure_ascii=False), EVENT))
    for chunk in chunks:
        print("   ", coloured(f"data: {chunk.to_json()}", DIM))
