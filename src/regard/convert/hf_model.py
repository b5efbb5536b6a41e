"""An exported folder run by transformers, for the check."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import torch
import transformers
from torch import Tensor

from regard.bundle import Bundle
from regard.convert.hf_generation import prompt_ids
from regard.convert.hf_shape import is_encoder_decoder
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
        order = sorted(range(len(sources)), key=lambda i: (len(prefixes[i]), len(sources[i])))
        outputs: list[list[int]] = [[] for _ in sources]
        for rows in _batches(order, prefixes):
            for i, output in zip(rows, self._generate(sources, prefixes, rows, max_len), strict=True):
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
        return logits.float().log_softmax(-1).gather(1, torch.tensor([*target, EOS])[:, None])[:, 0].tolist()

    @torch.inference_mode()
    def _generate(
        self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], rows: Sequence[int], max_len: int
    ) -> list[list[int]]:
        """Generate some rows whose prefixes have the same length."""
        ids, mask = _pad([prompt_ids(self._bundle, sources[i], prefixes[i]) for i in rows], left=not self._seq2seq)
        n_prefix = len(prefixes[rows[0]])
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        room = self.model.config.max_position_embeddings
        if self._seq2seq:
            inputs["decoder_input_ids"] = torch.tensor([[BOS, *prefixes[i]] for i in rows])
            n_read = 1 + n_prefix
        else:
            n_read = ids.shape[1]
        limit = min(max_len - n_prefix, room - n_read) + 1  # the last one is EOS
        search = {"num_beams": 1, "do_sample": False, "min_new_tokens": 0, "no_repeat_ngram_size": 0}
        output = self.model.generate(**inputs, **search, max_new_tokens=limit)[:, n_read:]
        return [[*prefixes[i], *_until_end(row, limit)] for i, row in zip(rows, output.tolist(), strict=True)]


def _until_end(ids: list[int], limit: int) -> list[int]:
    """Return the ids before EOS; an output of full length lacks it."""
    return ids[: ids.index(EOS)] if EOS in ids else ids[: limit - 1]


def _batches(order: Sequence[int], prefixes: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Divide rows into batches of which all prefixes have the same length."""
    for n in sorted({len(prefixes[i]) for i in order}):
        rows = [i for i in order if len(prefixes[i]) == n]
        yield from (rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH))


def _pad(rows: Sequence[Sequence[int]], left: bool) -> tuple[Tensor, Tensor]:
    """Return padded ids and the mask of those that count."""
    width = max(map(len, rows))
    padding = [[PAD] * (width - len(row)) for row in rows]
    ids = torch.tensor([[*pad, *row] if left else [*row, *pad] for row, pad in zip(rows, padding, strict=True)])
    return ids, (ids != PAD).long()


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
