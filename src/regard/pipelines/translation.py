"""Translation: the result of translating a text, and of the sentences of a text put together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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

    @classmethod
    def merge(cls, source: str, split: SplitText, sentences: "Sequence[Translation]") -> "Translation":
        """Return the translation of a text from those of its sentences.

        Texts are joined, tokens, links and unknown words put one after the other, and scores added. Attention stays
        with the `sentences`. If one of them is too long, there is no translation.
        """
        if len(sentences) == 1 and sentences[0].source == source:
            return sentences[0]
        problem = next((sentence.problem for sentence in sentences if sentence.problem), None)
        text = "" if problem else split.join([sentence.text for sentence in sentences])
        if len(sentences) == 1 and not "".join(split.gaps).strip():
            [only] = sentences
            return replace(
                only, source=source, hypotheses=(replace(only.hypotheses[0], text=text), *only.hypotheses[1:])
            )
        return cls(
            source,
            tuple(token for sentence in sentences for token in sentence.source_tokens),
            (_join_candidates(text, split, sentences),),
            problem,
            tuple(dict.fromkeys(word for sentence in sentences for word in sentence.unknown)),
            sentences=tuple(sentences),
        )

    def placed_sentences(self) -> "Iterator[tuple[Translation, int, int]]":
        """Yield the sentences, and how many words precede each of them in the source and in the translation."""
        source_start = text_start = 0
        for sentence in self.sentences or (self,):
            source_start = self.source.find(sentence.source, source_start)
            text_start = self.text.find(sentence.text, text_start)
            yield sentence, len(unit_spans(self.source[:source_start])), len(unit_spans(self.text[:text_start]))
            source_start, text_start = source_start + len(sentence.source), text_start + len(sentence.text)

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


def _join_candidates(text: str, split: SplitText, sentences: Sequence[Translation]) -> Candidate:
    """Return the candidate with this text from the best ones of the sentences."""
    best = [sentence.hypotheses[0] for sentence in sentences]
    links, n_source, n_target = list[tuple[int, int]](), 0, 0
    for gap, sentence in zip(split.gaps, [*sentences, None], strict=True):
        copied = len(gap.split())  # parts without a letter are words of both sides
        links += [(n_source + i, n_target + i) for i in range(copied)]
        n_source, n_target = n_source + copied, n_target + copied
        if sentence is not None:
            links += [(n_source + i, n_target + j) for i, j in sentence.alignment or ()]
            n_source += len(unit_spans(sentence.source))
            n_target += len(unit_spans(sentence.text))
    return Candidate(
        text,
        sum((candidate.score for candidate in best), 0.0),
        tuple(token for candidate in best for token in candidate.tokens),
        alignment=tuple(links) if any(candidate.alignment is not None for candidate in best) else None,
        log_prob=sum((candidate.log_prob for candidate in best), 0.0),
        n_tokens=sum(candidate.n_tokens for candidate in best),
    )
