"""The training loop.

All randomness is a function of (seed, step), so that a resumed run ends with the same bits as an uninterrupted one.
"""

import hashlib
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from regard.data.batch import Batch
from regard.data.batch_order import Batches, StreamPosition
from regard.errors import UserError
from regard.evaluate.validation import Validation, Validator
from regard.memory import OutOfMemoryCaught
from regard.models import Model
from regard.models.adapters import LoraConfig
from regard.models.freeze import check_part
from regard.models.weights import replace_weights, trained_weights
from regard.text.vocab import PAD
from regard.train.checkpoint import AVERAGED, WEIGHTS, Checkpoint, Checkpoints, read_newest
from regard.train.determinism import seed_dropout
from regard.train.gradients import GradientConfig, Gradients
from regard.train.log import RunLog
from regard.train.meter import Meter
from regard.train.optim import MovingAverage, OptimConfig, Optimizer, learning_rate
from regard.train.progress import Progress
from regard.train.signals import Stopped, StopRequest, StopRequested, stop_signals

_REPORT_SECONDS = 9.0  # if updates are slow, the first one after this time is reported


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


class Trainer:
    """Updates the weights, validates, and saves checkpoints."""

    def __init__(
        self,
        model: Model,
        batches: Batches,
        validator: Validator,
        checkpoints: Checkpoints,
        log: RunLog,
        config: TrainConfig,
    ) -> None:
        self.model = model
        self.batches = batches
        self.validator = validator
        self.checkpoints = checkpoints
        self.log = log
        self.config = config
        self.device = next(model.parameters()).device
        recorded = bool(config.cuda_graphs) and self.device.type == "cuda"
        self.optimizer = Optimizer(model, config, recorded)
        self.ema = MovingAverage(self.optimizer.parameters, config.ema) if config.ema else None
        self.gradients = Gradients(model, config)
        self.meter = Meter(self.device)

    def train(self, progress: Progress) -> Progress:
        """Train from `progress` to the end. On a signal, save a checkpoint and raise Stopped."""
        config = self.config
        self.model.train()
        with (
            closing(self.batches.stream(StreamPosition(progress.epoch, progress.batch))) as stream,
            self.gradients.determinism(),
            stop_signals() as stop,
            self.log.progress(progress.step, config.steps, config.seconds),
        ):
            self.meter.restart()
            self._saved_at = self._reported_at = time.monotonic()
            first = progress.step + 1
            while True:
                if self._validation_due(progress):
                    with self.meter.paused():
                        progress = self._timed_validation(progress, stop)
                    self._save(progress)
                if self._finished(progress):
                    return progress
                if stop:
                    self._save_and_stop(progress, stop)
                self.log.doing(f"update {progress.step + 1:,}")
                progress = self._timed_update(stream, progress)
                if progress.step == first or self._report_due(progress):
                    self._report(progress)
                if self._save_due(progress):
                    self._save(progress)

    def begin(self) -> Progress:
        """Start from the beginning and delete the metrics of an attempt that saved no checkpoint."""
        self.log.rewind(0, 0)
        return Progress()

    def restore(self, allow_inexact: bool = False) -> Progress:
        """Load the newest undamaged checkpoint, or start from the beginning if there is none."""
        newest = read_newest(self.checkpoints)
        if newest is None:
            return self.begin()
        checkpoint, tensors, problems = newest
        for problem in problems:
            self.log.info(f"not used: {problem}")
        where = str(checkpoint.path)
        progress = Progress.parse(checkpoint.facts.get("progress", {}), where)
        self._check_same_machine(checkpoint.facts.get("made_with", {}), allow_inexact)
        replace_weights(trained_weights(self.model), _with_prefix(WEIGHTS, tensors), where)
        self.optimizer.restore(_with_prefix("adam.", tensors), where)
        if self.ema:
            self.ema.restore(_with_prefix(AVERAGED, tensors), self.optimizer.names, where)
        self.log.rewind(progress.step, progress.validated)
        self.log.info(f"resumed from {checkpoint.path.name}")
        return progress

    def validate(self, check_stop: Callable[[], None] = lambda: None) -> Validation:
        """Validate the weights, or their moving average if there is one."""
        if self.ema:
            self.ema.swap()
        try:
            # Each step of decoding has another shape: compiling for them would take longer than it saves.
            with self.gradients.determinism(), self.gradients.eager():
                return self.validator(self.model, self.device, check_stop)
        finally:
            self.model.train()
            if self.ema:
                self.ema.swap()

    def _finished(self, progress: Progress) -> bool:
        out_of_patience = self.config.patience > 0 and progress.stale >= self.config.patience
        return self._budget_spent(progress) or out_of_patience

    def _budget_spent(self, progress: Progress) -> bool:
        config = self.config
        return progress.step >= config.steps or (config.seconds is not None and progress.seconds >= config.seconds)

    def _last_step(self, progress: Progress) -> int:
        """Return the number of the last update; if the time is limited, an estimate from the speed so far."""
        config = self.config
        if config.seconds is None or not progress.seconds:
            return config.steps
        return min(config.steps, max(progress.step, round(progress.step * config.seconds / progress.seconds)))

    def _validation_due(self, progress: Progress) -> bool:
        if progress.validated == progress.step:
            return False
        return progress.step % self.validator.config.every == 0 or self._budget_spent(progress)

    def _report_due(self, progress: Progress) -> bool:
        return progress.step % self.config.log_every == 0 or time.monotonic() - self._reported_at > _REPORT_SECONDS

    def _save_due(self, progress: Progress) -> bool:
        config = self.config
        by_step = config.save_every is not None and progress.step % config.save_every == 0
        return by_step or time.monotonic() - self._saved_at >= 60 * config.save_minutes

    def _timed_update(self, stream: Iterator[tuple[StreamPosition, Batch]], progress: Progress) -> Progress:
        start = time.perf_counter()
        progress = self.update(stream, progress)
        if self.config.seconds is None:
            return progress  # a run limited by updates must not depend on its speed
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # an update takes until it is computed, not until it is launched
        return replace(progress, seconds=progress.seconds + time.perf_counter() - start)

    def update(self, stream: Iterator[tuple[StreamPosition, Batch]], progress: Progress) -> Progress:
        """Update the weights once, from `accumulate` batches, which are split into more parts if memory runs out."""
        config = self.config
        step = progress.step + 1
        positions, batches = zip(*(next(stream) for _ in range(config.accumulate)), strict=True)
        tokens = sum(int((batch.tgt_out != PAD).sum()) for batch in batches)
        lr = learning_rate(config, step, self._last_step(progress), self.model.d_model)
        while True:
            with OutOfMemoryCaught() as full:
                self.gradients.prepare(self.batches, progress.parts)
                # Dropout is a function of (seed, step), so checkpoints need no state of the random number generator.
                seed_dropout(self.device, config.seed, step)
                nll = self.gradients.compute(batches, 1.0 / max(1, tokens), progress.parts)
                norm = self.optimizer.step(lr)
            if not full:
                break
            progress = self._split_further(batches, progress)
        if self.ema:
            self.ema.update(step)
        self.meter.add(nll, tokens, norm, lr)
        position = positions[-1]
        return replace(progress, step=step, epoch=position.epoch, batch=position.batch)

    def _split_further(self, batches: Sequence[Batch], progress: Progress) -> Progress:
        """Drop this update's gradients and split batches into twice as many parts, from this update on.

        A checkpoint is saved, so that a resumed run splits from the same update on and gives the same bits.
        """
        self.gradients.drop()
        if progress.parts >= max(batch.size for batch in batches):
            raise UserError(
                f"out of memory at step {progress.step + 1}, even with one example at a time; use a smaller model, or "
                "lower batch.max_tokens (pairs, captions) or batch.context (plain text), with another --out"
            )
        progress = replace(progress, parts=2 * progress.parts)
        self.log.info(
            f"step {progress.step + 1:,}  out of memory: from now on each batch is computed in {progress.parts} parts; "
            "the gradient is still that of the whole batch"
        )
        self._save(progress)
        return progress

    def _report(self, progress: Progress) -> None:
        self._check_divergence(progress)
        counts = {"epoch": progress.epoch, "skipped": int(self.optimizer.skipped[0])}
        self.log.update(progress.step, self._last_step(progress), {**self.meter.read(), **counts})
        self._reported_at = time.monotonic()

    def _check_divergence(self, progress: Progress) -> None:
        in_a_row = int(self.optimizer.skipped[1])
        if in_a_row < self.config.max_skipped:
            return
        raise UserError(
            f"stopped at step {progress.step}: the gradients of the last {in_a_row} updates were not finite and were "
            f"skipped; {self._after_divergence()}"
        )

    def _after_divergence(self) -> str:
        checkpoint = next((checkpoint.path for checkpoint in self.checkpoints.newest()), "none yet")
        return f"the last good checkpoint is {checkpoint}; use a lower train.lr and another --out, or check the data"

    def _save_and_stop(self, progress: Progress, stop: StopRequest) -> NoReturn:
        self._save(progress)
        raise Stopped(stop.signal_number or 0, progress.step)

    def _timed_validation(self, progress: Progress, stop: StopRequest) -> Progress:
        start = time.perf_counter()
        progress = self._validate(progress, stop)
        if self.config.seconds is None or not self.config.count_validations:
            return progress
        return replace(progress, seconds=progress.seconds + time.perf_counter() - start)

    def _validate(self, progress: Progress, stop: StopRequest) -> Progress:
        self.log.doing(f"validation of step {progress.step:,}")
        try:
            validation = self.validate(stop.check)
        except StopRequested:  # the resumed run starts with this validation
            self._save_and_stop(progress, stop)
        progress = progress.after(validation)
        better = progress.best_step == progress.step
        self.log.info(
            f"step {progress.step:,}  validation {validation.describe()}{'  (best so far)' if better else ''}"
        )
        for source, reference, translation in validation.samples:
            self.log.info(f"    {source}\n  = {reference}\n  > {translation}")
        self.log.record(progress.step, valid_loss=validation.loss, **validation.metrics())
        return progress

    def _save(self, progress: Progress) -> None:
        self._check_divergence(progress)
        tensors = {WEIGHTS + name: tensor for name, tensor in trained_weights(self.model).items()}
        tensors |= {f"adam.{name}": tensor for name, tensor in self.optimizer.state().items()}
        if self.ema:
            named = zip(self.optimizer.names, self.ema.average, strict=True)
            tensors |= {AVERAGED + name: tensor for name, tensor in named}
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            raise UserError(f"stopped at step {progress.step}: the weights are not finite; {self._after_divergence()}")
        facts: dict[str, Any] = {"progress": asdict(progress), "made_with": self._made_with()}
        if 0 < progress.validated == progress.step:
            facts |= {"score": progress.rank, "loss": progress.loss}
        self.log.doing("saving a checkpoint")
        with self.meter.paused():
            self.checkpoints.save(progress.step, tensors, facts)
        self._saved_at = time.monotonic()

    def _made_with(self) -> dict[str, Any]:
        """Return what must be the same for a resumed run to give the same bits."""
        return {
            "torch": torch.__version__.partition("+")[0],
            "device": torch.cuda.get_device_name() if self.device.type == "cuda" else platform.machine(),
            "threads": torch.get_num_threads(),
            "deterministic": self.config.deterministic,
            "data": self._data_fingerprint(),
        }

    def _data_fingerprint(self) -> str:
        """Return a hash of the training data and the validation data."""
        return hashlib.sha256(f"{self.batches.fingerprint} {self.validator.fingerprint}".encode()).hexdigest()

    def check_same_data(self, checkpoint: Checkpoint) -> None:
        """Raise a UserError if the checkpoint was trained on other data."""
        if checkpoint.facts.get("made_with", {}).get("data") != self._data_fingerprint():
            raise UserError(f"{checkpoint.path}: the checkpoint of another run, with other data")

    def _check_same_machine(self, made_with: dict[str, Any], allow_inexact: bool) -> None:
        for name, now in self._made_with().items():
            before = made_with.get(name)
            if before == now:
                continue
            if name == "data":
                raise UserError("training or validation data differ from those of the first run; use the same files")
            if not allow_inexact:
                raise UserError(
                    f"the run began with {name} {before}, now it is {now}, so the result would not be bit-identical; "
                    "add --allow-inexact to continue anyway"
                )
            self.log.info(f"{name} was {before}, is {now}: the result will not be bit-identical")


def _with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names start with `prefix`, under names without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
