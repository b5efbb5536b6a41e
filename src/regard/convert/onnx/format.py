"""Export to ONNX: `encoder.onnx` and `decoder.onnx` (one call of the decoder with its cache), and how to call them."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import onnxruntime
import onnxscript  # noqa: F401  # which torch.onnx loads later; it is missed here, with a clear message
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn

from regard.bundle import Bundle
from regard.convert.export_format import ExportOptions, Quantization
from regard.convert.onnx.graphs import DecoderGraph, EncoderGraph
from regard.convert.onnx.max_positions import max_positions
from regard.convert.onnx.model import DECODER, ENCODER, OnnxModel
from regard.convert.onnx.problem import onnx_problem
from regard.convert.onnx.usage import usage
from regard.convert.position_count import position_count
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.stack import StackDecoder
from regard.nn.attention import SelfAttention
from regard.text.vocab import BOS, EOS, MASK, NEVER_GENERATED, PAD, SEP, UNK

_AXES = {
    "input_ids": ("batch", "tokens"),
    "source_mask": ("batch", "source"),
    "source": (None, "batch", "source"),
    "cache": (None, "batch", "past"),
}
"""Which axes of an input may have any length"""


class OnnxFormat:
    """Files for ONNX Runtime."""

    name: ClassVar[str] = "onnx"
    title: ClassVar[str] = "ONNX"
    is_file: ClassVar[bool] = False
    quantizations: ClassVar[tuple[Quantization, ...]] = ("float32", "int8")
    has_shortlist: ClassVar[bool] = False

    def problem(self, bundle: Bundle, options: ExportOptions) -> str | None:
        return onnx_problem(bundle)

    def write(self, bundle: Bundle, folder: Path, options: ExportOptions) -> None:
        model = bundle.model
        assert isinstance(model, EncoderDecoder | DecoderOnly) and isinstance(model.decoder, StackDecoder)
        ids, mask = torch.full((2, 5), 1), torch.ones(2, 5, dtype=torch.int64)
        inputs = {"input_ids": ids[:, :2], "cache": _example_cache(model.decoder)}
        n_positions = position_count(bundle)
        with _quiet():
            if isinstance(model, EncoderDecoder):
                encoder = EncoderGraph(model, n_positions).eval()
                _write_graph(encoder, {"input_ids": ids, "source_mask": mask}, ["source"], folder / ENCODER)
                with torch.inference_mode(False), torch.no_grad():
                    inputs |= {"source": encoder(ids, mask), "source_mask": mask}
            _write_graph(DecoderGraph(model, n_positions).eval(), inputs, ["logits", "new_cache"], folder / DECODER)
            if options.quantization == "int8":
                for path in folder.glob("*.onnx"):
                    quantize_dynamic(path, path, weight_type=QuantType.QInt8)
        bundle.tokenizers.save(folder / "tokenizer")
        config = {**_describe(bundle, model, model.decoder), "graphs": _signatures(folder)}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    def open(self, folder: Path, bundle: Bundle) -> OnnxModel:
        return OnnxModel(folder)

    def usage(self, bundle: Bundle) -> str:
        return usage(bundle)


def _write_graph(graph: nn.Module, inputs: dict[str, Tensor], outputs: list[str], path: Path) -> None:
    """Trace a graph on example inputs. Axes of length 0 and 1 would become constants, so the examples are longer."""
    shapes = {name: {i: axis for i, axis in enumerate(_AXES[name]) if axis} for name in inputs}
    if "cache" not in inputs:  # the encoder's tokens are the source
        shapes["input_ids"] = {0: "batch", 1: "source"}
    import_module("torch._dynamo")  # torch.onnx.export would report Ctrl-C in this long import as an error of its own
    with torch.no_grad():
        program = torch.onnx.export(
            graph,
            kwargs=inputs,
            dynamic_shapes=shapes,
            input_names=list(inputs),
            output_names=outputs,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    program.save(path)


def _example_cache(decoder: StackDecoder) -> Tensor:
    """[L, 2, 3, C]"""
    return torch.zeros(len(decoder.layers), 2, 3, _cache_width(decoder))


def _cache_width(decoder: StackDecoder) -> int:
    return _self_attention(decoder).key_value.out_features


def _self_attention(decoder: StackDecoder) -> SelfAttention:
    """Return the attention of the first layer; all layers have the same shape."""
    attention = decoder.layers[0].mixer
    assert isinstance(attention, SelfAttention)
    return attention


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's messages about its own progress and deprecated functions from the user."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "root")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _describe(bundle: Bundle, model: EncoderDecoder | DecoderOnly, decoder: StackDecoder) -> dict[str, Any]:
    """Return what a program needs to know to call the graphs."""
    attention = _self_attention(decoder)
    return {
        "kind": "encoder-decoder" if isinstance(model, EncoderDecoder) else "decoder",
        "task": bundle.task,
        "languages": bundle.languages,
        "special_ids": {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS, "sep": SEP, "mask": MASK},
        "never_generated": NEVER_GENERATED,
        "vocab_size": bundle.tokenizers.tgt.size,
        "max_positions": max_positions(bundle),
        "n_layers": len(decoder.layers),
        "n_heads": attention.n_heads,
        "n_kv_heads": attention.n_kv_heads,
        "empty_cache": [len(decoder.layers), "batch", 0, _cache_width(decoder)],
    }


def _signatures(folder: Path) -> dict[str, Any]:
    """Return names and shapes of the inputs and outputs of each graph."""
    signatures = {}
    for path in sorted(folder.glob("*.onnx")):
        session = onnxruntime.InferenceSession(path)
        signatures[path.name] = {
            "inputs": {value.name: value.shape for value in session.get_inputs()},
            "outputs": {value.name: value.shape for value in session.get_outputs()},
        }
    return signatures
