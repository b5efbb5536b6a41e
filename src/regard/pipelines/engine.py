"""Engines: what runs the search of a translator. Without one, PyTorch does."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast, get_args

import torch

from regard.bundle import Bundle
from regard.convert.ctranslate2.problem import ctranslate2_problem
from regard.convert.export_format import Quantization
from regard.errors import UserError
from regard.models.encoder_decoder import EncoderDecoder
from regard.search.decode import DecodeConfig
from regard.search.protocols import Hypothesis
from regard.threads import threads_to_use

TORCH, AUTO, CTRANSLATE2 = "torch", "auto", "ctranslate2"
_NOT_INSTALLED = "CTranslate2 is not installed (pip install 'regard[export]')"


class Engine(Protocol):
    """Decodes sources; PyTorch decodes those that it leaves out, and everything that it cannot decode."""

    def can_decode(self, config: DecodeConfig) -> bool:
        """Whether the engine can decode with these options"""
        ...

    def decode(self, sources: Sequence[Sequence[int]], config: DecodeConfig) -> dict[int, list[Hypothesis]]:
        """Return the n_best hypotheses by the number of the source, best first; some may be left out."""
        ...


@dataclass(frozen=True)
class EngineChoice:
    """An engine as the user names it: torch, ctranslate2, ctranslate2:int8 or auto"""

    name: str = TORCH
    quantization: Quantization = "float32"

    @classmethod
    def parse(cls, text: str) -> "EngineChoice":
        name, separator, quantization = text.partition(":")
        if name not in (TORCH, AUTO, CTRANSLATE2) or (separator and name != CTRANSLATE2):
            raise UserError(f"--engine {text}: unknown; choose torch, ctranslate2, ctranslate2:int8 or auto")
        if separator and quantization not in get_args(Quantization):
            known = ", ".join(get_args(Quantization))
            raise UserError(f"--engine {text}: unknown number type; choose one of {known}")
        return cls(name, cast(Quantization, quantization) if separator else "float32")

    def make(self, folder: Path, bundle: Bundle, device: torch.device) -> Engine | None:
        """Return the engine for a model directory; None: PyTorch. Refuse what was named but cannot be used."""
        if self.name == TORCH:
            return None
        try:
            return self._make_ctranslate2(folder, bundle, device)
        except UserError:
            if self.name == AUTO:
                return None
            raise

    def _make_ctranslate2(self, folder: Path, bundle: Bundle, device: torch.device) -> Engine:
        if problem := _problem(bundle, device):
            raise UserError(f"--engine ctranslate2: {problem}; leave --engine out, or use auto")
        from regard.convert.ctranslate2.engine import make_engine

        return make_engine(folder, bundle, self.quantization, threads_to_use())

    def describe(self, engine: Engine | None) -> str | None:
        """Return what to tell the user about the engine that was made; None: it is the usual one"""
        if engine is not None:
            return f"engine: CTranslate2, {self.quantization}"
        if self.name == TORCH:
            return None
        why = "CTranslate2 cannot run this model here" if _is_installed() else _NOT_INSTALLED
        return f"engine: PyTorch, because {why}"


def _problem(bundle: Bundle, device: torch.device) -> str | None:
    """Return why CTranslate2 cannot be the engine of a model; None: it can."""
    if not _is_installed():
        return _NOT_INSTALLED
    if device.type != "cpu":
        return f"it runs on the CPU here, not on {device}"
    if bundle.task != "translate" or not isinstance(bundle.model, EncoderDecoder):
        return "it decodes translators with an encoder and a decoder"
    return ctranslate2_problem(bundle)


def _is_installed() -> bool:
    return importlib.util.find_spec("ctranslate2") is not None
