"""Response bodies of the page's own API, /v1/…: tokens and translations."""

from collections.abc import Sequence

from regard.pipelines.base import Pipeline
from regard.pipelines.translation import Candidate, Translation
from regard.serve.registry import ServedModel
from regard.serve.schemas.base import ResponseBody
from regard.serve.schemas.tokens import PieceInfo, TokenInfo
from regard.text.bpe_merges import WordMerges, bpe_merges
from regard.text.fitted_text import FittedText
from regard.text.sentences import SplitText
from regard.text.tokenizer import Tokenizer


class MergesInfo(ResponseBody):
    """The segmentations of one word while BPE merges it."""

    word: int
    stages: list[list[str]]

    @classmethod
    def of(cls, merges: WordMerges) -> "MergesInfo":
        return cls(word=merges.word, stages=[list(stage) for stage in merges.stages])


class TokenizeResponse(ResponseBody):
    tokens: list[TokenInfo]
    merges: list[MergesInfo] | None
    """null if the tokenizer does not use BPE"""

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str) -> "TokenizeResponse":
        merges = bpe_merges(tokenizer, text)
        return cls(
            tokens=TokenInfo.encode(tokenizer, tokenizer.encode([text])[0]),
            merges=None if merges is None else [MergesInfo.of(word) for word in merges],
        )


class FittedSentence(ResponseBody):
    """A sentence of a text, as it was written and as the model reads it."""

    before: str
    """White space, and parts without a letter, between the sentence before and this one"""
    source: str
    read: str
    """With the tag of the target language, if the model needs one, and with case and punctuation that it has seen in
    training; empty if nothing is left"""
    unknown: list[str]
    """Words that never occurred in training"""


class SentencesResponse(ResponseBody):
    sentences: list[FittedSentence]
    after: str
    """What follows the last sentence"""

    @classmethod
    def of(cls, split: SplitText, fitted: Sequence[FittedText]) -> "SentencesResponse":
        *before, after = split.gaps
        parts = zip(before, split.sentences, fitted, strict=True)
        sentences = [
            FittedSentence(before=gap, source=source, read=fit.tagged_text, unknown=list(fit.unknown))
            for gap, source, fit in parts
        ]
        return cls(sentences=sentences, after=after)


class CandidateInfo(ResponseBody):
    """One of the n best translations."""

    text: str
    score: float
    confidence: float
    """Geometric mean of the tokens' probabilities"""
    tokens: list[PieceInfo]
    alignment: list[tuple[int, int]] | None
    """(source word, target word) pairs; null if the response is streamed"""

    @classmethod
    def of(cls, candidate: Candidate, pieces: list[PieceInfo]) -> "CandidateInfo":
        links = None if candidate.alignment is None else list(candidate.alignment)
        return cls(
            text=candidate.text,
            score=candidate.score,
            confidence=candidate.confidence,
            tokens=pieces,
            alignment=links,
        )


class SentenceInfo(ResponseBody):
    """A sentence of a text, and its translation."""

    source: str
    read: str
    """The sentence as the model reads it: with the tag of the target language, if it needs one, and with case and
    punctuation that it has seen in training"""
    text: str

    @classmethod
    def list_of(cls, translation: Translation) -> "list[SentenceInfo]":
        """Return the sentences of a translation; those without words are left out."""
        return [
            cls(source=part.source, read=part.fitted.tagged_text, text=part.text)
            for part in translation.sentences or (translation,)
            if part.fitted is not None
        ]


class TranslateResponse(ResponseBody):
    model: str
    text: str
    """With the line breaks and spaces of the source"""
    source: list[TokenInfo]
    """The tokens of all sentences, as the model reads them"""
    sentences: list[SentenceInfo]
    unknown: list[str]
    """Words of the source that never occurred in training"""
    unmet_terms: list[str]
    """Source terms of the request's glossary that are in the text, but not as often in the translation"""
    hypotheses: list[CandidateInfo]
    ms: float

    @classmethod
    def of(cls, served: ServedModel[Pipeline], translation: Translation, seconds: float) -> "TranslateResponse":
        tokenizer = served.pipeline.src_tokenizer
        source, pieces = list[TokenInfo](), list[PieceInfo]()
        for sentence, n_source, n_target in translation.placed_sentences():
            fitted = sentence.fitted or FittedText("")
            for token in TokenInfo.encode(tokenizer, tokenizer.encode([fitted.tagged_text])[0]):
                word = token.word if token.word < 0 else n_source + fitted.source_word(token.word)
                source.append(token.model_copy(update={"word": word}))
            pieces += PieceInfo.list_of(sentence.tokens, n_target + fitted.n_before)
        others = [CandidateInfo.of(other, PieceInfo.list_of(other.tokens)) for other in translation.hypotheses[1:]]
        return cls(
            model=served.name,
            text=translation.text,
            source=source,
            sentences=SentenceInfo.list_of(translation),
            unknown=list(translation.unknown),
            unmet_terms=[term.source for term in translation.unmet_terms],
            hypotheses=[CandidateInfo.of(translation.hypotheses[0], pieces), *others],
            ms=1000 * seconds,
        )


class ProgressEvent(ResponseBody):
    """Streamed event `said`: the best translation so far."""

    text: str


class FailedEvent(ResponseBody):
    """Streamed event `failed`, the last one if the translation fails."""

    title: str
    status: int
    detail: str
