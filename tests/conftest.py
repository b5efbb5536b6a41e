"""Settings, small models and small data that all tests share."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

# Some virtual machines report AMX but fail on its instructions. Torch reads this when it is loaded.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import pytest
import torch

from regard import models
from regard.data.batch import Batch, collate
from regard.text.ragged import Ragged

# With one thread, sums have the same order on every machine, and processes do not compete for cores.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"

VOCAB = 40


_LONGEST = ("test_browser.py", "test_resume.py", "test_output.py", "test_recipes.py", "test_notebooks.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, so that no worker is left with one of them at the end."""
    items.sort(key=lambda item: _LONGEST.index(item.path.name) if item.path.name in _LONGEST else len(_LONGEST))


def pytest_collection_finish() -> None:
    """Exempt what the tests have imported from garbage collection, which some tests start often."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _temporary_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's cache out of all tests, and of the fixtures that they share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


def tiny_model(seed: int = 0, **options: object) -> models.Model:
    """Build an untrained Transformer in float64 whose next-token probabilities are far from uniform."""
    torch.manual_seed(seed)
    config = {"d_model": 16, "n_heads": 4, "d_ff": 32, "n_layers": 2, **options}
    model = models.build(config, vocab_size=VOCAB).double().eval()
    with torch.no_grad():
        model.output.weight.mul_(4.0)
    return model


def random_batch(lengths: list[tuple[int, int]], seed: int = 0) -> Batch:
    """Make a batch of random pairs with the given numbers of source and target tokens."""
    generator = torch.Generator().manual_seed(seed)

    def ids(n: int) -> list[int]:
        return torch.randint(6, VOCAB, (n,), generator=generator).tolist()

    return collate(Ragged.of([ids(s) for s, _ in lengths]), Ragged.of([ids(t) for _, t in lengths]))


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    """Write pairs of sentences to name.src and name.tgt; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = (folder / f"{name}.src", folder / f"{name}.tgt")
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(line + "\n" for line in side), encoding="utf-8")
    return paths
