"""What the search topics decode: the lecture's table, or a trained model with its input."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.errors import UserError
from regard.explain.lecture_table import TOKENS, LectureTable, join_tokens
from regard.explain.model_input import ModelInput
from regard.explain.number_format import format_number
from regard.search.decode import DecodeConfig
from regard.text.vocab import BOS, EOS, SPECIALS

MAX_STEPS = 12  # that are shown
_NEW_TOKENS = 8  # that a language model generates after its prompt
_MAX_CHARACTERS = 36  # of a hypothesis in a table


@dataclass(frozen=True)
class DecodeSetup:
    """A model, its input and its settings, and how to write tokens and hypotheses."""

    model: Any
    batch: Batch
    prefix: tuple[int, ...]
    config: DecodeConfig
    format_token: Callable[[int], str]
    format_hypothesis: Callable[[Sequence[int]], str]

    @classmethod
    def of_lecture(cls, config: DecodeConfig) -> "DecodeSetup":
        """Decode with the lecture's table of probabilities."""
        return cls(LectureTable(), _empty_batch(), (), config, TOKENS.__getitem__, join_tokens)

    @classmethod
    def of_model(cls, model_input: ModelInput, **options: int) -> "DecodeSetup":
        """Decode with a model and its own settings; `options` are those of DecodeConfig."""
        pipeline = model_input.pipeline
        if not pipeline.generates:
            raise UserError("this model predicts labels; search is for models that generate tokens")
        prefix, config = model_input.encoded.prefix, pipeline.decode_config
        if prefix:  # the prompt of a language model
            config = DecodeConfig(max_len=len(prefix) + _NEW_TOKENS)
        config = config.model_copy(update={"n_best": 1, "sampling": None, **options})
        tokenizer = pipeline.tgt_tokenizer

        def format_hypothesis(ids: Sequence[int]) -> str:
            text = tokenizer.decode(ids).replace("\n", "↵")
            text = f"{text} {SPECIALS[EOS]}".lstrip() if EOS in ids else text
            return text if len(text) <= _MAX_CHARACTERS else "…" + text[-_MAX_CHARACTERS:]

        batch, format_token = model_input.encoded.batch(), model_input.output_label
        return cls(model_input.model, batch, prefix, config, format_token, format_hypothesis)

    @torch.no_grad()
    def score_at_once(self, ids: Sequence[int]) -> Tensor:
        """Return the log-probabilities of the tokens and EOS [T + 1], computed in one pass by teacher forcing."""
        target = torch.tensor([[BOS, *ids, EOS]])
        log_probs = self.model(Batch.of(self.batch.src, target))[0].log_softmax(-1)
        return log_probs.gather(-1, target[0, 1:, None]).squeeze(-1)

    @torch.no_grad()
    def score_stepwise(self, ids: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Run the model token by token.

        Returns the log-probabilities of all tokens at each step [T + 1, V], and those of `ids` and EOS [T + 1].
        """
        state, rows = self.model.start(self.batch), []
        for token in (BOS, *ids):
            log_probs, state = self.model.step(state, torch.tensor([token]))
            rows.append(log_probs[0])
        all_log_probs = torch.stack(rows)
        return all_log_probs, all_log_probs.gather(1, torch.tensor([*ids, EOS])[:, None]).squeeze(1)


def format_product(probabilities: Tensor) -> str:
    """`0.5 · 0.2 = 0.1`"""
    factors = " · ".join(f"{p:g}" for p in probabilities.tolist())
    return f"{factors} = {format_number(float(probabilities.prod()))}"


def _empty_batch() -> Batch:
    """Make a batch of one sentence without a source."""
    empty = torch.empty(1, 0, dtype=torch.int64)
    return Batch(empty, empty, empty)
