"""A rehearsal compiles the kernels that training needs, and does nothing on a CPU."""

from pathlib import Path

import pytest
import torch

from regard.nn.kernels.switch import triton_is_installed
from regard.train.recipe import load_recipe
from regard.train.rehearsal import rehearsal
from regard.train.run import Run, train
from tests.conftest import write_pairs

CPU = torch.device("cpu")


def test_there_is_none_on_a_cpu() -> None:
    before = torch.get_rng_state()
    with rehearsal(load_recipe("tiny"), CPU):
        pass
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.skipif(not (torch.cuda.is_available() and triton_is_installed()), reason="needs Triton and a GPU")
@pytest.mark.parametrize("name", ["small", "multi30k"])
def test_a_run_compiles_nothing_that_was_rehearsed(name: str, tmp_path: Path) -> None:
    from regard.nn.kernels import column_sums, cross_entropy, linear, residual_norm, short_attention

    modules = column_sums, cross_entropy, linear, residual_norm, short_attention
    kernels = {n: k for module in modules for n, k in vars(module).items() if n.endswith("_kernel")}
    del kernels["_forward_kernel"]  # validation has further forms of it

    def compiled() -> dict[str, int]:
        return {n: sum(len(cache[0]) for cache in kernel.device_caches.values()) for n, kernel in kernels.items()}

    recipe = load_recipe(
        name, settings=["tokenizer.kind=char", "tokenizer.vocab_size=16", "train.steps=3", "train.average_k=1"]
    )
    with rehearsal(recipe, torch.device("cuda")):
        pass
    before = compiled()
    pairs = [("abcdefghij" + "a" * n, "ab" * n) for n in range(1, 50)] * 20
    train(Run(recipe, write_pairs(tmp_path, "train", pairs), None, tmp_path / "run"))
    assert compiled() == before
