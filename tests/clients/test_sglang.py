"""SGLang's own DeepSeek renderer and output parser give the same on this package as on the reference.

Both are fetched when the tests run, into pytest's cache, and run as they are: nothing of them is kept here.
Skipped where they cannot be fetched.
"""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deepseek_recipe
import sglang_requests
import tokenizer_file

SGLANG = "sglang==0.5.23"
REFERENCE = "deepseek-recipe==0.2.0"
# What SGLang's two files import. The tokenizers package is used without its downloader.
LIBRARIES = ["msgspec==0.23.0", "tokenizers==0.23.3"]
FILES = [f"sglang/srt/parser/deepseek_recipe_{name}.py" for name in ("renderer", "output")]
# The two files are plain Python: the wheel of any platform has them.
PLATFORM = ["--python-version=3.11", "--implementation=cp", "--abi=cp311", "--platform=manylinux_2_34_x86_64"]


def pip(python: Path, *arguments: str) -> None:
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip {' '.join(arguments)}: {done.stderr.strip()[-300:]}")


def fetch_sglang(folder: Path) -> None:
    pip(Path(sys.executable), "download", "--no-deps", "--only-binary=:all:", *PLATFORM, f"--dest={folder}", SGLANG)
    (wheel,) = folder.glob("sglang-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for file in FILES:
            archive.extract(file, folder)
    wheel.unlink()


def make_environment(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip(folder / "bin" / "python", "install", "--no-deps", "--only-binary=:all:", REFERENCE, *LIBRARIES)


def write_tokenizers(folder: Path) -> None:
    for version in ("v4", "v41"):
        tokenizer_file.write(version, folder / f"{version}.json")


@pytest.fixture(scope="module")
def cached(request: pytest.FixtureRequest) -> Any:
    """The folder of pytest's cache that `make` fills, once. One that was left half full is filled again."""

    def folder(name: str, make: Any) -> Path:
        path = Path(request.config.cache.mkdir(f"clients-{name}"))  # type: ignore[union-attr]
        done = path / "done"
        if not done.exists():
            make(path)
            done.touch()
        return path

    return folder


JOBS = sglang_requests.jobs()
ALL_JOBS = JOBS | {name: job for name, (job, _, _) in sglang_requests.PARTED.items()}


@pytest.fixture(scope="module")
def answers(cached: Any) -> dict[str, list[Any]]:
    """What SGLang says to each job, with this package and with the reference."""
    sglang = cached(SGLANG, fetch_sglang)
    environment = cached(f"{REFERENCE}-{sys.version_info.major}.{sys.version_info.minor}", make_environment)
    tokenizers = cached("tokenizers", write_tokenizers)
    command = [environment / "bin" / "python", Path(__file__).with_name("sglang_program.py")]
    command += [tokenizers / f"{version}.json" for version in ("v4", "v41")]
    jobs = "".join(json.dumps(job) + "\n" for job in ALL_JOBS.values())
    ours = Path(deepseek_recipe.__file__).parent.parent

    def run(*path: Path) -> Iterator[Any]:
        variables = {"PYTHONPATH": ":".join(map(str, (*path, sglang)))}
        done = subprocess.run(command, input=jobs, capture_output=True, text=True, env=variables)
        assert done.returncode == 0, done.stderr
        return map(json.loads, done.stdout.splitlines())

    found, expected = run(ours), run()
    assert Path(next(found)["package"]).parent == ours / "deepseek_recipe"
    assert environment in Path(next(expected)["package"]).parents
    return {name: [f, e] for name, f, e in zip(ALL_JOBS, found, expected, strict=True)}


def in_order(answer: Any) -> Any:
    """The answer with its deltas one behind the other: which piece of the output each came with is left open."""
    if "deltas" not in answer:
        return answer
    deltas: list[Any] = []
    for reasoning, content, calls in answer["deltas"]:
        deltas += [("reasoning", reasoning)] * bool(reasoning) + [("content", content)] * bool(content) + calls
    return {**answer, "deltas": deltas}


@pytest.mark.parametrize("name", JOBS)
def test_as_on_the_reference(name: str, answers: dict[str, list[Any]]) -> None:
    found, expected = map(in_order, answers[name])
    assert found == expected, JOBS[name]
    assert "error" not in expected or name.split(",")[0] in sglang_requests.REFUSED


@pytest.mark.parametrize("name", sglang_requests.PARTED)
def test_parts_from_the_reference(name: str, answers: dict[str, list[Any]]) -> None:
    _, *expected = sglang_requests.PARTED[name]
    found = [[text for _, text in in_order(answer)["deltas"]] for answer in answers[name]]
    assert ["".join(texts) for texts in found] == expected
