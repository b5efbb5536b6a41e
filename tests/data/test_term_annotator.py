"""Terms that are annotated in training pairs."""

import itertools
from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
import torch

from regard.data.batch_order import BatchConfig, PairBatches
from regard.data.modified_pairs import PairModifier
from regard.data.pair_store import pair_store_from
from regard.data.term_annotator import AlignedSpan, GlossaryConfig, TermAnnotator, aligned_spans, rare_words
from regard.data.word_alignments import AlignmentGuide, Links
from regard.text.list_tokenizer import ListTokenizer
from regard.text.seen_words import SeenWords
from regard.text.term_annotation import SYMBOLS
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import PAD

SRC, TGT = "the green witch , slept badly", "die grüne Hexe , hat schlecht geschlafen"
LINKS = {(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (4, 6), (5, 5)}


def annotator(links: Links = LINKS, frequent: tuple[str, ...] = ("the",), **options: object) -> TermAnnotator:
    rows = np.array(sorted(links), dtype=np.int32).reshape(-1, 2)
    return TermAnnotator(GlossaryConfig.parse({"share": 0.5, **options}), rows, np.array([0, len(rows)]), frequent)


def test_spans_are_consistent_with_the_links() -> None:
    """Every pair of spans is tried one by one."""
    for seed in range(20):
        random = Random(seed)
        links = {(random.randrange(5), random.randrange(6)) for _ in range(7)}
        expected = []
        for i1, i2, j1, j2 in itertools.product(range(5), range(5), range(6), range(6)):
            if not (0 <= i2 - i1 < 3 and 0 <= j2 - j1 < 3):
                continue
            inside = {(i, j) for i, j in links if i1 <= i <= i2 and j1 <= j <= j2}
            touching = {(i, j) for i, j in links if i1 <= i <= i2 or j1 <= j <= j2}
            edges = {i for i, _ in inside} >= {i1, i2} and {j for _, j in inside} >= {j1, j2}
            if inside == touching and edges:
                expected.append(AlignedSpan(i1, i2 + 1, j1, j2 + 1))
        assert sorted(aligned_spans(links, 5, 6, 3)) == expected


def test_links_outside_the_texts_are_left_out() -> None:
    assert aligned_spans({(0, 0), (9, 0), (0, 9)}, 1, 1, 3) == [AlignedSpan(0, 1, 0, 1)]
    assert aligned_spans(set(), 3, 3, 3) == []


def test_terms_are_annotated_with_their_translations() -> None:
    results = Counter(annotator(max_terms=1).annotate(0, SRC, TGT, Random(seed))[0] for seed in range(300))
    terms = {text.partition("__source__ ")[2].partition(" __done__")[0] for text in results}
    assert terms == {
        "green __target__ grüne",
        "witch __target__ Hexe",
        "green witch __target__ grüne Hexe",
        "badly __target__ schlecht",
        "slept badly __target__ hat schlecht geschlafen",
    }, "not the frequent word, not punctuation, not words whose translation is torn apart"
    assert all(
        " ".join(text.replace(f"__source__ {term} __done__", term.partition(" __t")[0]).split()) == SRC
        for text, term in ((text, text.partition("__source__ ")[2].partition(" __done__")[0]) for text in results)
    )


def test_a_pair_has_one_to_three_terms_that_do_not_overlap() -> None:
    counts = Counter(annotator().annotate(0, SRC, TGT, Random(seed))[0].count("__source__") for seed in range(200))
    assert set(counts) == {1, 2, 3}


def test_the_result_is_a_function_of_the_random_numbers() -> None:
    assert annotator().annotate(0, SRC, TGT, Random(3)) == annotator().annotate(0, SRC, TGT, Random(3))


@pytest.mark.parametrize("links", [set(), {(0, 0)}, {(3, 3)}], ids=str)
def test_a_source_without_terms_stays_as_it_is(links: Links) -> None:
    assert annotator(links).annotate(0, SRC, TGT, Random(1)) == (SRC, TGT)


def test_targets_are_replaced_in_the_annotation_and_in_the_target() -> None:
    every = replace(annotator(other_targets=1.0), other_words=("Zebra", "Uhr"))
    for seed in range(50):
        src, tgt = every.annotate(0, SRC, TGT, Random(seed))
        targets = [part.partition(" __done__")[0] for part in src.split("__target__ ")[1:]]
        assert targets and set(targets) <= {"Zebra", "Uhr"}
        assert Counter(targets) == Counter(word for word in tgt.split() if word in {"Zebra", "Uhr"})
        assert tgt.split()[0] == "die", "the rest stays"
    some = replace(every, config=GlossaryConfig(share=0.5, other_targets=0.3))
    n_changed = sum(some.annotate(0, SRC, TGT, Random(seed))[1] != TGT for seed in range(300))
    assert 90 < n_changed < 200, "a third of one to three terms"


def test_words_for_other_targets_are_neither_frequent_nor_punctuation() -> None:
    texts = ["der Hund , der Hund", *(f"der Wort{i:c} 7" for i in range(ord("a"), ord("z")))]
    words = rare_words(SeenWords.count(texts))
    assert "der" not in words and "," not in words and "7" not in words and "Wortq" in words


def batches(share: float) -> PairBatches:
    """40 pairs of which a share is annotated, with guided alignment"""
    tokenizer = ListTokenizer("word", [*sorted({*SRC.split(), *TGT.split()}), *SYMBOLS])
    tokenizers = TokenizerPair(tokenizer, tokenizer)
    [src], [tgt] = tokenizer.encode([SRC]), tokenizer.encode([TGT])
    store, rows = pair_store_from([src] * 40, [tgt] * 40), np.array(sorted(LINKS) * 40, dtype=np.int32)
    ends = np.arange(41) * len(LINKS)
    annotate = TermAnnotator(GlossaryConfig(share=share), rows, ends, ())
    modify = PairModifier(lambda epoch: [annotate], tokenizers, 255, np.zeros(1, np.int64), ("",), seed=1)
    guide = AlignmentGuide(rows, ends, tokenizers, "")
    return PairBatches(store, np.arange(40), BatchConfig(tokens=200), 1, guide=guide, modify=modify)


def test_annotated_pairs_are_a_function_of_seed_and_epoch_and_have_no_links() -> None:
    made, again, plain = batches(0.5), batches(0.5), batches(0.0)
    mark = SYMBOLS[0]
    n_annotated = []
    for epoch in range(3):
        n_marked = 0
        for index in range(len(made.plan(epoch))):
            batch, same = made.batch(epoch, index), again.batch(epoch, index)
            assert batch.links is not None and same.links is not None
            assert all(map(torch.equal, (batch.src, batch.tgt_out, batch.links), (same.src, same.tgt_out, same.links)))
            tokens = [made.modify.tokenizers.src.tokens(row) for row in batch.src.tolist()]  # type: ignore[union-attr]
            is_marked = torch.tensor([f"▁{mark}" in row for row in tokens])
            is_pair = batch.src[:, 1] != PAD
            assert (batch.links.sum((1, 2)) > 0).tolist() == (is_pair & ~is_marked).tolist()
            n_marked += int(is_marked.sum())
        n_annotated.append(n_marked)
    assert all(10 < n < 30 for n in n_annotated)
    first = [[str(batch.batch(e, 0).src) for e in range(3)] for batch in (made, plain)]
    assert len(set(first[0])) == 3 and len(set(first[1])) == 1, "each epoch has others"
