import pytest
import torch
from torch import nn

from regard import models
from regard.errors import UserError
from regard.models.inference import inference_copy
from regard.train.optim import MovingAverage, OptimConfig, Optimizer, learning_rate
from regard.train.recipe import load_recipe, recipe_names


@pytest.mark.parametrize(("warmup", "peak"), [(4000, 0.000699), (8000, 0.000494)])
def test_the_default_schedule_is_the_formula_of_the_lecture(warmup: int, peak: float) -> None:
    config = OptimConfig(warmup=warmup)
    for step in (1, 17, warmup - 1, warmup, warmup + 1, 100_000):
        formula = 512**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert learning_rate(config, step, 100_000, 512) == pytest.approx(formula)
    assert learning_rate(config, warmup, 100_000, 512) == pytest.approx(peak, abs=5e-7)


def test_schedules_reach_their_peak_at_the_end_of_the_warm_up() -> None:
    for schedule, later in (("inverse-sqrt", 1e-3 / 2), ("constant", 1e-3), ("cosine", 0.0)):
        config = OptimConfig.parse({"schedule": schedule, "lr": 1e-3, "warmup": 100})
        rates = [learning_rate(config, step, 400, 64) for step in range(1, 401)]
        assert max(rates) == pytest.approx(1e-3) and rates.index(max(rates)) == 99
        assert rates[49] == pytest.approx(5e-4)
        assert rates[399] == pytest.approx(later, abs=1e-9)


def gradients(model: nn.Module, seed: int) -> None:
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)


def test_updates_equal_torchs_adam_with_clipping() -> None:
    ours, theirs = nn.Linear(5, 3), nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    optimizer = Optimizer(ours, OptimConfig(clip=0.5))
    adam = torch.optim.Adam(theirs.parameters(), lr=1e-2, betas=(0.9, 0.98), eps=1e-9)
    for seed in range(3):
        gradients(ours, seed)
        gradients(theirs, seed)
        expected = nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        torch.testing.assert_close(optimizer.step(1e-2), expected)
        adam.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other)


def test_a_replayed_update_counts_as_a_change_of_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(5, 3)
    optimizer = Optimizer(model, OptimConfig())
    monkeypatch.setattr(optimizer, "_graph", lambda lr: lr)  # like a CUDA graph: torch does not see what it changes
    before = [parameter._version for parameter in model.parameters()]
    optimizer.step(1e-2)
    assert [parameter._version - 1 for parameter in model.parameters()] == before


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_update_with_a_gradient_that_is_not_finite_is_skipped_and_counted(bad: float) -> None:
    with_bad, without = nn.Linear(4, 2), nn.Linear(4, 2)
    without.load_state_dict(with_bad.state_dict())
    optimizers = Optimizer(with_bad, OptimConfig()), Optimizer(without, OptimConfig())
    for step in range(4):
        gradients(with_bad, step)
        if step in (1, 2):
            with_bad.weight.grad[0, 0] = bad  # type: ignore[index]
        else:
            gradients(without, step)
            optimizers[1].step(1e-2)
        optimizers[0].step(1e-2)
        assert optimizers[0].skipped.tolist() == [[0, 0], [1, 1], [2, 2], [2, 0]][step]
    for mine, other in zip(with_bad.parameters(), without.parameters(), strict=True):
        assert torch.equal(mine, other)


def decayed(model: nn.Module) -> set[str]:
    """Return the names of the parameters that weight decay changes: with a zero gradient nothing else does."""
    optimizer = Optimizer(model, OptimConfig(weight_decay=0.5))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step(lr=0.1)
    for parameter in model.parameters():
        expected = torch.full_like(parameter, 1.0 if (parameter == 1.0).all() else 1.0 - 0.1 * 0.5)
        torch.testing.assert_close(parameter.detach(), expected)
    return {name for name, parameter in model.named_parameters() if not (parameter == 1.0).all()}


