"""The Typer application: its verbs in the order of --help, and the console script.

A mistake of the user ends in one line on standard error and exit code 2.
"""

import os
import re
import signal
import sys
from keyword import iskeyword
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from regard import __version__
from regard.cli.output import CLOSED_PIPE, discard_output, prepare_streams, print_line, print_warning
from regard.errors import UserError

# The base class of every error that Typer's parser raises. Typer exports only this subclass of it.
UsageError: Any = typer.BadParameter.__base__

_PLAIN_WORDS = (
    (r"Input should be a valid integer.*", "give a whole number"),
    (r"Input should be a valid number.*", "give a number"),
    (r"Input should be a valid string.*", "give text in UTF-8"),
    (r"Input should be greater than or equal to (\S+)", r"give at least \1"),
    (r"Input should be less than or equal to (\S+)", r"give at most \1"),
)

VERBS = (
    *(
        "demo",
        "data",
        "train",
        "adapt",
        "average",
        "verify",
        "backtranslate",
        "rounds",
        "distill",
        "translate",
        "evaluate",
        "attend",
        "attribute",
        "align",
        "explain",
        "lab",
    ),
    *("export", "import", "serve", "generate", "classify", "embed", "caption", "compare", "bench"),
)
"""In the order in which a newcomer needs them: the order of --help and of the documentation."""


def verb_module(verb: str) -> str:
    """Return the name of the module of a verb; a keyword of Python cannot be one."""
    return f"{verb}_" if iskeyword(verb) else verb


class VerbGroup(TyperGroup):
    """Lists verbs in the order of VERBS, where Typer would list those with sub-commands last."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=VERBS.index)


app = typer.Typer(
    cls=VerbGroup,
    help="Train your own translator from two files of parallel text, and see why it says what it says.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print_line(f"regard {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        print_line(ctx.get_help())


def main() -> None:
    """Run the command line and exit: 2 after a mistake of the user, 128 + signal after an interruption."""
    prepare_streams()
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        _fail(str(error))
    except UsageError as error:
        _fail(_in_plain_words(error.format_message()))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        discard_output(sys.stdout)
        sys.exit(CLOSED_PIPE)
    except OSError as error:
        discard_output(sys.stdout)
        _fail(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except Exception as error:
        _exit_if_stopped(error)
        _fail_if_out_of_memory(error)
        raise
    _exit(code if isinstance(code, int) else 0)


def _exit(code: int) -> NoReturn:
    """End the process; one of torchrun at once, because threads of its connections can abort it while Python ends."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _in_plain_words(message: str) -> str:
    """Replace the words of the library that checks options."""
    for pattern, replacement in _PLAIN_WORDS:
        message = re.sub(pattern, replacement, message)
    return message


def _fail(message: str) -> NoReturn:
    print_warning(" ".join(message.split()))
    sys.exit(2)


def _fail_if_out_of_memory(error: Exception) -> None:
    from regard.memory import is_out_of_memory

    if is_out_of_memory(error):
        _fail("out of memory; use a smaller model, shorter texts or a machine with more memory")


def _exit_if_stopped(error: Exception) -> None:
    """Exit with a hint if the error says that training was stopped by a signal and has saved a checkpoint."""
    from regard.train.ranks import speaks
    from regard.train.signals import Stopped

    if isinstance(error, Stopped):
        if speaks():
            print_warning(f"stopped and saved at step {error.step}; add --resume to continue")
        sys.exit(128 + error.signal_number)
