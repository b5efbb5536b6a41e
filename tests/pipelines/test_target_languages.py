"""Translators with several target languages: `to`, tags in the text, and what a tag never changes."""

from dataclasses import replace

import numpy as np
import pytest

from regard.alignment.sentence_pairs import align_pairs
from regard.alignment.transfer import MarkupTransfer
from regard.bundle import Bundle
from regard.errors import UserError
from regard.pipelines.load import pipeline_from_bundle
from regard.pipelines.reranker import Reranker
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.search.length_penalty import normalise_score
from regard.text.direction import Directions
from regard.text.words import word_indices
from tests.pipelines.examples import TEXT, multilingual_bundle

SENTENCES = [TEXT, "the witch arrived", "Did They Sleep?", "THE GREEN WITCH!", ""]
PARAGRAPH = "The witch arrived. Did they sleep?\n\n1. The cat sees a witch."


@pytest.fixture(scope="module", params=["word", "bpe", "char"])
def bundle(request: pytest.FixtureRequest) -> Bundle:
    return multilingual_bundle(request.param)


@pytest.fixture(scope="module")
def translator(bundle: Bundle) -> Translator:
    return load(bundle)


@pytest.fixture(scope="module")
def bilingual(bundle: Bundle) -> Translator:
    """The same model, said to translate English to French only"""
    return load(replace(bundle, directions=()))


def load(bundle: Bundle) -> Translator:
    pipeline = pipeline_from_bundle(bundle, "cpu")
    assert isinstance(pipeline, Translator)
    return pipeline


def plain(translation: Translation) -> object:
    """What two equal translations have in common, up to rounding"""
    hypotheses = [(h.text, h.tokens, h.alignment, round(h.score, 4)) for h in translation.hypotheses]
    return translation.source, translation.source_tokens, translation.unknown, translation.problem, hypotheses


def test_to_is_the_same_as_a_tag_in_the_text(translator: Translator) -> None:
    tagged = [f">>deu<< {text}" for text in SENTENCES]
    options = {"attention": True, "n_best": 2}
    for more in ({}, {"as_written": True}, {"prefixes": ["a"] * len(SENTENCES)}):
        by_option = translator.translate(SENTENCES, to="de", **options, **more)  # type: ignore[arg-type]
        for to in (None, "de", "fr"):
            by_tag = translator.translate(tagged, to=to, **options, **more)  # type: ignore[arg-type]
            assert list(map(plain, by_tag)) == list(map(plain, by_option))
    assert [t.text for t in by_option] != [t.text for t in translator.translate(SENTENCES, to="fr", **options)]  # type: ignore[arg-type]


def test_the_model_reads_the_tag_as_one_token_that_is_no_word(translator: Translator, bilingual: Translator) -> None:
    [translation] = translator.translate(["THE CAT SLEEPS!"], to="fr", attention=True)
    assert translation.fitted and translation.fitted.tagged_text.startswith(">>fra<< ")
    [written] = bilingual.translate([translation.fitted.tagged_text], as_written=True)
    assert written.tokens == translation.tokens and written.source_tokens == translation.source_tokens
    assert translation.source_tokens[0].removeprefix("▁") == ">>fra<<"
    assert word_indices(translation.source_tokens)[0] == -1
    assert "fra" not in translation.unknown and "<" not in translation.unknown
    assert translation.attention is not None
    n_words = len(translation.attention.merge_words().source_tokens)
    assert n_words == len(translation.fitted.text.split()), "the tag is no word"


def test_texts_of_several_languages_in_one_batch_equal_each_alone(translator: Translator) -> None:
    targets = ["fr", "de", "fra", ">>deu<<", "de"]
    together = translator.translate(SENTENCES, to=targets)
    for text, to, translation in zip(SENTENCES, targets, together, strict=True):
        assert plain(translator.translate([text], to=to)[0]) == plain(translation)
    assert [t.text for t in translator.stream(SENTENCES, 2, to="de")] == [
        t.text for t in translator.translate(SENTENCES, to="de")
    ]


def test_every_sentence_of_a_text_gets_the_tag(translator: Translator) -> None:
    [split] = translator.translate([PARAGRAPH], to="de", split=True, attention=True)
    [tagged] = translator.translate([f">>deu<< {PARAGRAPH}"], split=True, attention=True)
    assert plain(split) == plain(tagged) and split.source == PARAGRAPH
    assert [part.source for part in split.sentences] == [
        "The witch arrived.",
        "Did they sleep?",
        "The cat sees a witch.",
    ]
    for part in split.sentences:
        assert plain(part) == plain(translator.translate([part.source], to="de", attention=True)[0])
        assert part.fitted and part.fitted.tag == ">>deu<<"


