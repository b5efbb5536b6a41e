"""The front door of encoder-only models: texts → labels, texts → vectors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import collate_sources
from regard.errors import UserError
from regard.models import Model
from regard.models.encoder_only import EncoderOnly
from regard.models.inside import record_of, single
from regard.models.record import AttentionRecord
from regard.text.clean import clean
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import BOS, EOS, SPECIALS

_BATCH_TOKENS = 16_384


@dataclass(frozen=True)
class Classified:
    text: str
    label: str
    probabilities: Mapping[str, float]
    """Of every label"""


class Classifier:
    def __init__(self, model: Model, tokenizers: TokenizerPair, device: torch.device) -> None:
        if not isinstance(model, EncoderOnly):
            raise UserError("this model has no labels; train one with --recipe classifier")
        self.model = model
        self.tokenizers = tokenizers
        self.device = device

    @property
    def labels(self) -> list[str]:
        return self.tokenizers.tgt.tokens(range(len(SPECIALS), self.tokenizers.tgt.size))

    @torch.inference_mode()
    def classify(self, texts: Sequence[str]) -> list[Classified]:
        """The likeliest label of each text, in order."""
        if not self.model.label:
            raise UserError("this model fills in masked tokens; train a classifier with --recipe classifier")
        labels, found = self.labels, {}
        for rows, src in self._batches(texts):
            logits = self.model.output(self.model.embed(src)).double()
            for i, p in zip(rows, logits[:, len(SPECIALS) :].softmax(-1).tolist(), strict=True):
                best = labels[int(np.argmax(p))]
                found[i] = Classified(texts[i], best, dict(zip(labels, p, strict=True)))
        return [found[i] for i in range(len(texts))]

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """[texts, D]: the mean of each text's token vectors"""
        vectors = np.zeros((len(texts), self.model.d_model), dtype=np.float32)
        for rows, src in self._batches(texts):
            vectors[rows] = self.model.embed(src).float().cpu().numpy()
        return vectors

    @torch.inference_mode()
    def attention(self, text: str) -> AttentionRecord:
        """Where the tokens of a text look"""
        [ids] = self.tokenizers.src.encode([clean(text)])
        if not ids:
            raise UserError("there is nothing to look at in an empty text")
        ids = ids if self.model.max_len is None else ids[: self.model.max_len - 1]
        traces = self.model.attention(single([*ids, EOS], [BOS], self.device))
        return record_of(traces, (*self.tokenizers.src.tokens(ids), SPECIALS[EOS]), ())

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Row numbers and ids of texts of like length"""
        ids = self.tokenizers.src.encode([clean(text) for text in texts])
        if self.model.max_len is not None:
            ids = [row[: self.model.max_len - 1] for row in ids]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        while order:
            n = max(1, _BATCH_TOKENS // (len(ids[order[-1]]) + 1))
            rows, order = order[-n:], order[:-n]
            yield rows, collate_sources([ids[i] for i in rows]).src.to(self.device)
