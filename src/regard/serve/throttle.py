"""Slows down clients that try tokens: after some wrong ones, an address must wait longer and longer."""

import hashlib
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from regard.serve.limits import Limits

_REMEMBERED = 16  # wrong tokens per address
_FORGET_SECONDS = 900.0


@dataclass
class Guesses:
    """Wrong tokens from one address"""

    n: int = 0
    recent: deque[bytes] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    """Hashes of the last ones"""
    last: float = 0.0
    """Monotonic time of the last one"""
    until: float = 0.0
    """Monotonic time before which no token from this address is looked at"""


class Throttle:
    """Counts different wrong tokens per address. A client that repeats one wrong token is not slowed down."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._guesses: OrderedDict[str, Guesses] = OrderedDict()

    def seconds_left(self, address: str) -> float:
        """Return how long this address must wait before it may try another token."""
        guesses = self._guesses.get(_network(address))
        return max(0.0, guesses.until - time.monotonic()) if guesses else 0.0

    def add_wrong(self, address: str, token: str) -> None:
        now, key = time.monotonic(), _network(address)
        guesses = self._guesses.pop(key, None)
        if guesses is None or now - guesses.last > _FORGET_SECONDS:
            guesses = Guesses()
        self._guesses[key] = guesses  # as the most recent one
        if len(self._guesses) > self.limits.throttled_addresses:
            self._guesses.popitem(last=False)
        guesses.last = now
        digest = hashlib.sha256(token.encode()).digest()
        if digest in guesses.recent:
            return
        guesses.recent.append(digest)
        guesses.n += 1
        if (excess := guesses.n - self.limits.wrong_tokens) >= 0:
            guesses.until = now + min(2.0 ** min(excess, 30), self.limits.throttle_seconds)

    def __len__(self) -> int:
        return len(self._guesses)


def _network(address: str) -> str:
    """Return the address; of IPv6, the network of which one client commonly has all addresses."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or IPv6Address(int(parsed) >> 64 << 64))
