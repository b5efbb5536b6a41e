"""The recipe `auto`: model, regularisation and length of training, chosen by the corpus and by the time there is.

`SIZES` is the rule. Its rows up to a million target words were chosen on validation data of Multi30k and Tanaka, those
above follow published systems; docs/training.md has the measurements. When a machine is too slow for a row, the plan
gets fewer updates, then no R-Drop, then a smaller model with little regularisation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from regard.train.corpus_facts import CorpusFacts


@dataclass(frozen=True)
class Size:
    """What suits a corpus of up to `words` target words."""

    words: float
    vocab: int
    layers: int
    width: int
    d_ff: int
    dropout: float
    attention_dropout: float
    bpe_dropout: float
    r_drop: float
    smoothing: float
    decay: float
    tokens: int
    """Tokens per batch"""
    updates: int
    ema: float
    """Decay of the moving average of the weights; 0: the last checkpoints are averaged instead"""


SIZES = (
    #     words  vocab  layers width d_ff  dropout attention BPE   R-Drop smoothing decay tokens updates EMA
    Size(25_000, 4_000, 3, 256, 512, 0.3, 0.0, 0.1, 5.0, 0.2, 0.1, 4_096, 1_500, 0.0),
    Size(70_000, 4_000, 3, 256, 512, 0.3, 0.0, 0.1, 5.0, 0.2, 0.1, 4_096, 2_500, 0.0),
    Size(250_000, 8_000, 4, 256, 512, 0.3, 0.0, 0.1, 5.0, 0.2, 0.1, 8_192, 3_000, 0.0),
    Size(1_000_000, 8_000, 6, 256, 512, 0.2, 0.1, 0.1, 5.0, 0.2, 0.0, 8_192, 7_000, 0.999),
    Size(8_000_000, 10_000, 6, 512, 1_024, 0.3, 0.0, 0.1, 5.0, 0.1, 0.0, 8_192, 20_000, 0.0),
    Size(60_000_000, 16_000, 6, 512, 2_048, 0.1, 0.0, 0.1, 0.0, 0.1, 0.0, 25_000, 60_000, 0.0),
    Size(float("inf"), 32_000, 6, 512, 2_048, 0.1, 0.0, 0.0, 0.0, 0.1, 0.0, 25_000, 150_000, 0.0),
)

_MEASURED = 1_000_000  # words; rows up to here were compared with others
_SMALLER = ((4, 256, 512), (2, 256, 512), (2, 128, 256))
"""Layers, width and d_ff of models for little time, from large to small"""
_LEAN_TOKENS = 1_024  # many small updates learn more in little time than few large ones
_MIN_EPOCHS = 12  # a smaller model is better than one that sees the corpus fewer times than this
_MIN_UPDATES = 4_000  # or than one that gets fewer updates; decides for very small corpora
_MANY_EPOCHS = 30  # from here on even a model for little time needs BPE-dropout
_R_DROP_EPOCHS = 90  # from here on R-Drop is as good, although it halves the updates, and better in more time
_MIN_SHARE = 0.5  # of a row's updates; with fewer, another plan is better
_TOKENS_PER_WORD = 1.3
_VALIDATIONS = 10
_SHORT_VALIDATIONS = 5  # if the time is limited to less than this many seconds, of fewer sentences:
_SHORT, _SHORT_SENTENCES = 1_800, 200
_TRAINING_SHARE = 0.95  # of the time, validations included, less some seconds to tokenise, average and save
_OVERHEAD = 15.0
_WIDE = 512  # a model this wide gets half the learning rate
_INIT_LR = 0.1  # of the learning rate; the full one makes a trained model worse (docs/training.md)
_BYTES_PER_LOGIT = 12  # of the output layer in training, with gradient and temporary values

UpdateTime = Callable[["Size"], float]
"""Returns the seconds that an update takes"""


class Choice(NamedTuple):
    """One line of what was chosen, and why."""

    what: str
    value: str
    reason: str
    options: tuple[str, ...]
    """The options of the recipe that it stands for"""


@dataclass(frozen=True)
class Plan:
    """The options that `auto` has chosen."""

    size: Size
    parts: int
    """Batches per update, if memory is too small for one"""
    seconds: float
    """Estimated time of all updates"""
    limit: float | None
    """Seconds after which training ends, if the time is limited"""
    facts: CorpusFacts
    init: str | None = None
    """The model that training starts from, with its own size"""
    other_languages: bool = False
    """Whether that model translates other languages"""

    def options(self) -> dict[str, Any]:
        """Return the options, in the form of a recipe."""
        size, updates = self.size, self.updates
        lr = 3e-3 if size.width >= _WIDE else 6e-3
        lr = _INIT_LR * lr if self.init and not self.other_languages else lr
        return {
            "tokenizer": {"vocab_size": size.vocab, "dropout": size.bpe_dropout},
            "batch": {"tokens": size.tokens // self.parts},
            "model": self._model_options(),
            "train": {
                "steps": size.updates,
                "seconds": self.limit,
                "count_validations": self.limit is not None,
                "warmup": max(1, min(4_000, updates // 10)),
                "lr": lr,
                "accumulate": self.parts,
                "r_drop": size.r_drop,
                "label_smoothing": size.smoothing,
                "weight_decay": size.decay,
                "ema": self.ema,
                "average": "none" if self.ema else "last",
            },
            "valid": {
                "every": max(1, updates // (_SHORT_VALIDATIONS if self._is_hurried else _VALIDATIONS)),
                "sentences": _SHORT_SENTENCES if self._is_hurried else 1_000,
                "tokenize": "char" if self.facts.target_unit == "characters" else "13a",
            },
        }

    def _model_options(self) -> dict[str, Any]:
        size = self.size
        dropout = {"dropout": size.dropout, "attention_dropout": size.attention_dropout}
        if self.init:  # for the same languages, the dropout of the parent
            return dropout if self.other_languages else {}
        heads = max(2, size.width // 64)
        return {"n_layers": size.layers, "d_model": size.width, "d_ff": size.d_ff, "n_heads": heads, **dropout}

    @property
    def ema(self) -> float:
        """Decay of the moving average of the weights"""
        return 0.0 if self.init else self.size.ema

    @property
    def _is_hurried(self) -> bool:
        return self.limit is not None and self.limit < _SHORT

    @property
    def updates(self) -> int:
        """The updates that there is time for"""
        if self.limit is None or self.seconds <= self.limit:
            return self.size.updates
        return max(1, int(self.size.updates * self.limit / self.seconds))

    @property
    def training_seconds(self) -> float:
        """Estimated time of the updates that there is time for"""
        return self.seconds if self.limit is None else min(self.seconds, self.limit)

    @property
    def is_short(self) -> bool:
        """Whether more time would allow a better plan"""
        return self.updates < self.size.updates or is_smaller(self.size, self.facts)

    @property
    def epochs(self) -> float:
        return epochs(self.size, self.facts, self.updates)

    def choices(self) -> Iterator[Choice]:
        """Yield what was chosen, with one reason each."""
        size = self.size
        parts = f" in {self.parts} parts, to fit into memory" if self.parts > 1 else ""
        limit = ", as many as the time allows" if self.updates < size.updates else ""
        schedule = f"Muon{self._rate_reason()}; falls to 0 along a cosine"
        rows = (
            *self._model_rows(),
            ("BPE-dropout", _number(size.bpe_dropout), self._resampling_reason(), "tokenizer.dropout"),
            ("R-Drop", _number(size.r_drop), self._r_drop_reason(), "train.r_drop"),
            ("label smoothing", f"{size.smoothing:g}", "0.2 for small corpora, 0.1 else", "train.label_smoothing"),
            ("batch", f"{size.tokens:,} tokens{parts}", "small models learn from small batches", "batch.tokens"),
            ("learning rate", f"{self.options()['train']['lr']:g}", schedule, "train.lr"),
            ("updates", f"{self.updates:,}", f"{self.epochs:,.0f} × through the corpus{limit}", "train.steps"),
            self._averaging_row(),
        )
        for what, value, reason, options in rows:
            yield Choice(what, value, reason, tuple(options.split()))

    def _averaging_row(self) -> tuple[str, str, str, str]:
        options = "train.ema train.average train.average_k"
        if self.ema:
            return "averaging", f"decay {self.ema:g}", "a moving average of the weights is validated and kept", options
        return "averaging", "last 2 checkpoints", "if better than the best one", options

    def _model_rows(self) -> tuple[tuple[str, str, str, str], ...]:
        size, words = self.size, f"{self.facts.target_words:,} target words"
        value = f"{size.dropout:g}" + (f", attention {size.attention_dropout:g}" if size.attention_dropout else "")
        options = "model.dropout model.attention_dropout"
        dropout = ("dropout", value, "small corpora are easily learnt by heart", options)
        if self.init and self.other_languages:
            return ("model", self.init, "with its size", "model"), dropout
        if self.init:
            return (("model", self.init, "with its size and dropout", "model"),)
        layers = f"{size.layers}+{size.layers} layers, {size.width} wide"
        vocabulary, why = f"up to {size.vocab:,} pieces", f"for {words}; both languages share it"
        return (
            ("vocabulary", vocabulary, why, "tokenizer.vocab_size"),
            ("model", layers, self._model_reason(), "model.n_layers model.d_model model.d_ff"),
            dropout,
        )

    def _rate_reason(self) -> str:
        if not self.init:
            return ""
        return ", as for a new model: the languages differ" if self.other_languages else ", less for a trained model"

    def _model_reason(self) -> str:
        if is_smaller(self.size, self.facts):
            return "the largest that there is time for"
        if row_for(self.facts).words > _MEASURED:
            return "usual for corpora of this size"
        return "larger ones validated worse on corpora of this size"

    def _resampling_reason(self) -> str:
        if self.size.bpe_dropout:
            return "words are segmented in another way in each epoch"
        return "there is time for few epochs" if is_smaller(self.size, self.facts) else "the corpus is large enough"

    def _r_drop_reason(self) -> str:
        if self.size.r_drop:
            return "two passes with other dropout must agree, which helps small corpora"
        return "it doubles the time of an update" if row_for(self.facts).r_drop else "the corpus is large enough"


def _number(value: float) -> str:
    return f"{value:g}" if value else "off"


def row_for(facts: CorpusFacts) -> Size:
    """Return the row of the table for a corpus."""
    return next(size for size in SIZES if facts.target_words <= size.words)


def is_smaller(size: Size, facts: CorpusFacts) -> bool:
    """Whether the model is not that of the table, for lack of time."""
    row = row_for(facts)
    return (size.layers, size.width, size.tokens) != (row.layers, row.width, row.tokens)


def epochs(size: Size, facts: CorpusFacts, updates: float) -> float:
    """Return how often a number of updates goes through the corpus."""
    return updates * size.tokens / max(1.0, facts.target_words * _TOKENS_PER_WORD)


def choose(facts: CorpusFacts, row: Size, update_time: UpdateTime, memory: float, seconds: float | None) -> Plan:
    """Fit a row of the table to the memory of the device and to the seconds there are; None: no limit."""
    size = row
    limit = None if seconds is None else max(1.0, _TRAINING_SHARE * seconds - _OVERHEAD)
    if limit is not None:
        size = _fit_time(row, facts, update_time, limit)
    parts = 1
    while size.tokens // parts * size.vocab * _BYTES_PER_LOGIT * (2 if size.r_drop else 1) > memory / 2:
        parts *= 2
    return Plan(size, parts, size.updates * update_time(size), limit, facts)


def _fit_time(row: Size, facts: CorpusFacts, update_time: UpdateTime, limit: float) -> Size:
    """Return the row, one with less regularisation or, if there is less than half the time, a cheaper plan."""
    if row.updates * update_time(row) <= limit:
        return row
    row = replace(row, attention_dropout=0.0, ema=0.0)  # they gain in long training only
    for size in (row, replace(row, r_drop=0.0)):
        if size.updates * update_time(size) * _MIN_SHARE <= limit:
            return size
    for layers, width, d_ff in _SMALLER:
        if layers > row.layers:
            continue
        lean = replace(row, layers=layers, width=width, d_ff=d_ff, tokens=_LEAN_TOKENS, r_drop=0.0, dropout=0.1)
        lean = replace(lean, bpe_dropout=0.0, smoothing=0.1, decay=0.0, vocab=min(row.vocab, 8_000))
        updates = limit / update_time(lean)
        n_epochs = epochs(lean, facts, updates)
        if n_epochs >= _MIN_EPOCHS and updates >= _MIN_UPDATES:
            break
    resampling = row.bpe_dropout if n_epochs >= _MANY_EPOCHS else 0.0
    r_drop = row.r_drop if n_epochs >= _R_DROP_EPOCHS and updates >= _MIN_UPDATES else 0.0
    return replace(lean, bpe_dropout=resampling, r_drop=r_drop, updates=row.updates * row.tokens // lean.tokens)
