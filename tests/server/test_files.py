"""Hooks put files and documents into the three protocols' requests, and each owner has its own."""

import base64
from typing import Any

from deepseek_recipe.adapters import GenerateRequest
from deepseek_recipe.adapters.replay import ReplayEngine
from deepseek_recipe.server import FileData, Files
from support import BODIES, CHAT, END, MESSAGES, RESPONSES, THOUGHT, Scripted, run, serving

PDF = base64.b64encode(b"%PDF-1.7").decode()


class Resolver:
    """Files by id; `foreign` is another owner's."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def resolve(self, file_id: str, owner: str) -> FileData | None:
        self.asked.append((file_id, owner))
        files = {
            "text": FileData("Grüße".encode(), "text/plain", "a.txt"),
            "pdf": FileData(b"%PDF-1.7", "application/pdf", "b.pdf"),
            "large": FileData(b"x" * (32 * 1024 * 1024 + 1), "text/plain"),
        }
        return files.get(file_id)


class Extractor:
    async def extract(self, file: FileData) -> str | None:
        return f"text of {len(file.data)} bytes" if file.data.startswith(b"%PDF") else None


def text_of(request: GenerateRequest) -> str:
    tokenizer = ReplayEngine().tokenizer
    tokens = [tokenizer.token(id) for id in request.prompt_token_ids]
    return b"".join(token.encode() if isinstance(token, str) else token or b"" for token in tokens).decode()


def with_part(path: str, part: dict[str, Any]) -> dict[str, Any]:
    name = "input" if path == RESPONSES else "messages"
    return {**BODIES[path], name: [{"role": "user", "content": [part]}]}


async def send(path: str, part: dict[str, Any], files: Files | None = None) -> tuple[int, str]:
    """The status, and the prompt or the error's message."""
    engine = Scripted(THOUGHT, END)
    async with serving(engine, files=files or Files(Resolver(), Extractor())) as (client, _):
        reply = await client.post(path, json=with_part(path, part))
        if reply.status_code != 200:
            return reply.status_code, reply.json()["error"]["message"]
        return 200, text_of(engine.requests[0])


def parts(id: str) -> list[tuple[str, dict[str, Any]]]:
    """A file id in each place that has one."""
    return [
        (CHAT, {"type": "file", "file": {"file_id": id}}),
        (RESPONSES, {"type": "input_file", "file_id": id}),
        (MESSAGES, {"type": "document", "source": {"type": "file", "file_id": id}}),
    ]


def test_files() -> None:
    async def test() -> None:
        for path, part in parts("text"):
            status, prompt = await send(path, part)
            assert status == 200 and "[file name]: a.txt" in prompt and "Grüße" in prompt, path
        for path, part in parts("pdf"):
            status, prompt = await send(path, part)
            assert status == 200 and "[file name]: b.pdf" in prompt and "text of 8 bytes" in prompt, path
        for path, part in parts("no"):
            where = "input[0]" if path == RESPONSES else "messages[0]"
            assert await send(path, part) == (400, f"{where}.content[0]: file 'no' not found")
        for path, part in parts("large"):
            status, message = await send(path, part)
            assert status == 400 and "33554432 bytes each" in message

    run(test())


def test_documents_in_the_request() -> None:
    url = f"data:application/pdf;base64,{PDF}"
    cases = [
        (CHAT, {"type": "file", "file": {"file_data": url, "filename": "c.pdf"}}),
        (RESPONSES, {"type": "input_file", "file_data": url, "filename": "c.pdf"}),
        (
            MESSAGES,
            {
                "type": "document",
                "title": "c.pdf",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
            },
        ),
    ]

    async def test() -> None:
        for path, part in cases:
            status, prompt = await send(path, part)
            assert status == 200 and "[file name]: c.pdf" in prompt and "text of 8 bytes" in prompt, path
            # Without the hook the codec refuses it by name.
            status, message = await send(path, part, Files())
            assert status == 400 and "supported" in message
        other = base64.b64encode(b"PK").decode()
        broken = {"type": "input_file", "file_data": f"data:application/zip;base64,{other}"}
        assert await send(RESPONSES, broken) == (400, "input[0].content[0]: the document cannot be read")

    run(test())


def test_owner() -> None:
    resolver = Resolver()

    async def test() -> None:
        async with serving(Scripted(THOUGHT, END), files=Files(resolver), api_keys=("one", "two")) as (client, gateway):
            for key in ("one", "two"):
                body = with_part(CHAT, parts("text")[0][1])
                await client.post(CHAT, json=body, headers={"x-api-key": key})
            owners = [owner for _, owner in resolver.asked]
            assert owners == [gateway.keys.owner(None, key) for key in ("one", "two")]
            assert len(set(owners)) == 2

    run(test())


def test_text_in_the_request_stays_as_it_is() -> None:
    text = base64.b64encode(b"plain").decode()
    part = {"type": "input_file", "filename": "d.txt", "file_data": f"data:text/plain;base64,{text}"}

    async def test() -> None:
        assert await send(RESPONSES, part) == await send(RESPONSES, part, Files())

    run(test())
