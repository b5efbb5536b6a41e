"""Sessions of browsers that have signed in: signed ids, which every replica with the same token can check."""

import base64
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from functools import cached_property

from regard.serve.limits import Limits

_PURPOSE = b"regard session"


class Sessions:
    """An id is "EXPIRY.RANDOM.SIGNATURE". Nothing is stored but the sessions that were ended here."""

    def __init__(self, token: str, limits: Limits) -> None:
        self.limits = limits
        self._token = token
        self._ended: OrderedDict[str, float] = OrderedDict()
        """Id → expiry, the one that was ended first comes first"""

    def start(self) -> str:
        """Return the id of a new session."""
        unsigned = f"{int(time.time() + self.limits.session_seconds)}.{secrets.token_urlsafe(18)}"
        return f"{unsigned}.{self._sign(unsigned)}"

    def is_valid(self, session_id: str) -> bool:
        unsigned, _, signature = session_id.rpartition(".")
        if not secrets.compare_digest(signature.encode(), self._sign(unsigned).encode()):
            return False
        return _expiry(session_id) > time.time() and session_id not in self._ended

    def end(self, session_id: str) -> None:
        """Refuse a valid session from now on, in this process. If there are too many, the oldest is forgotten."""
        now = time.time()
        for expired in [ended for ended, expiry in self._ended.items() if expiry <= now]:
            del self._ended[expired]
        if len(self._ended) >= self.limits.ended_sessions:
            self._ended.popitem(last=False)
        self._ended[session_id] = _expiry(session_id)

    @cached_property
    def _key(self) -> bytes:
        # A slow function, so that whoever gets hold of an id cannot try many tokens to find the one that signed it.
        return hashlib.scrypt(self._token.encode(), salt=_PURPOSE, n=2**14, r=8, p=1)

    def _sign(self, unsigned: str) -> str:
        digest = hmac.digest(self._key, unsigned.encode(), "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _expiry(session_id: str) -> int:
    """Return when a session ends, in seconds since 1970. Its signature was checked before."""
    return int(session_id.partition(".")[0])
