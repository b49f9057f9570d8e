"""Images: the records around them, what they cost in tokens, and how they are read and resized."""

import base64
import io
import json
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import deepseek_recipe as d
from expressions import agrees, answer, recorded, resolver

CASES = Path(__file__).parents[1] / "cases" / "image"
# A mean over a sixteenth of an image may differ by so many of 255 levels from that of the reference.
TOLERANCE = 3.0


def cases(name: str) -> list[Any]:
    rows = (json.loads(line) for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")[:-1])
    return [pytest.param(row, id=row["id"]) for row in rows]


def grid(webp: bytes) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """The mean colours of 4 x 4 parts of an image."""
    pixels = np.asarray(Image.open(io.BytesIO(webp)).convert("RGB"), dtype=np.float64)
    rows, columns = ([round(side * part / 4) for part in range(5)] for side in pixels.shape[:2])
    return np.array(
        [
            pixels[rows[i] : rows[i + 1], columns[j] : columns[j + 1]].reshape(-1, 3).mean(0)
            for i in range(4)
            for j in range(4)
        ]
    )


def png(width: int, height: int, rows: bytes = b"") -> bytes:
    """A grey PNG file; its pixels are missing unless rows are given."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def flat(width: int, height: int) -> bytes:
    return png(width, height, (b"\0" + b"\x64" * width) * height)


def error_of(call: Callable[..., object], *arguments: object) -> d.ImageError:
    with pytest.raises(d.ImageError) as raised:
        call(*arguments)
    return raised.value


@pytest.mark.parametrize(("expression", "expected"), recorded("image"))
def test_as_the_reference(expression: str, expected: dict[str, str]) -> None:
    given = answer(d, expression)
    assert agrees(given, expected), given


@pytest.mark.parametrize("case", cases("files"))
def test_file(case: Any) -> None:
    """Sizes, kinds of errors and pixels are the reference's; sizes are the same without decoding."""
    data = base64.b64decode(case["file"])
    sides = case["max_dimension_px"], case["low_detail_max_dimension_px"]
    options, expected = d.PreprocessOptions(case["detail"], *sides), case["expect"]
    if "error" in expected:
        error = error_of(d.OpenCvImagePreprocessor().preprocess, data, options)
        assert (error.kind, error.is_retryable) == (expected["error"], False)
        return
    image = d.OpenCvImagePreprocessor().preprocess(data, options)
    assert (image.width, image.height) == (expected["width"], expected["height"])
    assert image.data[12:16] == b"VP8 "
    assert Image.open(io.BytesIO(image.data)).size == (image.width, image.height)
    assert np.abs(grid(image.data) - np.array(expected["grid"])).max() <= TOLERANCE
    limits = d.ImageLimits(dimension_px=sides[0], low_detail_dimension_px=sides[1])
    measurer = d.ImageResolver(d.ReqwestImageFetcher(), d.OpenCvImagePreprocessor(), limits=limits)
    (measured,) = measurer.measure([d.BytesImageSource(data, case["detail"])], d.ImageQuota()).images
    assert (measured.width, measured.height, measured.data) == (image.width, image.height, b"")


@pytest.mark.parametrize("case", cases("sources"))
def test_sources(case: Any) -> None:
    """Sources are read and refused as in the reference, with its texts."""

    def source(given: dict[str, str]) -> d.ImageSource:
        place = {"path": given.get("path", "")}
        if "data_url" in given:
            return d.DataUrlImageSource(given["data_url"], **place)
        if "url" in given:
            return d.UrlImageSource(given["url"], **place)
        return d.BytesImageSource(bytes.fromhex(given["bytes_hex"]), **place)

    sources, quota, expected = [source(given) for given in case["sources"]], d.ImageQuota(), case["expect"]
    if "error" in expected:
        error = error_of(resolver(d).resolve, sources, quota)
        assert (error.kind, error.is_retryable) == (expected["error"], expected["retryable"])
        assert str(error) == expected["message"]
    else:
        data = resolver(d).resolve(sources, quota)
        assert [[image.width, image.height] for image in data.images] == expected["images"]
        assert data.image_token_adjustment() == expected["adjustment"]
    assert [quota.image_count(), quota.byte_size()] == expected["quota"]


def test_the_first_source_that_fails_is_named() -> None:
    """Recorded answers: loading comes before drawing, and images of one path are counted."""

    def sources(*given: tuple[bytes, str]) -> list[d.ImageSource]:
        return [d.BytesImageSource(data, path=path) for data, path in given]

    def refusal(*given: tuple[bytes, str]) -> tuple[str, str]:
        error = error_of(resolver(d).resolve, sources(*given), d.ImageQuota())
        return error.kind, str(error).split(":")[0]

    good, large = flat(20, 20), b"\x89PNG\r\n\x1a\n" + bytes(30 << 20)
    assert refusal((b"xx", "p"), (b"", "q")) == ("EmptyImage", "q.image[0]")
    assert refusal((b"xx", "p"), (large + bytes(3 << 20), "q")) == ("ImageTooLarge", "q.image[0]")
    assert refusal((good, "p"), (good, "q"), (good, "p"), (b"x", "p")) == ("UnsupportedMediaType", "p.image[2]")
    assert refusal((good, "p"), (good, ""), (b"x", "")) == ("UnsupportedMediaType", "image[1]")
    assert refusal((b"xx", "a"), (large, "b"), (large, "c"), (large, "d")) == ("TotalSizeTooLarge", "d")
    assert refusal(*[(b"xx", f"p{i}") for i in range(601)]) == ("TooManyImages", "p600")
    for kind, url in [("UrlTooLong", "http://a/" + "é" * 4096), ("InvalidUrl", "ftp://a")]:
        source = d.UrlImageSource(url, path="p1")
        error = error_of(resolver(d).resolve, [*sources((b"xx", "p0")), source], d.ImageQuota())
        assert (error.kind, str(error).split(":")[0]) == (kind, "p1")


def test_a_whole_file_as_a_url_is_not_repeated() -> None:
    error = error_of(resolver(d).resolve, [d.UrlImageSource("x" * 10_000)], d.ImageQuota())
    assert str(error) == 'invalid url: "' + "x" * 256 + '"'


def test_limits() -> None:
    small, wide = flat(20, 20), flat(4097, 2)
    quota = d.ImageQuota()
    assert len(resolver(d).resolve([d.BytesImageSource(small)] * 14, quota).images) == 14
    # With 15 images the sides may be half as long.
    error = error_of(resolver(d).resolve, [d.BytesImageSource(wide)], quota)
    assert (error.kind, quota.image_count()) == ("ImageDimensionsTooLarge", 14)
    assert resolver(d).resolve([d.BytesImageSource(wide)], d.ImageQuota()).images[0].width == 16380

    def refusal(count: int, **limits: Any) -> str:
        given = d.ImageLimits(**limits)
        strict = d.ImageResolver(d.ReqwestImageFetcher(), d.OpenCvImagePreprocessor(), limits=given)
        sources = [d.BytesImageSource(small)] * count
        refused = [error_of(f, sources, d.ImageQuota()) for f in (strict.resolve, strict.measure)]
        assert str(refused[0]) == str(refused[1])
        return refused[0].kind

    assert refusal(2, images=1) == "TooManyImages"
    assert refusal(1, image_bytes=10) == "ImageTooLarge"
    assert refusal(2, total_bytes=len(small)) == "TotalSizeTooLarge"
    assert refusal(2, total_pixels=799) == "TotalSizeTooLarge"
    assert refusal(1, dimension_px=19) == "ImageDimensionsTooLarge"
    assert refusal(2, many_images=2, dimension_px_of_many=19) == "ImageDimensionsTooLarge"
    with pytest.raises(ValueError, match="negative"):
        d.ImageLimits(download_seconds=-1)


def test_only_the_pixels_may_be_broken_when_measured() -> None:
    broken = [d.BytesImageSource(png(640, 480))]
    assert error_of(resolver(d).resolve, broken, d.ImageQuota()).kind == "EmptyImage"
    assert resolver(d).measure(broken, d.ImageQuota()).image_token_adjustment() == 205


def test_counting_from_the_header() -> None:
    assert d.image_size(png(640, 480)) == (640, 480)
    assert error_of(d.image_size, b"x").kind == "UnsupportedMediaType"
    assert [d.image_tokens(640, 480), d.image_tokens(1920, 1080, "low")] == [206, 192]
    assert d.image_tokens(8192, 2) == 393  # Of what WebP can hold, not of 42882 x 42.
    with pytest.raises(d.CalcResizeError):
        d.image_tokens(0, 5)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory as Linux tells it")
def test_a_header_that_promises_too_much_costs_little() -> None:
    """Without pixels behind it, a header of 1.1 GB of pixels is refused in 100 MB."""
    program = """
import resource, sys
import deepseek_recipe as d
data, options = sys.stdin.buffer.read(), d.PreprocessOptions("high", 2**32 - 1, 512)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    d.OpenCvImagePreprocessor().preprocess(data, options)
except d.ImageError as error:
    print(error.kind, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    for data in (png(60000, 60000), png(16000, 16000, b"\0" * 100)):
        shown = subprocess.run([sys.executable, "-c", program], input=data, stdout=subprocess.PIPE, check=True)
        kind, megabytes = shown.stdout.split()
        assert kind in (b"ImageDimensionsTooLarge", b"EmptyImage")
        assert int(megabytes) < 100


def test_one_quota_in_many_threads() -> None:
    quota, target, limits = d.ImageQuota(), flat(20, 20), d.ImageLimits(images=10)
    shared = d.ImageResolver(d.ReqwestImageFetcher(), d.OpenCvImagePreprocessor(), limits=limits)
    kinds: list[str] = []

    def work() -> None:
        try:
            shared.resolve([d.BytesImageSource(target)] * 3, quota)
        except d.ImageError as error:
            kinds.append(error.kind)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (kinds, quota.image_count(), quota.byte_size()) == (["TooManyImages"] * 3, 9, 9 * len(target))


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of an image on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(flat(20, 20))

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/a.png"
        server.shutdown()


def test_fetching_asks_first(url: str) -> None:
    fetcher, asked = d.ReqwestImageFetcher(), []

    def allow(host: str, address: str) -> bool:
        asked.append((host, address))
        return True

    error = error_of(fetcher.fetch, url)
    assert (error.kind, error.is_retryable) == ("DestinationRejected", False)
    assert str(error) == f"image[0]: Failed to download image from {url}"
    # A filter narrows: it is not even asked about what is refused anyway.
    assert error_of(fetcher.with_destination_filter(allow).fetch, url).kind == "DestinationRejected"
    assert asked == []
    inner = fetcher.with_internal_addresses()
    assert inner.fetch(url) == inner.with_destination_filter(allow).fetch(url) == flat(20, 20)
    assert asked == [("127.0.0.1", "127.0.0.1")]
    for refusal in (False, 1, None, "yes"):
        refusing = inner.with_destination_filter(lambda host, address, refusal=refusal: refusal)
        assert error_of(refusing.fetch, url).kind == "DestinationRejected"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_filter_that_raises_refuses(url: str) -> None:
    def broken(host: str, address: str) -> bool:
        raise KeyError(host)

    inner = d.ReqwestImageFetcher().with_internal_addresses()
    assert error_of(inner.with_destination_filter(broken).fetch, url).kind == "DestinationRejected"


def test_resolving_urls(url: str) -> None:
    """Several threads ask the filter, while this one waits without the interpreter lock."""
    threads = set()

    def allow(host: str, address: str) -> bool:
        threads.add(threading.get_ident())
        return True

    fetcher = d.ReqwestImageFetcher().with_internal_addresses().with_destination_filter(allow)
    target, quota = d.ImageResolver(fetcher, d.OpenCvImagePreprocessor()), d.ImageQuota()
    sources = [d.UrlImageSource(url), d.BytesImageSource(flat(20, 20))] * 8
    resolved = target.resolve(sources, quota)
    assert [image.data for image in resolved.images] == [resolved.images[0].data] * 16
    assert target.measure(sources, d.ImageQuota()).image_token_adjustment() == resolved.image_token_adjustment()
    assert (quota.image_count(), quota.byte_size()) == (16, 16 * len(flat(20, 20)))
    assert threads
