"""Classifier: an encoder-only model that labels texts and turns them into vectors."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.errors import UserError
from regard.models import Model
from regard.models.encoder_only import EncoderOnly
from regard.models.intervention import Intervention
from regard.pipelines.arguments import check_texts
from regard.pipelines.base import refuse_target
from regard.pipelines.encoded_input import EncodedInput
from regard.pipelines.predictions import token_log_probs
from regard.pipelines.text_embedder import TextEmbedder
from regard.search.decode import DecodeConfig
from regard.text.html_table import score_table_html, sentence_pair_html
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import EOS, SPECIALS


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


class Classifier(TextEmbedder):
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
        for rows, vectors in self._embed(self._encode_all(texts)):
            logits = self.model.output(vectors).double()
            for i, p in zip(rows, logits[:, len(SPECIALS) :].softmax(-1).tolist(), strict=True):
                best = labels[int(np.argmax(p))]
                results[i] = Classification(texts[i], best, dict(zip(labels, p, strict=True)))
        return [results[i] for i in range(len(texts))]

    def encode_ids(self, ids: Sequence[int], hidden: Collection[int] = ()) -> EncodedInput:
        """Cut off the tokens beyond the limit: a classifier reads the beginning of a long text."""
        return super().encode_ids(ids[: self.length_limit().tokens], hidden)

    def target_ids(self, encoded: EncodedInput, target: str | None = None, rank: int = 1) -> list[int]:
        """Return the label, to which attention pooling belongs; without pooling no ids: nothing is generated."""
        refuse_target(target, rank)
        encoded.check_not_empty()
        if not self.model.attention_modules("cross"):
            return []
        with torch.inference_mode():
            logits = self.model(encoded.batch())[0, 0]
        return [len(SPECIALS) + int(logits[len(SPECIALS) :].argmax())]

    def output_text(self, source: str, target_ids: Sequence[int]) -> str:
        """Return the label, or for a model without labels the text itself."""
        return self.classify([source])[0].label if self.model.predicts_label else source

    def _output(self, encoded: EncodedInput, change: Intervention | None, greedy: bool) -> list[int]:
        return []

    def _shown(self, encoded: EncodedInput, ids: Sequence[int], change: Intervention | None) -> str:
        """Return the label or, without labels, the most likely token at each position."""
        best = token_log_probs(self.model, encoded.batch(), change).argmax(-1).tolist()
        return " ".join(self.tgt_tokenizer.tokens(best))

    def _predicted(self, encoded: EncodedInput, target: Sequence[int]) -> tuple[list[int], list[str]]:
        if not self.model.predicts_label:
            return [*encoded.src_ids, EOS], list(encoded.src_tokens)
        best = token_log_probs(self.model, encoded.batch()).argmax(-1).tolist()
        return best, ["text"]
