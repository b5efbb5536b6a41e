"""Check that the built page belongs to the sources: `manifest.py write` after a build, `manifest.py check` later.

The manifest is a file next to the build. It holds one SHA-256 of all sources and one of each built file.
"""

import hashlib
import sys
from pathlib import Path

WEB = Path(__file__).parent
STATIC = WEB.parent / "src" / "regard" / "serve" / "static"
MANIFEST = STATIC / "manifest"
SOURCES = ("src", "public", "index.html", "package.json", "package-lock.json", "vite.config.ts", "svelte.config.js")


def files(root: Path) -> list[Path]:
    """Return the file itself, or all files under a folder, sorted."""
    return sorted(path for path in ([root] if root.is_file() else root.rglob("*")) if path.is_file())


def manifest() -> str:
    """Return the content of the manifest for the files as they are now."""
    sources = hashlib.sha256()
    for path in (path for name in SOURCES for path in files(WEB / name)):
        name = path.relative_to(WEB).as_posix()
        sources.update(f"{name}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    lines = [f"{sources.hexdigest()}  sources"]
    for path in files(STATIC):
        if path != MANIFEST:
            lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(STATIC).as_posix()}")
    return "\n".join(lines) + "\n"


def main(command: str) -> int:
    if command == "write":
        MANIFEST.write_text(manifest(), encoding="utf-8")
        return 0
    if MANIFEST.is_file() and MANIFEST.read_text(encoding="utf-8") == manifest():
        return 0
    print("the page in src/regard/serve/static was not built from the sources in web/; run `make web`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    if sys.argv[1:] not in (["write"], ["check"]):
        sys.exit("usage: manifest.py write|check")
    sys.exit(main(sys.argv[1]))
