"""The server's OpenAPI document, from which the page's types are generated.

`write` stores it as web/openapi.json; `check` fails if the stored one is not that of the server.
"""

import json
import sys
from pathlib import Path

from regard.serve.app import make_app
from regard.serve.guard import Access
from regard.serve.registry import Registry

DOCUMENT = Path(__file__).parent / "openapi.json"


def document() -> str:
    """Return the document of a server without models and with the default limits."""
    app = make_app(Registry([]), Access(frozenset()))
    return json.dumps(app.openapi(), indent=1, ensure_ascii=False) + "\n"


def main(verb: str) -> int:
    if verb == "write":
        DOCUMENT.write_text(document(), encoding="utf-8")
        return 0
    if DOCUMENT.is_file() and DOCUMENT.read_text(encoding="utf-8") == document():
        return 0
    print("web/openapi.json is not the server's OpenAPI document: run `make types`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    if sys.argv[1:] not in (["write"], ["check"]):
        sys.exit("usage: openapi.py write|check")
    sys.exit(main(sys.argv[1]))
