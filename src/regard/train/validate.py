"""How the model does on text it was not trained on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from regard.config import Config
from regard.data.batch import collate
from regard.data.batching import plan
from regard.data.corpus import Pair
from regard.data.store import PairStore
from regard.models import Model
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import PAD
from regard.train.loss import LossConfig, loss_of_logits
from regard.train.scores import TOKENIZERS, ScoreOptions, corpus_scores
from regard.translator import Translator

_PLAIN = LossConfig(label_smoothing=0.0, r_drop=0.0)


class ValidConfig(Config):
    """Validation decodes greedily by default: it is quick, and ranks checkpoints as beam search does."""

    every: int = Field(1000, ge=1)
    """Updates between two validations."""
    beam: int = Field(1, ge=1)
    sentences: int = Field(1000, ge=1)
    """At most so many are translated; the loss takes all."""
    tokenize: Literal[TOKENIZERS] = "13a"  # type: ignore[valid-type]
    """sacreBLEU's tokenizer; none for text that is tokenised already."""
    samples: int = Field(3, ge=0)
    """Translations shown."""


@dataclass(frozen=True)
class Validation:
    loss: float
    bleu: float
    chrf: float
    signature: str
    """Of the BLEU, as sacreBLEU prints it"""
    samples: tuple[tuple[str, str, str], ...]
    """(source, reference, translation)"""


@dataclass(frozen=True)
class Validator:
    """The validation pairs as ids (for the loss) and as texts (for BLEU)."""

    store: PairStore
    rows: NDArray[np.int64]
    texts: Sequence[Pair]
    """What is translated: the first of them as they were written, which ids need not tell"""
    tokenizers: TokenizerPair
    config: ValidConfig
    decode: DecodeConfig
    batch_tokens: int

    def __call__(self, model: Model, device: torch.device, check_stop: Callable[[], None]) -> Validation:
        model.eval()
        loss = self._loss(model, device, check_stop)
        sources = [src for src, _ in self.texts]
        references = [tgt for _, tgt in self.texts]
        decode = self.decode.model_copy(update={"beam": self.config.beam, "n_best": 1, "sampling": None})
        translator = Translator(model, self.tokenizers, decode, device)
        hypotheses: list[str] = []
        for translation in translator.stream(sources):
            hypotheses.append(translation.text)
            check_stop()
        options = ScoreOptions(tokenize=self.config.tokenize)
        scores = corpus_scores(hypotheses, references, options, names=("BLEU", "chrF2"))
        shown = zip(sources, references, hypotheses, strict=True)
        samples = tuple(row for row, _ in zip(shown, range(self.config.samples), strict=False))
        bleu, chrf = scores["BLEU"], scores["chrF2"]
        return Validation(loss, bleu.score, chrf.score, bleu.signature, samples)

    @torch.inference_mode()
    def _loss(self, model: Model, device: torch.device, check_stop: Callable[[], None]) -> float:
        src, tgt = self.store.lengths()
        lengths = (src[self.rows] + 1, tgt[self.rows] + 1)
        total, tokens = 0.0, 0
        for chosen in plan(lengths, self.batch_tokens, np.random.Philox(0)):
            pairs = self.rows[chosen]
            batch = collate(self.store.src(pairs), self.store.tgt(pairs)).to(device)
            total += float(loss_of_logits(model(batch), batch.tgt_out, _PLAIN)[1])
            tokens += int((batch.tgt_out != PAD).sum())
            check_stop()
        return total / tokens
