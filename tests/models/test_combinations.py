"""Every encoder with every decoder learns, from the config alone."""

import pytest
import torch

from regard import models
from regard.search.decode import DecodeConfig, decode
from regard.train.loss import LossConfig, batch_loss
from tests.conftest import VOCAB, random_batch
from tests.models.test_every_model import PAIRS, STACK


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
    found = decode(model.eval(), batch, DecodeConfig(beam=2, max_len=6))
    assert len(found) == 3 and all(row for row in found)


def test_every_parameter_of_every_pair_gets_a_gradient() -> None:
    batch = random_batch([(3, 4), (6, 5)])
    for name, config in PAIRS.items():
        torch.manual_seed(0)
        model = models.build(config, VOCAB)
        batch_loss(model, batch, LossConfig())[0].backward()
        idle = [p for p, tensor in model.named_parameters() if tensor.grad is None]
        assert idle == [], name


def test_without_positions_an_encoder_is_permutation_equivariant_and_with_them_it_is_not() -> None:
    src = random_batch([(7, 1)]).src[:, :7]
    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    for positions, same in (("none", True), ("sinusoidal", False), ("rotary", False), ("alibi", False)):
        torch.manual_seed(0)
        model = models.build({"kind": "transformer", **STACK, "positions": positions}, VOCAB).double().eval()
        there, back = model.encoder(src[:, order]).values, model.encoder(src).values[:, order]
        assert torch.allclose(there, back, rtol=0, atol=1e-10) == same, positions
    torch.manual_seed(0)
    model = models.build({"kind": "decoder", "decoder": {"kind": "transformer", **STACK, "positions": "none"}}, VOCAB)
    model = model.double().eval()
    there, back = model.decoder(src[:, order], None).hidden, model.decoder(src, None).hidden[:, order]
    assert not torch.allclose(there, back), "the causal mask breaks it"
