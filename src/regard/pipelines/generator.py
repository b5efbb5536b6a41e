"""The front door of language models: a prompt → text, a token at a time if wanted; texts → how likely they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from regard.data.batch import Batch
from regard.errors import UserError
from regard.models import Model
from regard.models.decoder_only import DecoderOnly
from regard.models.inside import record_of, single
from regard.models.record import AttentionRecord
from regard.search.decode import DecodeConfig, SamplingConfig, decode, sample_tokens
from regard.text.tokenizer import Tokenizer, TokenizerPair
from regard.text.vocab import BOS, EOS


@dataclass(frozen=True)
class GeneratedText:
    text: str
    """Prompt and all"""
    score: float


class Generator:
    """A language model and its tokenizer. `context` is how much it saw at once when it learnt."""

    def __init__(self, model: Model, tokenizers: TokenizerPair, context: int, device: torch.device) -> None:
        if not isinstance(model, DecoderOnly):
            raise UserError("this model does not write text; train one with --recipe gpt")
        self.model = model
        self.tokenizer: Tokenizer = tokenizers.tgt
        self.context = context
        self.device = device

    def generate(self, prompt: str = "", max_new_tokens: int = 200, **sampling: float) -> str:
        """The prompt and what follows it. `sampling`: temperature, top_k, top_p, seed."""
        return prompt + "".join(self.stream(prompt, max_new_tokens, **sampling))

    def stream(self, prompt: str = "", max_new_tokens: int = 200, **sampling: float) -> Iterator[str]:
        """What follows the prompt, piece by piece as it is drawn."""
        config = SamplingConfig.parse(sampling, where="generate")
        ids = self.tokenizer.encode([prompt])[0]
        said, end = len(self.tokenizer.decode(ids)), len(ids) + max_new_tokens
        while len(ids) < end:
            # At the end of the context the newer half of it is read again, and the text goes on from there.
            fits = not self.model.has_window or len(ids) < self.context
            seen = ids if fits else ids[-(self.context // 2) :]
            room = min(end - len(ids), self.context - len(seen) if self.model.has_window else end)
            before = len(ids)
            for token in sample_tokens(self.model, self._nothing(1), seen, room, config, place=before):
                ids.append(token)
                # Half a character is not printed: what decodes may still change at its end.
                text = self.tokenizer.decode(ids)
                if not text.endswith("\ufffd"):
                    yield text[said:]
                    said = len(text)
            if len(ids) < before + room:  # the text has ended
                return

    @torch.inference_mode()
    def next(self, prompt: str = "", k: int = 10) -> list[tuple[str, float]]:
        """The k likeliest next tokens and their probabilities, likeliest first"""
        ids = [BOS, *self.tokenizer.encode([prompt])[0][-(self.context - 1) :]]
        batch = Batch(self._nothing(1).src, torch.tensor([ids], device=self.device), self._nothing(1).tgt_out)
        probabilities = self.model(batch)[0, -1].double().softmax(-1)
        top = probabilities.topk(min(k, len(probabilities)))
        return list(zip(self.tokenizer.tokens(top.indices.tolist()), top.values.tolist(), strict=True))

    def beam(self, prompt: str = "", max_new_tokens: int = 50, beam: int = 5, n_best: int = 1) -> list[GeneratedText]:
        """The likeliest continuations that beam search finds."""
        ids = self.tokenizer.encode([prompt])[0]
        kept = max(1, self.context - 1 - max_new_tokens) if self.model.has_window else len(ids)
        front, prefix = ids[: max(0, len(ids) - kept)], ids[max(0, len(ids) - kept) :]
        options = {"beam": beam, "n_best": n_best, "max_len": len(prefix) + max_new_tokens}
        config = DecodeConfig.parse(options, where="generate")
        found = decode(self.model, self._nothing(1), config, [prefix])[0]
        return [GeneratedText(self.tokenizer.decode([*front, *h.ids]), h.score) for h in found]

    @torch.inference_mode()
    def score(self, texts: Sequence[str]) -> list[float]:
        """log p of each text, its end included"""
        scores = []
        for ids in self.tokenizer.encode(list(texts)):
            batch = Batch.of(self._nothing(1).src, torch.tensor([[BOS, *ids, EOS]])).to(self.device)
            log_probs = self.model(batch).double().log_softmax(-1)
            scores.append(float(log_probs.gather(-1, batch.tgt_out[..., None]).sum()))
        return scores

    @torch.inference_mode()
    def attention(self, text: str) -> AttentionRecord:
        """Where the model looks while it is made to say `text`"""
        ids = self.tokenizer.encode([text])[0][: self.context]
        if not ids:
            raise UserError("there is nothing to look at in an empty text")
        traces = self.model.attention(single((), [BOS, *ids], self.device))
        return record_of(traces, (), tuple(self.tokenizer.tokens(ids)))

    def _nothing(self, rows: int) -> Batch:
        empty = torch.empty(rows, 0, dtype=torch.int64, device=self.device)
        return Batch(empty, empty, empty)
