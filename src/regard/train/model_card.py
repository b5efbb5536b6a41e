"""The model card: what the model is, what it learnt from and how well it does."""

from regard.evaluate.validation import Validation
from regard.train.recipe import Recipe
from regard.train.tasks import task_named
from regard.train.trainer import Progress, Trainer


def model_card(
    recipe: Recipe,
    languages: tuple[str, str],
    trainer: Trainer,
    progress: Progress,
    validation: Validation,
    kept: str,
) -> str:
    task = task_named(recipe.task)
    noun = task.noun
    translates = recipe.task == "translate"
    parameters = sum(p.numel() for p in trainer.model.parameters())
    known = [lang for lang in languages if translates and lang not in ("src", "tgt")]
    front = ["language:", *(f"- {lang}" for lang in known)] if known else []
    front += ["tags:", f"- {noun}", "- regard", "metrics:", *(f"- {name}" for name in validation.scores)]
    beam = f", beam {recipe.valid.beam}" if recipe.task in ("translate", "caption") else ""
    signature = f"\nSignature of the BLEU: `{validation.signature}`\n" if validation.signature else ""
    lines = "\n".join(front)
    return f"""---
{lines}
---
# {" → ".join(languages) if translates else noun}

A {noun} model trained with regard.

| | |
|---|---|
| model | {recipe.model.kind}, {parameters:,} parameters |
| training data | {trainer.batches.size:,} examples |
| updates | {progress.step:,} (epoch {progress.epoch + 1}); kept: {kept} |
| validation | {trainer.validator.size:,} examples: {validation.describe()}{beam} |
{signature}
```python
import regard

{task.code}
```

It knows text like that of its training data; on other text it does worse, and it may be wrong or carry over biases of
the data without showing it.
"""
