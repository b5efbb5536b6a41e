"""Training from Python: files in, a pipeline out."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.mixture_file import read_mixture
from regard.errors import UserError
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.generator import Generator
from regard.pipelines.load import load
from regard.pipelines.translator import Translator
from regard.train.auto_recipe import AutoRecipe
from regard.train.recipe import AUTO, load_recipe
from regard.train.run import Run, train
from regard.train.signals import Stopped, restore_signals


def train_model(
    files: Sequence[str | Path] = (),
    out: str | Path | None = None,
    recipe: str = AUTO,
    *,
    data: str | Path | None = None,
    valid: Sequence[str | Path] | None = None,
    options: Mapping[str, Any] | None = None,
    minutes: float | None = None,
    device: str | None = None,
) -> Translator | Generator | Classifier | Captioner:
    """Train a model as `regard train` does, save it in the folder `out` and return it, loaded.

    `options` override those of the recipe: {"train.steps": 500}. If `out` has a run with the same options, it is
    continued, and a finished one is loaded. `minutes` is the time for the recipe auto. `data` is a YAML file of
    several corpora, instead of `files`.

    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> files = regard.write_dataset("copy", folder / "data", regard.DatasetOptions(size=200, lengths=(2, 5)))[:2]
    >>> options = {"train.steps": 2, "tokenizer.kind": "char"}
    >>> translator = regard.train_model(files, folder / "model", "tiny", options=options, device="cpu")
    >>> len(translator.translate(["a b c"]))
    1
    """
    if out is None or (data is None) == (not files):
        raise UserError("train_model needs the folder `out`, and either `files` or `data`, a YAML file of corpora")
    if minutes is not None and recipe != AUTO:
        raise UserError(f"minutes is for the recipe {AUTO}; with {recipe}, use the option train.seconds")
    settings = [f"{name}={json.dumps(value)}" for name, value in (options or {}).items()]
    auto = AutoRecipe(settings=settings, minutes=minutes) if recipe == AUTO else None
    run = Run(
        recipe=auto.load() if auto else load_recipe(recipe, settings=settings),
        auto=auto,
        train=tuple(map(Path, files)),
        mixture=read_mixture(Path(data)) if data else None,
        valid=tuple(map(Path, valid)) if valid else None,
        out=Path(out),
        device=device,
        resume=True,
    )
    try:
        train(run)
    except Stopped:
        restore_signals()
        raise
    return load(out, device=device)
