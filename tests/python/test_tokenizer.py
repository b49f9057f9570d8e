"""The tokenizer. What it yields is tested with the core; this is its Python face."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import deepseek_recipe as d
from expressions import agrees, answer, recorded

VERSIONS = [d.ModelVersion.DeepseekV4Pro, d.ModelVersion.DeepseekV41Flash]


@pytest.mark.parametrize(("expression", "expected"), recorded("tokenizer"))
def test_as_the_reference(expression: str, expected: dict[str, str]) -> None:
    given = answer(d, expression)
    assert agrees(given, expected), given


@pytest.mark.parametrize("version", VERSIONS)
def test_encode(version: d.ModelVersion) -> None:
    tokenizer = d.Tokenizer.builtin(version)
    assert tokenizer.encode("hello world <｜User｜>") == [33310, 2058, 223, 128803]
    assert tokenizer.encode(text="") == []
    assert tokenizer.encode("a\ud800") == tokenizer.encode("a\ufffd")
    text = "The quick brown fox, 12345. " * 2000
    assert b"".join(tokenizer.token(id) for id in tokenizer.encode(text)) == text.encode()  # type: ignore[misc]


def test_token() -> None:
    tokenizer = d.Tokenizer.builtin(d.ModelVersion.DeepseekV41Flash)
    assert tokenizer.special_id("<think>") == 128821
    assert tokenizer.special_id("hello") is None
    assert (tokenizer.token(128821), tokenizer.token(33310), tokenizer.token(2**32 - 1)) == ("<think>", b"hello", None)
    with pytest.raises(OverflowError):
        tokenizer.token(-1)


def test_misuse() -> None:
    with pytest.raises(TypeError):
        d.Tokenizer()
    with pytest.raises(TypeError):
        d.Tokenizer.builtin(d.ModelVersion.DeepseekV4Pro).encode(b"x")  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match=r"Tokenizer\.builtin"):
        d.Tokenizer.from_pretrained("deepseek-ai/DeepSeek-V4-Pro")


def test_files() -> None:
    with pytest.raises(RuntimeError, match="No such file or directory"):
        d.Tokenizer.from_file("/no/such/file")
    for text in ("{}", "x", "[]", "\ud800"):
        with pytest.raises(RuntimeError):
            d.Tokenizer.from_str(text)


def test_threads_share_a_tokenizer() -> None:
    tokenizer = d.Tokenizer.builtin(d.ModelVersion.DeepseekV4Pro)
    texts = [f"{i} words of a text " * 500 for i in range(16)]
    expected = [tokenizer.encode(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tokenizer.encode, texts)) == expected


def test_lists_share_their_integers() -> None:
    encode = d.Tokenizer.builtin(d.ModelVersion.DeepseekV41Flash).encode
    first, second = encode("hello world <｜User｜>"), encode("hello world <｜User｜>")
    assert first == second
    assert all(type(id) is int and one is id for one, id in zip(first, second, strict=True))


def test_a_segment_cache_changes_no_id() -> None:
    tokenizer = d.Tokenizer.builtin(d.ModelVersion.DeepseekV41Flash)
    messages = [d.UserMessage(f"Segment {n}, of a prompt that comes again and again. " * 9) for n in range(50)]
    prompt = d.DeepseekV41Encoding().render_conversation(d.Conversation(messages))
    expected = tokenizer.with_segment_cache(0).encode_prompt(prompt).tolist()
    for bytes in (1000, 100_000, 2**25):
        cached = tokenizer.with_segment_cache(bytes)
        assert [cached.encode_prompt(prompt).tolist() for _ in range(3)] == [expected] * 3
    with pytest.raises(OverflowError):
        tokenizer.with_segment_cache(-1)


# Long enough for several threads.
ALONE = """
import os
from pathlib import Path
import deepseek_recipe as d

tokenizer = d.Tokenizer.builtin(d.ModelVersion.DeepseekV41Flash)
tasks = Path("/proc/self/task")
assert not tasks.exists() or len(list(tasks.iterdir())) == 1, "a thread was started at import or at load"
text = "The quick brown fox, 12345. " * 20_000
expected = tokenizer.encode(text)
child = os.fork()
if child == 0:
    os._exit(0 if tokenizer.encode(text) == expected else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_no_thread_outlives_a_call_so_a_process_may_fork() -> None:
    subprocess.run([sys.executable, "-c", ALONE], check=True, timeout=60)
