"""The training loop. Everything random in it is a function of (seed, step), so that a resumed run is the same run."""

import hashlib
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.data.batch import Batch
from regard.data.batching import Batches, StreamPosition
from regard.errors import UserError
from regard.evaluate.validation import Validation, Validator
from regard.models import Model
from regard.models.weights import load_weights, weights_of
from regard.text.vocab import PAD
from regard.train.average import AVERAGED, WEIGHTS
from regard.train.checkpoint import Checkpoints, read_newest
from regard.train.cuda_graphs import GraphRunner
from regard.train.log import RunLog
from regard.train.loss import LossConfig, batch_loss, loss_from_logits
from regard.train.optim import MovingAverage, OptimConfig, Optimizer, learning_rate
from regard.train.signals import Stopped, StopRequest, StopRequested, stop_signals


class TrainConfig(LossConfig, OptimConfig):
    seed: int = Field(1, ge=0, lt=2**32)
    steps: int = Field(20_000, ge=1)
    """Updates at most."""
    seconds: float | None = Field(None, gt=0.0)
    """Stop after so many seconds of training, validation not counted; a cosine then ends with them."""
    accumulate: int = Field(1, ge=1)
    """Batches an update."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 autocast on a GPU, fp32 on a CPU."""
    compile: bool = False
    """torch.compile of a layer of each kind and of the loss: the first update waits for it."""
    cuda_graphs: bool = False
    """On a GPU: record an update once a shape and replay it, which spares the host the launching."""
    save_every: int | None = Field(None, ge=1)
    """Updates between two checkpoints; every validation saves one anyway."""
    patience: int = Field(10, ge=0)
    """Stop after so many validations without a better score (or loss, at an equal score); 0: never."""
    average: Literal["last", "best", "none"] = "last"
    """At the end, the mean of the last or best checkpoints is kept if it validates better than the best one."""
    average_k: int = Field(5, ge=1)
    log_every: int = Field(50, ge=1)
    max_skipped: int = Field(5, ge=1)
    """Stop after so many updates in a row whose gradient is not finite."""
    tensorboard: bool = False
    init: Path | None = None
    """A model directory whose tokenizer and weights, where they fit, are the start."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come: all that a checkpoint keeps beside tensors."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best: float = float("-inf")
    best_loss: float = float("inf")
    best_step: int = 0
    stale: int = 0
    """Validations since the best one"""
    validated: int = 0
    """The last step that was validated"""
    rank: float = float("-inf")
    loss: float = float("inf")
    """How it did"""
    seconds: float = 0.0
    """Of training, counted where train.seconds bounds them"""

    def after(self, validation: Validation) -> "Progress":
        seen = replace(self, validated=self.step, rank=validation.rank, loss=validation.loss, stale=self.stale + 1)
        if (validation.rank, -validation.loss) <= (self.best, -self.best_loss):
            return seen
        return replace(seen, stale=0, best=validation.rank, best_loss=validation.loss, best_step=self.step)


class Trainer:
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
        self.optimizer = Optimizer(model, config)
        self.ema = MovingAverage(model.parameters(), config.ema) if config.ema else None
        self._loss = _compiled(model) if config.compile else batch_loss
        use_graphs = config.cuda_graphs and self.device.type == "cuda"
        self._differentiate = GraphRunner(self._gradient) if use_graphs else self._gradient
        self.meter = Meter(self.device)

    def train(self, progress: Progress) -> Progress:
        """Go on from `progress` to the end. Raises Stopped, having saved, when a signal asks for it."""
        config = self.config
        self.model.train()
        stream = self.batches.stream(StreamPosition(progress.epoch, progress.batch))
        with stop_signals() as stop, self.log.progress(progress.step, config.steps):
            self.meter.restart()
            while True:
                if self._validation_due(progress):
                    with self.meter.paused():
                        progress = self._validate(progress, stop)
                    self._save(progress)
                if self._finished(progress):
                    return progress
                if stop:
                    self._leave(progress, stop)
                progress = self._timed_update(stream, progress)
                if progress.step % config.log_every == 0:
                    self._report(progress)
                if config.save_every and progress.step % config.save_every == 0:
                    self._save(progress)

    def begin(self) -> Progress:
        """From the start: what an attempt without a checkpoint recorded is forgotten."""
        self.log.rewind(0)
        return Progress()

    def restore(self, allow_inexact: bool = False) -> Progress:
        """Load the newest whole checkpoint, if there is one."""
        found = read_newest(self.checkpoints)
        if found is None:
            return self.begin()
        checkpoint, tensors, problems = found
        for problem in problems:
            self.log.say(problem)
        self._check_same_machine(checkpoint.manifest.get("made_with", {}), allow_inexact)
        load_weights(self.model, _under(WEIGHTS, tensors), str(checkpoint.path))
        self.optimizer.restore(_under("adam.", tensors))
        if self.ema:
            averages = _under(AVERAGED, tensors)
            for name, average in zip(self.optimizer.names, self.ema.average, strict=True):
                average.copy_(averages[name])
        self.log.rewind(checkpoint.step)
        self.log.say(f"resumed from {checkpoint.path.name}")
        return Progress(**checkpoint.manifest["progress"])

    def validate(self, check_stop: Callable[[], None] = lambda: None) -> Validation:
        """Validate the weights that would be kept: the moving average where there is one."""
        if self.ema:
            self.ema.swap()
        try:
            # Decoding has shapes of its own at every step: compiling them would take longer than it saves.
            with torch.compiler.set_stance("force_eager"):
                return self.validator(self.model, self.device, check_stop)
        finally:
            self.model.train()
            if self.ema:
                self.ema.swap()

    def _finished(self, progress: Progress) -> bool:
        exhausted = self.config.patience > 0 and progress.stale >= self.config.patience
        return self._spent(progress) or exhausted

    def _spent(self, progress: Progress) -> bool:
        config = self.config
        return progress.step >= config.steps or (config.seconds is not None and progress.seconds >= config.seconds)

    def _horizon(self, progress: Progress) -> int:
        """The last update, as far as it can be foreseen: where seconds are the bound, from the pace until now."""
        config = self.config
        if config.seconds is None or not progress.seconds:
            return config.steps
        return min(config.steps, max(progress.step, round(progress.step * config.seconds / progress.seconds)))

    def _validation_due(self, progress: Progress) -> bool:
        if progress.validated == progress.step:
            return False
        return progress.step % self.validator.config.every == 0 or self._spent(progress)

    def _timed_update(self, stream: Iterator[tuple[StreamPosition, Batch]], progress: Progress) -> Progress:
        start = time.perf_counter()
        progress = self.update(stream, progress)
        if self.config.seconds is None:
            return progress  # a run bounded by updates is the same at any pace
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # an update counts until it is done, not until it is launched
        return replace(progress, seconds=progress.seconds + time.perf_counter() - start)

    def update(self, stream: Iterator[tuple[StreamPosition, Batch]], progress: Progress) -> Progress:
        """One update of the weights from `accumulate` batches."""
        config = self.config
        step = progress.step + 1
        gathered = [next(stream) for _ in range(config.accumulate)]
        # Dropout is a function of (seed, step): nothing random has to be saved or restored.
        torch.manual_seed(int(np.random.SeedSequence([config.seed, step]).generate_state(1)[0]))
        tokens = sum(int((batch.tgt_out != PAD).sum()) for _, batch in gathered)
        total = torch.zeros((), device=self.device)
        scale = torch.full((), 1.0 / max(1, tokens), device=self.device)
        for _, batch in gathered:
            total = total + self._differentiate(scale, *batch.to(self.device).tensors())
        lr = learning_rate(config, step, self._horizon(progress), self.model.d_model)
        norm = self.optimizer.step(lr)
        if self.ema:
            self.ema.update(step)
        self.meter.add(total, tokens, norm, lr)
        position = gathered[-1][0]
        return replace(progress, step=step, epoch=position.epoch, batch=position.batch)

    def _gradient(self, scale: Tensor, *parts: Tensor) -> Tensor:
        """Add the gradient of the batch's loss, times `scale`, to the parameters' → the negative log-likelihood"""
        with self._autocast():
            loss, nll = self._loss(self.model, Batch(*parts), self.config)
        (loss * scale).backward()
        return nll

    def _autocast(self) -> AbstractContextManager[Any]:
        precision = self.config.precision
        if precision == "auto":
            precision = "bf16" if self.device.type == "cuda" else "fp32"
        if precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def _report(self, progress: Progress) -> None:
        self._check_divergence(progress)
        counts = {"epoch": progress.epoch, "skipped": int(self.optimizer.skipped[0])}
        self.log.update(progress.step, self._horizon(progress), {**self.meter.read(), **counts})

    def _check_divergence(self, progress: Progress) -> None:
        in_a_row = int(self.optimizer.skipped[1])
        if in_a_row < self.config.max_skipped:
            return
        good = next((checkpoint.path for checkpoint in self.checkpoints.newest()), "none yet")
        raise UserError(
            f"stopped at step {progress.step}: the gradients of the last {in_a_row} updates were not finite, and "
            f"none of them was used; the last good checkpoint is {good}; lower train.lr in another --out, or look "
            "at the data"
        )

    def _leave(self, progress: Progress, stop: StopRequest) -> NoReturn:
        self._save(progress)
        raise Stopped(stop.signal_number or 0, progress.step)

    def _validate(self, progress: Progress, stop: StopRequest) -> Progress:
        try:
            validation = self.validate(stop.check)
        except StopRequested:  # the resumed run validates this step first
            self._leave(progress, stop)
        progress = progress.after(validation)
        better = progress.best_step == progress.step
        self.log.say(f"step {progress.step:,}  validation {validation.describe()}{'  (best so far)' if better else ''}")
        for source, reference, translation in validation.samples:
            self.log.say(f"    {source}\n  = {reference}\n  > {translation}")
        self.log.record(progress.step, valid_loss=validation.loss, **validation.scores)
        return progress

    def _save(self, progress: Progress) -> None:
        self._check_divergence(progress)
        tensors = {WEIGHTS + name: tensor for name, tensor in weights_of(self.model).items()}
        tensors |= {f"adam.{name}": tensor for name, tensor in self.optimizer.state().items()}
        if self.ema:
            named = zip(self.optimizer.names, self.ema.average, strict=True)
            tensors |= {AVERAGED + name: tensor for name, tensor in named}
        manifest: dict[str, Any] = {"progress": asdict(progress), "made_with": self._made_with()}
        if progress.validated == progress.step:
            manifest |= {"score": progress.rank, "loss": progress.loss}
        with self.meter.paused():
            self.checkpoints.save(progress.step, tensors, manifest)

    def _made_with(self) -> dict[str, Any]:
        """What must be the same for a resumed run to give the same bits."""
        return {
            "torch": torch.__version__.partition("+")[0],
            "device": torch.cuda.get_device_name() if self.device.type == "cuda" else platform.machine(),
            "threads": torch.get_num_threads(),
            "data": self._data_fingerprint(),
        }

    def _data_fingerprint(self) -> str:
        """Of the training pairs, the validation pairs, and which is which."""
        return hashlib.sha256(f"{self.batches.fingerprint} {self.validator.fingerprint}".encode()).hexdigest()

    def _check_same_machine(self, made_with: dict[str, Any], allow_inexact: bool) -> None:
        for name, now in self._made_with().items():
            before = made_with.get(name)
            if before == now:
                continue
            if name == "data":
                raise UserError("training or validation data differ from those the run began with; use the same files")
            if not allow_inexact:
                raise UserError(
                    f"the run was made with {name} {before}, here it is {now}, so the result would not be "
                    "bit-identical; add --allow-inexact to go on all the same"
                )
            self.log.say(f"{name} was {before}, is {now}: the result will not be bit-identical")


class Meter:
    """Sums over the updates since the last reading; they stay on the device until they are read."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.restart()

    def restart(self) -> None:
        self.nll = torch.zeros((), device=self.device)
        self.norm = torch.zeros((), device=self.device)
        self.tokens = self.updates = 0
        self.lr = 0.0
        self.since = time.perf_counter()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens in the block does not count as training time."""
        start = time.perf_counter()
        yield
        self.since += time.perf_counter() - start

    def add(self, nll: Tensor, tokens: int, norm: Tensor, lr: float) -> None:
        self.nll = self.nll + nll.detach()
        self.norm = self.norm + norm
        self.tokens += tokens
        self.updates += 1
        self.lr = lr

    def read(self) -> dict[str, float]:
        values = {
            "loss": float(self.nll) / max(1, self.tokens),
            "grad_norm": float(self.norm) / max(1, self.updates),
            "lr": self.lr,
        }
        values["tokens_per_second"] = self.tokens / (time.perf_counter() - self.since)
        self.restart()
        return values


def _compiled(model: Model) -> Callable[..., tuple[Tensor, Tensor]]:
    """`batch_loss` with its parts compiled. Layers of a kind share one compilation, which serves every shape."""
    # The analysis that is switched off fails on such graphs in torch 2.11.
    options: dict[str, Any] = {"triton.coalesce_tiling_analysis": False}
    for layer in model.layers_to_compile():
        layer.compile(dynamic=True, options=options)
    return partial(batch_loss, of_logits=torch.compile(loss_from_logits, dynamic=True, options=options))


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
