"""Translates lines as a job says: what each worker of a bulk translation does."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from regard.alignment.transfer import MarkupTransfer
from regard.bulk.job_folder import model_fact
from regard.bulk.line_format import LineFormat
from regard.bulk.line_report import LineReport
from regard.bulk.translated_line import TranslatedLine
from regard.bundle import load_task_and_model
from regard.config import Config
from regard.data.glossary import Glossary, GlossaryMode
from regard.errors import UserError
from regard.memory import is_out_of_memory
from regard.pipelines.engine import TORCH, EngineChoice
from regard.pipelines.load import load_translator
from regard.pipelines.translation import Translation
from regard.pipelines.translation_config import TranslationConfig
from regard.threads import one_thread


class TranslationWork(Config):
    """Which models translate lines, and how. It can be sent to another process as JSON."""

    models: tuple[Path, ...]
    """Several form an ensemble"""
    draft: Path | None = None
    rerank: Path | None = None
    engine: str = TORCH
    max_source: int | None = None
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Of `Translator.stream`: beam, sampling, n_best, to …"""
    glossary: Glossary | None = None
    glossary_mode: GlossaryMode | None = None
    markup: bool = False
    copy_unknown: bool = False
    format: LineFormat | None = None
    """None: rows of `TranslatedLine`"""

    @property
    def folders(self) -> dict[str, Path]:
        """All model directories by the name of their field"""
        helpers = {"draft": self.draft, "rerank": self.rerank}
        members = {f"models.{i}": folder for i, folder in enumerate(self.models)}
        return members | {name: folder for name, folder in helpers.items() if folder}

    def with_folders(self, folders: Mapping[str, Path]) -> "TranslationWork":
        """Return the same work with its model directories in other places, by the names of `folders`."""
        models = tuple(folders[f"models.{i}"] for i in range(len(self.models)))
        helpers = {"draft": folders.get("draft"), "rerank": folders.get("rerank")}
        return self.model_copy(update={"models": models, **helpers})

    def check(self) -> None:
        """Refuse what can be known to be wrong before a model is loaded."""
        for folder in self.folders.values():
            check_translator(folder)
        check_search(self.options)
        EngineChoice.parse(self.engine)

    def facts(self) -> dict[str, Any]:
        """Return what the translations depend on, for `job_folder`."""
        names = {"max_source": "--max-source", "copy_unknown": "--copy-unknown", "glossary_mode": "--glossary-mode"}
        dumped = self.model_dump(mode="json", exclude={"models", "draft", "rerank"})
        hashes = {"model": [model_fact(model) for model in self.models]}
        hashes |= {name: [model_fact(folder)] for name, folder in self.folders.items() if "." not in name}
        return {**hashes, **{names.get(name, name): value for name, value in dumped.items() if value is not None}}


def check_translator(folder: Path) -> None:
    """Refuse a folder that is not that of a translator."""
    task, _ = load_task_and_model(folder)
    if task != "translate":
        raise UserError(f"{folder}: not a translator, but a model for the task {task}; name a translator")


def check_search(options: Mapping[str, Any]) -> None:
    """Raise a UserError if options of the search are not valid, whatever the model."""
    known = {name: value for name, value in options.items() if name in TranslationConfig.model_fields}
    if "n_best" in known:
        known.setdefault("beam", known["n_best"])
    TranslationConfig.parse(known, where="")


class PartResult(NamedTuple):
    """The translations of some lines."""

    rows: list[str]
    """One per line; with several hypotheses, it has several lines itself"""
    report: LineReport

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "report": self.report.to_json()}

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> "PartResult":
        return cls(tree["rows"], LineReport.from_json(tree["report"]))


class LineTranslator:
    """A loaded model that does the work."""

    def __init__(self, work: TranslationWork, device: str | None = None) -> None:
        self.work = work
        helpers: dict[str, Any] = {"draft": work.draft, "rerank": work.rerank}
        translator = load_translator(*work.models, device=device, engine=work.engine, **helpers)
        self.translator = translator.limit_sources(work.max_source)
        self.options = dict(work.options)
        if "n_best" in self.options and not (self.options.keys() & {"beam", "sampling"} or work.draft):
            self.options["beam"] = max(self.translator.decode_config.beam, self.options["n_best"])

    def stream(self, lines: Iterable[str], n_lines: int | None = None) -> Iterator[Translation]:
        """Translate any number of lines, `n_lines` at a time; those that are too long have a problem instead."""
        work, transfer = self.work, MarkupTransfer(self.work.markup, self.work.copy_unknown)
        options = {**self.options, "glossary": work.glossary, "glossary_mode": work.glossary_mode}
        options |= {"n_lines": n_lines, "skip_long": True}
        if transfer.markup or transfer.unknown:
            return transfer.translate(self.translator, lines, **options)
        attention = work.format is not None and work.format.alignment
        return self.translator.stream(lines, attention=attention, **options)

    def translate_part(
        self, lines: Sequence[str], first: int = 1, progress: Callable[[int], None] = lambda n_done: None
    ) -> PartResult:
        """Translate lines of which the first has the number `first`.

        On a CPU with one thread: the threads share batches, so that their number would change how sums are rounded.
        """
        rows, report = list[str](), LineReport()
        with one_thread(self.translator.device.type == "cpu"):
            for translation in self.stream(lines):
                report.add(first + len(rows), translation)
                rows.append(self._row(translation))
                progress(len(rows))
        return PartResult(rows, report)

    def _row(self, translation: Translation) -> str:
        return self.work.format(translation) if self.work.format else TranslatedLine.of(translation).to_json()


class PartWorker:
    """A line translator behind messages: replies are JSON, and mistakes of the user are replies too."""

    def start(self, work: Mapping[str, Any], device: str | None) -> dict[str, Any]:
        """Load the models."""

        def load() -> dict[str, Any]:
            self._translator = LineTranslator(TranslationWork.parse(work), device)
            return {"ready": True}

        return _reply(load)

    def translate(
        self, lines: Sequence[str], first: int, progress: Callable[[int], None] = lambda n_done: None
    ) -> dict[str, Any]:
        """Translate a part."""
        return _reply(lambda: self._translator.translate_part(lines, first, progress).to_json())


def _reply(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return run()
    except UserError as error:
        return {"error": str(error)}
    except Exception as error:
        if is_out_of_memory(error):
            return {"error": "a worker is out of memory; use fewer --workers, a smaller --beam or shorter lines"}
        raise
