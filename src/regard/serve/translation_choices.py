"""A job for the queue: translate a text, with one or several translations as choices of OpenAI's API."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from regard.pipelines.translation import Candidate, Translation
from regard.search.token_scores import TokenScore
from regard.serve.choices import ChoiceList, ChoiceToken, FinishReason, TextChoice, choice_tokens
from regard.serve.jobs import SentencesJob
from regard.serve.translation_progress import TranslationProgress
from regard.text.sentences import SplitText


@dataclass(frozen=True)
class ChoiceOptions:
    """How translations are cut and scored."""

    n: int = 1
    """Choices per text"""
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    """A text ends before any of these"""
    n_top: int | None = None
    """Score the tokens and so many of the most likely ones in their places; None: no scores"""


@dataclass(frozen=True)
class KeptSentence:
    """The part of a sentence's translation that there is room for."""

    sentence: Translation
    number: int
    """Of the hypothesis"""
    n_tokens: int
    text: str

    @property
    def is_whole(self) -> bool:
        return self.n_tokens == len(self.sentence.hypotheses[self.number].ids)


@dataclass(frozen=True)
class TranslationChoicesJob(SentencesJob[ChoiceList]):
    """Translates one text. Choice i consists of the translations of rank i of all sentences."""

    options: ChoiceOptions = field(default=ChoiceOptions(), compare=False)

    @cached_property
    def _max_tokens(self) -> Callable[[int], int]:
        """The most tokens of the translation of a sentence, given those of its source"""
        return lru_cache(lambda n_source: self.served.pipeline.max_output_tokens(n_source, self.config))

    def finish(self, progress: TranslationProgress) -> ChoiceList:
        [split], [sentences] = progress.splits, progress.translated_sentences()
        kept = [self._kept_sentences(sentences, rank) for rank in range(self.config.n_best)]
        scores = list[list[list[TokenScore]]]()
        if self.options.n_top is not None:
            scored = sentences[: max(len(parts) for parts, _ in kept)]
            scores = self.served.pipeline.score_tokens(scored, self.options.n_top)
        choices = [self._choice(split, parts, scores, reason) for parts, reason in kept]
        n_prompt = sum(len(sentence.source_tokens) for sentence in sentences)
        n_generated = sum(choice.n_tokens for choice in choices)
        return ChoiceList(tuple(choices[: self.options.n]), n_prompt, n_generated)

    def _kept_sentences(self, sentences: Sequence[Translation], rank: int) -> tuple[list[KeptSentence], FinishReason]:
        """Return the translations of a rank up to the maximum number of tokens, and how the text ends."""
        kept, n_left = list[KeptSentence](), self.options.max_tokens
        reason: FinishReason = "stop"
        for sentence in sentences:
            number = min(rank, len(sentence.hypotheses) - 1)
            candidate = sentence.hypotheses[number]
            n_all = len(candidate.ids)
            n = n_all if n_left is None else min(n_all, n_left)
            if n or not n_all:
                kept.append(KeptSentence(sentence, number, n, self._beginning(sentence, candidate, n)))
            if n < n_all:
                return kept, "length"
            if n_all and n_all >= self._max_tokens(len(sentence.source_tokens)):
                reason = "length"
            n_left = None if n_left is None else n_left - n
        return kept, reason

    def _choice(
        self,
        split: SplitText,
        kept: Sequence[KeptSentence],
        scores: Sequence[Sequence[Sequence[TokenScore]]],
        reason: FinishReason,
    ) -> TextChoice:
        """Return the text of these sentences up to a stop sequence, with scores of its tokens if there are any."""
        n, texts = len(kept), [part.text for part in kept]
        is_whole = n == len(split.sentences) and all(part.is_whole for part in kept[-1:])
        part_of_text = split if is_whole else SplitText(split.sentences[:n], (*split.gaps[:n], ""))
        tokens, start = list[ChoiceToken](), 0
        for part, gap, part_scores in zip(kept, part_of_text.gaps_between(texts), scores, strict=False):
            start += len(gap)
            tokens += self._tokens(part.sentence, part_scores[part.number][: part.n_tokens], start)
            start += len(part.text)
        n_tokens = sum(part.n_tokens for part in kept)
        return TextChoice(part_of_text.join(texts), tuple(tokens), n_tokens, reason).end_before(self.options.stop)

    def _beginning(self, sentence: Translation, candidate: Candidate, n: int) -> str:
        """Return the text of the first n tokens of a sentence."""
        if n == len(candidate.ids) or sentence.fitted is None:
            return candidate.text
        return replace(sentence.fitted, after="").restore(self.served.pipeline.decode_target(candidate.ids[:n]))

    def _tokens(self, sentence: Translation, scores: Sequence[TokenScore], start: int) -> list[ChoiceToken]:
        """Return the scored tokens of a sentence that begins after `start` characters.

        Their strings are those that the model generated, before case and punctuation of the source are restored.
        """
        pipeline, ids = self.served.pipeline, [score.id for score in scores]
        start += len(sentence.fitted.before) if sentence.fitted else 0
        offsets = [start + len(pipeline.decode_target(ids[:i])) for i in range(len(ids))]
        return list(choice_tokens(pipeline.tgt_tokenizer, (), scores, offsets))
