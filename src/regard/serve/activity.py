"""What a server is doing at the moment."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Activity:
    running: int = 0
    """Requests that are being answered"""
    responses: Counter[int] = field(default_factory=Counter)
    """How many responses had each status"""
    draining: bool = False
    """Whether the server is about to stop: it finishes its requests and should get no new ones"""
