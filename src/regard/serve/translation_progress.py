"""How much of some texts has been translated."""

from collections.abc import Iterable, Sequence
from itertools import islice

from regard.alignment.from_attention import Aligner
from regard.pipelines.translation import Translation
from regard.text.sentences import SplitText

_FEWEST, _MOST = 32, 128  # sentences of a portion; fewer would not take much less time
_SECONDS = 1.0  # that a portion should take at most


class TranslationProgress:
    """The sentences of texts, and the translations that there are so far."""

    def __init__(self, texts: Sequence[str], splits: Sequence[SplitText], in_order: bool = False) -> None:
        """`in_order`: sentences are translated in their order, not those of similar length together."""
        self.texts = texts
        self.splits = splits
        self.sentences = [sentence for split in splits for sentence in split.sentences]
        self.tags = [split.tag for split in splits for _ in split.sentences]
        """The tag of the target language of each sentence"""
        self.outputs = [""] * len(self.sentences)
        """What there is of each translation"""
        self.portion = _FEWEST
        """How many sentences to translate before other jobs have their turn"""
        self._translations: dict[int, Translation] = {}
        numbers = range(len(self.sentences))
        self._order = list(numbers) if in_order else sorted(numbers, key=lambda n: len(self.sentences[n]))

    @property
    def n_remaining(self) -> int:
        return len(self._order) - len(self._translations)

    def next_sentences(self, n: int) -> list[int]:
        """Return the numbers of the next n sentences."""
        done = len(self._translations)
        return self._order[done : done + n]

    def add(self, numbers: Iterable[int], translations: Iterable[Translation], aligner: Aligner) -> None:
        """Add the translations of the next sentences. Of their attention, only what alignments need is kept."""
        for n, translation in zip(numbers, translations, strict=True):
            self._translations[n] = translation.shrink_attention(aligner)

    def adapt(self, seconds: float) -> None:
        """Choose the size of the next portion, given how long this one has taken."""
        factor = 2.0 if seconds < _SECONDS / 2 else 0.5 if seconds > _SECONDS else 1.0
        self.portion = min(_MOST, max(_FEWEST, int(factor * self.portion)))

    def report(self) -> str:
        """Return what there is of the translation of the first text."""
        split = self.splits[0]
        return split.join(self.outputs[: len(split.sentences)]).strip()

    def translated_sentences(self) -> list[list[Translation]]:
        """Return the translations of the sentences of each text, once all are translated."""
        numbers = iter(range(len(self.sentences)))
        return [[self._translations[n] for n in islice(numbers, len(split.sentences))] for split in self.splits]

    def results(self) -> list[Translation]:
        """Return the translations of the texts, once all sentences are translated."""
        return list(map(Translation.merge, self.texts, self.splits, self.translated_sentences()))


def share_sentences(jobs: Sequence[TranslationProgress]) -> list[list[int]]:
    """Divide a portion among jobs, at least one sentence each; return the numbers of the sentences of each job."""
    n_sentences = min(job.portion for job in jobs)
    counts = [0] * len(jobs)
    for n_done, i in enumerate(sorted(range(len(jobs)), key=lambda i: jobs[i].n_remaining)):
        counts[i] = max(1, (n_sentences - sum(counts)) // (len(jobs) - n_done))
        counts[i] = min(counts[i], jobs[i].n_remaining)
    return [job.next_sentences(count) for job, count in zip(jobs, counts, strict=True)]
