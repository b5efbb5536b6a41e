"""Back-translation in rounds: a reverse model makes pairs for the forward model, and the forward model for the reverse.

Round n, for the languages A → B: the reverse model (B → A) learns from the pairs and, from the second round on, from
source-language text that the forward model of round n − 1 has translated. It translates the target-language text, and
the forward model learns from the pairs and from that. Each step is done once; a job that was stopped continues.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from regard.bulk.job_folder import files_fact, job_folder, step_folder
from regard.bulk.line_translator import check_search
from regard.bulk.part import PART_LINES
from regard.bulk.workers import Workers
from regard.bundle_files import read_files, write_files
from regard.data.data_file import without_compression
from regard.data.mixture import CorpusConfig
from regard.data.pair_readers import find_languages
from regard.data.reading_progress import ReadingProgress, no_progress
from regard.errors import UserError
from regard.files import delete_folder, write_atomically
from regard.manifest import MANIFEST, read_regular
from regard.synthetic.backtranslation import TAG, BackTranslation, parts_folder
from regard.synthetic.model_training import ModelTraining, TrainedModel, is_trained, train_once
from regard.synthetic.pair_files import (
    read_pairs,
    reported,
    split_corpus,
    swap_pairs,
    write_corpora,
    write_sources,
)
from regard.synthetic.pair_filter import PairFilter
from regard.synthetic.text_translation import TextTranslation, check_text

_HEADER = "round\tmodel\tBLEU\tchrF\tloss\n"


@dataclass(frozen=True)
class RoundsPlan:
    """The data, the number of rounds, and how models are trained and texts translated."""

    pairs: tuple[Path, ...]
    valid: tuple[Path, ...] | None
    target_text: Path
    out: Path
    source_text: Path | None = None
    """By default the sources of the pairs"""
    rounds: int = 2
    baseline: bool = False
    """Also train a forward model on the pairs alone, as round 0; once it is trained, it stays one of the results"""
    upsample: int = 1
    """How many times each of the pairs is seen per epoch, in which synthetic pairs are seen once"""
    continue_models: bool = False
    """Start each model from that of the round before, with its tokenizer, instead of from scratch"""
    training: ModelTraining = field(default_factory=ModelTraining)
    search: Mapping[str, Any] = field(default_factory=dict)
    """How the texts are translated: beam, sampling"""
    filter: PairFilter = field(default_factory=PairFilter)
    part_lines: int = PART_LINES
    workers: Workers = field(default_factory=Workers)
    """Which translate"""
    languages: tuple[str, str] | None = None
    """By default those that the files of pairs name"""

    def __post_init__(self) -> None:
        src, tgt = self.pair_languages
        _check_language("--mono-tgt", self.target_text, src, tgt)
        if self.source_text:
            _check_language("--mono-src", self.source_text, tgt, src)
            check_text(self.source_text)
        check_text(self.target_text)
        check_search(self.search)

    @property
    def pair_languages(self) -> tuple[str, str]:
        return self.languages or find_languages(self.pairs)

    def facts(self) -> dict[str, Any]:
        """Return what the result depends on. More rounds may be added later."""
        texts = {"target text": self.target_text, "source text": self.source_text}
        return {
            "pairs": files_fact(self.pairs),
            "validation data": files_fact(self.valid) if self.valid else None,
            **{name: files_fact([path]) if path else None for name, path in texts.items()},
            "upsample": self.upsample,
            "continue models": self.continue_models,
            **self.training.facts(),
            "search": dict(self.search),
            "filter": self.filter.model_dump(),
            "lines per part": self.part_lines,
            "languages": self.languages,
        }


@dataclass(frozen=True)
class RoundResult:
    """One trained model of a round."""

    round: int
    direction: str
    model: TrainedModel

    def row(self) -> str:
        model = self.model
        return f"{self.round}\t{self.direction}\t{model.bleu:.2f}\t{model.chrf:.2f}\t{model.loss:.4f}\n"


def _check_language(option: str, text: Path, wrong: str, right: str) -> None:
    """Refuse a text whose name ends in the other language of the pairs."""
    if without_compression(text).suffix == f".{wrong}":
        raise UserError(f"{option} {text}: seems to be {wrong} text; {option} is for {right} text")


def run_rounds(
    plan: RoundsPlan, progress: ReadingProgress = no_progress, announce: Callable[[str], None] = lambda line: None
) -> list[RoundResult]:
    """Do all steps that are not done; write the table rounds.tsv, and the best forward model to the folder `model`.

    `announce` is called with a line about each step that begins.
    """
    announce("reading the data")
    with job_folder(plan.out, plan.facts()):
        _check_number(plan)
        results = list(_Rounds(plan, progress, announce).results())
        write_atomically(plan.out / "rounds.tsv", (_HEADER + "".join(each.row() for each in results)).encode())
        files = read_files(best_forward(results).model.folder)
        write_files(plan.out / "model", {name: read_regular(path) for name, path in files.items() if name != MANIFEST})
    return results


def _check_number(plan: RoundsPlan) -> None:
    """Refuse fewer rounds than are finished, since results would be dropped."""
    finished = next(n for n in count() if not is_trained(plan.out / f"round-{n + 1}" / "forward"))
    if plan.rounds < finished:
        raise UserError(
            f"--rounds {plan.rounds}: {finished} rounds in {plan.out} are finished; give --rounds {finished} or more, "
            "or choose another folder"
        )


def best_forward(results: Sequence[RoundResult]) -> RoundResult:
    """Return the forward model with the best validation; of equal ones, that of the earliest round."""
    return max((each for each in results if each.direction == "forward"), key=lambda each: each.model.order)


class _Rounds:
    """The steps of a plan."""

    def __init__(self, plan: RoundsPlan, progress: ReadingProgress, announce: Callable[[str], None]) -> None:
        self.plan, self.progress, self.announce = plan, progress, announce
        self.languages = plan.pair_languages
        data = step_folder(plan.out / "data")
        pairs, valid = data / "pairs.tsv.gz", data / "valid.tsv.gz"
        split_corpus(plan.pairs, plan.valid, plan.languages, (pairs, valid), progress)
        self.pairs = {"forward": pairs, "reverse": swap_pairs(pairs, data / "pairs-reversed.tsv.gz", progress)}
        self.valid = {"forward": valid, "reverse": swap_pairs(valid, data / "valid-reversed.tsv.gz")}
        self.source_text = plan.source_text or data / "sources.txt.gz"
        if plan.source_text is None and not self.source_text.exists():
            write_sources(self.source_text, reported(read_pairs(pairs), "writing", progress))

    def results(self) -> Iterator[RoundResult]:
        """Train the models of all rounds, one after the other."""
        first = self.plan.out / "round-0"
        if self.plan.baseline or is_trained(first / "forward"):
            folder = step_folder(first)
            yield RoundResult(0, "forward", self._train(folder, "forward", None, None))
        before: dict[str, TrainedModel] = {}
        for number in range(1, self.plan.rounds + 1):
            folder = step_folder(self.plan.out / f"round-{number}")
            synthetic = folder / "source-text.tsv.gz" if before else None
            if synthetic:
                self._translate(before["forward"], self.source_text, synthetic)
            reverse = self._train(folder, "reverse", synthetic, before.get("reverse"))
            yield RoundResult(number, "reverse", reverse)
            self._translate(reverse, self.plan.target_text, folder / "target-text.tsv.gz")
            forward = self._train(folder, "forward", folder / "target-text.tsv.gz", before.get("forward"))
            yield RoundResult(number, "forward", forward)
            before = {"reverse": reverse, "forward": forward}

    def _translate(self, model: TrainedModel, text: Path, out: Path) -> None:
        """Write the pairs (translation, line) of a text."""
        plan = self.plan
        if not out.exists():
            self.announce(f"{out.parent.name}: translating {text} with {model.folder}")
            job = TextTranslation(
                (model.folder,), text, parts_folder(out), plan.search, plan.part_lines, workers=plan.workers
            )
            BackTranslation(job, out, plan.filter).run(self.progress)
        delete_folder(parts_folder(out))

    def _train(self, folder: Path, direction: str, synthetic: Path | None, before: TrainedModel | None) -> TrainedModel:
        """Train a model on the pairs and synthetic pairs."""
        if not is_trained(folder / direction):
            self.announce(f"{folder.name}: training the {direction} model")
        corpora = [CorpusConfig(files=(self.pairs[direction],), upsample=self.plan.upsample)]
        if synthetic:
            corpora.append(CorpusConfig(files=(synthetic,), tag=TAG))
        data = write_corpora(folder / f"{direction}.yaml", *corpora)
        languages = self.languages[::-1] if direction == "reverse" else self.languages
        run = self.plan.training.run(
            data, [self.valid[direction]], folder / direction, languages, fixed=self._settings(before)
        )
        return train_once(run)

    def _settings(self, before: TrainedModel | None) -> list[str]:
        """Return the settings that a model needs besides those of the user.

        Models without synthetic pairs have the symbol of the tag too, because later ones may start from them.
        """
        symbols = dict.fromkeys((*self.plan.training.load().tokenizer.symbols, TAG))
        settings = [f"tokenizer.symbols={json.dumps(list(symbols), ensure_ascii=False)}"]
        if before and self.plan.continue_models:
            settings.append(f"train.init={json.dumps(str(before.folder), ensure_ascii=False)}")
        return settings
