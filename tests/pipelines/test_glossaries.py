"""Translators with glossaries: terms are in the output as whole words, whatever the tokenizer."""

import random
import re
from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

import pytest
import torch

from regard import models
from regard.data.glossary import Glossary, count_terms
from regard.errors import UserError
from regard.pipelines.term_encoder import TermEncoder
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.search.protocols import Hypothesis, SearchStep
from regard.text.seen_words import SeenWords
from regard.text.tokenizer import Tokenizer, TokenizerConfig, TokenizerPair, train_tokenizer
from regard.text.vocab import EOS
from tests.pipelines.examples import CPU, STACK

TEXTS = ["the Haus of the witch", "a Haustür, a Haus und Tür", "witches see ( green ) cats", "le crédit à la carte"]
LOWER = [text.lower() for text in TEXTS]
CONFIGS = {
    "bpe": TokenizerConfig(vocab_size=330),
    "unigram": TokenizerConfig(kind="unigram", vocab_size=310),
    "words": TokenizerConfig(kind="word"),
    "characters": TokenizerConfig(kind="char"),
    "bytes": TokenizerConfig(kind="bytes"),
}
GLOSSARY = Glossary.of(
    {
        "witch": "Haus",
        "cat": "Tür",
        "cats": "crédit | cats",
        "a witch": "carte",
        "green": "green cats",
        "see": "Haus und",
    }
)
SENTENCES = [
    "witch",
    "the cat",
    "a witch see green cats",
    "witch and witch",
    "the Witch",
    "nothing",
    "",
    "cat witch cat",
]


def translator(tokenizer: Tokenizer, words: SeenWords | None = None, seed: int = 1) -> Translator:
    torch.manual_seed(seed)
    model = models.build(STACK, tokenizer.size).eval()
    with torch.no_grad():
        model.output.weight.mul_(4.0)
    return Translator(model, TokenizerPair(tokenizer, tokenizer), DecodeConfig(), CPU, words=words)


def whole_word(term: str) -> str:
    return rf"(?<!\w){re.escape(term)}(?!\w)"


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_term_is_in_the_translation_as_a_whole_word(kind: str) -> None:
    tokenizer = train_tokenizer(TEXTS * 20, CONFIGS[kind])
    for seed in range(3):
        pipeline = translator(tokenizer, seed=seed)
        for translation in pipeline.translate(SENTENCES, glossary=GLOSSARY):
            assert translation.unmet_terms == ()
            for match in GLOSSARY.find(translation.source):
                forms = "|".join(map(whole_word, match.term.targets))
                assert re.search(forms, translation.text, re.IGNORECASE), (translation.source, translation.text)


def test_a_term_starts_with_a_space_where_that_is_a_token_or_part_of_one() -> None:
    [match] = Glossary.of({"witch": "Haus"}).find("witch")
    for config, forms in (
        (TokenizerConfig(vocab_size=330, lossless=True), ("Haus", " Haus")),
        (CONFIGS["bpe"], ("Haus",)),
    ):
        tokenizer = train_tokenizer(TEXTS * 20, config)
        [[term]] = TermEncoder(tokenizer, is_cased=True, device=CPU)([[match]]).rows
        assert [list(form.ids) for form in term.forms] == tokenizer.encode(forms)


def test_targets_may_be_written_with_separate_accents() -> None:
    glossary = Glossary.of({"witch": normalize("NFD", "Tür")})
    for seed in range(3):
        [translation] = translator(train_tokenizer(TEXTS * 20, CONFIGS["bpe"]), seed=seed).translate(
            ["the witch"], glossary=glossary
        )
        assert re.search(whole_word("Tür"), normalize("NFC", translation.text)) and translation.unmet_terms == ()


def test_texts_that_an_observer_stops_are_not_translated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = translator(train_tokenizer(TEXTS * 20, CONFIGS["bpe"]))
    searches = list[bool]()
    decode_all = Translator._decode_all

    def recorded(self: Translator, *args: Any) -> dict[int, list[Hypothesis]]:
        searches.append(args[-1] is not None)  # the terms
        return decode_all(self, *args)

    monkeypatch.setattr(Translator, "_decode_all", recorded)
    pipeline.translate(["the witch"], glossary=GLOSSARY)
    assert searches.count(True) == 1
    searches.clear()
    [stopped] = pipeline.translate(
        ["the witch"], glossary=GLOSSARY, observer=lambda step: ((step.ids == EOS) & step.log_probs.isfinite()).any(1)
    )
    assert stopped.text and searches == [False]  # stopped when its first hypothesis was complete
    assert [term.source for term in stopped.unmet_terms] == ["witch"]


