"""How the model does on text it was not trained on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.config import Config
from regard.data.batch import collate
from regard.data.batching import plan
from regard.data.store import PairStore
from regard.models import Model
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import PAD
from regard.train.loss import LossConfig, batch_loss
from regard.train.scores import ScoreOptions, corpus_scores
from regard.translator import Translator

_PLAIN = LossConfig(label_smoothing=0.0, r_drop=0.0)


class ValidConfig(Config):
    """Validation decodes greedily by default: it is quick, and ranks checkpoints as beam search does."""

    every: int = 1000
    """Updates between two validations."""
    beam: int = 1
    sentences: int = 1000
    """At most so many are translated; the loss takes all."""
    tokenize: str = "13a"
    """sacreBLEU's tokenizer; none for text that is tokenised already."""
    samples: int = 3
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
    rows: Sequence[int]
    tokenizers: TokenizerPair
    config: ValidConfig
    decode: DecodeConfig
    batch_tokens: int

    def __call__(self, model: Model, device: torch.device, check_stop: Callable[[], None]) -> Validation:
        model.eval()
        loss = self._loss(model, device, check_stop)
        rows = self.rows[: self.config.sentences]
        sources = [self.tokenizers.src.decode(self.store.src(i).tolist()) for i in rows]
        references = [self.tokenizers.tgt.decode(self.store.tgt(i).tolist()) for i in rows]
        decode = self.decode.model_copy(update={"beam": self.config.beam, "n_best": 1, "sampling": None})
        translator = Translator(model, self.tokenizers, decode, device)
        hypotheses: list[str] = []
        for translation in translator.stream(sources):
            hypotheses.append(translation.text)
            check_stop()
        model.train()
        options = ScoreOptions(tokenize=self.config.tokenize)
        scores = corpus_scores(hypotheses, references, options, names=("BLEU", "chrF2"))
        shown = zip(sources, references, hypotheses, strict=True)
        samples = tuple(row for row, _ in zip(shown, range(self.config.samples), strict=False))
        bleu, chrf = scores["BLEU"], scores["chrF2"]
        return Validation(loss, bleu.score, chrf.score, bleu.signature, samples)

    @torch.inference_mode()
    def _loss(self, model: Model, device: torch.device, check_stop: Callable[[], None]) -> float:
        rows = np.asarray(self.rows)
        src, tgt = self.store.lengths()
        lengths = (src[rows] + 1, tgt[rows] + 1)
        total, tokens = 0.0, 0
        for chosen in plan(lengths, self.batch_tokens, np.random.Philox(0)):
            pairs = rows[chosen]
            batch = collate([self.store.src(i) for i in pairs], [self.store.tgt(i) for i in pairs]).to(device)
            total += float(batch_loss(model, batch.src, batch.tgt, _PLAIN)[1])
            tokens += int((batch.tgt_out != PAD).sum())
            check_stop()
        return total / tokens
