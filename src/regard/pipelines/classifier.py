"""Classifier: an encoder-only model that labels texts and turns them into vectors."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import collate_sources, run_parts
from regard.errors import UserError
from regard.models import Model
from regard.models.encoder_only import EncoderOnly
from regard.pipelines.arguments import check_texts
from regard.pipelines.base import EncodedInput, Pipeline, refuse_target
from regard.search.decode import DecodeConfig
from regard.text.html_table import score_table_html, sentence_pair_html
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import SPECIALS

_BATCH_TOKENS = 16_384


@dataclass(frozen=True)
class Classification:
    text: str
    label: str
    probabilities: Mapping[str, float]
    """Probability of every label"""

    def _repr_html_(self) -> str:
        """Show the text, its label and the probabilities of all labels, the most likely first, in a notebook."""
        ranked = sorted(self.probabilities.items(), key=lambda item: -item[1])
        rows = [(f"{100 * probability:.1f} %", label) for label, probability in ranked]
        return sentence_pair_html(self.text, self.label) + score_table_html(("probability", "label"), rows)


class Classifier(Pipeline):
    """An encoder-only model.

    >>> classifier = regard.load(classifier_dir)
    >>> [result] = classifier.classify(["a b c"])
    >>> result.label in classifier.labels
    True
    >>> round(sum(result.probabilities.values()), 3)
    1.0
    >>> classifier.embed(["a b", "c"]).shape[0]
    2
    """

    noun = "classifier"
    generates = False
    attention_kind = "encoder"
    example_recipe = "classifier"

    def __init__(self, model: Model, tokenizers: TokenizerPair, device: torch.device) -> None:
        if not isinstance(model, EncoderOnly):
            raise UserError("this model has no labels; train one with --recipe classifier")
        super().__init__(model, tokenizers, DecodeConfig(), device)
        self.model: EncoderOnly = model

    @property
    def labels(self) -> list[str]:
        return self.tgt_tokenizer.tokens(range(len(SPECIALS), self.tgt_tokenizer.size))

    @torch.inference_mode()
    def classify(self, texts: Sequence[str]) -> list[Classification]:
        """Return the most likely label of each text, in order."""
        if not self.model.predicts_label:
            raise UserError("this model fills in masked tokens; train a classifier with --recipe classifier")
        texts = check_texts(texts, "classify")
        labels, results = self.labels, {}
        for rows, vectors in self._embed(texts):
            logits = self.model.output(vectors).double()
            for i, p in zip(rows, logits[:, len(SPECIALS) :].softmax(-1).tolist(), strict=True):
                best = labels[int(np.argmax(p))]
                results[i] = Classification(texts[i], best, dict(zip(labels, p, strict=True)))
        return [results[i] for i in range(len(texts))]

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text [texts, D], the mean of its token vectors."""
        texts = check_texts(texts, "embed")
        vectors = np.zeros((len(texts), self.model.d_model), dtype=np.float32)
        for rows, part in self._embed(texts):
            vectors[rows] = part.float().cpu().numpy()
        return vectors

    def encode_ids(self, ids: Sequence[int], hidden: Collection[int] = ()) -> EncodedInput:
        """Cut off the tokens beyond the limit: a classifier reads the beginning of a long text."""
        return super().encode_ids(ids[: self.length_limit().tokens], hidden)

    def count_long(self, texts: Sequence[str]) -> int:
        """Count the texts that are longer than what the model reads of them."""
        return sum(len(ids) > self.length_limit().tokens for ids in self._encode_all(texts))

    def target_ids(self, encoded: EncodedInput, target: str | None = None, rank: int = 1) -> list[int]:
        """Return no ids: a classifier generates nothing."""
        refuse_target(target, rank)
        encoded.check_not_empty()
        return []

    def output_text(self, source: str, target_ids: Sequence[int]) -> str:
        """Return the label, or for a model without labels the text itself."""
        return self.classify([source])[0].label if self.model.predicts_label else source

    def _embed(self, texts: Sequence[str]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield row numbers and vectors of texts of similar length."""
        ids = [row[: self.length_limit().tokens] for row in self._encode_all(texts)]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        while order:
            n = max(1, _BATCH_TOKENS // (len(ids[order[-1]]) + 1))
            rows, order = order[-n:], order[:-n]
            batch = collate_sources([ids[i] for i in rows])
            yield rows, torch.cat(list(run_parts(lambda part: self.model.embed(part.src), batch, self.device)))

    def _encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenise the texts; of one that is far over the limit, only a part that is still over it."""
        n = self.length_limit().chars
        return self.src_tokenizer.encode([self.clean(text)[:n] for text in texts])
