"""Every encoder can be combined with every decoder by the config alone."""

import pytest
import torch

from regard import models
from regard.search.decode import DecodeConfig, decode
from regard.train.loss import LossConfig, batch_loss
from tests.conftest import VOCAB, random_batch
from tests.models.configs import PAIRS, STACK


@pytest.mark.parametrize("name", PAIRS)
def test_every_pair_learns_and_decodes(name: str) -> None:
    torch.manual_seed(0)
    model, batch = models.build(PAIRS[name], VOCAB), random_batch([(3, 4), (6, 5), (4, 4)])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(8):
        loss, nll = batch_loss(model, batch, LossConfig())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(nll))
    assert losses[-1] < 0.8 * losses[0]
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    hypotheses = decode(model.eval(), batch, DecodeConfig(beam=2, max_len=6))
    assert len(hypotheses) == 3 and all(hypotheses)


def test_every_parameter_of_every_pair_gets_a_gradient() -> None:
    batch = random_batch([(3, 4), (6, 5)])
    for name, config in PAIRS.items():
        torch.manual_seed(0)
        model = models.build(config, VOCAB)
        batch_loss(model, batch, LossConfig())[0].backward()
        without_gradient = [key for key, parameter in model.named_parameters() if parameter.grad is None]
        assert without_gradient == [], name


def test_only_an_encoder_without_positions_is_permutation_equivariant() -> None:
    src = random_batch([(7, 1)]).src[:, :7]
    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    for positions, equivariant in (("none", True), ("sinusoidal", False), ("rotary", False), ("alibi", False)):
        torch.manual_seed(0)
        model = models.build({"kind": "transformer", **STACK, "positions": positions}, VOCAB).double().eval()
        of_permuted, permuted = model.encoder(src[:, order]).values, model.encoder(src).values[:, order]
        assert torch.allclose(of_permuted, permuted, rtol=0, atol=1e-10) == equivariant, positions
    torch.manual_seed(0)
    model = models.build({"kind": "decoder", "decoder": {"kind": "transformer", **STACK, "positions": "none"}}, VOCAB)
    model = model.double().eval()
    of_permuted, permuted = model.decoder(src[:, order], None).hidden, model.decoder(src, None).hidden[:, order]
    assert not torch.allclose(of_permuted, permuted), "the causal mask depends on the order"
