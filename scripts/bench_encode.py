#!/usr/bin/env python3
"""Compares encoding by this package, the official wheel and fastokens. Prints the table of docs/performance.md.

    scripts/bench_encode.py --corpus DIR --shared DIR --ours PY --official PY --fastokens PY
        [--rounds N] [--only WORKLOAD]

Each PY is the Python of an environment that has the library. DIR of `--corpus` is made by `bench/make_corpus.py` of the
shared folder; `--shared` is that folder, for the tokenizer.json and for `bench/make_requests.py`.

Every figure comes from fresh processes that take turns (official, fastokens, ours, and again), so that a slow minute
of the machine is shared. Cold is the first pass of a process; warm the median of the later ones. Times are the CPU
time of the process, made to stay on one core, but for the rows of threads, which are wall time. A list is that of the
encoding of a conversation of one message; without template, of the tokenizer, as that of fastokens always is. Ids are
compared first: a library whose ids differ from the official ones is an error. MB/s are bytes of UTF-8, with making
the result.
"""

from __future__ import annotations

import argparse
import array
import ctypes
import hashlib
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

TEXTS = ["en", "code", "agent", "zh", "multi", "hard"]
RUNS = ["p_letters", "p_spaces", "p_newlines"]
OTHERS = ["p_digits", "p_cjk", "p_marks", "p_punct", "p_mixedcase", "p_base64"]
LIBRARIES = ["official", "fastokens", "ours"]
MODEL = "DeepSeek-V4.1-Flash"


# What runs in a process of one library.


