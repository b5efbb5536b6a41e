"""Limits of a server: how large requests may be, how many may wait, and how long they may take."""

from pydantic import Field

from regard.config import Config


class Limits(Config):
    body: int = Field(65_536, ge=1)
    """Bytes of a request body"""
    chars: int = Field(2_000, ge=1)
    """Characters of a text"""
    tokens: int = Field(512, ge=1)
    """Tokens of a text, and of an output"""
    texts: int = Field(32, ge=1)
    """Texts per request"""
    beam: int = Field(16, ge=1)
    """Beam width, and hypotheses per text"""
    queue: int = Field(64, ge=1)
    """Jobs that wait or run; more are refused"""
    batch: int = Field(32, ge=1)
    """Texts that are decoded at once"""
    queue_seconds: float = Field(5.0, gt=0.0)
    """How long a job may wait"""
    decode_seconds: float = Field(30.0, gt=0.0)
    """How long a job may run"""
    linger_seconds: float = Field(0.002, ge=0.0)
    """How long the first job of a batch waits for others, if there were others just before"""
    traces: int = Field(64, ge=1)
    """Traces that are stored"""
    trace_bytes: int = Field(256 << 20, ge=1)
    """Bytes of all stored traces"""
    trace_seconds: float = Field(600.0, gt=0.0)
    """How long a trace is stored"""
    tensor_bytes: int = Field(32 << 20, ge=1)
    """Bytes of the tensors in one response"""
