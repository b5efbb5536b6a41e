"""Translation: the result of translating a text, and of the sentences of a text put together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from regard.alignment.from_attention import Aligner
from regard.data.glossary import GlossaryTerm
from regard.models.record import AttentionRecord
from regard.pipelines.length_limit import TooLong
from regard.text.fitted_text import FittedText
from regard.text.html_table import score_table_html, sentence_pair_html, word_links_html
from regard.text.sentences import SplitText
from regard.text.units import split_units, unit_spans


@dataclass(frozen=True)
class Candidate:
    """One of the n best translations of a source."""

    text: str
    score: float
    tokens: tuple[str, ...]
    """The tokens that the model generated; `text` may differ from them in case and punctuation (see `FittedText`)"""
    attention: AttentionRecord | None = None
    """Attention while this translation was generated, if requested"""
    alignment: tuple[tuple[int, int], ...] | None = None
    """(source word, target word) pairs, counted from 0, that the aligner reads from the attention"""
    log_prob: float = 0.0
    """Log-probability of the whole translation, whatever the length penalty"""
    n_tokens: int = 0
    """Tokens that `log_prob` covers, with the end token"""
    ids: tuple[int, ...] = ()
    """Of the tokens"""
    unmet_terms: tuple[GlossaryTerm, ...] = ()
    """Terms of the glossary that are in the source but not, or not as often, in this translation"""

    @property
    def confidence(self) -> float:
        """Geometric mean of the tokens' probabilities, from 0 to 1; 1 for an empty line, 0 if nothing was translated"""
        return min(1.0, math.exp(self.log_prob / max(1, self.n_tokens)))


@dataclass(frozen=True)
class Translation:
    """The translations of one source; the properties are those of the best one."""

    source: str
    source_tokens: tuple[str, ...]
    """The source as the model read it: see `FittedText`"""
    hypotheses: tuple[Candidate, ...]
    problem: TooLong | None = None
    """Why there is no translation, if `skip_long` was set"""
    unknown: tuple[str, ...] = ()
    """Words of the source that never occurred in training, in any casing; none if the model has no list of words"""
    fitted: FittedText | None = None
    """How the source was changed before the model read it"""
    sentences: "tuple[Translation, ...]" = ()
    """The translations of the sentences of a text that was split"""

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
    def confidence(self) -> float:
        return self.hypotheses[0].confidence

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.hypotheses[0].tokens

    @property
    def alignment(self) -> tuple[tuple[int, int], ...] | None:
        return self.hypotheses[0].alignment

    @property
    def unmet_terms(self) -> tuple[GlossaryTerm, ...]:
        return self.hypotheses[0].unmet_terms

    @classmethod
    def merge(cls, source: str, split: SplitText, sentences: "Sequence[Translation]") -> "Translation":
        """Return the translation of a text from those of its sentences.

        Texts are joined, tokens, links and unknown words put one after the other, and scores added; the second best
        hypothesis has the second best of each sentence, and so on. Attention stays with the `sentences`. If one of them
        is too long, there is no translation.
        """
        if len(sentences) == 1 and sentences[0].source == source:
            return sentences[0]
        problem = next((sentence.problem for sentence in sentences if sentence.problem), None)
        ranked = _by_rank(sentences)
        texts = ["" if problem else split.join([candidate.text for candidate in best]) for best in ranked]
        if len(sentences) == 1 and not "".join(split.gaps).strip():
            [only] = sentences
            pairs = zip(only.hypotheses, texts, strict=True)
            return replace(only, source=source, hypotheses=tuple(replace(one, text=text) for one, text in pairs))
        sources = [sentence.source for sentence in sentences]
        pairs_of_all = zip(texts, ranked, strict=True)
        return cls(
            source,
            tuple(token for sentence in sentences for token in sentence.source_tokens),
            tuple(_join_candidates(text, split, sources, candidates) for text, candidates in pairs_of_all),
            problem,
            tuple(dict.fromkeys(word for sentence in sentences for word in sentence.unknown)),
            sentences=tuple(sentences),
        )

    @classmethod
    def untranslated(
        cls, text: str, fitted: FittedText, n_best: int, problem: TooLong | None, is_stopped: bool
    ) -> "Translation":
        """Return the translation of a text without tokens: the text itself. Of one that is too long, it is empty."""
        translation = "" if problem or is_stopped else fitted.restore(fitted.text)
        nothing = Candidate(translation, 0.0, (), log_prob=-math.inf if problem else 0.0)
        return cls(text, (), (nothing,) * n_best, problem, fitted.unknown)

    def shrink_attention(self, aligner: Aligner) -> "Translation":
        """Return the translation with only that part of its attention which this aligner reads."""
        candidates = (
            candidate
            if candidate.attention is None
            else replace(candidate, attention=aligner.shrink(candidate.attention))
            for candidate in self.hypotheses
        )
        return self if self.attention is None else replace(self, hypotheses=tuple(candidates))

    def placed_sentences(self) -> "Iterator[tuple[Translation, int, int]]":
        """Yield the sentences, and how many words precede each of them in the source and in the translation."""
        n_source, n_target = _WordCount(self.source), _WordCount(self.text)
        for sentence in self.sentences or (self,):
            yield sentence, n_source.before(sentence.source), n_target.before(sentence.text)

    def _repr_html_(self) -> str:
        """Show source and translation in a notebook, with score, alignment and mean attention if requested."""
        if self.problem:
            return sentence_pair_html(self.source, self.problem.describe("the text", "max_source"))
        parts = [sentence_pair_html(self.source, self.text), f"<div>score: {self.score:.3f}</div>"]
        if len(self.hypotheses) > 1:
            rows = [(f"{h.score:.3f}", h.text) for h in self.hypotheses]
            parts.append(score_table_html(("score", "translation"), rows))
        if self.attention is not None:
            source, target = split_units(self.source), split_units(self.text)
            links = [(source[i], target[j]) for i, j in self.alignment or () if i < len(source) and j < len(target)]
            parts += [word_links_html(links) if links else "", "<div>mean of all layers and heads:</div>"]
            parts.append(self.attention.mean()._repr_html_())
        return "".join(parts)