class Recipe:
    """This package and the official one: the same names. A list comes from a conversation of one message."""

    def __init__(self, tokenizer: Path, builtin: bool) -> None:
        import deepseek_recipe as recipe

        self.recipe = recipe
        version = recipe.ModelVersion
        self.tokenizer = (
            recipe.Tokenizer.builtin(version.DeepseekV41Flash)
            if builtin
            else recipe.Tokenizer.from_file(str(tokenizer))
        )
        self.encoding = recipe.DeepseekV41Encoding().with_tokenizer(self.tokenizer)
        self.short = self.tokenizer.encode

    def conversation(self, text: str):
        return self.recipe.Conversation([self.recipe.UserMessage(text)], thinking_mode=False)

    def list(self, text: str) -> list[int]:
        return self.encoding.encode(self.conversation(text))

    def plain(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def buffer(self, text: str) -> Callable[[], object]:
        prompt = self.encoding.render_conversation(self.conversation(text))
        return lambda: self.tokenizer.encode_prompt(prompt)

    def ids(self, text: str) -> list[int]:
        # The template puts three tokens around it.
        return self.list(text)[2:-2]


class Fastokens:
    def __init__(self, tokenizer: Path, builtin: bool) -> None:
        import fastokens

        self.tokenizer = fastokens.Tokenizer.from_file(str(tokenizer))
        self.short = self.list

    def list(self, text: str) -> list[int]:
        return self.tokenizer.encode_ordinary(text).ids

    ids = plain = list

    def buffer(self, text: str) -> Callable[[], object]:
        return lambda: self.tokenizer.encode_ordinary(text)


def memory() -> float:
    """Resident megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def timed(clock: Callable[[], float], work: Callable[[], object], passes: int) -> list[float]:
    times = []
    for _ in range(passes):
        start = clock()
        result = work()
        times.append(clock() - start)
        del result
    return times


def requests_of(shared: Path, corpus: Path) -> tuple[bytes, list[bytes]]:
    """The agent's request, and an agent chat of 100 turns: the request of each turn."""
    sys.path.insert(0, str(shared / "bench"))
    import make_requests as make

    chat = make.agent_turns(str(corpus), 100)
    turns = [{**chat, "messages": chat["messages"][: 1 + 3 * turn]} for turn in range(1, 101)]
    spell = lambda body: json.dumps(body, ensure_ascii=False).encode()  # noqa: E731
    return spell(make.agent_turns(str(corpus), 50)), [spell(turn) for turn in turns]


def worker(job: dict) -> dict:
    """Does one job and returns its times in seconds."""
    corpus, shared = Path(job["corpus"]), Path(job["shared"])
    cores = os.cpu_count() or 1
    os.sched_setaffinity(0, {(job["core"] + n) % cores for n in range(job["threads"])})
    clock = {"cpu": time.process_time, "wall": time.perf_counter}[job["clock"]]
    work, passes = job["work"], job["passes"]
    name, adapter = ("fastokens", Fastokens) if job["library"] == "fastokens" else ("deepseek_recipe", Recipe)
    importlib.import_module(name)
    before, start = memory(), clock()
    library = adapter(shared / "tokenizers/v41/tokenizer.json", job["builtin"])
    if work == "load":
        library.short("a")
        return {"times": [clock() - start], "memory": memory() - before}
    if work == "short":
        texts = json.loads((corpus / "short.json").read_text())
        encode = library.short

        def all_of_them() -> None:
            for text in texts:
                encode(text)

        return {"times": [time / len(texts) for time in timed(clock, all_of_them, passes)]}
    if work in ("request", "chat"):
        agent, turns = requests_of(shared, corpus)
        recipe, encoding, options = library.recipe, library.encoding, library.recipe.ConversionOptions()
        bodies = [agent] if work == "request" else turns

        def encode_all() -> None:
            for body in bodies:
                encoding.encode(recipe.ChatCompletionRequest(body).convert(options).conversation)

        return {"times": timed(clock, encode_all, passes)}
    text = (corpus / f"{work}.txt").read_bytes().decode()
    size = len(text.encode())
    library.short("a")
    if job["result"] == "ids":
        ids = library.ids(text)
        return {"digest": hashlib.sha256(array.array("I", ids).tobytes()).hexdigest()}
    # Python makes the UTF-8 of a string once and keeps it, whoever asks first: that is no part of encoding.
    ctypes.pythonapi.PyUnicode_AsUTF8(ctypes.py_object(text))
    encode = library.buffer(text) if job["result"] == "buffer" else partial(getattr(library, job["result"]), text)
    return {"times": timed(clock, encode, passes), "size": size}


# What runs them.


class Bench:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.runs = 0

    def run(self, library: str, work: str, result: str = "list", **more: object) -> dict:
        """One process of one library."""
        arguments = self.arguments
        job = {
            "library": library,
            "work": work,
            "result": result,
            "corpus": str(arguments.corpus),
            "shared": str(arguments.shared),
            "core": self.runs,
            "threads": 1,
            "clock": "cpu",
            "builtin": False,
            # The official wheel takes a second for a pass.
            "passes": 2 if library == "official" else 6,
            **more,
        }
        self.runs += 1
        environment = {**os.environ, "RAYON_NUM_THREADS": str(job["threads"])}
        command = [getattr(arguments, library), __file__, "--worker", json.dumps(job)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{library}, {work}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def check(self, work: str) -> None:
        digests = {library: self.run(library, work, "ids")["digest"] for library in LIBRARIES}
        if len(set(digests.values())) > 1:
            sys.exit(f"{work}: the ids differ: {digests}")

    def measure(self, work: str, libraries: list[str], **more: object) -> dict[str, tuple[float, float, dict]]:
        """Cold and warm seconds of each library, the medians over processes, and what else the last process said."""
        cold: dict[str, list[float]] = {library: [] for library in libraries}
        warm: dict[str, list[float]] = {library: [] for library in libraries}
        last = {}
        for _ in range(self.arguments.rounds):
            for library in libraries:
                last[library] = self.run(library, work, **more)
                first, *later = last[library]["times"]
                cold[library].append(first)
                warm[library].append(statistics.median(later or [first]))
        median = statistics.median
        return {library: (median(cold[library]), median(warm[library]), last[library]) for library in libraries}


def row(name: str, goal: str, times: dict[str, tuple[float, float, dict]], which: int, unit: str) -> str:
    """A line of the table: figures of each library, and how many times the official wheel each is."""
    cells = []
    official = times["official"][which] if "official" in times else None
    for library in LIBRARIES:
        if library not in times:
            cells.append("-")
            continue
        seconds, last = times[library][which], times[library][2]
        figure = last["size"] / 1e6 / seconds if unit == "MB/s" else seconds * {"ms": 1e3, "us": 1e6}[unit]
        cell = f"{figure:.3g}" if figure < 100 else f"{figure:.0f}"
        if unit == "ms" and "memory" in last:
            cell += f"; {last['memory']:.0f} MB"
        if official is not None and library != "official":
            cell += f" ({official / seconds:.3g}x)"
        cells.append(cell)
    return f"| {name}, {unit} | " + " | ".join(cells) + f" | {goal} |"


def workloads():
    """What is measured: workload, result or other options, libraries, unit, and rows of name, pass and goal."""
    encoders = ["fastokens", "ours"]
    goals = {"en": ("130x", "195x"), "code": ("150x", "180x"), "agent": ("137x", "194x"), "zh": ("48x", "107x")}
    for text, (cold, warm) in goals.items():
        rows = [(f"{text}, cold, list", 0, cold), (f"{text}, warm, list", 1, warm)]
        yield text, {}, LIBRARIES, "MB/s", rows
        rows = [(f"{text}, cold, list, no template", 0, ""), (f"{text}, warm, list, no template", 1, "")]
        yield text, {"result": "plain"}, LIBRARIES, "MB/s", rows
        yield (
            text,
            {"result": "buffer"},
            encoders,
            "MB/s",
            [(f"{text}, cold, buffer", 0, ""), (f"{text}, warm, buffer", 1, "")],
        )
    for text in RUNS:
        yield text, {"passes": 1}, LIBRARIES, "MB/s", [(f"{text}, cold, list", 0, "150 MB/s")]
    for text in OTHERS:
        yield text, {"passes": 1}, LIBRARIES, "MB/s", [(f"{text}, cold, list", 0, "15 MB/s")]
    for text in ["en", "agent"]:
        for threads, goal in ((1, ""), (2, "1.8 times one thread")):
            rows = [
                (f"{text}, {threads} threads, {state}, wall", which, goal)
                for which, state in enumerate(("cold", "warm"))
            ]
            yield text, {"result": "buffer", "threads": threads, "clock": "wall"}, encoders, "MB/s", rows
    yield "short", {}, LIBRARIES, "us", [("50 bytes, one call", 1, "0.35 us")]
    rows = [("agent request of 85 KB, bytes to ids", 1, "0.5 ms"), ("the same, first request of a process", 0, "")]
    yield "request", {}, ["official", "ours"], "ms", rows
    yield "chat", {"passes": 1}, ["official", "ours"], "ms", [("agent chat, each of 100 turns", 0, "40 ms")]
    yield "load", {}, LIBRARIES, "ms", [("load tokenizer.json", 0, "25 ms, 15 MB")]
    yield "load", {"builtin": True}, ["ours"], "ms", [("load what is built in", 0, "3 ms, 15 MB")]


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(worker(json.loads(sys.argv[2]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--shared", type=Path, required=True)
    for library in LIBRARIES:
        parser.add_argument(f"--{library}", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="only this workload")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    for text in [*TEXTS, *RUNS, *OTHERS]:
        if arguments.only in ("", text):
            bench.check(text)
    print("| workload | official | fastokens | ours | goal |\n|---|---|---|---|---|")
    for work, options, libraries, unit, rows in workloads():
        if arguments.only in ("", work):
            times = bench.measure(work, libraries, **options)
            for name, which, goal in rows:
                print(row(name, goal, times, which, unit), flush=True)


if __name__ == "__main__":
    main()
