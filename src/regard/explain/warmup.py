"""The learning rate rises, then falls: P6."""

from regard.explain.explanation import Explanation, LinePlot, matrix, step
from regard.explain.formula import brackets, math, of, power, sub
from regard.explain.model_input import ModelInput
from regard.explain.number_format import number
from regard.train.optim import OptimConfig, learning_rate

WIDTH, WARMUPS, LAST = 512, (4000, 8000), 20_000
_POINTS = 400
_AXES = ("update", "learning rate")
_STEP = of("min", power("step", "−½"), math("step ·", power("warmup", "−3/2")))
_RATE = math("lr =", power(sub("d", "model"), "−½"), "·", _STEP)
_PEAK = math("lr =", power(brackets(sub("d", "model"), "· warmup"), "−½"))


def warmup() -> Explanation:
    configs = {f"{WIDTH}:{n}": OptimConfig(warmup=n) for n in WARMUPS}
    steps = (1, 100, 1000, *WARMUPS, LAST)
    rates = [[learning_rate(config, s, LAST, WIDTH) for config in configs.values()] for s in steps]
    peaks = {label: learning_rate(config, config.warmup, LAST, WIDTH) for label, config in configs.items()}
    first, second = peaks.values()
    return Explanation(
        "The learning rate warms up, then falls",
        (
            step("Up in a straight line during the warm-up; from then on with one over the root of the step.", _RATE),
            step(
                f"For d_model = {WIDTH} and two warm-ups.",
                None,
                matrix("update", rates, [f"{s:,}" for s in steps], list(configs)),
            ),
            step(
                "The peak is where both terms meet, at the end of the warm-up.",
                _PEAK,
                matrix("peak", list(peaks.values()), (), list(peaks)),
            ),
        ),
        f"{'; '.join(f'{label} peaks at {peak:.6f}' for label, peak in peaks.items())}. A warm-up of twice the length "
        f"makes the peak {number(first / second)} times lower.",
        picture=LinePlot({label: _curve(config, LAST, WIDTH) for label, config in configs.items()}, *_AXES),
    )


def warmup_of_own(own: ModelInput) -> Explanation:
    config, width = own.recipe.train, own.model.d_model
    last = config.steps
    places = {1, config.warmup // 10, config.warmup // 2, config.warmup, last // 4, last // 2, last * 3 // 4, last}
    rates = {s: learning_rate(config, s, last, width) for s in sorted(places) if 1 <= s <= last}
    by_formula = config.lr is None and config.schedule == "inverse-sqrt"
    after = {"inverse-sqrt": "with one over the root of the step", "cosine": "along a cosine", "constant": "not at all"}
    says = f"Up in a straight line to the peak of {config.lr}, then down {after[config.schedule]}."
    label = f"{width}:{config.warmup}"
    return Explanation(
        f"The learning rate that {own.folder.name} was trained with",
        (
            step("The lecture's formula.", _RATE) if by_formula else step(says),
            step(
                f"d_model = {width}, warm-up {config.warmup:,}, {last:,} updates.",
                None,
                matrix("update", [[rate] for rate in rates.values()], [f"{s:,}" for s in rates], ("learning rate",)),
            ),
            step("The peak by the lecture's formula.", _PEAK, matrix("peak", (width * config.warmup) ** -0.5)),
        ),
        f"The highest of these is {number(max(rates.values()))}.",
        picture=LinePlot({label: _curve(config, last, width)}, *_AXES),
    )


def _curve(config: OptimConfig, last: int, width: int) -> tuple[tuple[float, float], ...]:
    steps = sorted({*range(1, last + 1, max(1, last // _POINTS)), min(config.warmup, last), last})
    return tuple((s, learning_rate(config, s, last, width)) for s in steps)
