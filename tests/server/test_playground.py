"""The playground's endpoints. The page itself is tested in a browser, in tests/playground."""

import json
from typing import Any

import pytest

import deepseek_recipe as recipe
from deepseek_recipe.server.playground import describe_prompt
from support import run, serving

CHAT: dict[str, Any] = {
    "model": "any",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Grüße 👩‍👩‍👧."},
        {"role": "user", "content": "<｜User｜>"},
    ],
}

UNKNOWN = {"model": "any", "messages": [{"role": "user", "content": [{"type": "nonsense"}]}]}
LONG = [{"role": "user", "content": " word" * 200_000}]


def post(path: str, **body: Any) -> tuple[int, Any]:
    async def test() -> tuple[int, Any]:
        async with serving() as (client, _):
            reply = await client.post(f"/playground/{path}", json=body)
            return reply.status_code, reply.json()

    return run(test())


def pieces(prompt: dict[str, Any]) -> list[dict[str, Any]]:
    return [piece for segment in prompt["segments"] for piece in segment["pieces"]]


@pytest.mark.parametrize("model", ["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"])
def test_pieces_are_the_prompt_and_its_ids(model: str) -> None:
    status, prompt = post("prompt", request=json.dumps(CHAT), model=model)
    encoded = recipe.Recipe(model=model).encode(CHAT)
    assert status == 200 and prompt["protocol"] == "chat_completions"
    assert [segment["kind"] for segment in prompt["segments"]] == [segment.kind for segment in encoded.segments]
    assert "".join(piece["text"] for piece in pieces(prompt)) == encoded.prompt
    assert [id for piece in pieces(prompt) for id in piece["ids"]] == encoded.token_ids.tolist()
    assert prompt["tokens"] == len(encoded.token_ids) and prompt["messages"] == ["system", "user", "user"]
    # The family is several tokens and no piece holds a part of a character.
    assert any(len(piece["ids"]) > 1 for piece in pieces(prompt))
    assert all("\ufffd" not in piece["text"] for piece in pieces(prompt))


def test_pieces_name_their_messages() -> None:
    encoded = recipe.Recipe(model="DeepSeek-V4.1-Flash").encode(CHAT)
    shown = pieces(describe_prompt(encoded))
    made: dict[int | None, str] = {}
    for piece in shown:
        made[piece["message"]] = made.get(piece["message"], "") + piece["text"]
    assert "Be brief." in made[0] and "Reasoning Effort" in made[None]
    # "." and the empty line behind it are one token: it belongs to both messages.
    (between,) = [piece for piece in shown if "last_message" in piece]
    assert (between["message"], between["last_message"]) == (1, 2) and between["text"] == ".\n\n"


@pytest.mark.parametrize(
    "output", ["I think.</think>Said 👩‍👩‍👧", 'Call.</think>\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">']
)
def test_steps_are_the_streams_token_by_token(output: str) -> None:
    status, answer = post("output", request=json.dumps(CHAT), text=output, finish_reason="stop")
    encoded = recipe.Recipe(model="DeepSeek-V4.1-Flash").encode(CHAT)
    ids = encoded.tokenizer.encode(output)
    *tokens, end = answer["steps"]
    assert status == 200 and [step["id"] for step in tokens] == ids and "id" not in end
    events = [event for step in answer["steps"] for event in step["events"]]
    assert [event for event in events if event["type"] != "tool_call_start"] == [
        event.to_dict() for event in recipe.stream_parse(ids, encoded) if event.type != "tool_call_start"
    ]
    for protocol, last in (
        ("chat_completions", "data: [DONE]"),
        ("messages", "event: message_stop"),
        ("responses", "event: response.completed"),
    ):
        sent = [event for step in answer["steps"] for event in step["streams"][protocol]]
        assert sent[-1].startswith(last)
    assert answer["response"]["choices"][0]["finish_reason"] == "stop"
    assert answer["response"]["usage"]["prompt_tokens"] == len(encoded.token_ids)


