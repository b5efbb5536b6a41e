"""Translator: texts in, translations out."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice

import torch

from regard.alignment.from_attention import Aligner
from regard.data.glossary import Glossary, GlossaryMode, TermMatch, unmet_terms, write_terms
from regard.errors import UserError
from regard.models import GenerativeModel
from regard.models.decoder_only import DecoderOnly
from regard.pipelines.arguments import check_iterable, check_texts
from regard.pipelines.base import AttentionSite, as_text, check_hypotheses
from regard.pipelines.encoded_input import EncodedInput, Input
from regard.pipelines.engine import Engine
from regard.pipelines.found_terms import FoundTerms
from regard.pipelines.glossary_decoder import GlossaryDecoder, Search
from regard.pipelines.length_limit import LengthLimit, TooLongError
from regard.pipelines.mbr import choose_by_mbr
from regard.pipelines.reranker import Reranker
from regard.pipelines.source_decoder import SourceDecoder
from regard.pipelines.term_encoder import TermEncoder
from regard.pipelines.translation import Candidate, Translation
from regard.pipelines.translation_config import TranslationConfig
from regard.search.decode import DecodeConfig, check_term_search
from regard.search.ensemble import Ensemble
from regard.search.protocols import Hypothesis, StepObserver
from regard.search.required_terms import TermSearch
from regard.text.direction import Directions
from regard.text.fitted_text import FittedText
from regard.text.marian_tokenizer import MarianTokenizer
from regard.text.seen_words import SeenWords
from regard.text.sentences import SplitText
from regard.text.tokenizer import TokenizerPair
from regard.text.units import unit_spans
from regard.text.vocab import EOS

_STREAM_LINES = 1024
_GPU_STREAM_LINES = 16_384
_MIN_TERM_BEAM = 10  # hypotheses with different numbers of missing terms share the beam


class Translator(SourceDecoder):
    """Translates texts, and any other text-to-text task.

    >>> translator = regard.load(translator_dir)
    >>> [translation] = translator.translate(["a b c"], beam=2, n_best=2, attention=True)
    >>> len(translation.hypotheses)
    2
    >>> translation.text == translation.hypotheses[0].text
    True
    >>> translation.attention.cross.ndim  # [layers, heads, target tokens, source tokens]
    4
    """

    noun = "translator"
    example_recipe = "auto"

    def __init__(
        self,
        model: GenerativeModel | Ensemble[GenerativeModel],
        tokenizers: TokenizerPair,
        decode_config: DecodeConfig,
        device: torch.device,
        aligner: Aligner | None = None,
        words: SeenWords | None = None,
        directions: Directions | None = None,
        engine: Engine | None = None,
        draft: GenerativeModel | None = None,
        reranker: Reranker | None = None,
        reads_terms: bool = False,
    ) -> None:
        super().__init__(model, tokenizers, decode_config, device, engine, draft)
        self.aligner = aligner or Aligner()
        self.words = words
        tags = tokenizers.src.tags if isinstance(tokenizers.src, MarianTokenizer) else ()
        self.directions = replace(directions or Directions.of([("src", "tgt")]), more_tags=frozenset(tags))
        self.reranker = reranker
        self.reads_terms = reads_terms
        """Whether the model was trained on annotated terms"""

    def translate(
        self,
        texts: Sequence[str],
        *,
        to: str | Sequence[str] | None = None,
        attention: bool = False,
        prefixes: Sequence[str] | None = None,
        observer: StepObserver | None = None,
        skip_long: bool = False,
        as_written: bool = False,
        split: bool = False,
        glossary: Glossary | None = None,
        glossary_mode: GlossaryMode | None = None,
        **options: object,
    ) -> list[Translation]:
        """Return one Translation per text, in order. `options` are those of TranslationConfig: beam=5, n_best=3, …

        `to` is the target language of all texts, or a list with that of each; a model with one target language needs
        none. A text that begins with a tag of the model, such as `>>fra<<`, keeps it. No tag is a word of the source.

        Case and punctuation that the model has not seen in training are changed, and restored in the translation (see
        `FittedText`), unless a text is to be translated `as_written` or has a prefix. `prefixes` are target texts that
        the translations must start with, one per text. `observer` is called at every step, with sentences numbered as
        the texts; a sentence that it stops may have no translation. A text of more than `max_source` tokens is an error
        or, with `skip_long`, gets an empty translation whose `problem` is set.

        With `split`, texts of several sentences or lines are translated sentence by sentence; spaces and line breaks
        between them are kept (see `Translation.merge`). With several hypotheses or prefixes, texts stay whole.

        A translation that lacks terms of the `glossary` is made again (see `GlossaryDecoder`). The default mode is
        "soft" for models that read terms, "hard" for others.
        """
        texts = check_texts(texts, "translate")
        config = TranslationConfig.parse({**self.decode_config.model_dump(), **options}, where="translate")
        config.check(self.draft is not None, self.reranker is not None)
        tagged = self.directions.read_tags(texts, to)
        if split and config.n_best == 1 and prefixes is None and observer is None:
            options |= {"attention": attention, "as_written": as_written}
            options |= {"glossary": glossary, "glossary_mode": glossary_mode}
            return self._translate_split(tagged, skip_long, options)
        must_occur = self._must_occur(glossary, glossary_mode, config)
        limit = self.length_limit(config.max_source)
        as_written = as_written or prefixes is not None
        fitted = [replace(self._fit(text, as_written, limit), tag=tag) for tag, text in tagged]
        sources, too_long = limit.encode([fit.tagged_text for fit in fitted], self.src_tokenizer)
        if too_long and not skip_long:
            index, problem = next(iter(too_long.items()))
            raise TooLongError(problem.describe(f"texts[{index}]", "max_source"))
        forced = self._forced_ids(prefixes, len(texts), limit)
        terms = FoundTerms.find(glossary, fitted, self._is_cased)
        search = partial(self._decode_texts, fitted, config, forced)
        read = self._glossary_decoder(search, limit, must_occur).decode(fitted, sources, terms, observer)
        return [
            self._translation(text, fit, source, read.hypotheses[i], terms.rows[i], attention)
            if i in read.hypotheses
            else Translation.untranslated(text, fit, config.n_best, too_long.get(i), is_stopped=bool(source))
            for i, ((_, text), fit, source) in enumerate(zip(tagged, read.fitted, read.sources, strict=True))
        ]

    def with_tag(self, text: str, to: str | None = None) -> str:
        return self.directions.with_tag(text, to)

    def split(self, text: str, to: str | None = None) -> SplitText:
        """Split a text, without its tag, into sentences by the rules of the source language."""
        tag, rest = self.directions.read_tag(text, to)
        return SplitText.of(rest, self.directions.source_of(tag), tag)

    def fit_sentences(self, text: str, to: str | None = None) -> tuple[SplitText, list[FittedText]]:
        """Split a text into sentences; return also each sentence as the model reads it."""
        split, limit = self.split(text, to), self.length_limit()
        return split, [replace(self._fit(each, False, limit), tag=split.tag) for each in split.sentences]

    def restore(self, source: str, output: str) -> str:
        return self._fit(source, False, self.length_limit()).restore(output)

    def _translate_split(
        self, tagged: Sequence[tuple[str, str]], skip_long: bool, options: Mapping[str, object]
    ) -> list[Translation]:
        """Translate the sentences of all texts together, given with their tags; return one Translation per text."""
        splits = [self.split(text, tag) for tag, text in tagged]
        sentences = [sentence for split in splits for sentence in split.sentences]
        tags = [split.tag for split in splits for _ in split.sentences]
        parts = iter(self.translate(sentences, to=tags, skip_long=True, **options))  # type: ignore[arg-type]
        merged = [
            Translation.merge(text, split, list(islice(parts, len(split.sentences))))
            for (_, text), split in zip(tagged, splits, strict=True)
        ]
        for i, translation in enumerate(merged):
            if translation.problem and not skip_long:
                raise TooLongError(translation.problem.describe(f"a sentence of texts[{i}]", "max_source"))
        return merged

    def _fit(self, text: str, as_written: bool, limit: LengthLimit) -> FittedText:
        """Return a text as the model should read it; one that is too long is left alone."""
        cleaned = self.clean(text)
        if self.words is None or len(cleaned) > limit.chars:
            return FittedText(cleaned)
        return FittedText.as_written(cleaned, self.words) if as_written else FittedText.fit(cleaned, self.words)

    def _decode_texts(
        self,
        texts: Sequence[FittedText],
        config: TranslationConfig,
        forced: Sequence[Sequence[int]] | None,
        sources: Sequence[Sequence[int]],
        observer: StepObserver | None,
        required: TermSearch | None,
    ) -> dict[int, list[Hypothesis]]:
        """Decode the sources of texts, and choose from the candidates; with a wide beam if terms are required."""
        tags = {i: fit.tag for i, (fit, source) in enumerate(zip(texts, sources, strict=True)) if source}
        languages = self.reranker.languages(self.directions, tags) if self.reranker else {}
        wanted = config.of_candidates(bool(self.reranker))
        if required is not None:
            wanted = wanted.model_copy(update={"beam": max(wanted.beam, _MIN_TERM_BEAM)})
        candidates = self._decode_all(sources, wanted, forced, observer, required)
        decoded = self._choose(candidates, [fit.text for fit in texts], languages, config)
        self._replace_empty(decoded, sources, config)
        return decoded

    def _must_occur(self, glossary: Glossary | None, mode: GlossaryMode | None, config: TranslationConfig) -> bool:
        """Return whether terms of a glossary are to be searched for; refuse what does not go together."""
        if mode == "soft" and not self.reads_terms:
            raise UserError("this model was not trained on annotated terms (glossary.share); use glossary mode hard")
        is_hard = glossary is not None and (mode == "hard" or not (mode or self.reads_terms))
        if is_hard:
            check_term_search(config.of_candidates(bool(self.reranker)))
        return is_hard

    def _glossary_decoder(self, search: Search, limit: LengthLimit, must_occur: bool) -> GlossaryDecoder:
        return GlossaryDecoder(
            search,
            lambda texts: limit.encode(texts, self.src_tokenizer)[0],
            self.decode_target,
            self.reads_terms,
            self._encode_terms if must_occur else None,
        )

    @cached_property
    def _encode_terms(self) -> TermEncoder:
        return TermEncoder(self.tgt_tokenizer, self._is_cased, self.device)

    @property
    def _is_cased(self) -> bool:
        """Whether the model reads capitals; one that does not was trained on lower-case text, on both sides probably"""
        return self.words is None or self.words.is_cased

    def _choose(
        self,
        candidates: dict[int, list[Hypothesis]],
        sources: Sequence[str],
        languages: Mapping[int, str | None],
        config: TranslationConfig,
    ) -> dict[int, list[Hypothesis]]:
        """Choose translations from the candidates of each source, by samples or a reverse model if they are used.

        The reverse model translates into `languages`.
        """
        if not config.mbr and self.reranker is None:
            return candidates
        texts = {i: [self.decode_target(each.ids) for each in row] for i, row in candidates.items()}
        if self.reranker is None:
            return {i: [choose_by_mbr(row, texts[i])] for i, row in candidates.items() if row}
        return self.reranker.rank(candidates, sources, texts, languages, config)

    def _forced_ids(self, prefixes: Sequence[str] | None, n_texts: int, limit: LengthLimit) -> list[list[int]] | None:
        """Return the ids that the translations must start with."""
        if prefixes is None:
            return None
        prefixes = check_texts(prefixes, "translate")
        if len(prefixes) != n_texts:
            raise UserError(f"there are {n_texts} texts but {len(prefixes)} prefixes; give one prefix per text")
        return [limit.encode_one(self.clean(prefix), self.tgt_tokenizer, "the prefix") for prefix in prefixes]

    def stream(
        self,
        lines: Iterable[str],
        n_lines: int | None = None,
        prefix: str | None = None,
        attention: bool = False,
        skip_long: bool = False,
        as_written: bool = False,
        split: bool = False,
        glossary: Glossary | None = None,
        glossary_mode: GlossaryMode | None = None,
        to: str | None = None,
        **options: object,
    ) -> Iterator[Translation]:
        """Translate any number of lines, `n_lines` at a time; every translation starts with `prefix`.

        By default as many at a time as keep the machine busy, at most so many that the first ones do not wait for long.
        """
        remaining = iter(check_iterable(lines, "stream"))
        n_lines = n_lines or (_GPU_STREAM_LINES if self.device.type == "cuda" else _STREAM_LINES)
        while chunk := list(islice(remaining, n_lines)):
            prefixes = [prefix] * len(chunk) if prefix else None
            yield from self.translate(
                chunk,
                to=to,
                attention=attention,
                prefixes=prefixes,
                skip_long=skip_long,
                as_written=as_written,
                split=split,
                glossary=glossary,
                glossary_mode=glossary_mode,
                **options,  # type: ignore[arg-type]
            )

    def encode(self, source: Input, hidden: Collection[int] = ()) -> EncodedInput:
        """Tokenise a text, which begins with a tag if the model needs one; refuse one that is too long."""
        text = self.clean(self.with_tag(as_text(source)))
        ids = self.length_limit().encode_one(text, self.src_tokenizer, "the text")
        return self.encode_ids(ids, hidden)

    def attention_sites(self) -> dict[str, AttentionSite]:
        """A decoder-only translator has one causal self-attention over source and target, shown as three kinds."""
        sites = super().attention_sites()
        if isinstance(self.traced_model, DecoderOnly):
            causal = sites["decoder"]
            cross = replace(causal, causal=False)  # every target token follows the whole source
            return {"encoder": causal, "decoder": causal, "cross": cross}
        return sites

    def _translation(
        self,
        text: str,
        fitted: FittedText,
        source: Sequence[int],
        hypotheses: Sequence[Hypothesis],
        terms: Sequence[TermMatch],
        attention: bool,
    ) -> Translation:
        candidates = tuple(self._candidate(fitted, source, h, terms, attention) for h in check_hypotheses(hypotheses))
        return Translation(
            text, tuple(self.src_tokenizer.tokens(source)), candidates, unknown=fitted.unknown, fitted=fitted
        )

    def _candidate(
        self,
        fitted: FittedText,
        source: Sequence[int],
        hypothesis: Hypothesis,
        terms: Sequence[TermMatch],
        attention: bool,
    ) -> Candidate:
        written, tokens = self.decode_target(hypothesis.ids), tuple(self.tgt_tokenizer.tokens(hypothesis.ids))
        if terms and not self._is_cased:
            written = write_terms(terms, written)
        candidate = Candidate(
            fitted.restore(written),
            hypothesis.score,
            tokens,
            log_prob=hypothesis.log_prob,
            n_tokens=len(tokens) + 1,
            ids=hypothesis.ids,
            unmet_terms=unmet_terms(terms, written),
        )
        if not attention:
            return candidate
        _, record = self.trace(self.encode_ids(source), [*hypothesis.ids, EOS])
        links = fitted.restore_links(self.aligner(record), len(unit_spans(written)))
        return replace(candidate, attention=record, alignment=links)
