"""The model card (README.md of a model directory): model, training data and validation scores."""

from regard.evaluate.validation import Validation
from regard.train.progress import Progress
from regard.train.recipe import Recipe
from regard.train.tasks import get_task
from regard.train.trainer import Trainer


def model_card(
    recipe: Recipe,
    languages: tuple[str, str],
    trainer: Trainer,
    progress: Progress,
    validation: Validation,
    weights: str,
) -> str:
    """Return the card as Markdown; `weights` describes the checkpoint, or the mean of checkpoints, that was kept."""
    task = get_task(recipe.task)
    noun = task.noun
    translates = recipe.task == "translate"
    parameters = sum(p.numel() for p in trainer.model.parameters())
    known_languages = [lang for lang in languages if translates and lang not in ("src", "tgt")]
    header = ["language:", *(f"- {lang}" for lang in known_languages)] if known_languages else []
    header += ["tags:", f"- {noun}", "- regard", "metrics:", *(f"- {name}" for name in validation.scores)]
    beam = f", beam {recipe.valid.beam}" if recipe.task in ("translate", "caption") else ""
    signature = f"\nSignature of the BLEU: `{validation.signature}`\n" if validation.signature else ""
    header_lines = "\n".join(header)
    return f"""---
{header_lines}
---
# {" → ".join(languages) if translates else noun}

A {noun} model trained with regard.

| | |
|---|---|
| model | {recipe.model.kind}, {parameters:,} parameters |
| training data | {trainer.batches.size:,} examples |
| updates | {progress.step:,} (epoch {progress.epoch + 1}); kept: {weights} |
| validation | {trainer.validator.size:,} examples: {validation.describe()}{beam} |
{signature}
```python
import regard

{task.code}
```

The model works best on text like its training data. On other text it is less accurate. Its output may be wrong, and
may reproduce biases of the data.
"""