def test_links_of_forced_pairs_leave_the_tag_out(translator: Translator) -> None:
    pairs = ["the witch arrived", "a cat"], ["green witch", "the cat sleeps"]
    links = list(align_pairs(translator, *pairs, to="de"))
    assert links == list(align_pairs(translator, [f">>deu<< {source}" for source in pairs[0]], pairs[1]))
    for source, target, each in zip(*pairs, links, strict=True):
        assert each == translator.aligner(translator.record(f">>deu<< {source}", target))
        assert {j for _, j in each} == set(range(len(target.split())))
        assert {i for i, _ in each} <= set(range(len(source.split())))


def test_markup_stays_at_its_words(translator: Translator) -> None:
    lines = ["the <b>green</b> witch", "a cat {x}"]
    transfer = MarkupTransfer(markup=True)
    by_option = list(transfer.translate(translator, lines, to="de"))
    by_tag = list(transfer.translate(translator, [f">>deu<< {line}" for line in lines], to="fr"))
    assert [t.text for t in by_option] == [t.text for t in by_tag] and by_option[1].text.count("{x}") == 1
    assert [t.source for t in by_option] == [t.source for t in by_tag] == lines


def test_scores_of_tokens_are_those_of_the_search(translator: Translator) -> None:
    translations = translator.translate([TEXT, "a cat"], to=["de", "fr"])
    for translation, [scores] in zip(translations, translator.score_tokens(translations), strict=True):
        assert sum(score.log_prob for score in scores) == pytest.approx(translation.hypotheses[0].log_prob, abs=1e-4)


def test_a_record_needs_a_tag(translator: Translator) -> None:
    record = translator.record(translator.with_tag(TEXT, "fr"))
    np.testing.assert_array_equal(record.cross, translator.record(f">>fra<< {TEXT}").cross)
    with pytest.raises(UserError, match="translates to fr, de"):
        translator.record(TEXT)


@pytest.mark.parametrize(
    ("options", "words"),
    [({}, "missing"), ({"to": "it"}, "'it'"), ({"to": ["fr"]}, "2 texts but 1"), ({"split": True}, "missing")],
)
def test_a_wrong_target_is_one_line(translator: Translator, options: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words) as error:
        translator.translate([TEXT, "a cat"], **options)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_a_bilingual_model_needs_no_target(bilingual: Translator) -> None:
    expected = list(map(plain, bilingual.translate(SENTENCES)))
    assert list(map(plain, bilingual.translate(SENTENCES, to="fr"))) == expected
    assert list(map(plain, bilingual.translate(SENTENCES, to=["", "fra", "fr", "fr", ""]))) == expected
    with pytest.raises(UserError, match="translates to fr"):
        bilingual.translate([TEXT], to="de")


def test_empty_lines_need_no_language_of_their_own(translator: Translator) -> None:
    lines = ["the <b>green</b> witch", "", "<br/>"]
    translations = list(MarkupTransfer(markup=True).translate(translator, lines, to="de"))
    assert [t.source for t in translations] == lines and [t.text for t in translations[1:]] == lines[1:]
    assert not translator.split("").sentences
    with pytest.raises(UserError, match="the target language is missing"):
        translator.translate(["", TEXT])


def test_a_reverse_model_is_asked_for_the_language_of_the_source(bundle: Bundle) -> None:
    translator = load(bundle)
    reverse = load(replace(bundle, directions=Directions.of([("de", "en"), ("de", "fr")]).all))
    [before] = translator.translate([TEXT], to="de", beam=4, n_best=4, as_written=True)
    translator.reranker = Reranker(reverse)
    [after] = translator.translate([TEXT], to="de", beam=4, n_best=4, as_written=True, rerank_weight=1.0)
    [(_, n_tokens)] = [score for score in reverse.score_pairs([before.text], [TEXT], "en") if score]
    backward = {
        h.text: normalise_score(reverse.score([h.text], [TEXT], "en")[0], n_tokens, 0.6) for h in before.hypotheses
    }
    expected = {h.text: h.score + backward[h.text] for h in before.hypotheses}
    assert {h.text: h.score for h in after.hypotheses} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("pairs", "to", "message"),
    [
        ([("fr", "en")], "de", "translates fr → en, not de → en"),
        ([("de", "nl"), ("de", "fr")], "de", "not de → en"),
        ([("fr", "en"), ("fr", "nl")], "fr", "the texts may be en, nl"),
        ([("fr", "en")], "fr", "the texts may be en, nl"),
    ],
)
def test_reverse_models_of_other_languages_are_refused(
    bundle: Bundle, pairs: list[tuple[str, str]], to: str, message: str
) -> None:
    translator, directions = load(bundle), Directions.of(pairs)
    translator.reranker = Reranker(load(replace(bundle, directions=directions.several, languages=pairs[0])))
    with pytest.raises(UserError, match=message):
        translator.translate([TEXT, ""], to=to, beam=2)


def test_links_of_two_models_need_one_language_of_the_sources(translator: Translator, bilingual: Translator) -> None:
    with pytest.raises(UserError, match="the texts may be en, nl"):
        align_pairs(translator, [TEXT], [TEXT], bilingual, to="fr")
    assert list(align_pairs(translator, [TEXT], [TEXT], bilingual, to="de"))
