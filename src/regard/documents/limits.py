"""Limits on documents: how large they may be once unpacked, and how deeply nested."""

from pydantic import Field

from regard.config import Config


class DocumentLimits(Config):
    bytes: int = Field(256 << 20, ge=1)
    """Bytes of a file"""
    unpacked: int = Field(512 << 20, ge=1)
    """Bytes of all files in an archive"""
    markup: int = Field(128 << 20, ge=1)
    """Bytes of those files in an archive that are XML with text"""
    ratio: int = Field(200, ge=1)
    """Unpacked bytes per packed byte of a file in an archive; does not apply to files under 1 MiB"""
    entries: int = Field(10_000, ge=1)
    """Files in an archive"""
    depth: int = Field(200, ge=1)
    """Elements of XML inside each other"""
