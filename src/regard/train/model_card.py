"""The model card (README.md of a model directory): model, training data and validation scores."""

from regard.bundle import NO_LANGUAGES
from regard.evaluate.validation import Validation
from regard.text.direction import Directions
from regard.train.parent import Parent
from regard.train.progress import Progress
from regard.train.recipe import Recipe
from regard.train.tasks import get_task
from regard.train.trainer import Trainer


def model_card(
    recipe: Recipe,
    directions: Directions,
    trainer: Trainer,
    progress: Progress,
    validation: Validation,
    weights: str,
    parent: Parent | None = None,
) -> str:
    """Return the card as Markdown; `weights` describes the checkpoint, or the mean of checkpoints, that was kept."""
    task = get_task(recipe.task)
    noun = task.noun
    translates = recipe.task == "translate"
    parameters = sum(p.numel() for p in trainer.model.parameters())
    languages = dict.fromkeys(lang for direction in directions for lang in direction.languages)
    known_languages = [lang for lang in languages if translates and lang not in ("src", "tgt")]
    title = directions.title if translates else noun
    code = task.code
    if len(directions.targets) > 1:
        code = code.replace('["…"]', f'["…"], to="{directions.targets[0]}"')
    header = ["language:", *(f"- {lang}" for lang in known_languages)] if known_languages else []
    header += ["tags:", f"- {noun}", "- regard", "metrics:", *(f"- {name}" for name in validation.scores)]
    beam = f", beam {recipe.valid.beam}" if recipe.task in ("translate", "caption") else ""
    signature = f"\nSignature of the BLEU: `{validation.signature}`\n" if validation.signature else ""
    header_lines = "\n".join(header)
    started = f"\n| started from | {_describe_parent(parent, recipe)} |" if parent else ""
    return f"""---
{header_lines}
---
# {title}

A {noun} model trained with regard.

| | |
|---|---|
| model | {recipe.model.kind}, {parameters:,} parameters |
| training data | {trainer.batches.size:,} examples |{started}
| updates | {progress.step:,} (epoch {progress.epoch + 1}); kept: {weights} |
| validation | {trainer.validator.size:,} examples: {validation.describe()}{beam} |
{signature}
```python
import regard

{code}
```

The model works best on text like its training data. On other text it is less accurate. Its output may be wrong, and
may reproduce biases of the data.
"""


def _describe_parent(parent: Parent, recipe: Recipe) -> str:
    """Name the model that training started from, and what was trained of it if that is not all."""
    config = recipe.train
    name = parent.name if parent.languages == NO_LANGUAGES else f"{parent.name} ({' → '.join(parent.languages)})"
    frozen = f"; not trained: {', '.join(config.freeze)}" if config.freeze else ""
    adapters = f"; trained: adapters of rank {config.lora.rank}" if config.lora.rank else ""
    return f"{name}{adapters}{frozen}"
