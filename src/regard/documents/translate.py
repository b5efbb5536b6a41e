"""Translate a document: read its segments, translate them in batches, write them back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.data.glossary import GlossaryTerm
from regard.documents.errors import DocumentError
from regard.documents.kinds import check_document_files, read_document
from regard.documents.limits import DocumentLimits
from regard.documents.segment_translation import SegmentTranslation
from regard.errors import UserError
from regard.files import write_atomically
from regard.pipelines.length_limit import TooLong
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.text.markup import TaggedText

_SEGMENTS_AT_ONCE = 512

Progress = Callable[[str, int, int], object]
"""Called with what is being done, how many segments are done, and how many there are"""


class DocumentReport(NamedTuple):
    """What to know about a translated document."""

    n_segments: int
    problems: tuple[TooLong, ...]
    """One per paragraph that was left as it is, as a sentence was too long for the model"""
    unknown: tuple[str, ...]
    """Words that never occurred in training, as often as they occur"""
    unmet_terms: tuple[GlossaryTerm, ...] = ()
    """Terms of a glossary that are not in the translation"""


def translate_document(
    translator: Translator,
    source: str | Path,
    target: str | Path,
    *,
    limits: DocumentLimits | None = None,
    copy_unknown: bool = False,
    to: str | None = None,
    progress: Progress = lambda activity, n_done, total: None,
    **options: object,
) -> DocumentReport:
    """Translate a txt, html, docx, odt, srt or epub file, and write the translation to another file of that kind.

    Formatting, links and placeholders stay at the words that they mark. A paragraph with a sentence that is too long
    for the model stays as it is, and is one of the `problems`. `to` and `options` are those of `Translator.translate`.

    >>> source, target = new_dir / "letter.txt", new_dir / "brief.txt"
    >>> _ = source.write_text("a b {name}\\n\\nc d\\n")
    >>> regard.translate_document(regard.load(translator_dir), source, target).n_segments
    2
    >>> "{name}" in target.read_text()
    True
    """
    source, target = Path(source), Path(target)
    limits = limits or DocumentLimits()
    check_document_files(source, target)
    direction = translator.directions.find(to)
    try:
        document = read_document(_read(source, limits), source.name, direction.target, limits)
    except DocumentError as error:
        raise UserError(f"{source}: {error}") from None
    translations, problems, unknown, unmet = list[str](), list[TooLong](), list[str](), list[GlossaryTerm]()
    segments = document.segments
    for result in _translate_segments(translator, segments, copy_unknown, direction.tag, options):
        translations.append(result.text)
        problems += result.problems
        unknown += result.unknown
        unmet += result.unmet_terms
        progress("translated", len(translations), len(segments))
    write_atomically(target, document.write(translations))
    return DocumentReport(len(segments), tuple(problems), tuple(unknown), tuple(unmet))


@dataclass(frozen=True)
class _Result:
    text: str
    problems: Sequence[TooLong]
    unknown: Sequence[str]
    unmet_terms: Sequence[GlossaryTerm]


def _read(path: Path, limits: DocumentLimits) -> bytes:
    """Read a file, but not much more of it than the limit."""
    try:
        with path.open("rb") as file:
            return file.read(limits.bytes + 1)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def _translate_segments(
    translator: Translator,
    segments: Sequence[TaggedText],
    copy_unknown: bool,
    tag: str,
    options: Mapping[str, object],
) -> Iterator[_Result]:
    """Yield the translations in order. Equal segments are translated once."""
    done: dict[TaggedText, _Result] = {}
    remaining = iter(segments)
    while chunk := list(islice(remaining, _SEGMENTS_AT_ONCE)):
        new = [SegmentTranslation.of(s, translator, copy_unknown, tag) for s in dict.fromkeys(chunk) if s not in done]
        for with_attention in (False, True):
            group = [work for work in new if work.needs_attention == with_attention]
            done |= zip(
                (work.tagged for work in group),
                _translate_group(translator, group, with_attention, options),
                strict=True,
            )
        yield from (done[segment] for segment in chunk)


def _translate_group(
    translator: Translator, group: Sequence[SegmentTranslation], attention: bool, options: Mapping[str, object]
) -> Iterator[_Result]:
    sentences = [sentence for work in group for sentence in work.split.sentences]
    tags = [work.split.tag for work in group for _ in work.split.sentences]
    translations = iter(
        translator.translate(sentences, to=tags, attention=attention, skip_long=True, **options)  # type: ignore[arg-type]
    )
    for work in group:
        parts: list[Translation] = list(islice(translations, len(work.split.sentences)))
        problems = [part.problem for part in parts if part.problem is not None][:1]
        unknown = [word for part in parts for word in part.unknown]
        unmet = [term for part in parts for term in part.unmet_terms]
        yield _Result(work.finish(parts, translator), problems, unknown, unmet)
