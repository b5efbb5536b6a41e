"""An exported folder run by transformers, for the check."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import torch
import transformers
from torch.nn.utils.rnn import pad_sequence

from regard.bundle import Bundle
from regard.convert.hf.generation import prompt_ids
from regard.convert.hf.shape import is_encoder_decoder
from regard.convert.hf.suppressed import suppressed_ids
from regard.text.vocab import BOS, EOS, PAD

_BATCH = 32


class TransformersModel:
    """A model that `from_pretrained` has loaded."""

    suppresses_specials: ClassVar[bool] = False

    def __init__(self, folder: Path, bundle: Bundle) -> None:
        self._bundle = bundle
        self._seq2seq = is_encoder_decoder(bundle)
        auto: Any = transformers.AutoModelForSeq2SeqLM if self._seq2seq else transformers.AutoModelForCausalLM
        with _quiet():
            model, report = auto.from_pretrained(folder, output_loading_info=True)
        assert not any(report.values()), report
        self.model: Any = model.eval()

    def greedy(
        self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], max_len: int
    ) -> list[list[int]]:
        """Return the output of greedy search for each source, prefix included, without BOS and EOS."""
        prompts = [prompt_ids(self._bundle, source, prefix) for source, prefix in zip(sources, prefixes, strict=True)]
        # Rows of a batch have the same limit: that of the prefix, and of the prompt if it takes positions.
        limits = [(len(prefix), 0 if self._seq2seq else len(p)) for prefix, p in zip(prefixes, prompts, strict=True)]
        outputs: list[list[int]] = [[] for _ in sources]
        for limit in sorted(set(limits)):
            same = sorted((i for i, other in enumerate(limits) if other == limit), key=lambda i: len(prompts[i]))
            for rows in (same[start : start + _BATCH] for start in range(0, len(same), _BATCH)):
                chosen = [prompts[i] for i in rows], [prefixes[i] for i in rows]
                for i, output in zip(rows, self._generate(*chosen, max_len), strict=True):
                    outputs[i] = output
        return outputs

    @torch.inference_mode()
    def log_probs(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        """Return the log-probability of each target token, and of EOS after them, when the output is forced."""
        prompt = prompt_ids(self._bundle, source, ())
        if self._seq2seq:
            logits = self.model(torch.tensor([prompt]), decoder_input_ids=torch.tensor([[BOS, *target]])).logits[0]
        else:
            logits = self.model(torch.tensor([[*prompt, *target]])).logits[0, len(prompt) - 1 :]
        logits[:, suppressed_ids(self._bundle)] = -torch.inf  # generation_config.json says the same
        return logits.float().log_softmax(-1).gather(1, torch.tensor([*target, EOS])[:, None])[:, 0].tolist()

    @torch.inference_mode()
    def _generate(
        self, prompts: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], max_len: int
    ) -> list[list[int]]:
        """Generate outputs whose prefixes, and prompts that take positions, have the same lengths."""
        ids = pad_sequence([torch.tensor(prompt) for prompt in prompts], batch_first=True, padding_value=PAD)
        n_prefix, n_read = len(prefixes[0]), ids.shape[1]
        inputs = {"input_ids": ids, "attention_mask": (ids != PAD).long()}
        if self._seq2seq:
            inputs["decoder_input_ids"] = torch.tensor([[BOS, *prefix] for prefix in prefixes])
            n_read = 1 + n_prefix
        limit = min(max_len - n_prefix, self.model.config.max_position_embeddings - n_read) + 1  # the last one is EOS
        search = {"num_beams": 1, "do_sample": False, "min_new_tokens": 0, "no_repeat_ngram_size": 0}
        output = self.model.generate(**inputs, **search, max_new_tokens=limit)[:, n_read:]
        return [[*prefix, *_until_end(row, limit)] for prefix, row in zip(prefixes, output.tolist(), strict=True)]


def _until_end(ids: list[int], limit: int) -> list[int]:
    """Return the ids before EOS; an output of full length lacks it."""
    return ids[: ids.index(EOS)] if EOS in ids else ids[: limit - 1]


@contextmanager
def _quiet() -> Iterator[None]:
    """Print no progress bar while a model is loaded."""
    shown = transformers.logging.is_progress_bar_enabled()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers.logging.enable_progress_bar()
