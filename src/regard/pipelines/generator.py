"""Generator: a language model that continues a prompt and scores texts."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.errors import UserError
from regard.models import Model
from regard.models.decoder_only import DecoderOnly
from regard.models.intervention import ChangedModel, Intervention
from regard.pipelines.arguments import check_count, check_text, check_texts
from regard.pipelines.base import refuse_target
from regard.pipelines.encoded_input import EncodedInput
from regard.pipelines.target_scores import target_log_probs
from regard.pipelines.text_embedder import TextEmbedder
from regard.pipelines.what_if import Patch
from regard.search.decode import DecodeConfig, decode, sample_tokens
from regard.search.protocols import Stepper
from regard.search.sampling import SamplingConfig, TokenPenalties
from regard.search.token_scores import TokenScore
from regard.text.html_table import text_html
from regard.text.tokenizer import Tokenizer, TokenizerPair
from regard.text.vocab import BOS, EOS

_WHAT_IF_TOKENS = 40


@dataclass(frozen=True)
class GeneratedText:
    text: str
    """The prompt and its continuation"""
    score: float

    def _repr_html_(self) -> str:
        """Show the text and its score in a notebook."""
        return text_html(self.text) + f"<div>score: {self.score:.3f}</div>"


@dataclass(frozen=True)
class GeneratedPiece:
    """A piece of generated text, and how many tokens have been generated so far."""

    text: str
    n_tokens: int
    scores: tuple[TokenScore, ...] = ()
    """Of the tokens of this piece, if requested"""


class Generator(TextEmbedder):
    """A language model. `context` is the number of tokens that it saw at once in training.

    >>> generator = regard.load(generator_dir)
    >>> text = generator.generate("ab", max_new_tokens=5, temperature=0.8, seed=1)
    >>> text.startswith("ab")
    True
    >>> [token, probability] = generator.next("ab", k=1)[0]
    >>> 0 < probability < 1
    True
    """

    noun = "generator"
    attention_kind = "decoder"
    example_recipe = "gpt"

    def __init__(self, model: Model, tokenizers: TokenizerPair, context: int, device: torch.device) -> None:
        if not isinstance(model, DecoderOnly):
            raise UserError("this model does not generate text; train one with --recipe gpt")
        super().__init__(model, tokenizers, DecodeConfig(beam=1), device)
        self.model: DecoderOnly = model
        self.context = check_count("the context of a language model", context, 2)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.tgt_tokenizer

    @property
    def max_input_tokens(self) -> int | None:
        """Most tokens of a prompt that leave room for one more token within the context"""
        return self.context - 1

    def clean(self, text: str) -> str:
        """Return the text unchanged: a language model learns white space too."""
        return text

    def encode_ids(self, ids: Sequence[int], hidden: Collection[int] = ()) -> EncodedInput:
        """Make the prompt the start of the output; a language model has no source."""
        if hidden:
            raise UserError("a language model has no source tokens to hide")
        return EncodedInput(self._no_source(), prefix=tuple(ids))

    def target_ids(self, encoded: EncodedInput, target: str | None = None, rank: int = 1) -> list[int]:
        """Return the ids of the text itself, up to the context."""
        refuse_target(target, rank)
        encoded.check_not_empty()
        return list(encoded.prefix[: self.context])

    def _donor_target(self, donor: EncodedInput, patch: Patch) -> list[int]:
        """Return the prompt, and a token after it, so that its last token is read too."""
        return [*self.target_ids(donor, patch.target), EOS]

    def _output(self, encoded: EncodedInput, change: Intervention | None, greedy: bool = True) -> list[int]:
        """Return the prompt, or its end if it is long, and the most likely continuation."""
        n_new, kept = self.fit_prompt(encoded.prefix, _WHAT_IF_TOKENS)
        config = self.decode_config.model_copy(update={"max_len": len(kept) + n_new})
        model = ChangedModel(self.model, change)
        return list(decode(model, self._no_batch(), config, [kept])[0][0].ids)

    def generate(self, prompt: str = "", max_new_tokens: int = 200, **sampling: float) -> str:
        """Return the prompt and its continuation. `sampling`: temperature, top_k, top_p, seed."""
        return check_text("the prompt", prompt) + "".join(self.stream(prompt, max_new_tokens, **sampling))

    def stream(self, prompt: str = "", max_new_tokens: int = 200, **sampling: float) -> Iterator[str]:
        """Yield the continuation piece by piece as it is sampled."""
        pieces = self.stream_pieces(prompt, max_new_tokens, None, None, **sampling)
        return (piece.text for piece in pieces if piece.text)

    def stream_pieces(
        self,
        prompt: str | Sequence[int],
        max_new_tokens: int,
        n_top: int | None = None,
        penalties: TokenPenalties | None = None,
        **sampling: float,
    ) -> Iterator[GeneratedPiece]:
        """Like `stream`, but count the tokens: a piece of text may consist of several. The prompt may be ids.

        With `n_top`, each token has a score and the scores of the `n_top` most likely ones in its place; they are the
        model's own, whatever the temperature and the penalties. If the last character is incomplete, the last piece
        has no text but counts its tokens.
        """
        check_count("max_new_tokens", max_new_tokens, 0)
        config = SamplingConfig.parse(sampling, where="generate")
        ids = self._prompt_ids(prompt) if isinstance(prompt, str) else list(prompt)
        n_prompt, n_chars, scores = len(ids), len(self.tokenizer.decode(ids)), list[TokenScore]()
        n_counted = n_prompt
        for token, log_probs in self._sample(ids, max_new_tokens, config, penalties):
            ids.append(token)
            if n_top is not None:
                scores.append(TokenScore.of(token, log_probs, n_top))
            # A character may be split over several tokens; wait until it is complete.
            text = self.tokenizer.decode(ids)
            if not text.endswith("\ufffd"):
                yield GeneratedPiece(text[n_chars:], len(ids) - n_prompt, tuple(scores))
                n_chars, n_counted, scores = len(text), len(ids), []
        if len(ids) > n_counted:
            yield GeneratedPiece("", len(ids) - n_prompt, tuple(scores))

    def _sample(
        self, prompt: Sequence[int], max_new_tokens: int, config: SamplingConfig, penalties: TokenPenalties | None
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield the ids that follow the prompt, until EOS, with the log-probabilities [V] of what could follow."""
        ids, n_prompt, end = list(prompt), len(prompt), len(prompt) + max_new_tokens

        def change(log_probs: Tensor) -> Tensor:
            return log_probs if penalties is None else penalties(log_probs, ids[n_prompt:])

        model: Stepper[Any] = self.decoding_model(self.decode_config)
        while len(ids) < end:
            prefix, room = ids, end - len(ids)
            if self.model.has_limited_context:
                # When the context is full, the newer half of it is read again and the text continues from there.
                prefix = ids if len(ids) < self.context else ids[-(self.context // 2) :]
                room = min(room, self.context - len(prefix))
            before = len(ids)
            for token, log_probs in sample_tokens(model, self._no_batch(), prefix, room, config, before, change):
                ids.append(token)
                yield token, log_probs
            if len(ids) < before + room:  # the model has generated EOS
                return

    @torch.inference_mode()
    def next(self, prompt: str = "", k: int = 10) -> list[tuple[str, float]]:
        """Return the k most likely next tokens with their probabilities, most likely first."""
        check_count("k", k, 1)
        ids = [BOS, *self._prompt_ids(prompt)[-(self.context - 1) :]]
        empty = self._no_source()
        batch = Batch(empty, torch.tensor([ids], device=self.device), empty)
        probabilities = self.model(batch)[0, -1].double().softmax(-1)
        top = probabilities.topk(min(k, len(probabilities)))
        return list(zip(self.tokenizer.tokens(top.indices.tolist()), top.values.tolist(), strict=True))

    def beam(self, prompt: str = "", max_new_tokens: int = 50, beam: int = 5, n_best: int = 1) -> list[GeneratedText]:
        """Return the most likely continuations that beam search finds."""
        check_count("max_new_tokens", max_new_tokens, 0)
        ids = self._prompt_ids(prompt)
        n_kept = max(1, self.context - 1 - max_new_tokens) if self.model.has_limited_context else len(ids)
        dropped, prefix = ids[: max(0, len(ids) - n_kept)], ids[max(0, len(ids) - n_kept) :]
        options = {"beam": beam, "n_best": n_best, "max_len": len(prefix) + max_new_tokens}
        config = DecodeConfig.parse(options, where="generate")
        hypotheses = decode(self.decoding_model(config), self._no_batch(), config, [prefix])[0]
        return [GeneratedText(self.tokenizer.decode([*dropped, *h.ids]), h.score) for h in hypotheses]

    def fit_prompt(self, ids: Sequence[int], max_new_tokens: int) -> tuple[int, Sequence[int]]:
        """Return how many new tokens there is room for, at least half the context, and the end of the prompt."""
        if not self.model.has_limited_context:
            return max_new_tokens, ids
        n_new = max(1, min(max_new_tokens, self.context // 2, self.context - 1))
        return n_new, ids[-(self.context - n_new) :]

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return log p of each text, including its end."""
        rows = self.tokenizer.encode(check_texts(texts, "score"))
        return target_log_probs([self.model], None, rows, self.tokenizer.size, self.device)

    @torch.inference_mode()
    def score_tokens(self, ids: Sequence[int], n_top: int = 0) -> list[TokenScore]:
        """Return the score of each token of a text that fits into the context, and of the most likely ones there."""
        if len(ids) > self.context:
            raise UserError(f"a text of {len(ids)} tokens does not fit into the context of {self.context}")
        batch = Batch(self._no_source(), torch.tensor([[BOS, *ids]], device=self.device), self._no_source())
        log_probs = self.model(batch)[0].double().log_softmax(-1)
        return [TokenScore.of(token, row, n_top) for token, row in zip(ids, log_probs, strict=False)]

    def _embedding_model(self) -> DecoderOnly:
        return self.model

    def _prompt_ids(self, prompt: str) -> list[int]:
        [ids] = self.tokenizer.encode([check_text("the prompt", prompt)])
        return ids

    def _no_source(self) -> torch.Tensor:
        """[1, 0]: one sentence without a source"""
        return torch.empty(1, 0, dtype=torch.int64, device=self.device)

    def _no_batch(self) -> Batch:
        return EncodedInput(self._no_source()).batch()
