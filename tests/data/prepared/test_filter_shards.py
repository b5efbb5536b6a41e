"""The filters find the same pairs in shards as in a whole corpus."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from regard.data.pair_rules import FilterConfig, apply_rules
from regard.data.prepared import filter_shards
from regard.data.prepared.filter_shards import write_reasons
from regard.data.prepared.read_shard import CleanShard, RawShard, ReadTask, find_manifest, read_shard, table_of


def clean_shards(folder: Path, texts: list[str], size: int) -> list[CleanShard]:
    sides = [text.encode() for text in texts]
    pairs = list(zip(sides[::2], sides[1::2], strict=True))
    shards = []
    for i in range(0, len(pairs), size):
        raw, path = RawShard.of(pairs[i : i + size], i, 5_000), folder / f"{i:05}"
        read_shard(ReadTask(raw, path, raw.key))
        manifest = find_manifest(path, raw.key)
        assert manifest is not None
        shards.append(CleanShard.open(path, manifest))
    return shards


@pytest.mark.parametrize("per_range", [7, 1 << 20])
@pytest.mark.parametrize("size", [7, 500])
@pytest.mark.parametrize("n", [19, 20, 90])
def test_reasons_are_those_of_the_whole_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int, size: int, per_range: int
) -> None:
    monkeypatch.setattr(filter_shards, "_PER_RANGE", per_range)
    random = Random(n + size)
    lengths = [1, 2, 4, 8, 60, 300]  # each left-out pair may change what is usual
    texts = [random.choice("abc") * random.choice(lengths) for _ in range(2 * n)]
    shards = clean_shards(tmp_path, texts, size)
    for config in (
        FilterConfig(),
        FilterConfig(drop_duplicates=False),
        FilterConfig(drop_extreme_ratios=False),
        FilterConfig(drop_duplicates=False, drop_extreme_ratios=False),
    ):
        write_reasons(shards, config, tmp_path / "reasons")
        found = np.fromfile(tmp_path / "reasons", dtype=np.uint8)
        reasons = apply_rules(table_of(texts), config.rules)
        problems = [config.rules[reason].problem if reason >= 0 else "" for reason in reasons.tolist()]
        assert [filter_shards.PROBLEMS.get(int(code), "") for code in found] == problems
