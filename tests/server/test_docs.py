"""What the pages show is so: their requests are answered, their options and routes exist."""

import json
import re
from pathlib import Path
from typing import Any

from deepseek_recipe.cli import main
from deepseek_recipe.server import create_app
from support import CHAT, run, serving

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(kind: str) -> list[str]:
    found = [re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M) for page in PAGES]
    return [block for page in found for block in page]


def test_curl_answers() -> None:
    requests = [re.search(r"^curl http://127.0.0.1:8000(\S+) .*-d '(.*)'$", block, re.S) for block in blocks("sh")]
    found = [request for request in requests if request is not None]
    assert [request[1] for request in found] == [CHAT]

    async def test() -> None:
        async with serving() as (client, _):
            for request in found:
                reply = await client.post(request[1], content=request[2])
                assert reply.status_code == 200 and reply.text.endswith("data: [DONE]\n\n")

    run(test())


def test_options_exist(capsys: Any) -> None:
    shown = [line for block in blocks("sh") for line in block.splitlines() if "deepseek-recipe serve" in line]
    options = {option for line in shown for option in re.findall(r"--[a-z-]+", line.split("deepseek-recipe serve")[1])}
    assert "--engine" in options
    try:
        main(["serve", "--help"])
    except SystemExit:
        pass
    text = capsys.readouterr().out
    assert all(option in text for option in options)


def test_routes_exist() -> None:
    async def routes() -> set[str]:
        async with serving() as (_, gateway):
            app: Any = create_app(gateway)
            return {route.path for route in app._app.routes}

    page = (ROOT / "docs/serving.md").read_text(encoding="utf-8").partition("## Engines")[0]
    named = set(re.findall(r"`(?:GET|POST|DELETE)?`?,? ?`?(?:GET|POST)? ?(/[a-z0-9_/{}.]+)`", page))
    assert len(named) > 8
    assert named - {"/v1", "/beta", "/anthropic"} <= run(routes())


def test_json_is_json() -> None:
    for block in blocks("json"):
        json.loads(block)
