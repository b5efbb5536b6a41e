"""The options of training."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from regard.models.adapters import LoraConfig
from regard.models.freeze import check_part
from regard.train.gradients import GradientConfig
from regard.train.optim import OptimConfig


class TrainConfig(GradientConfig, OptimConfig):
    seed: int = Field(1, ge=0, lt=2**32)
    steps: int = Field(20_000, ge=1)
    """Maximum number of updates."""
    seconds: float | None = Field(None, gt=0.0)
    """Stop after this training time; a cosine schedule then ends at that time."""
    count_validations: bool = False
    """Whether the time of validations counts as training time."""
    accumulate: int = Field(1, ge=1)
    """Batches per update."""
    parts: int = Field(1, ge=1)
    """Parts that a batch is computed in, one after the other or by several ranks of torchrun; at least one per rank.
    Dropout depends on the parts, not on the ranks."""
    save_every: int | None = Field(None, ge=1)
    """Updates between two checkpoints; each validation saves one as well."""
    save_minutes: float = Field(10.0, gt=0.0)
    """A checkpoint is saved at the latest this long after the one before."""
    patience: int = Field(10, ge=0)
    """Stop after this many validations in which neither the score nor the loss was better than before; 0: never."""
    average: Literal["last", "best", "none"] = "last"
    """At the end, keep the mean of the last or best checkpoints if it validates better than the best checkpoint."""
    average_k: int = Field(5, ge=1)
    """Number of checkpoints to average."""
    log_every: int = Field(50, ge=1)
    """Updates between two log lines; if they take long, there is a line every ten seconds."""
    max_skipped: int = Field(5, ge=1)
    """Stop after this many updates in a row whose gradient is not finite."""
    tensorboard: bool = False
    init: Path | None = None
    """Start from the weights of this model directory, whose model options the run gets."""
    init_tokenizer: Literal["auto", "keep", "new"] = "auto"
    """With `init`: keep its tokenizer or train a new one, whose pieces get the embeddings of equal pieces. auto: a new
    one if the tokenizer divides the training text into many more pieces than a new one does."""
    freeze: tuple[str, ...] = ()
    """With `init`: parts that are not trained: embeddings, encoder, decoder, attention, feed_forward, or layers such
    as encoder.layers.0-3."""
    lora: LoraConfig = LoraConfig()
    """With `init`: train small adapters and nothing else."""

    @field_validator("freeze")
    @classmethod
    def _check_freeze(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(check_part(name) for name in names)

    @model_validator(mode="after")
    def _check_init(self) -> Self:
        new_tokenizer = self.init_tokenizer == "new"
        for option, is_set in (("freeze", self.freeze), ("lora", self.lora.rank), ("a new tokenizer", new_tokenizer)):
            if is_set and self.init is None:
                raise ValueError(
                    f"{option} is for training that starts from another model; give --init, or leave it out"
                )
        if self.lora.rank and new_tokenizer:
            raise ValueError("lora trains no embeddings, which a new tokenizer needs; leave out one of them")
        if "embeddings" in self.freeze and new_tokenizer:
            raise ValueError("freeze: the embeddings of a new tokenizer must be trained; leave out embeddings")
        return self

    @model_validator(mode="after")
    def _check_shard(self) -> Self:
        options = {"compile": self.compile is True, "cuda_graphs": self.cuda_graphs is True}
        for option, is_set in {**options, "optimizer=muon": self.optimizer == "muon"}.items():
            if self.shard and is_set:
                raise ValueError(f"shard cannot be used with {option}; leave out one of them")
        return self
