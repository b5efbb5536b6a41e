"""The Typer app, what its verbs share, and how a user's mistake ends: one line, exit code 2."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from regard import __version__
from regard.errors import UserError

# OpenMP's threads spin while they wait. Where another program wants the cores too, that makes torch some fifteen
# times slower on two of them; sleeping costs next to nothing. It must be said before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Typer brings Click along, under one name or another; what its parser raises is the base of this class.
UsageError: Any = typer.BadParameter.__base__

# In the order in which a newcomer needs them.
_VERBS = (
    *("demo", "data", "train", "average", "translate", "evaluate", "attend", "attribute", "align", "explain", "lab"),
    *("serve", "generate", "classify", "embed", "caption", "compare", "bench"),
)


class _InOrder(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=_VERBS.index)


app = typer.Typer(
    cls=_InOrder,
    help="Train your own translator from two files of parallel text, and see why it says what it says.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …  [default: cuda if there is one]")]
ModelDir = Annotated[Path, typer.Argument(metavar="DIR", help="The directory that `regard train --out` wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        typer.echo(f"regard {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def main() -> None:
    """The console script: a user's mistake is one line and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        _fail(str(error))
    except UsageError as error:
        _fail(error.format_message())
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        _leave_if_stopped(error)
        raise
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    line = " ".join(message.split())
    print(f"regard: {line}", file=sys.stderr)
    sys.exit(2)


def _leave_if_stopped(error: Exception) -> None:
    from regard.train.signals import Stopped

    if isinstance(error, Stopped):
        print(f"regard: saved at step {error.step}; the same command with --resume goes on", file=sys.stderr)
        sys.exit(128 + error.signal_number)


def checked_device(name: str | None) -> str | None:
    import torch

    if name is None:
        return None
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError):
        raise UserError(f"--device {name}: no such device here; leave it out to use what there is") from None
    return name


def as_text(argument: str) -> str:
    """An argument as UTF-8, whatever bytes it was given as"""
    return os.fsencode(argument).decode("utf-8", errors="replace")


def say(line: str) -> None:
    """UTF-8, as the input, whatever the terminal's locale says"""
    sys.stdout.buffer.write(f"{line}\n".encode())
    sys.stdout.buffer.flush()


def stdin_lines() -> Iterator[str]:
    if sys.stdin is None:
        raise UserError("there is no standard input; give --text")
    for raw in sys.stdin.buffer:
        yield raw.decode("utf-8", errors="replace").rstrip("\r\n")


@contextmanager
def quiet_if_reader_leaves() -> Iterator[None]:
    """`regard … | head` ends without a complaint."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(128 + signal.SIGPIPE) from None
