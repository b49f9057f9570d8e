"""Files that a request refers to, and documents that are no text: hooks of the operator put them into the request.

What comes back is a request that the codec can read: a file id becomes data, and a document becomes its text.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any, Protocol, cast

from ..recipe import ProtocolName
from .errors import ApiError

_MAX_FILE = 32 * 1024 * 1024
_MAX_FILES = 64 * 1024 * 1024

_TEXT = ("text/", "application/json", "application/xml", "application/yaml", "application/x-ndjson")


@dataclass(frozen=True)
class FileData:
    """A file: its bytes, its media type, and its name if it has one."""

    data: bytes
    media_type: str
    filename: str | None = None


class FileResolver(Protocol):
    """Finds uploaded files."""

    async def resolve(self, file_id: str, owner: str) -> FileData | None:
        """Returns the file, if there is one and it is this owner's."""
        ...


class DocumentExtractor(Protocol):
    """Reads documents that are no text, such as PDF."""

    async def extract(self, file: FileData) -> str | None:
        """Returns the text of a document, or `None` if it cannot be read."""
        ...


class Files:
    """The two hooks, each optional. Without them a request stays as it is: the codec refuses what it cannot read."""

    def __init__(self, resolver: FileResolver | None = None, extractor: DocumentExtractor | None = None):
        self._resolver = resolver
        self._extractor = extractor

    def wants(self, fields: dict[str, Any], protocol: ProtocolName) -> bool:
        """Whether there is anything to look for, and something to look into."""
        hooks = self._resolver is not None or self._extractor is not None
        return hooks and isinstance(fields.get(_turns(protocol)), list)

    async def resolve(self, request: dict[str, Any], protocol: ProtocolName, owner: str) -> None:
        """Puts the files into a request. Raises `ApiError` for one that is not found or too large, and
        `RecursionError` for nesting."""
        turns = _turns(protocol)
        await _Work(self._resolver, self._extractor, owner).walk(request[turns], turns)


def _turns(protocol: ProtocolName) -> str:
    return "input" if protocol == "responses" else "messages"


class _Work:
    """One request's walk."""

    def __init__(self, resolver: FileResolver | None, extractor: DocumentExtractor | None, owner: str):
        self._resolver = resolver
        self._extractor = extractor
        self._owner = owner
        self._left = _MAX_FILES

    async def walk(self, value: Any, path: str) -> None:
        """Changes the parts below `value` in place."""
        if isinstance(value, list):
            for index, element in enumerate(cast("list[Any]", value)):
                await self.walk(element, f"{path}[{index}]")
        elif isinstance(value, dict):
            part = cast("dict[str, Any]", value)
            await self._part(part, path)
            for name in ("content", "output"):
                if isinstance(part.get(name), list):
                    await self.walk(part[name], f"{path}.{name}")

    async def _part(self, part: dict[str, Any], path: str) -> None:
        match part.get("type"):
            case "file":
                nested = part["file"] if isinstance(part.get("file"), dict) else part
                await self._data_url(nested, "file_data", path)
            case "input_file":
                await self._data_url(part, "file_data", path)
            case "input_image":
                await self._data_url(part, "image_url", path)
            case "image" | "document" if isinstance(part.get("source"), dict):
                await self._source(part, part["source"], path)
            case _:
                pass

    async def _data_url(self, part: dict[str, Any], name: str, path: str) -> None:
        """The parts of OpenAI: a `file_id`, or data as a URL or as plain base64."""
        filename = part.get("filename")
        if isinstance(part.get("file_id"), str):
            file = await self._resolve(part["file_id"], path)
        elif name == "file_data" and isinstance(part.get(name), str):
            file = _from_url(part[name], filename)
        else:
            return
        text = None if file is None else await self._extract(file, path)
        if file is not None and ("file_id" in part or text is not None):
            part.pop("file_id", None)
            file = file if text is None else FileData(text.encode(), "text/plain", file.filename)
            part[name] = f"data:{file.media_type};base64,{base64.b64encode(file.data).decode()}"
            if file.filename and name == "file_data":
                part.setdefault("filename", file.filename)

    async def _source(self, part: dict[str, Any], source: dict[str, Any], path: str) -> None:
        """The blocks of Anthropic."""
        if source.get("type") == "file" and isinstance(source.get("file_id"), str):
            file = await self._resolve(source["file_id"], path)
        elif source.get("type") == "base64" and isinstance(source.get("data"), str) and part["type"] == "document":
            file = _from_base64(source["data"], str(source.get("media_type", "")), part.get("title"))
        else:
            return
        if file is None:
            return
        text = await self._extract(file, path)
        if text is None and _is_text(file.media_type):
            text = file.data.decode("utf-8-sig", "replace")
        if text is not None:
            part["source"] = {"type": "text", "media_type": "text/plain", "data": text}
        elif source.get("type") == "file":
            data = base64.b64encode(file.data).decode()
            part["source"] = {"type": "base64", "media_type": file.media_type, "data": data}
        if file.filename and part["type"] == "document" and part.get("title") is None:
            part["title"] = file.filename

    async def _resolve(self, file_id: str, path: str) -> FileData | None:
        if self._resolver is None:
            return None
        file = await self._resolver.resolve(file_id, self._owner)
        if file is None:
            raise ApiError(400, f"{path}: file '{file_id}' not found", param=path)
        self._count(file, path)
        return file

    async def _extract(self, file: FileData, path: str) -> str | None:
        if self._extractor is None or _is_text(file.media_type) or file.media_type.startswith("image/"):
            return None
        text = await self._extractor.extract(file)
        if text is None:
            raise ApiError(400, f"{path}: the document cannot be read", param=path)
        return text

    def _count(self, file: FileData, path: str) -> None:
        self._left -= len(file.data)
        if len(file.data) > _MAX_FILE or self._left < 0:
            message = f"{path}: files may have {_MAX_FILE} bytes each and {_MAX_FILES} bytes in one request"
            raise ApiError(400, message, param=path)


def _is_text(media_type: str) -> bool:
    return media_type.startswith(_TEXT)


def _from_url(data: str, filename: str | None) -> FileData | None:
    if not data.startswith("data:"):
        return None
    head, comma, rest = data[5:].partition(",")
    media_type, *parameters = head.split(";")
    if not comma or "base64" not in parameters:
        return None
    return _from_base64(rest, media_type, filename)


def _from_base64(data: str, media_type: str, filename: str | None) -> FileData | None:
    """`None` where it is not base64: the codec says so."""
    try:
        return FileData(base64.b64decode(data, validate=True), media_type, filename)
    except (binascii.Error, ValueError):
        return None
