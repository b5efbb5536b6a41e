"""The store of translated files, in memory, until they are downloaded or expire."""

import re
from typing import NamedTuple

from regard.serve.bounded_store import BoundedStore
from regard.serve.limits import Limits

_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_CHARS = 80  # of a file's name


class StoredFile(NamedTuple):
    name: str
    """For the client; letters, digits, dots, dashes and underscores only"""
    content: bytes


class FileStore(BoundedStore[StoredFile]):
    def __init__(self, limits: Limits) -> None:
        super().__init__(limits.stored_files, limits.stored_file_bytes, limits.stored_file_seconds)

    def add(self, name: str, content: bytes, client: str) -> str:
        """Store a file, and return the name that it can be downloaded under: ID.NAME"""
        stored_name = f"{self.new_id()}.{name}"
        self.put(stored_name, StoredFile(name, content), len(content), client)
        return stored_name


def translated_name(name: str, language: str) -> str:
    """Return the name of a translation: letter.docx → letter_fr.docx."""
    stem, _, extension = name.rpartition(".")
    usual = _UNUSUAL.sub("_", f"{stem[-_MOST_CHARS:]}_{language}").strip("._-") or "translation"
    return f"{usual}.{_UNUSUAL.sub('_', extension.lower())}"
