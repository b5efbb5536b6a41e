"""Rules that leave pairs out: each finds what it should, and nothing more once they were applied."""

from random import Random

import numpy as np

from regard.data.pair_rules import DUPLICATE, RATIO, FilterConfig, apply_rules
from regard.data.pair_table import PairTable, PairTableBuilder

Pairs = list[tuple[str, str]]


def table(pairs: Pairs) -> PairTable:
    builder = PairTableBuilder()
    builder.extend([side for pair in pairs for side in pair])
    return builder.table()


def usual(n: int, ratio: float = 1.0) -> Pairs:
    """Return different pairs whose target is about `ratio` times as long as their source."""
    random = Random(1)
    lengths = [random.randint(20, 60) for _ in range(n)]
    return [(f"{i} ".ljust(k, "a"), f"{i} ".ljust(round(k * ratio), "b")) for i, k in enumerate(lengths)]


def test_only_later_copies_of_a_whole_pair_are_duplicates() -> None:
    pairs = [("a", "b"), ("b", "a"), ("a", "c"), ("a", "b"), ("c", "b"), ("a", "b"), ("", ""), ("a", "a")]
    assert np.flatnonzero(DUPLICATE(table(pairs))).tolist() == [3, 5]
    assert not DUPLICATE(table(pairs[:3])).any() and not DUPLICATE(table([])).any()


def test_the_duplicates_are_those_of_a_set() -> None:
    random = Random(2)
    pairs = [(str(random.randrange(30)), str(random.randrange(30))) for _ in range(2_000)]
    seen: set[tuple[str, str]] = set()
    expected = [pair in seen or seen.add(pair) is not None for pair in pairs]
    assert DUPLICATE(table(pairs)).tolist() == expected


def test_a_ratio_is_extreme_compared_with_the_usual_one() -> None:
    for ratio in (0.3, 1.0, 4.0):
        pairs = usual(100, ratio)
        assert not RATIO(table(pairs)).any()
        far = [("x" * 60, "y" * round(60 * ratio / 6)), ("x" * 60, "y" * round(60 * ratio * 6))]
        near = [("x" * 60, "y" * round(60 * ratio / 4)), ("x" * 60, "y" * round(60 * ratio * 4)), ("x", "y" * 4)]
        assert np.flatnonzero(RATIO(table([*pairs, *far, *near]))).tolist() == [100, 101]
        swapped = [(target, source) for source, target in [*pairs, *far, *near]]
        assert np.flatnonzero(RATIO(table(swapped))).tolist() == [100, 101]
    assert not RATIO(table([("x", "y" * 100), ("x" * 100, "y")])).any(), "two pairs have no usual ratio"


def test_nothing_is_left_to_remove_after_the_rules_were_applied() -> None:
    random = Random(3)
    pairs = [("x" * random.randint(1, 200), "y" * int(random.paretovariate(0.5) * 3)) for _ in range(400)]
    rules = FilterConfig().rules
    reasons = apply_rules(table(pairs), rules)
    kept = [pair for pair, reason in zip(pairs, reasons, strict=True) if reason < 0]
    assert 0 < len(kept) < len(pairs) and (apply_rules(table(kept), rules) < 0).all()
    assert {0, 1} <= set(reasons.tolist())


def test_rules_can_be_switched_off() -> None:
    pairs = [*usual(50), ("x" * 100, "y"), *usual(50)]
    for duplicates in (False, True):
        for ratios in (False, True):
            rules = FilterConfig(drop_duplicates=duplicates, drop_extreme_ratios=ratios).rules
            removed = int((apply_rules(table(pairs), rules) >= 0).sum())
            assert removed == 50 * duplicates + ratios
