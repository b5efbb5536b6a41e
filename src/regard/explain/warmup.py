"""The learning rate rises during warm-up, then falls: P6."""

from regard.explain.explanation import Explanation, LinePlot, matrix, step
from regard.explain.formula import apply, brackets, expr, power, sub
from regard.explain.model_input import ModelInput
from regard.explain.number_format import format_number
from regard.train.optim import OptimConfig, learning_rate

_D_MODEL, _WARMUPS, _LAST_UPDATE = 512, (4000, 8000), 20_000
_THIRD_CURVE = (256, 4000)  # d_model, warm-up
_N_POINTS = 400  # of a curve
_PLOT_AXES = ("update", "learning rate")
_MINIMUM = apply("min", power("step", "−½"), expr("step ·", power("warmup", "−3/2")))
_RATE = expr("lr =", power(sub("d", "model"), "−½"), "·", _MINIMUM)
_PEAK = expr("lr =", power(brackets(sub("d", "model"), "· warmup"), "−½"))
_DECAYS = {
    "inverse-sqrt": "falls with the inverse square root of the update",
    "cosine": "falls along a cosine",
    "constant": "stays constant",
}


def explain_warmup() -> Explanation:
    configs = {f"{_D_MODEL}:{n}": OptimConfig(warmup=n) for n in _WARMUPS}
    updates = (1, 100, 1000, *_WARMUPS, _LAST_UPDATE)
    rates = [[learning_rate(config, n, _LAST_UPDATE, _D_MODEL) for config in configs.values()] for n in updates]
    peaks = {label: learning_rate(config, config.warmup, _LAST_UPDATE, _D_MODEL) for label, config in configs.items()}
    first, second = peaks.values()
    return Explanation(
        "The learning rate rises during warm-up, then falls",
        (
            step(
                "The rate rises linearly during warm-up, then falls with the inverse square root of the update.", _RATE
            ),
            step(
                f"For d_model = {_D_MODEL} and two lengths of warm-up.",
                matrix("update", rates, [f"{n:,}" for n in updates], list(configs)),
            ),
            step(
                "The peak is where both terms are equal, at the end of warm-up.",
                _PEAK,
                matrix("peak", list(peaks.values()), (), list(peaks)),
            ),
        ),
        f"{'; '.join(f'{label} peaks at {peak:.6f}' for label, peak in peaks.items())}. Doubling the warm-up makes the "
        f"peak {format_number(first / second)} times lower.",
        (_third_curve_note(),),
        LinePlot({label: _curve(config, _LAST_UPDATE, _D_MODEL) for label, config in configs.items()}, *_PLOT_AXES),
    )


def _third_curve_note() -> str:
    d_model, warmup = _THIRD_CURVE
    peak = learning_rate(OptimConfig(warmup=warmup), warmup, _LAST_UPDATE, d_model)
    return (
        f"The axis of the slide's plot reaches 0.0010, higher than both curves; a third curve may have been "
        f"{d_model}:{warmup}, which peaks at {peak:.5f}."
    )


def explain_warmup_on_model(model_input: ModelInput) -> Explanation:
    config, d_model = model_input.recipe.train, model_input.model.d_model
    last = config.steps
    updates = {1, config.warmup // 10, config.warmup // 2, config.warmup, last // 4, last // 2, last * 3 // 4, last}
    rates = {n: learning_rate(config, n, last, d_model) for n in sorted(updates) if 1 <= n <= last}
    follows_formula = config.lr is None and config.schedule == "inverse-sqrt"
    schedule = f"The rate rises linearly to its peak of {config.lr}, then {_DECAYS[config.schedule]}."
    return Explanation(
        f"The learning rate that {model_input.folder.name} was trained with",
        (
            step("The lecture's formula.", _RATE) if follows_formula else step(schedule),
            step(
                f"d_model = {d_model}, warm-up {config.warmup:,}, {last:,} updates.",
                matrix("update", [[rate] for rate in rates.values()], [f"{n:,}" for n in rates], ("learning rate",)),
            ),
            step("The peak by the lecture's formula.", _PEAK, matrix("peak", (d_model * config.warmup) ** -0.5)),
        ),
        f"The highest of these rates is {format_number(max(rates.values()))}.",
        plot=LinePlot({f"{d_model}:{config.warmup}": _curve(config, last, d_model)}, *_PLOT_AXES),
    )


def _curve(config: OptimConfig, last: int, d_model: int) -> tuple[tuple[float, float], ...]:
    """Return points (update, learning rate) for a plot."""
    updates = sorted({*range(1, last + 1, max(1, last // _N_POINTS)), min(config.warmup, last), last})
    return tuple((n, learning_rate(config, n, last, d_model)) for n in updates)
