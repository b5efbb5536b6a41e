"""What a model generates for a prompt, as OpenAI's API calls it: choices, with the scores of their tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from regard.search.token_scores import TokenScore
from regard.text.token_strings import token_string
from regard.text.tokenizer import Tokenizer

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class ChoiceToken:
    """A token of a choice, and the most likely ones in its place."""

    string: str
    offset: int
    """Characters of the choice's text before it"""
    log_prob: float
    top: tuple[tuple[str, float], ...]
    """Strings and log-probabilities, the most likely first"""


@dataclass(frozen=True)
class TextChoice:
    """A generated text, or a part of it that is streamed."""

    text: str = ""
    tokens: tuple[ChoiceToken, ...] = ()
    """Empty unless scores were requested"""
    n_tokens: int = 0
    """Tokens that the model generated"""
    finish_reason: FinishReason | None = None
    """length: it was cut at the maximum number of tokens; None: more parts follow"""

    def mean_log_prob(self, start: int = 0) -> float:
        """Return the mean log-probability of the tokens after `start` characters."""
        log_probs = [token.log_prob for token in self.tokens if token.offset >= start]
        return sum(log_probs) / max(1, len(log_probs))

    def end_before(self, stop: Sequence[str], start: int = 0) -> "TextChoice":
        """Return the choice up to the first of these strings after `start` characters, if one occurs in it."""
        ends = [at for string in stop if (at := self.text.find(string, start)) >= 0]
        if not ends:
            return self
        kept = tuple(token for token in self.tokens if token.offset < min(ends))
        return replace(self, text=self.text[: min(ends)], tokens=kept, finish_reason="stop")

    def n_certain(self, stop: Sequence[str]) -> int:
        """Count the characters that are not the beginning of a stop sequence which may follow."""
        beginnings = (n for string in stop for n in range(1, len(string)) if self.text.endswith(string[:n]))
        return len(self.text) - max(beginnings, default=0)

    def part(self, start: int, end: int) -> "TextChoice":
        """Return what is between two positions in the text."""
        tokens = tuple(token for token in self.tokens if start <= token.offset < end)
        return TextChoice(self.text[start:end], tokens)


@dataclass(frozen=True)
class ChoiceList:
    """The choices for one prompt, best or first one first."""

    choices: tuple[TextChoice, ...]
    n_prompt: int
    """Tokens of the prompt"""
    n_generated: int
    """Tokens of all choices, including those that were dropped"""


def choice_tokens(
    tokenizer: Tokenizer, before: Sequence[int], scores: Sequence[TokenScore], offsets: Sequence[int]
) -> Iterator[ChoiceToken]:
    """Yield scored tokens, which follow the ids `before`, with the text that they and their alternatives add."""
    ids = [*before, *(score.id for score in scores)]
    for i, (score, offset) in enumerate(zip(scores, offsets, strict=True), start=len(before)):
        top = tuple((token_string(tokenizer, ids[:i], token), log_prob) for token, log_prob in score.top)
        yield ChoiceToken(token_string(tokenizer, ids[:i], score.id), offset, score.log_prob, top)
