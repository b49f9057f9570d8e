"""Images: the records around them, and what they cost in tokens."""

import pytest

import deepseek_recipe as d
from expressions import agrees, answer, recorded, resolver


@pytest.mark.parametrize(("expression", "expected"), recorded("image"))
def test_as_the_reference(expression: str, expected: dict[str, str]) -> None:
    given = answer(d, expression)
    assert agrees(given, expected), given


def test_what_is_not_done_says_so() -> None:
    options = d.PreprocessOptions("high", 8192, 512)
    with pytest.raises(NotImplementedError, match="this package downloads nothing"):
        d.ReqwestImageFetcher().fetch("https://example.com/a.png")
    with pytest.raises(NotImplementedError, match="this version resizes no images"):
        d.OpenCvImagePreprocessor().preprocess(b"x", options)
    with pytest.raises(NotImplementedError, match="this version resolves no images"):
        resolver(d).resolve([d.BytesImageSource(b"x")], d.ImageQuota())
