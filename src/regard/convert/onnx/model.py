"""An exported ONNX model, run by ONNX Runtime."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from regard.text.vocab import BOS, EOS, SEP

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"

Inputs = dict[str, NDArray[Any]]


class OnnxModel:
    """The graphs of an exported folder; see `ExportedModel`."""

    suppresses_specials: ClassVar[bool] = False

    def __init__(self, folder: Path) -> None:
        self._encoder = _session(folder / ENCODER) if (folder / ENCODER).exists() else None
        self._decoder = _session(folder / DECODER)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._never_generated: list[int] = config["never_generated"]
        self._max_positions: int | None = config["max_positions"]["decoder"]
        n_layers, _, _, width = config["empty_cache"]
        self._empty_cache = np.zeros((n_layers, 1, 0, width), np.float32)

    def greedy(
        self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], max_len: int
    ) -> list[list[int]]:
        return [self._greedy(*pair, max_len) for pair in zip(sources, prefixes, strict=True)]

    def log_probs(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        inputs, prompt = self._start(source)
        logits, _ = self._read(inputs, [*prompt, *target], self._empty_cache)
        log_probs = _log_softmax(logits[len(prompt) - 1 :])
        return [float(row[i]) for row, i in zip(log_probs, [*target, EOS], strict=True)]

    def _greedy(self, source: Sequence[int], prefix: Sequence[int], max_len: int) -> list[int]:
        inputs, prompt = self._start(source)
        output, unread, cache = list(prefix), [*prompt, *prefix], self._empty_cache
        if self._max_positions is not None:
            max_len = min(max_len, self._max_positions - len(prompt))
        while len(output) < max_len:
            logits, cache = self._read(inputs, unread, cache)
            logits[-1, self._never_generated] = -np.inf
            token = int(logits[-1].argmax())
            if token == EOS:
                break
            output.append(token)
            unread = [token]
        return output

    def _start(self, source: Sequence[int]) -> tuple[Inputs, list[int]]:
        """Return the decoder's inputs that stay the same, and the tokens that it reads before the output."""
        if self._encoder is None:
            return {}, [*source, SEP, BOS] if source else [BOS]
        mask = np.ones((1, len(source) + 1), np.int64)
        [encoded] = self._encoder.run(None, {"input_ids": np.array([[*source, EOS]]), "source_mask": mask})
        return {"source": encoded, "source_mask": mask}, [BOS]

    def _read(
        self, inputs: Inputs, ids: Sequence[int], cache: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the logits after each token [n, V], and the cache with these tokens."""
        logits, cache = self._decoder.run(None, {"input_ids": np.array([ids]), "cache": cache, **inputs})
        return logits[0], cache


def _session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