def test_an_observer_can_stop_texts_that_are_translated_again() -> None:
    class Observer:
        """Stops what is translated again at the first step"""

        def __init__(self) -> None:
            self.n_steps, self.n_again = 0, 0

        def __call__(self, step: SearchStep) -> None:
            self.n_steps += 1

        def again(self, step: SearchStep) -> torch.Tensor:
            self.n_again += 1
            return torch.ones(len(step.sentences), dtype=torch.bool)

    pipeline, observer = translator(train_tokenizer(TEXTS * 20, CONFIGS["bpe"])), Observer()
    [plain] = pipeline.translate(["the witch"])
    [stopped] = pipeline.translate(["the witch"], glossary=GLOSSARY, observer=observer)
    assert observer.n_steps > 1 and observer.n_again == 1
    assert stopped.text == plain.text and [term.source for term in stopped.unmet_terms] == ["witch"]


def test_a_search_that_finds_no_more_terms_changes_nothing() -> None:
    tokenizer, n_unmet = train_tokenizer(TEXTS * 20, CONFIGS["bpe"]), 0
    for max_len in (3, 4):  # too short for most terms
        pipeline = translator(tokenizer)
        plain = pipeline.translate(SENTENCES, max_len=max_len)
        for before, after in zip(plain, pipeline.translate(SENTENCES, max_len=max_len, glossary=GLOSSARY), strict=True):
            counts = count_terms(GLOSSARY.find(before.source)).items()
            missing, still = (
                sum(max(0, n - term.count_in(each.text)) for term, n in counts) for each in (before, after)
            )
            assert still < missing or after.text == before.text
            n_unmet += still == missing > 0
    assert n_unmet > 0, "every search found a term"


def test_texts_without_terms_are_translated_as_without_a_glossary() -> None:
    pipeline = translator(train_tokenizer(TEXTS * 20, CONFIGS["bpe"]))
    plain = pipeline.translate(SENTENCES, n_best=2)
    with_terms = pipeline.translate(SENTENCES, n_best=2, glossary=GLOSSARY)
    for sentence, expected, actual in zip(SENTENCES, plain, with_terms, strict=True):
        assert (actual == expected) == (not GLOSSARY.find(sentence)), sentence
        [alone] = pipeline.translate([sentence], n_best=2, glossary=GLOSSARY)
        assert [h.text for h in alone.hypotheses] == [h.text for h in actual.hypotheses]
    assert list(pipeline.stream(SENTENCES, n_lines=3, n_best=2, glossary=GLOSSARY)) == with_terms


def test_a_narrow_beam_becomes_wide_enough_for_texts_with_terms_only() -> None:
    pipeline = translator(train_tokenizer(TEXTS * 20, CONFIGS["bpe"]))
    greedy, wide = (pipeline.translate(SENTENCES, beam=beam, glossary=GLOSSARY) for beam in (1, 10))
    plain = pipeline.translate(SENTENCES, beam=1)
    for sentence, a, b, c in zip(SENTENCES, greedy, wide, plain, strict=True):
        assert a.text == (b if GLOSSARY.find(sentence) else c).text


def test_a_model_of_lower_case_text_writes_terms_as_the_glossary_does() -> None:
    pipeline = translator(train_tokenizer(LOWER * 20, CONFIGS["bpe"]), SeenWords.count(LOWER * 20))
    for sentence in ("the witch", "THE WITCH", "The Witch"):
        [translation] = pipeline.translate([sentence], glossary=GLOSSARY)
        expected = "HAUS" if sentence.isupper() else "Haus"
        assert re.search(whole_word(expected), translation.text), (sentence, translation.text)
        assert not any(token.startswith("▁H") for token in translation.tokens), "the model itself writes lower case"


def test_a_term_has_a_capital_at_the_beginning_of_the_output_only() -> None:
    pipeline = translator(train_tokenizer([*TEXTS, "Carte Crédit"] * 20, CONFIGS["words"]))
    glossary = Glossary.of({"witch": "carte"})
    for seed in range(4):
        pipeline = translator(pipeline.tgt_tokenizer, seed=seed)
        for translation in pipeline.translate(["a witch", "the green witch"], glossary=glossary, n_best=5):
            for candidate in translation.hypotheses:
                words = candidate.text.split()
                assert "carte" in words or words[0] == "Carte", candidate.text


