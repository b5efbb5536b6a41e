"""Tags and unknown words in translations."""

from collections.abc import Iterable, Iterator

import numpy as np

from regard.alignment.from_attention import Aligner
from regard.alignment.transfer import MarkupTransfer
from regard.pipelines.length_limit import LengthLimit
from regard.pipelines.translation import Candidate, Translation
from regard.text.direction import Directions
from tests.alignment.test_from_attention import make_record


class FakeTranslator:
    """Returns a fixed translation with a fixed alignment of its tokens."""

    aligner = Aligner()
    directions = Directions.of([("en", "fr")])

    def __init__(self, source: tuple[str, ...], target: tuple[str, ...], source_tokens: list[int]) -> None:
        self.tokens = source, target
        weights = np.zeros((len(target) + 1, len(source) + 1), dtype=np.float32)
        weights[range(len(target)), source_tokens] = 1.0
        weights[-1, -1] = 1.0
        self.record = make_record((*source, "</s>"), (*target, "</s>"), weights.tolist())

    def length_limit(self, max_source: int | None) -> LengthLimit:
        return LengthLimit(max_source or 100, None)

    def stream(self, lines: Iterable[str], **options: object) -> Iterator[Translation]:
        text = "".join(self.tokens[1]).replace("▁", " ").replace("<unk>", " ⁇ ").strip()
        for line in lines:
            yield Translation(line, self.tokens[0], (Candidate(text, 0.0, self.tokens[1], attention=self.record),))


def translate(translator: FakeTranslator, line: str, **options: bool) -> str:
    [translation] = MarkupTransfer(**options).translate(translator, [line])  # type: ignore[arg-type]
    assert translation.source == line
    return translation.text


def test_unknown_words_are_copied_from_the_source() -> None:
    source, target = ("▁the", "▁Zy", "<unk>", "▁witch"), ("▁la", "▁sor", "cière", "▁", "<unk>", "▁x")
    translator = FakeTranslator(source, target, [0, 3, 3, 1, 2, 1])
    assert translate(translator, "the Zyž witch", unknown=True) == "la sorcière Zyž"
    assert translate(translator, "the Zyž witch") == "la sorcière ⁇ x"
    assert translate(translator, "the <b>Zyž</b> witch", unknown=True, markup=True) == "la sorcière <b>Zyž</b>"


def test_markup_follows_the_alignment_of_pieces() -> None:
    source, target = ("▁the", "▁gr", "een", "▁witch"), ("▁la", "▁sor", "cière", "▁verte")
    translator = FakeTranslator(source, target, [0, 3, 3, 1])
    assert translate(translator, "the <b>green</b> witch", markup=True) == "la sorcière <b>verte</b>"
    assert translate(translator, "the green witch {x}", markup=True) == "la sorcière verte {x}"


def test_markup_and_unknown_words_in_texts_without_spaces() -> None:
    source, target = ("▁she", "▁likes", "▁the", "▁teacher"), ("▁彼女は", "先生", "が", "好き", "。")
    translator = FakeTranslator(source, target, [0, 3, 1, 1, 3])
    assert translate(translator, "she likes the <b>teacher</b>", markup=True) == "彼女は<b>先生</b>が好き。"
    backwards = FakeTranslator(target, source, [0, 3, 1, 1])
    assert translate(backwards, "彼女は<b>先生</b>が好き。", markup=True) == "she likes <b>the teacher</b>"
    unknown = FakeTranslator(("▁<unk>", "▁likes"), ("▁<unk>", "が", "好き", "でした。"), [0, 1, 1, 1])
    assert translate(unknown, "Zyž likes", unknown=True) == "Zyž が好きでした。"
