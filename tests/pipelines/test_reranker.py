"""Reranking by a reverse model, and the scores of pairs that it needs."""

import math

import pytest

from regard.errors import UserError
from regard.pipelines.load import load_translator
from regard.pipelines.reranker import Reranker
from regard.pipelines.translator import Translator
from regard.search.length_penalty import normalise_score
from tests.pipelines.examples import BUNDLES, LEARNED, RNN_LOCATION, STACK, TEXT, translator

TEXTS = [TEXT, "a cat", "", "the green witch arrived", "sees"]
BEAM = {"beam": 4, "n_best": 4}


def with_reverse(weight: int = 2) -> tuple[Translator, Translator]:
    """A translator that uses a reverse model, and the reverse model"""
    forward, reverse = translator(STACK), translator({**STACK, "n_layers": weight})
    forward.reranker = Reranker(reverse)
    return forward, reverse


def test_a_weight_of_0_keeps_the_order_and_the_scores() -> None:
    forward, _ = with_reverse()
    plain = translator(STACK).translate(TEXTS, **BEAM)
    for ours, expected in zip(forward.translate(TEXTS, **BEAM, rerank_weight=0.0), plain, strict=True):
        assert [(c.text, c.score) for c in ours.hypotheses] == [(c.text, c.score) for c in expected.hypotheses]


def test_scores_are_weighted_sums_and_the_best_is_first() -> None:
    forward, reverse = with_reverse(1)
    plain = translator(STACK).translate(TEXTS, **BEAM)
    reranked = forward.translate(TEXTS, **BEAM, rerank_weight=0.7, rerank_length=0.1)
    n_moved = 0
    for text, before, after in zip(TEXTS, plain, reranked, strict=True):
        if not text:
            continue
        expected = {}
        for candidate in before.hypotheses:
            [log_prob] = reverse.score([candidate.text], [text])
            backward = normalise_score(log_prob, len(text.split()) + 1, 0.6)
            expected[candidate.text] = candidate.score + 0.7 * backward + 0.1 * (len(candidate.ids) + 1)
        ranked = sorted(expected, key=lambda each: -expected[each])
        assert [candidate.text for candidate in after.hypotheses] == ranked
        assert [candidate.score for candidate in after.hypotheses] == pytest.approx([expected[each] for each in ranked])
        n_moved += ranked != list(expected)
    assert n_moved, "the reverse model changes the order of some"


def test_a_text_alone_gives_the_same_and_the_best_comes_from_the_whole_beam() -> None:
    forward, _ = with_reverse(1)
    together = forward.translate(TEXTS, beam=4, rerank_weight=5.0)
    for text, expected, all_ranked in zip(
        TEXTS, together, forward.translate(TEXTS, **BEAM, rerank_weight=5.0), strict=True
    ):
        [alone] = forward.translate([text], beam=4, rerank_weight=5.0)
        assert len(expected.hypotheses) == 1
        assert alone.text == expected.text == all_ranked.text
        assert alone.score == pytest.approx(expected.score)


def test_where_a_text_is_too_long_for_the_reverse_model_the_order_stays() -> None:
    forward = translator(STACK)
    long = " ".join(["cat"] * 20)
    plain = forward.translate([TEXT, long], **BEAM)
    forward.reranker = Reranker(translator(LEARNED))
    short_ranked, long_ranked = forward.translate([TEXT, long], **BEAM, rerank_weight=9.0)
    assert [c.score for c in long_ranked.hypotheses] == [c.score for c in plain[1].hypotheses]
    assert [c.score for c in short_ranked.hypotheses] != [c.score for c in plain[0].hypotheses]


def test_useless_combinations_are_refused() -> None:
    forward, _ = with_reverse()
    for options, name in (({"beam": 1}, "beam"), ({"sampling": {}}, "n_best")):
        with pytest.raises(UserError, match=f"set {name} to at least 2"):
            forward.translate(TEXTS, **options)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="mbr and a reverse model"):
        forward.translate(TEXTS, mbr=4)


def test_only_a_translator_of_the_other_direction_can_rerank() -> None:
    folder = BUNDLES / "transformer"
    languages = load_translator(folder).directions.first.languages
    assert languages[0] != languages[1]
    with pytest.raises(UserError, match="give a model of the other direction"):
        load_translator(folder, rerank=folder)
    with pytest.raises(UserError, match="not a translator"):
        load_translator(folder, rerank=BUNDLES / "generator")


# ---- Scores of pairs ----


@pytest.mark.parametrize(
    "config", [STACK, RNN_LOCATION, {"kind": "decoder", "decoder": STACK}], ids=["transformer", "rnn", "gpt"]
)
def test_scores_of_pairs_are_the_sums_of_the_scores_of_their_tokens(config: dict[str, object]) -> None:
    model = translator(config)
    translations = model.translate(TEXTS, beam=3, n_best=2)
    pairs = [(t.source, c.text, s) for t, row in zip(translations, model.score_tokens(translations), strict=True)
             for c, s in zip(t.hypotheses, row, strict=True) if t.source]  # fmt: skip
    scores = model.score([source for source, _, _ in pairs], [target for _, target, _ in pairs])
    assert scores == pytest.approx([sum(token.log_prob for token in tokens) for _, _, tokens in pairs], abs=1e-4)


def test_an_ensemble_averages_probabilities() -> None:
    one, other = translator(STACK), translator({**STACK, "n_layers": 1})
    both = translator(STACK, {**STACK, "n_layers": 1})
    [score], [first], [second] = (model.score([TEXT], [""]) for model in (both, one, other))
    assert math.exp(score) == pytest.approx((math.exp(first) + math.exp(second)) / 2)


def test_wrong_pairs_are_refused() -> None:
    model = translator(LEARNED)
    with pytest.raises(UserError, match="there are 1 sources but 2 targets"):
        model.score(["a"], ["a", "b"])
    with pytest.raises(UserError, match="a text of pair 1 is too long"):
        model.score(["a", "a"], ["a", " ".join(["cat"] * 12)])
