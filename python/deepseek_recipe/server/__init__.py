"""The gateway: the three protocols over HTTP, in front of any engine. Needs the extra `server`."""

from .app import create_app
from .files import DocumentExtractor, FileData, FileResolver, Files
from .gateway import Gateway
from .settings import Settings
from .store import MemoryStore, ResponseStore, SqliteStore, StoredResponse

__all__ = [
    "DocumentExtractor",
    "FileData",
    "FileResolver",
    "Files",
    "Gateway",
    "MemoryStore",
    "ResponseStore",
    "Settings",
    "SqliteStore",
    "StoredResponse",
    "create_app",
]
