"""The front door: texts in, Translations out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from regard.alignment.aligner import Aligner
from regard.data.batch import collate_sources
from regard.errors import UserError
from regard.models.inside import head_of, record_of, single
from regard.models.protocols import AttentionTraces
from regard.models.record import AttentionRecord, HeadRecord
from regard.search.decode import DecodeConfig, decode
from regard.search.protocols import Ensemble, Hypothesis, Renumbered, Stepper, Watcher
from regard.text.clean import clean
from regard.text.html_table import sentence_pair_html, weight_table_html
from regard.text.labels import token_labels
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import BOS, EOS, SPECIALS

_BATCH_SIZE = 16_384  # hypotheses times source tokens, decoded at once
_STREAM_LINES = 256


@dataclass(frozen=True)
class Candidate:
    """One of the n best."""

    text: str
    score: float
    tokens: tuple[str, ...]
    attention: AttentionRecord | None = None
    """Where the model looked while it said this, if asked for"""
    alignment: tuple[tuple[int, int], ...] | None = None
    """(source word, target word), from 0 in the order of the source, as the model's aligner reads its attention"""


@dataclass(frozen=True)
class Translation:
    """The best translation of one source, and what led to it."""

    source: str
    source_tokens: tuple[str, ...]
    hypotheses: tuple[Candidate, ...]

    @property
    def attention(self) -> AttentionRecord | None:
        return self.hypotheses[0].attention

    @property
    def text(self) -> str:
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        return self.hypotheses[0].score

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.hypotheses[0].tokens

    @property
    def alignment(self) -> tuple[tuple[int, int], ...] | None:
        return self.hypotheses[0].alignment

    def _repr_html_(self) -> str:
        """In a notebook: the pair and, where attention was asked for, its map over all layers and heads."""
        pair = sentence_pair_html(self.source, self.text)
        kind = "cross" if self.attention and self.attention.cross.size else "decoder"
        if self.attention is None or not self.attention.weights(kind).size:
            return pair
        rows, columns = map(token_labels, self.attention.tokens(kind))
        return pair + weight_table_html(rows, columns, self.attention.weights(kind).mean((0, 1)).tolist())


class Translator:
    """A model, its tokenizers and how to decode. Holds no state between calls."""

    def __init__(
        self,
        model: Stepper,
        tokenizers: TokenizerPair,
        config: DecodeConfig,
        device: torch.device,
        aligner: Aligner | None = None,
    ) -> None:
        self.model = model
        self.aligner = aligner or Aligner()
        self.tokenizers = tokenizers
        self.config = config
        self.device = device

    def translate(
        self,
        texts: Sequence[str],
        *,
        attention: bool = False,
        prefixes: Sequence[str] | None = None,
        watch: Watcher | None = None,
        **options: object,
    ) -> list[Translation]:
        """One Translation a text, in order. `options` are those of DecodeConfig: beam=5, n_best=3, …

        `prefixes` are target texts that the translations must start with, one a text. `watch` sees every step, with
        sentences numbered as the texts; what it gives up has no translation.
        """
        if isinstance(texts, str):
            raise UserError("translate takes a list of texts; write translate([text])")
        if prefixes is not None and len(prefixes) != len(texts):
            raise UserError(f"there are {len(texts)} texts but {len(prefixes)} prefixes; give one a text")
        config = DecodeConfig.parse({**self.config.model_dump(), **options}, where="translate")
        sources = self.tokenizers.src.encode([clean(text) for text in texts])
        forced = self.tokenizers.tgt.encode([clean(p) for p in prefixes]) if prefixes is not None else None
        results: dict[int, Translation] = {}
        for rows in _by_length(sources, config, self.tokenizers.tgt.size):
            batch = collate_sources([sources[i] for i in rows]).to(self.device)
            seen = None if watch is None else Renumbered(watch, torch.tensor(rows))
            found = decode(self.model, batch, config, [forced[i] for i in rows] if forced else None, seen)
            for i, hypotheses in zip(rows, found, strict=True):
                if hypotheses or watch is None:  # nothing had ended of what was given up
                    results[i] = self._translation(texts[i], sources[i], hypotheses, attention)
        return [results.get(i) or _nothing(text, config.n_best) for i, text in enumerate(texts)]

    def stream(
        self,
        lines: Iterable[str],
        n_lines: int = _STREAM_LINES,
        prefix: str | None = None,
        attention: bool = False,
        **options: object,
    ) -> Iterator[Translation]:
        """Translate an endless input, `n_lines` at a time, each translation starting with `prefix`."""
        waiting = iter(lines)
        while chunk := list(islice(waiting, n_lines)):
            prefixes = [prefix] * len(chunk) if prefix else None
            yield from self.translate(chunk, attention=attention, prefixes=prefixes, **options)  # type: ignore[arg-type]

    def _translation(
        self, text: str, source: Sequence[int], found: Sequence[Hypothesis], attention: bool
    ) -> Translation:
        if not found:
            raise UserError("the model gives no probabilities; its weights are damaged, or training diverged")
        candidates = tuple(self._candidate(source, hypothesis, attention) for hypothesis in found)
        return Translation(text, tuple(self.tokenizers.src.tokens(source)), candidates)

    def _candidate(self, source: Sequence[int], found: Hypothesis, attention: bool) -> Candidate:
        target = self.tokenizers.tgt
        text, tokens = clean(target.decode(found.ids)), tuple(target.tokens(found.ids))
        if not attention:
            return Candidate(text, found.score, tokens)
        record = self.attention(source, found.ids)
        return Candidate(text, found.score, tokens, record, tuple(sorted(self.aligner(record))))

    def attention(self, source: Sequence[int], target: Sequence[int]) -> AttentionRecord:
        """The weights of a given pair of id sequences, by the plain form of attention."""
        return self._watch(source, target)[1]

    def inside(
        self, source: Sequence[int], target: Sequence[int], kind: str = "cross", layer: int = 0, head: int = 0
    ) -> HeadRecord:
        """One head with its queries, keys, values and scores, over a given pair of id sequences."""
        return head_of(*self._watch(source, target), kind, layer, head)

    @torch.inference_mode()
    def _watch(self, source: Sequence[int], target: Sequence[int]) -> tuple[AttentionTraces, AttentionRecord]:
        model: Any = self.model.members[0] if isinstance(self.model, Ensemble) else self.model
        traces = model.attention(single([*source, EOS], [BOS, *target, EOS], self.device))
        source_tokens = (*self.tokenizers.src.tokens(source), SPECIALS[EOS])
        target_tokens = (*self.tokenizers.tgt.tokens(target), SPECIALS[EOS])
        return traces, record_of(traces, source_tokens, target_tokens)


def device_named(name: str | None) -> torch.device:
    """The device of that name; without one, a GPU if there is any."""
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def _by_length(sources: Sequence[Sequence[int]], config: DecodeConfig, n_vocab: int) -> Iterator[list[int]]:
    """Row numbers of non-empty sources in batches of like length, bounded in memory."""
    order = sorted((i for i, s in enumerate(sources) if s), key=lambda i: (len(sources[i]), i))
    width = config.beam if config.sampling is None else config.n_best
    batch: list[int] = []
    for i in order:
        # A hypothesis holds keys and values of its source, and at each step a probability a word.
        if batch and (len(batch) + 1) * width * max(len(sources[i]) + 1, n_vocab / 1000) > _BATCH_SIZE:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _nothing(text: str, n_best: int) -> Translation:
    """The translation of an empty line is an empty line."""
    return Translation(text, (), (Candidate("", 0.0, ()),) * n_best)
