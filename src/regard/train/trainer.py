"""The training loop.

All randomness is a function of (seed, step), so that a resumed run ends with the same bits as an uninterrupted one.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.batch_order import Batches, StreamPosition
from regard.errors import UserError
from regard.evaluate.validation import Validation, Validator
from regard.memory import OutOfMemoryCaught, reuse_freed_memory
from regard.models import Model
from regard.models.weights import replace_weights, trained_weights
from regard.text.vocab import PAD
from regard.train.checkpoint import AVERAGED, WEIGHTS, Checkpoint, Checkpoints, read_newest
from regard.train.gradients import Gradients, uses_half
from regard.train.log import RunLog
from regard.train.made_with import MadeWith
from regard.train.meter import Meter
from regard.train.optim import MovingAverage, Optimizer, learning_rate
from regard.train.progress import Progress
from regard.train.ranks import Ranks
from regard.train.shards import gather_weights, shard_model, spread_weights
from regard.train.signals import Stopped, StopRequest, StopRequested, stop_signals
from regard.train.train_config import TrainConfig

_REPORT_SECONDS = 9.0  # if updates are slow, the first one after this time is reported


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
        ranks: Ranks | None = None,
    ) -> None:
        self.model = model
        self.batches = batches
        self.validator = validator
        self.checkpoints = checkpoints
        self.log = log
        self.config = config
        self.ranks = ranks or Ranks()
        self.device = next(model.parameters()).device
        half = uses_half(config, self.device)
        self.trained = shard_model(model, self.ranks, half) if config.shard else model
        """The model that is updated: `model`, or a copy of it that is divided among the ranks"""
        if config.shard:
            model.to("cpu")
        recorded = bool(config.cuda_graphs) and self.device.type == "cuda" and not config.shard
        self.optimizer = Optimizer(self.trained, config, recorded, half)
        self.ema = MovingAverage(self.optimizer.parameters, config.ema) if config.ema else None
        self.gradients = Gradients(self.trained, config, self.ranks)
        self.meter = Meter(self.device)

    def train(self, progress: Progress) -> Progress:
        """Train from `progress` to the end. On a signal, save a checkpoint and raise Stopped."""
        config = self.config
        progress = self.with_parts(progress)
        self.trained.train()
        with (
            closing(self.batches.stream(StreamPosition(progress.epoch, progress.batch))) as stream,
            self.gradients.determinism(),
            reuse_freed_memory(self.device.type == "cpu"),
            stop_signals() as stop,
            self.log.progress(progress.step, config.steps, config.seconds),
        ):
            self.meter.restart()
            self._saved_at = self._reported_at = time.monotonic()
            self._saved_step = progress.step
            first = progress.step + 1
            while True:
                signal, save_due = self._agree(stop, progress)
                if save_due:
                    self._save(progress)
                if self._validation_due(progress):
                    with self.meter.paused():
                        progress = self._timed_validation(progress, stop)
                    self._save(progress)
                    signal, _ = self._agree(stop, progress)
                if self._finished(progress):
                    return progress
                if signal:
                    self._save_and_stop(progress, signal)
                self.log.doing(f"update {progress.step + 1:,}")
                progress = self._timed_update(stream, progress)
                if progress.step == first or self._report_due(progress):
                    self._report(progress)

    def _agree(self, stop: StopRequest, progress: Progress) -> tuple[int, bool]:
        """Return the signal that any rank has received, or 0, and whether a checkpoint is to be saved."""
        signal, save_due = self.ranks.largest(stop.signal_number or 0, self._save_due(progress))
        return int(signal), bool(save_due)

    def with_parts(self, progress: Progress) -> Progress:
        """Return the progress with as many parts per batch as the recipe says, and equally many for each rank."""
        wanted = max(progress.parts, self.config.parts) if progress.step == 0 else progress.parts
        parts = math.lcm(wanted, self.ranks.size)
        if progress.step and parts != progress.parts:
            self.log.info(
                f"each batch is now computed in {parts} parts, so dropout differs from that of the first ranks"
            )
        return replace(progress, parts=parts)

    def begin(self) -> Progress:
        """Start from the beginning and delete the metrics of an attempt that saved no checkpoint."""
        self._check_same_ranks(0, "")
        for tensor in trained_weights(self.model).values():
            self.ranks.copy_from_first(tensor)
        self._spread()
        if self.ema:
            self.ema.restart()
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
        self._check_same_ranks(checkpoint.step, checkpoint.sha256)
        where = str(checkpoint.path)
        progress = Progress.parse(checkpoint.facts.get("progress", {}), where)
        for change in self._made_with().changes(checkpoint.facts.get("made_with", {}), allow_inexact):
            self.log.info(change)
        replace_weights(trained_weights(self.model), _with_prefix(WEIGHTS, tensors), where)
        self._spread()
        self.optimizer.restore(_with_prefix("adam.", tensors), where)
        if self.ema:
            self.ema.restore(_with_prefix(AVERAGED, tensors), self.optimizer.names, where)
        self.log.rewind(progress.step, progress.validated)
        self.log.info(f"resumed from {checkpoint.path.name}")
        return progress

    def _check_same_ranks(self, step: int, sha256: str) -> None:
        """Raise a UserError unless all ranks have the same data and start from the same checkpoint."""
        self.ranks.check_equal(self._data_fingerprint(), "data", "give all ranks the same files and the same regard")
        shared = "--out must be on a disk that all ranks share"
        self.ranks.check_equal(f"step {step} {sha256}".strip(), "a checkpoint of", shared)

    def validate(self, check_stop: Callable[[], None] = lambda: None) -> Validation:
        """Validate the model, with the moving average of its weights if there is one."""
        with self._averaged() if self.trained is self.model else nullcontext():
            self.model.to(self.device)
            try:
                # Each step of decoding has another shape: compiling for them would take longer than it saves.
                with self.gradients.determinism(), self.gradients.eager():
                    return self.validator(self.model, self.device, check_stop)
            finally:
                self.model.train()
                if self.trained is not self.model:
                    self.model.to("cpu")

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Replace the weights by their moving average in the block, if there is one."""
        if self.ema:
            self.ema.swap()
        try:
            yield
        finally:
            if self.ema:
                self.ema.swap()

    def gather(self) -> None:
        """Give `model` the weights of the model that is updated; all ranks must call this."""
        if self.trained is not self.model:
            gather_weights(self.trained, self.model)

    def _spread(self) -> None:
        """Give the model that is updated the weights of `model`."""
        if self.trained is not self.model:
            spread_weights(self.model, self.trained)

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
        if progress.step == self._saved_step:
            return False
        by_step = config.save_every is not None and progress.step % config.save_every == 0
        return by_step or time.monotonic() - self._saved_at >= 60 * config.save_minutes

    def _timed_update(self, stream: Iterator[tuple[StreamPosition, Batch]], progress: Progress) -> Progress:
        start = time.perf_counter()
        progress = self.update(stream, progress)
        if self.config.seconds is None:
            return progress  # a run limited by updates must not depend on its speed
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # an update takes until it is computed, not until it is launched
        return self._add_seconds(progress, time.perf_counter() - start)

    def _add_seconds(self, progress: Progress, seconds: float) -> Progress:
        return replace(progress, seconds=progress.seconds + self.ranks.largest(seconds)[0])

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
                nll = self.gradients.compute(batches, 1.0 / max(1, tokens), progress.parts, (config.seed, step))
            if not self.ranks.any(bool(full)):
                with OutOfMemoryCaught() as full:
                    nll = self.gradients.exchange(nll)
                    norm = self.optimizer.step(lr)
                if not self.ranks.any(bool(full)):
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

    def _save_and_stop(self, progress: Progress, signal: int) -> NoReturn:
        self._save(progress)
        raise Stopped(signal, progress.step)

    def _timed_validation(self, progress: Progress, stop: StopRequest) -> Progress:
        start = time.perf_counter()
        progress = self._validate(progress, stop)
        if self.config.seconds is None or not self.config.count_validations:
            return progress
        return self._add_seconds(progress, time.perf_counter() - start)

    def _validate(self, progress: Progress, stop: StopRequest) -> Progress:
        """Validate on the first rank; the others wait for the result."""
        self.log.doing(f"validation of step {progress.step:,}")
        with self._averaged():
            self.gather()
        result = self.ranks.from_first(lambda: self._try_to_validate(progress, stop))
        if isinstance(result, int):  # the resumed run starts with this validation
            self._save_and_stop(progress, result)
        return Progress.parse(result, "validation")

    def _try_to_validate(self, progress: Progress, stop: StopRequest) -> dict[str, Any] | int:
        """Return the progress after a validation, as a mapping, or the signal that has stopped it."""
        try:
            validation = self.validate(stop.check)
        except StopRequested:
            return stop.signal_number or 0
        progress = progress.after(validation)
        better = progress.best_step == progress.step
        self.log.info(
            f"step {progress.step:,}  validation {validation.describe()}{'  (best so far)' if better else ''}"
        )
        for source, reference, translation in validation.samples:
            self.log.info(f"    {source}\n  = {reference}\n  > {translation}")
        self.log.record(progress.step, valid_loss=validation.loss, **validation.metrics())
        return asdict(progress)

    def _save(self, progress: Progress) -> None:
        self._check_divergence(progress)
        self.gather()
        tensors = {WEIGHTS + name: tensor for name, tensor in trained_weights(self.model).items()}
        tensors |= {f"adam.{name}": tensor for name, tensor in self.optimizer.state().items()}
        if self.ema:
            tensors |= {AVERAGED + name: tensor for name, tensor in self.ema.state(self.optimizer.names).items()}
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            raise UserError(f"stopped at step {progress.step}: the weights are not finite; {self._after_divergence()}")
        facts: dict[str, Any] = {"progress": asdict(progress), "made_with": asdict(self._made_with())}
        if 0 < progress.validated == progress.step:
            facts |= {"score": progress.rank, "loss": progress.loss}
        self.log.doing("saving a checkpoint")
        if self.ranks.is_first:
            with self.meter.paused():
                self.checkpoints.save(progress.step, tensors, facts)
        self._saved_at, self._saved_step = time.monotonic(), progress.step

    def _made_with(self) -> MadeWith:
        return MadeWith.of(self.device, self.ranks.size, self.config.deterministic, self._data_fingerprint())

    def _data_fingerprint(self) -> str:
        """Return a hash of the training data and the validation data."""
        return hashlib.sha256(f"{self.batches.fingerprint} {self.validator.fingerprint}".encode()).hexdigest()

    def check_same_data(self, checkpoint: Checkpoint) -> None:
        """Raise a UserError if the checkpoint was trained on other data."""
        if checkpoint.facts.get("made_with", {}).get("data") != self._data_fingerprint():
            raise UserError(f"{checkpoint.path}: the checkpoint of another run, with other data")


def _with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names start with `prefix`, under names without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
