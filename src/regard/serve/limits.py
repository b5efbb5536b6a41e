"""What a request may ask for. Everything is bounded before any work is done for it."""

from pydantic import Field

from regard.config import Config


class Limits(Config):
    body: int = Field(65_536, ge=1)
    """Bytes of a request"""
    chars: int = Field(2_000, ge=1)
    """Characters of a text"""
    tokens: int = Field(512, ge=1)
    """Tokens of a text, and of what is said of it"""
    texts: int = Field(32, ge=1)
    """Texts of a request"""
    beam: int = Field(16, ge=1)
    queue: int = Field(64, ge=1)
    """Texts that wait or are decoded; more are refused"""
    batch: int = Field(32, ge=1)
    """Texts decoded at once"""
    queue_seconds: float = Field(5.0, gt=0.0)
    """A text that waits longer is given up"""
    decode_seconds: float = Field(30.0, gt=0.0)
    """So is one that takes longer"""
    linger_seconds: float = Field(0.002, ge=0.0)
    """How long the first text of a batch waits for others"""
    traces: int = Field(64, ge=1)
    trace_bytes: int = Field(256 << 20, ge=1)
    trace_seconds: float = Field(600.0, gt=0.0)