def test_a_cut_is_the_beginning_of_the_steps() -> None:
    body = {"request": json.dumps(CHAT), "text": "I think.</think>Said"}
    _, whole = post("output", **body, finish_reason=None)
    _, cut = post("output", **body, cut=3, finish_reason=None)
    assert len(cut["steps"]) == 3 < len(whole["steps"])
    assert [step["events"] for step in cut["steps"]] == [step["events"] for step in whole["steps"][:3]]
    _, ended = post("output", **body, cut=3, finish_reason="length")
    assert ended["steps"][-1]["events"][0]["reason"] == "length"


def test_the_engine_is_asked() -> None:
    request = json.dumps({**CHAT, "stream": True, "n": 2})
    status, answer = post("engine", request=request)
    tokenizer = recipe.Tokenizer.builtin(recipe.ModelVersion.DeepseekV41Flash)
    assert (status, answer["finish_reason"]) == (200, "stop")
    assert answer["ids"][:-1] == tokenizer.encode("I think.</think>Said.")
    status, answer = post("engine", request=request, model="DeepSeek-V4-Pro")
    assert status == 400 and answer["error"]["param"] == "model"


def test_an_output_that_ended_by_itself_makes_nothing_more() -> None:
    request = json.dumps({**CHAT, "stop": "two"})
    _, answer = post("output", request=request, text="</think>one two three", finish_reason="stop")
    kinds = [event["type"] for step in answer["steps"] for event in step["events"]]
    assert kinds[-1] == "finish" and kinds.count("finish") == 1
    assert sum("data: [DONE]" in step["streams"]["chat_completions"] for step in answer["steps"]) == 1


@pytest.mark.parametrize(
    ("path", "body", "param", "message"),
    [
        ("prompt", {}, "request", "expected 'request' as JSON text"),
        ("prompt", {"request": "{"}, None, "invalid JSON request"),
        ("prompt", {"request": "{}", "protocol": "soap"}, "protocol", "expected 'protocol' as null or one of"),
        ("prompt", {"request": "{}", "model": []}, "model", "expected 'model' as null or one of"),
        ("prompt", {"request": "{}", "model": "other"}, "model", "expected 'model' as null or one of"),
        ("prompt", {"request": json.dumps(UNKNOWN)}, "messages[0].content[0].type", "unknown variant `nonsense`"),
        ("prompt", {"request": json.dumps({**CHAT, "messages": LONG})}, None, "200000 can be shown"),
        ("output", {"request": json.dumps(CHAT)}, "text", "expected either 'text' as a string or 'ids' as a list"),
        ("output", {"request": json.dumps(CHAT), "ids": [1, -1]}, "ids[1]", "not an id of the vocabulary"),
        ("output", {"request": json.dumps(CHAT), "ids": [True]}, "ids[0]", "not an id of the vocabulary"),
        ("output", {"request": json.dumps(CHAT), "ids": [2] * 20_001}, None, "20000 can be shown"),
        ("output", {"request": json.dumps(CHAT), "text": "a", "cut": -1}, "cut", "expected 'cut' as a number"),
        ("output", {"request": json.dumps(CHAT), "text": "a", "finish_reason": "x"}, "finish_reason", "null or one of"),
    ],
)  # fmt: skip
def test_bad_input_says_what_and_where(path: str, body: dict[str, Any], param: str | None, message: str) -> None:
    status, answer = post(path, **body)
    assert status == 400
    assert answer["error"]["param"] == param and message in answer["error"]["message"]


def test_files_are_served_without_a_key_and_answers_are_not() -> None:
    async def test() -> None:
        async with serving(api_keys=("secret",)) as (client, _):
            page = await client.get("/", follow_redirects=True)
            assert page.url.path == "/playground"
            assert page.status_code == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
            assert "script-src 'self'" in page.headers["content-security-policy"]
            script = await client.get("/playground/playground.js")
            assert script.headers["content-type"].startswith("text/javascript")
            assert (await client.get("/playground/example")).json()["request"].startswith("{")
            for path in ("prompt", "output"):
                reply = await client.post(f"/playground/{path}", json={"request": "{}"})
                assert reply.status_code == 401
            keyed = {"authorization": "Bearer secret"}
            reply = await client.post("/playground/prompt", json={"request": json.dumps(CHAT)}, headers=keyed)
            assert reply.status_code == 200
        async with serving(expose_docs=False) as (client, _):
            assert (await client.get("/playground")).status_code == 404
            assert (await client.get("/")).status_code == 404

    run(test())
