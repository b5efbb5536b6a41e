"""What verbs print and where they write."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from regard.errors import UserError


def print_line(line: str) -> None:
    """Print a line in UTF-8, whatever the locale, and flush it."""
    print_text(f"{line}\n")


def print_text(text: str) -> None:
    """Print text without a newline in UTF-8, whatever the locale, and flush it."""
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def print_report(text: str, paths: Sequence[Path]) -> None:
    """Print a report, an empty line, and the files that were written."""
    print_line("\n".join([text, "", *map(str, paths)]))


def print_warning(line: str) -> None:
    """Print a warning to standard error."""
    print(f"regard: {line}", file=sys.stderr)


def warn_about_long_texts(n_texts: int, n_tokens: int) -> None:
    """Warn that of `n_texts` texts, if there are any, only the beginning was read."""
    if n_texts:
        print_warning(f"{n_texts:,} texts are longer than {n_tokens:,} tokens; only their beginning was read")


@contextmanager
def exit_on_closed_pipe() -> Iterator[None]:
    """Exit quietly when the reader of standard output leaves, as in `regard … | head`."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(128 + signal.SIGPIPE) from None


def check_out_file(out: Path | None, suffixes: Sequence[str]) -> None:
    """Reject an --out of another format or in a folder that does not exist."""
    if out and (out.suffix not in suffixes or not out.parent.is_dir()):
        raise UserError(f"--out {out}: give a file ending in {', '.join(suffixes)}, in a folder that exists")


def make_out_folder(out: Path) -> None:
    """Create the folder of --out if there is none."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {out}: cannot create this folder ({error.strerror}); choose another") from None
