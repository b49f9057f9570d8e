"""Runs SGLang's prompt renderer and output parser: one JSON job a line in, one JSON answer a line out.

A program of its own, since it runs once with this package and once with the reference, which has the same name.
SGLang's two files and the package under test are on the path; the arguments are the tokenizer.json of V4 and of V4.1.
Knows no expectation.
"""

import json
import random
import sys
from typing import Any

from sglang.srt.parser import deepseek_recipe_output as output
from sglang.srt.parser import deepseek_recipe_renderer as renderer
from tokenizers import Tokenizer

import deepseek_recipe

RECIPES = {
    spec: renderer.DeepSeekRecipe(spec, Tokenizer.from_file(path))
    for spec, path in zip(("dsv4", "dsv41"), sys.argv[1:], strict=True)
}


def encode(job: dict[str, Any]) -> object:
    images: list[str] = []
    ids = RECIPES[job["spec"]].encode(job["body"], image_urls=images, **job.get("options", {}))
    return {"ids": ids, "images": images}


def shown(delta: Any) -> list[object]:
    return [delta.reasoning, delta.content, [[call.index, call.name, call.arguments] for call in delta.tool_calls]]


def cut(ids: list[int], seed: int) -> list[list[int]]:
    """The ids in pieces: one each for seed 0, else of random lengths."""
    dice, pieces, at = random.Random(seed), [], 0
    while at < len(ids):
        length = 1 if seed == 0 else dice.randrange(1, 9)
        pieces.append(ids[at : at + length])
        at += length
    return pieces


def parse(job: dict[str, Any]) -> object:
    """The deltas of each piece of an output, the last one that of the end."""
    recipe = RECIPES[job["spec"]]
    ids = recipe.encode_text(job["text"])[: job.get("length")] + job.get("further_ids", [])
    parser = output.DeepSeekRecipeOutputParser(
        recipe, thinking_stage=recipe.parse_start(**job["start"]), **job.get("options", {})
    )
    *pieces, last = cut(ids, job["seed"])
    deltas = [shown(parser.feed(piece)) for piece in pieces]
    deltas.append(shown(parser.finish(last, job["finish"], keep_matched_stop=job.get("keep_matched_stop", False))))
    return {"ids": ids, "deltas": deltas}


def parse_whole(job: dict[str, Any]) -> object:
    delta = output.parse_output_text(RECIPES[job["spec"]], job["text"], **job["options"])
    calls = [[call.index, call.name, call.arguments] for call in output.whole_tool_calls(delta)]
    return {"deltas": [shown(delta)], "calls": calls}


STEPS = {"encode": encode, "parse": parse, "parse_whole": parse_whole}


def answer(job: dict[str, Any]) -> object:
    try:
        return STEPS[job["step"]](job)
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)}


print(json.dumps({"package": deepseek_recipe.__file__}))
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))))
