"""Translation of segments: plain sentences for the model, then tags and placeholders put back at their words."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.alignment.transfer import MarkupTransfer
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.text.markup import TaggedText
from regard.text.sentences import SplitText


@dataclass(frozen=True)
class SegmentTranslation:
    """A segment and its sentences as the model reads them."""

    tagged: TaggedText
    split: SplitText
    transfer: MarkupTransfer

    @classmethod
    def of(
        cls, tagged: TaggedText, translator: Translator, copy_unknown: bool = False, to: str | None = None
    ) -> "SegmentTranslation":
        """Split a segment; one without letters, such as a number or a placeholder, has no sentences."""
        has_letters = any(map(str.isalpha, tagged.plain))
        split = translator.split(tagged.plain, to) if has_letters else SplitText((), ("",))
        return cls(tagged, split, MarkupTransfer(markup=True, unknown=copy_unknown))

    @property
    def needs_attention(self) -> bool:
        """Whether the alignment of words is needed, as there are tags to place"""
        return self.transfer.unknown or self.tagged.has_markup

    def finish(self, sentences: Sequence[Translation], translator: Translator) -> str:
        """Return the translation of the segment with its tags.

        A segment without sentences, and one with a sentence that is too long for the model, stays as it is.
        """
        translation = Translation.merge(self.tagged.plain, self.split, sentences) if sentences else None
        if translation is None or translation.problem is not None:
            return self.tagged.text
        return self.transfer.tagged_translation(self.tagged, translation, translator)
