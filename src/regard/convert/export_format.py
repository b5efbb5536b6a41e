"""What every export format does: say whether it can hold a model, write it, and run it for the check."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from pydantic import Field

from regard.bundle import Bundle
from regard.config import Config

Quantization = Literal[
    "float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16"
]


class ExportOptions(Config):
    """Options of an export; those that a format lacks are refused."""

    quantization: Quantization | None = None
    """Number type of the weights; default: that of the format."""
    shortlist: int = Field(0, ge=0)
    """Write a shortlist with this many target tokens per source token; 0: none."""
    shortlist_texts: tuple[str, ...] = ()
    """Source texts that the model translates to make the shortlist."""
    license: str | None = None
    """License of the model, for its card, e.g. cc-by-4.0."""


class CheckUnavailable(Exception):
    """The program that runs the exported model is not installed; the text says so, after "not compared …: "."""


class ExportedModel(Protocol):
    """An exported model, run by the program that it was written for.

    Sources are ids without EOS, empty for a language model. Prefixes are ids that the output starts with.
    """

    suppresses_specials: ClassVar[bool]
    """Whether the special tokens that are never generated have no probability in the exported model"""

    def greedy(
        self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], max_len: int
    ) -> list[list[int]]:
        """Return the output of greedy search for each source, prefix included, without BOS and EOS."""
        ...

    def log_probs(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        """Return the log-probability of each target token, and of EOS after them, when the output is forced."""
        ...


class ExportFormat(Protocol):
    """A format that models can be exported to."""

    name: ClassVar[str]
    title: ClassVar[str]
    """What it is called in text, e.g. CTranslate2"""
    is_file: ClassVar[bool]
    """Whether the result is one file: a zip archive of the folder, with the name of the file"""
    quantizations: ClassVar[tuple[Quantization, ...]]
    """The number types of weights that it has, the default first"""
    has_shortlist: ClassVar[bool]
    """Whether a shortlist can be written"""

    def problem(self, bundle: Bundle, options: ExportOptions) -> str | None:
        """Return why the format cannot hold the model, and what can, as the rest of "cannot export: …"; None: it can"""
        ...

    def write(self, bundle: Bundle, folder: Path, options: ExportOptions) -> str | None:
        """Write the model's files into an empty folder; return what only this export's README says, if anything."""
        ...

    def open(self, folder: Path, bundle: Bundle) -> ExportedModel:
        """Load what was written. Raises CheckUnavailable if it cannot be run on this machine."""
        ...

    def usage(self, bundle: Bundle) -> str:
        """Return how to use the exported model, as Markdown for its README."""
        ...
