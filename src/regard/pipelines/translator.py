"""Translator: texts in, translations out."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from regard.alignment.from_attention import Aligner
from regard.data.batch import collate_sources, padded_length
from regard.errors import UserError
from regard.models import GenerativeModel
from regard.models.decoder_only import DecoderOnly
from regard.pipelines.arguments import check_iterable, check_texts
from regard.pipelines.base import AttentionSite, EncodedInput, Input, as_text, check_hypotheses
from regard.pipelines.engine import Engine
from regard.pipelines.length_groups import LengthGroup, groups_by_length, split_for_threads
from regard.pipelines.length_limit import LengthLimit, TooLong, TooLongError
from regard.pipelines.text_embedder import TextEmbedder
from regard.pipelines.translation import Candidate, Translation
from regard.search.decode import DecodeConfig, decode, is_narrow
from regard.search.ensemble import Ensemble
from regard.search.protocols import Hypothesis, RenumberedObserver, StepObserver, Stepper, is_optional
from regard.text.fitted_text import FittedText
from regard.text.marian_tokenizer import MarianTokenizer
from regard.text.seen_words import SeenWords
from regard.text.sentences import SplitText
from regard.text.tokenizer import TokenizerPair
from regard.text.units import unit_spans
from regard.text.vocab import EOS
from regard.threads import run_in_threads

_STREAM_LINES = 1024
_GPU_STREAM_LINES = 16_384


class Translator(TextEmbedder):
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
        languages: tuple[str, str] = ("src", "tgt"),
        engine: Engine | None = None,
    ) -> None:
        super().__init__(model, tokenizers, decode_config, device)
        self.model: GenerativeModel | Ensemble[GenerativeModel] = model
        self.aligner = aligner or Aligner()
        self.words = words
        self.languages = languages
        self.engine = engine
        """What runs the search, unless only PyTorch can; None: always PyTorch"""

    def translate(
        self,
        texts: Sequence[str],
        *,
        attention: bool = False,
        prefixes: Sequence[str] | None = None,
        observer: StepObserver | None = None,
        skip_long: bool = False,
        as_written: bool = False,
        split: bool = False,
        **options: object,
    ) -> list[Translation]:
        """Return one Translation per text, in order. `options` are those of DecodeConfig: beam=5, n_best=3, …

        Case and punctuation that the model has not seen in training are changed, and restored in the translation (see
        `FittedText`), unless a text is to be translated `as_written` or has a prefix. `prefixes` are target texts that
        the translations must start with, one per text. `observer` is called at every step, with sentences numbered as
        the texts; a sentence that it stops may have no translation. A text of more than `max_source` tokens is an error
        or, with `skip_long`, gets an empty translation whose `problem` is set.

        With `split`, texts of several sentences or lines are translated sentence by sentence; spaces and line breaks
        between them are kept (see `Translation.merge`). With several hypotheses or prefixes, texts stay whole.
        """
        texts = check_texts(texts, "translate")
        config = DecodeConfig.parse({**self.decode_config.model_dump(), **options}, where="translate")
        if split and config.n_best == 1 and prefixes is None and observer is None:
            return self._translate_split(texts, attention, skip_long, as_written, options)
        limit = self.length_limit(config.max_source)
        as_written = as_written or prefixes is not None
        fitted = [self._fit(text, as_written, limit) for text in texts]
        sources, too_long = limit.encode([fit.text for fit in fitted], self.src_tokenizer)
        if too_long and not skip_long:
            index, problem = next(iter(too_long.items()))
            raise TooLongError(problem.describe(f"texts[{index}]", "max_source"))
        forced = self._forced_ids(prefixes, len(texts), limit)
        decoded = self._decode_all(sources, config, forced, observer)
        self._replace_empty(decoded, sources, config)
        return [
            self._translation(text, fit, source, decoded[i], attention)
            if i in decoded
            else _not_translated(text, fit, config.n_best, too_long.get(i), is_stopped=bool(source))
            for i, (text, fit, source) in enumerate(zip(texts, fitted, sources, strict=True))
        ]

    def split(self, text: str) -> SplitText:
        """Split a text into sentences by the rules of the source language.

        A text that starts with a tag of the target language stays whole: the tag would be missing in later sentences.
        """
        if isinstance(self.src_tokenizer, MarianTokenizer) and self.src_tokenizer.split_tag(text)[0]:
            return SplitText.whole(text)
        return SplitText.of(text, self.languages[0])

    def _translate_split(
        self, texts: Sequence[str], attention: bool, skip_long: bool, as_written: bool, options: Mapping[str, object]
    ) -> list[Translation]:
        """Translate the sentences of all texts together, and return one Translation per text."""
        splits = [self.split(text) for text in texts]
        sentences = [sentence for split in splits for sentence in split.sentences]
        parts = iter(
            self.translate(sentences, attention=attention, skip_long=True, as_written=as_written, **options)  # type: ignore[arg-type]
        )
        merged = [
            Translation.merge(text, split, list(islice(parts, len(split.sentences))))
            for text, split in zip(texts, splits, strict=True)
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

    def _decode_all(
        self,
        sources: Sequence[Sequence[int]],
        config: DecodeConfig,
        forced: Sequence[Sequence[int]] | None = None,
        observer: StepObserver | None = None,
    ) -> dict[int, list[Hypothesis]]:
        """Decode sources by the engine, and what it leaves out by PyTorch, in groups of similar length.

        Empty and stopped sources may have no result.
        """
        results: dict[int, list[Hypothesis]] = {}
        is_observed = observer is not None and not is_optional(observer)
        if self.engine is not None and forced is None and not is_observed and self.engine.can_decode(config):
            results = self.engine.decode(sources, config)
            sources = [() if i in results else source for i, source in enumerate(sources)]  # empty ones are left out
        model: Stepper[Any] = self.decoding_model(config)

        def decode_group(group: LengthGroup) -> list[list[Hypothesis]]:
            rows, n_slots = group
            batch = collate_sources([sources[i] for i in rows], self._width(len(sources[rows[0]]))).to(self.device)
            renumbered = None if observer is None else RenumberedObserver(observer, torch.tensor(rows))
            return decode(model, batch, config, [forced[i] for i in rows] if forced else None, renumbered, n_slots)

        alone = observer is not None or self.device.type != "cpu" or is_narrow(model)
        n_threads = 1 if alone else torch.get_num_threads()
        groups = split_for_threads(list(groups_by_length(sources, config, self.device)), n_threads)
        for group, decoded in zip(groups, run_in_threads(decode_group, groups, n_threads), strict=True):
            for i, hypotheses in zip(group.rows, decoded, strict=True):
                if hypotheses or observer is None:  # a stopped sentence may have no finished hypothesis
                    results[i] = hypotheses
        return results

    def _replace_empty(
        self, decoded: dict[int, list[Hypothesis]], sources: Sequence[Sequence[int]], config: DecodeConfig
    ) -> None:
        """Search again, for outputs of at least one token, where the best output is empty although the source is not.

        Forbidding empty outputs from the start would also change the outputs of other sources.
        """
        rows = [i for i, hypotheses in decoded.items() if hypotheses and not self.decode_target(hypotheses[0].ids)]
        if not rows:
            return
        again = self._decode_all([sources[i] for i in rows], _without_empty(config))
        for n, i in enumerate(rows):
            decoded[i] = self._empty_last(again[n])[: config.n_best] or decoded[i]

    def _empty_last(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Sort hypotheses whose text is empty, such as a lone space, behind the others."""
        return sorted(hypotheses, key=lambda hypothesis: not self.decode_target(hypothesis.ids))

    def _decode_ranked(self, encoded: EncodedInput, rank: int) -> list[int]:
        ids = super()._decode_ranked(encoded, rank)
        if rank > 1 or self.decode_target(ids):
            return ids
        config = _without_empty(self.decode_config)
        [hypotheses] = decode(self.decoding_model(config), encoded.batch(), config)
        return list(self._empty_last(hypotheses)[0].ids) if hypotheses else ids

    def _width(self, longest: int) -> int:
        """Return the width of a batch of sources; only some occur, because each is captured separately."""
        width = padded_length(-(-(longest + 1) // 8) * 8)
        return width if self.max_input_tokens is None else min(width, self.max_input_tokens + 1)

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
                attention=attention,
                prefixes=prefixes,
                skip_long=skip_long,
                as_written=as_written,
                split=split,
                **options,  # type: ignore[arg-type]
            )

    def encode(self, source: Input, hidden: Collection[int] = ()) -> EncodedInput:
        """Tokenise a text; refuse one that is too long."""
        ids = self.length_limit().encode_one(self.clean(as_text(source)), self.src_tokenizer, "the text")
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
        self, text: str, fitted: FittedText, source: Sequence[int], hypotheses: Sequence[Hypothesis], attention: bool
    ) -> Translation:
        candidates = tuple(self._candidate(fitted, source, h, attention) for h in check_hypotheses(hypotheses))
        return Translation(
            text, tuple(self.src_tokenizer.tokens(source)), candidates, unknown=fitted.unknown, fitted=fitted
        )

    def _candidate(
        self, fitted: FittedText, source: Sequence[int], hypothesis: Hypothesis, attention: bool
    ) -> Candidate:
        written = self.decode_target(hypothesis.ids)
        text, tokens = fitted.restore(written), tuple(self.tgt_tokenizer.tokens(hypothesis.ids))
        candidate = Candidate(text, hypothesis.score, tokens, log_prob=hypothesis.log_prob, n_tokens=len(tokens) + 1)
        if not attention:
            return candidate
        _, record = self.trace(self.encode_ids(source), [*hypothesis.ids, EOS])
        links = fitted.restore_links(self.aligner(record), len(unit_spans(written)))
        return replace(candidate, attention=record, alignment=links)


def _without_empty(config: DecodeConfig) -> DecodeConfig:
    """Return settings of a search for outputs of at least one token."""
    width = max(2, config.beam, config.n_best)
    update = {"min_len": max(1, config.min_len), "beam": width, "n_best": width, "sampling": None}
    return config.model_copy(update=update)


def _not_translated(
    text: str, fitted: FittedText, n_best: int, problem: TooLong | None, is_stopped: bool
) -> Translation:
    """Return the translation of a text without tokens: the text itself. Of one that is too long, it is empty."""
    translation = "" if problem or is_stopped else fitted.restore(fitted.text)
    nothing = Candidate(translation, 0.0, (), log_prob=-math.inf if problem else 0.0)
    return Translation(text, (), (nothing,) * n_best, problem, fitted.unknown)
