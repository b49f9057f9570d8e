"""The tokenizer. What it yields is tested with the core; this is its Python face."""

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
