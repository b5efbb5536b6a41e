"""Back-translation: text of the target language and its translations into the source language, as training pairs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regard.bundle import NO_LANGUAGES, load_directions
from regard.data.data_file import without_compression
from regard.data.reading_progress import ReadingProgress, no_progress
from regard.data.text_output import check_text_suffix
from regard.errors import UserError
from regard.files import remove_leftovers
from regard.paths import check_output_file
from regard.synthetic.pair_filter import FilterResult, PairFilter, SyntheticPair, filter_pairs
from regard.synthetic.text_translation import TextTranslation, TranslatedFile

TAG = "<bt>"
"""In front of the source of back-translated pairs, so that the model can tell them from pairs that people wrote"""


@dataclass(frozen=True)
class BackTranslation:
    """The translation of a text by a reverse model, and the file of pairs that is made of it."""

    translation: TextTranslation
    out: Path
    filter: PairFilter = field(default_factory=PairFilter)

    def run(self, progress: ReadingProgress = no_progress) -> FilterResult:
        """Translate what is not yet translated, and write the pairs (translation, line) that are kept."""
        pairs = ReversedPairs(self.translation.run(progress))
        remove_leftovers(self.out.parent)
        return filter_pairs(pairs, self.filter, self.out, progress)


@dataclass(frozen=True)
class ReversedPairs:
    """(translation, line) of each line of a translated file, as often as it is read."""

    lines: TranslatedFile

    def __iter__(self) -> Iterator[SyntheticPair]:
        for line in self.lines:
            if line.candidates:
                best = line.candidates[0]
                yield SyntheticPair(best.text, line.source, best.score)
            else:
                yield SyntheticPair("", line.source, problem=line.problem)


def parts_folder(out: Path) -> Path:
    """Return the folder of the translated parts of a file of pairs: pairs.parts for pairs.tsv.gz."""
    return out.with_name(f"{without_compression(out).stem}.parts")


def check_pair_file(out: Path) -> None:
    """Refuse an --out that is no TSV file, cannot be written, or was written by something else."""
    check_text_suffix(out)
    if without_compression(out).suffix != ".tsv":
        raise UserError(f"--out {out}: name a file that ends in .tsv, .tsv.gz, .tsv.xz or .tsv.zst")
    check_output_file(out, "--out")
    if out.exists() and not parts_folder(out).is_dir():
        raise UserError(f"--out {out}: exists already; name another file, or delete it first")


def check_languages(model: Path, text: Path, to: str | None = None) -> str:
    """Refuse a text whose name ends in the target language of the reverse model; return a warning about another one.

    `to` chooses a target language of a model with several.
    """
    suffix = without_compression(text).suffix.removeprefix(".")
    directions = load_directions(model)
    chosen = [each.languages for each in directions if each.target == directions.find(to).target]
    src, tgt = next((pair for pair in chosen if pair[0] == suffix), chosen[0])
    is_code = suffix == tgt or (len(suffix) == 2 and suffix.isalpha())
    if not is_code or suffix == src or (src, tgt) == NO_LANGUAGES:
        return ""
    problem = f"{text} seems to be {suffix} text, but {model} translates {src} to {tgt}"
    if suffix == tgt:
        raise UserError(f"{problem}; back-translation needs a model that translates {suffix} to {src}")
    return problem