class _WordCount:
    """Counts words of a text up to parts of it, which follow each other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = self.n_words = 0

    def before(self, part: str) -> int:
        """Return how many words precede the next occurrence of this part, and go on behind it."""
        start = self.text.find(part, self.position)
        n_before = self.n_words + len(unit_spans(self.text[self.position : start]))
        self.position, self.n_words = start + len(part), n_before + len(unit_spans(part))
        return n_before


def _by_rank(sentences: Sequence[Translation]) -> list[list[Candidate]]:
    """Return the best candidates of all sentences, then the second best; a sentence with too few repeats its last."""
    n = max((len(sentence.hypotheses) for sentence in sentences), default=1)
    return [[sentence.hypotheses[min(i, len(sentence.hypotheses) - 1)] for sentence in sentences] for i in range(n)]


def _join_candidates(text: str, split: SplitText, sources: Sequence[str], candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate with this text from those of the sentences."""
    links, n_source, n_target = list[tuple[int, int]](), 0, 0
    for i, gap in enumerate(split.gaps):
        copied = len(gap.split())  # parts without a letter are words of both sides
        links += [(n_source + k, n_target + k) for k in range(copied)]
        n_source, n_target = n_source + copied, n_target + copied
        if i < len(candidates):
            links += [(n_source + s, n_target + t) for s, t in candidates[i].alignment or ()]
            n_source += len(unit_spans(sources[i]))
            n_target += len(unit_spans(candidates[i].text))
    return Candidate(
        text,
        sum((candidate.score for candidate in candidates), 0.0),
        tuple(token for candidate in candidates for token in candidate.tokens),
        alignment=tuple(links) if any(candidate.alignment is not None for candidate in candidates) else None,
        log_prob=sum((candidate.log_prob for candidate in candidates), 0.0),
        n_tokens=sum(candidate.n_tokens for candidate in candidates),
        ids=tuple(i for candidate in candidates for i in candidate.ids),
        unmet_terms=tuple(term for candidate in candidates for term in candidate.unmet_terms),
    )