def test_sentences_of_a_text_have_their_own_terms() -> None:
    pipeline = translator(train_tokenizer(TEXTS * 20, CONFIGS["bpe"]))
    text = "The witch sees a cat. Nothing. A witch sees a witch."
    [whole] = pipeline.translate([text], split=True, glossary=GLOSSARY)
    assert [len(GLOSSARY.find(sentence.source)) for sentence in whole.sentences] == [2, 0, 2]
    assert whole.unmet_terms == () and whole.text.count("Haus") >= 1


def test_terms_that_cannot_be_met_are_reported() -> None:
    words = train_tokenizer(TEXTS * 20, CONFIGS["words"])
    glossary = Glossary.of({"witch": "Hexe", "cat": "Haus"})
    [translation] = translator(words).translate(["the witch and the cat"], glossary=glossary)
    assert [term.source for term in translation.unmet_terms] == ["witch"], "the vocabulary has no such word"
    assert "Haus" in translation.text.split()
    [short] = translator(words).translate(["cat cat cat"], glossary=glossary, max_len=2)
    assert [str(term) for term in short.unmet_terms] == ["cat → Haus"]


def test_sampling_is_refused() -> None:
    pipeline = translator(train_tokenizer(TEXTS * 20, CONFIGS["bpe"]))
    with pytest.raises(UserError, match="need beam search"):
        pipeline.translate(["the witch"], glossary=GLOSSARY, sampling={})


def test_very_many_terms_in_one_sentence() -> None:
    generator = random.Random(1)
    tokenizer = train_tokenizer(TEXTS * 20, CONFIGS["bpe"])
    words = ["".join(generator.choices("abcdeghiknorstuw", k=5)) for _ in range(40)]
    glossary = Glossary.of({word: word[::-1] for word in words})
    [translation] = translator(tokenizer).translate([" ".join(words)], glossary=glossary)
    assert len(translation.unmet_terms) <= 40 - 32


def test_a_draft_model_changes_nothing_for_texts_with_terms() -> None:
    pipeline = translator(train_tokenizer(TEXTS * 20, CONFIGS["bpe"]))
    expected = [each.text for each in pipeline.translate(SENTENCES, beam=1, glossary=GLOSSARY)]
    pipeline.use_draft(translator(pipeline.tgt_tokenizer, seed=2).model)  # type: ignore[arg-type]
    assert [each.text for each in pipeline.translate(SENTENCES, glossary=GLOSSARY)] == expected


class RecordingEngine:
    """Decodes nothing, and remembers what it was given."""

    def __init__(self) -> None:
        self.sources: list[Sequence[int]] = []

    def can_decode(self, config: DecodeConfig) -> bool:
        return True

    def decode(self, sources: Sequence[Sequence[int]], config: DecodeConfig) -> dict[int, list[Hypothesis]]:
        self.sources += [source for source in sources if source]
        return {}


def test_an_engine_gets_all_texts_first() -> None:
    pipeline = translator(train_tokenizer(TEXTS * 20, CONFIGS["bpe"]))
    expected = [each.text for each in pipeline.translate(SENTENCES, glossary=GLOSSARY)]
    pipeline.engine = engine = RecordingEngine()
    assert [each.text for each in pipeline.translate(SENTENCES, glossary=GLOSSARY)] == expected
    assert engine.sources == pipeline.src_tokenizer.encode([sentence for sentence in SENTENCES if sentence])


def test_translations_that_have_their_terms_are_those_without_a_glossary() -> None:
    tokenizer = train_tokenizer(TEXTS * 20, CONFIGS["words"])
    n_same = 0
    for seed in range(6):
        pipeline = translator(tokenizer, seed=seed)
        plain = pipeline.translate(SENTENCES)
        for with_terms, without in zip(pipeline.translate(SENTENCES, glossary=GLOSSARY), plain, strict=True):
            matches = GLOSSARY.find(without.source)
            has_terms = all(term.count_in(without.text, is_cased=True) >= n for term, n in count_terms(matches).items())
            assert (with_terms.text == without.text) == has_terms
            n_same += bool(matches) and has_terms
    assert n_same > 0, "no translation had its terms by chance"
