"""The translator of an exported page, run under node instead of a browser."""

import json
import shutil
import subprocess
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from regard.convert.export_format import CheckUnavailable

_SCRIPT = Path(__file__).with_name("node.mjs")


class WebModel:
    """A node process with the page's own JavaScript; see `ExportedModel`."""

    suppresses_specials: ClassVar[bool] = False

    def __init__(self, folder: Path) -> None:
        node = shutil.which("node")
        if node is None:
            raise CheckUnavailable("its JavaScript was not run here, because node is not installed")
        self._process = subprocess.Popen(
            [node, _SCRIPT, folder.absolute()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        weakref.finalize(self, _stop, self._process)

    def greedy(
        self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], max_len: int
    ) -> list[list[int]]:
        return [self.search(*pair, max_len) for pair in zip(sources, prefixes, strict=True)]

    def log_probs(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        log_probs: list[float] = self.call("log_probs", source=source, target=target)
        return log_probs

    def search(self, source: Sequence[int], prefix: Sequence[int], max_len: int, beam: int = 1) -> list[int]:
        """Return the output of greedy or beam search."""
        ids: list[int] = self.call("search", source=source, prefix=prefix, max_len=max_len, beam=beam)
        return ids

    def call(self, method: str, **arguments: object) -> Any:
        """Return the result of one of the methods in node.mjs."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended, and answers nothing
            self._process.stdin.write(json.dumps({"method": method, **arguments}) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise CheckUnavailable("node ended with an error when it ran its JavaScript; is it an old version?")
        return json.loads(answer)


def _stop(process: "subprocess.Popen[str]") -> None:
    with suppress(BrokenPipeError):
        process.communicate()  # closes its input, after which it ends
