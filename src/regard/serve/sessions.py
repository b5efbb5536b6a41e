"""Sessions of browsers that have signed in: a bounded number, for a limited time; ids are random."""

import secrets
import time
from collections import OrderedDict

from regard.serve.limits import Limits


class Sessions:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._expiry: OrderedDict[str, float] = OrderedDict()
        """Id → monotonic time, oldest first"""

    def start(self) -> str:
        """Return the id of a new session. The oldest session ends if there are too many."""
        if len(self._expiry) >= self.limits.sessions:
            self._expiry.popitem(last=False)
        session_id = secrets.token_urlsafe(32)
        self._expiry[session_id] = time.monotonic() + self.limits.session_seconds
        return session_id

    def is_valid(self, session_id: str) -> bool:
        return self._expiry.get(session_id, 0.0) > time.monotonic()

    def end(self, session_id: str) -> None:
        self._expiry.pop(session_id, None)

    def __len__(self) -> int:
        return len(self._expiry)
