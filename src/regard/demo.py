"""The first five minutes with regard: train on the built-in corpus, translate and draw."""

import time
from collections.abc import Callable
from pathlib import Path

from regard.data.builtin.grammar import AlignedPair
from regard.data.builtin.grammar_corpus import generate_corpus
from regard.errors import UserError
from regard.files import write_atomically
from regard.pipelines.load import load_translator
from regard.train.recipe import Recipe, load_recipe
from regard.train.run import Run, train
from regard.visualize.curves import draw_curves
from regard.visualize.figure import has_matplotlib
from regard.visualize.heatmap import draw_heatmap

RECIPE = "tiny"
_N_PRINTED = 5


Report = Callable[[str], None]
"""Shows a line to the user"""


def run_demo(out: Path | None, direction: str, recipe_name: str = RECIPE, report: Report = print) -> None:
    """Train, then report test results and what was drawn. An earlier demo in `out` is continued or reused."""
    recipe = _recipe_for_demo(recipe_name, report)
    splits = generate_corpus(direction=direction)
    src, tgt = direction.split("-")
    out = out or Path("runs") / f"demo-{direction if recipe_name == RECIPE else f'{recipe_name}-{direction}'}"
    paths = {name: _write_pairs(out / "data", name, (src, tgt), pairs) for name, pairs in splits.items()}
    report(
        f"{len(splits['train']):,} training pairs from the built-in grammar; none of the test sentences is among them"
    )
    start = time.monotonic()
    run = Run(
        recipe=recipe,
        train=paths["train"],
        valid=paths["valid"],
        out=out,
        languages=(src, tgt),
        device="cpu",
        resume=True,
    )
    train(run)
    report(f"trained in {time.monotonic() - start:.0f} seconds\n")
    _report_accuracy(out, splits["test"], report)
    _draw_figures(out, splits["test"][0].src, report)
    report(f'\ntry it:         regard translate {out} --text "{splits["test"][1].src}"')


def _recipe_for_demo(name: str, report: Report) -> Recipe:
    """Return a translator's recipe; one for more data gets no more updates and no larger batches than the default."""
    recipe, default = load_recipe(name), load_recipe(RECIPE)
    if recipe.task != "translate":
        raise UserError(
            f"--recipe {name}: the demo trains translators, and this recipe is for another task ({recipe.task}); "
            "`regard train` trains it"
        )
    steps, tokens = default.train.steps, default.batch.tokens
    if recipe.train.steps <= steps and recipe.batch.tokens <= tokens:
        return recipe
    report(
        f"{name} is a recipe for more data, with {recipe.train.steps:,} updates of {recipe.batch.tokens:,} tokens; the "
        f"demo makes {steps:,} of {tokens:,}. Large models take hours even so: the first lines below say how long"
    )
    settings = [
        f"train.steps={steps}",
        f"batch.tokens={tokens}",
        f"tokenizer.vocab_size={default.tokenizer.vocab_size}",
        f"valid.every={default.valid.every}",
    ]
    if recipe.train.lr is not None:  # otherwise the warm-up determines the learning rate
        settings.append(f"train.warmup={default.train.warmup}")
    return load_recipe(name, settings=settings)


def _write_pairs(folder: Path, name: str, languages: tuple[str, str], pairs: list[AlignedPair]) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    src, tgt = (folder / f"{name}.{language}" for language in languages)
    write_atomically(src, "".join(f"{pair.src}\n" for pair in pairs).encode())
    write_atomically(tgt, "".join(f"{pair.tgt}\n" for pair in pairs).encode())
    return src, tgt


def _report_accuracy(out: Path, test: list[AlignedPair], report: Report) -> None:
    translations = load_translator(out, device="cpu").translate([pair.src for pair in test])
    correct = [t.text == pair.tgt for t, pair in zip(translations, test, strict=True)]
    share = sum(correct) / len(correct)
    report(f"test translations that equal the reference: {sum(correct):,} of {len(correct):,} ({share:.1%})\n")
    for translation, pair, is_correct in list(zip(translations, test, correct, strict=True))[:_N_PRINTED]:
        report(f"  {pair.src}\n  → {translation.text}{'' if is_correct else f'   (expected: {pair.tgt})'}\n")


def _draw_figures(out: Path, sentence: str, report: Report) -> None:
    [translation] = load_translator(out, device="cpu").translate([sentence], attention=True)
    for path in draw_curves(out):
        report(f"learning curve: {path}")
    if translation.attention and not translation.attention.cross.size:
        report("attention map:  none, because this model has no attention to the source")
    elif translation.attention and has_matplotlib():
        report(f"attention map:  {draw_heatmap(translation.attention, out / 'attention.png')}")