def test_weight_decay_acts_on_matrices_but_not_on_embeddings_norms_and_biases() -> None:
    tokens, output = nn.Embedding(7, 4), nn.Linear(4, 7)
    model = nn.Sequential(tokens, nn.LayerNorm(4), nn.Linear(4, 4), output)
    assert decayed(model) == {"2.weight", "3.weight"}
    output.weight = tokens.weight
    assert decayed(model) == {"2.weight"}, "a tied output matrix is an embedding"
    assert decayed(nn.LayerNorm(3)) == set()


@pytest.mark.parametrize("name", recipe_names())
def test_weight_decay_follows_the_rule_in_the_model_of_every_recipe(name: str) -> None:
    model = models.build(load_recipe(name).model, vocab_size=11)
    names = decayed(model)
    embeddings = {
        parameter for module in model.modules() if isinstance(module, nn.Embedding) for parameter in module.parameters()
    }
    for parameter_name, parameter in model.named_parameters():
        position_or_state = {"positions", "a_log"} & set(parameter_name.split("."))
        exempt = parameter.dim() < 2 or parameter in embeddings or bool(position_or_state)
        assert (parameter_name not in names) == exempt, parameter_name
    if "ssm" in str(load_recipe(name).model):
        assert any(parameter_name.endswith("a_log") for parameter_name, _ in model.named_parameters())


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_the_state_is_restored_exactly(weight_decay: float, optimizer: str) -> None:
    first, second = nn.Linear(4, 2), nn.Linear(4, 2)
    config = OptimConfig.parse({"weight_decay": weight_decay, "optimizer": optimizer})
    a, b = Optimizer(first, config), Optimizer(second, config)
    gradients(first, 1)
    a.step(1e-2)
    second.load_state_dict(first.state_dict())
    b.restore({name: tensor.clone() for name, tensor in a.state().items()}, "checkpoint")
    for model, each in ((first, a), (second, b)):
        gradients(model, 2)
        each.step(1e-2)
    assert all(torch.equal(x, y) for x, y in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_frozen_parameters_have_no_state_and_are_not_decayed(optimizer: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    each = Optimizer(model, OptimConfig.parse({"optimizer": optimizer, "weight_decay": 0.5}))
    model(torch.randn(3, 4)).sum().backward()
    each.step(0.1)
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, start[name])}
    assert changed == {"1.weight", "1.bias"}
    assert not any(name.endswith(("0.weight", "0.bias")) for name in each.state())
    assert set(each.muon.momentum) <= set(model[1].parameters())


def test_the_moving_average_follows_the_weights_and_can_be_swapped_with_them() -> None:
    model = nn.Linear(3, 3)
    ema = MovingAverage(model.parameters(), decay=0.9)
    start = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.add_(1.0)
    ema.update(step=1000)
    torch.testing.assert_close(ema.average[0], start + 0.1)
    moved = model.weight.detach().clone()
    ema.swap()
    torch.testing.assert_close(model.weight.detach(), start + 0.1)
    ema.swap()
    assert torch.equal(model.weight, moved)


@pytest.mark.parametrize("change", ["shape", "missing", "foreign"])
def test_a_state_of_another_model_is_refused(change: str) -> None:
    """A tensor of the wrong shape would crash the fused kernel."""
    model = nn.Linear(4, 2)
    optimizer = Optimizer(model, OptimConfig())
    gradients(model, 1)
    optimizer.step(1e-2)
    state = optimizer.state()
    match change:
        case "shape":
            state["exp_avg.weight"] = torch.zeros(1)
        case "missing":
            del state["exp_avg.weight"]
        case "foreign":
            state["exp_avg.other"] = torch.zeros(1)
    with pytest.raises(UserError, match="checkpoint: the optimizer's 'exp_avg"):
        Optimizer(model, OptimConfig()).restore(state, "checkpoint")


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_copies_for_decoding_are_renewed_after_every_update(optimizer: str) -> None:
    model = models.build({"n_layers": 1, "d_model": 16, "d_ff": 16, "n_heads": 2}, 20)
    each = Optimizer(model, OptimConfig.parse({"optimizer": optimizer}))
    for seed in range(3):
        gradients(model, seed)
        each.step(1e-2)
        assert torch.equal(inference_copy(model).output.weight, model.output.weight)  # type: ignore[union-attr]
