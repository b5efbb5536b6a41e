"""The model card: what the model is, what it learnt from and how well it does."""

from regard.train.recipe import Recipe
from regard.train.trainer import Progress, Trainer
from regard.train.validate import Validation


def model_card(
    recipe: Recipe,
    languages: tuple[str, str],
    trainer: Trainer,
    progress: Progress,
    validation: Validation,
    kept: str,
) -> str:
    src, tgt = languages
    parameters = sum(p.numel() for p in trainer.model.parameters())
    scores = f"loss {validation.loss:.4f}, BLEU {validation.bleu:.2f}, chrF {validation.chrf:.2f}"
    front = "\n".join(f"- {lang}" for lang in languages)
    return f"""---
language:
{front}
tags:
- translation
- regard
metrics:
- bleu
- chrf
---
# {src} → {tgt}

A translation model trained with regard.

| | |
|---|---|
| model | {recipe.model.kind}, {parameters:,} parameters |
| training pairs | {len(trainer.batches.rows):,} |
| updates | {progress.step:,} (epoch {progress.epoch + 1}); kept: {kept} |
| validation | {len(trainer.validator.rows):,} pairs: {scores}, beam {recipe.valid.beam} |

Signature of the BLEU: `{validation.signature}`

```python
import regard

translator = regard.load("this-folder")
print(translator.translate(["…"])[0].text)
```

It translates text like that of its training data; other text it translates worse, and it may be wrong or carry over
biases of the data without showing it.
"""
