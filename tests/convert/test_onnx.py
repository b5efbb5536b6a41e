"""ONNX export equals the model. bench/export_shapes.py exports all shapes, which takes minutes."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import regard
from regard.bundle import Bundle
from regard.convert.export import export
from regard.convert.onnx.graphs import DecoderGraph, EncoderGraph
from regard.convert.onnx.max_positions import max_positions
from regard.convert.onnx.problem import onnx_problem
from regard.data.batch import forced_batch
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.search.decode import DecodeConfig
from regard.text.vocab import BOS, EOS, PAD
from tests.convert.shapes import SHAPES, bundle_of, sentencepiece
from tests.serve.models import toy_captioner, toy_linear, toy_models

_N_POSITIONS = 20


def test_translator_equals_ours(tmp_path: Path) -> None:
    """Its README's program too. Outputs are longer than our table of positions, which ends at `max_len`."""
    shape = "Transformer, pre-norm, sinusoidal (the default)"
    bundle = replace(bundle_of(shape, sentencepiece(), n_layers=1, max_len=8), examples=('the "witch" sat',))
    with torch.no_grad():
        bundle.model.output.weight[EOS] = 0.0
    bundle.save(tmp_path / "model", "toy")
    result = export(tmp_path / "model", tmp_path / "onnx", "onnx")
    assert result.checked is not None and result.checked.differences == ()
    assert result.checked.max_log_prob_difference < 1e-5
    assert json.loads((tmp_path / "onnx" / "config.json").read_text())["max_positions"]["decoder"] == 1024
    sessions = [onnxruntime.InferenceSession(tmp_path / "onnx" / f"{name}coder.onnx") for name in ("en", "de")]
    _check_padded_batch(bundle, *(partial(_run_session, session) for session in sessions))
    program = (tmp_path / "onnx" / "README.md").read_text(encoding="utf-8").split("```")[1].removeprefix("python\n")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path / "onnx", capture_output=True, encoding="utf-8")
    [expected] = regard.load(tmp_path / "model", device="cpu").translate(['the "witch" sat'], beam=1, max_len=200)
    assert done.stdout.strip() == expected.text, done.stderr


def test_the_limits_of_the_graphs_are_ours() -> None:
    assert max_positions(bundle_of("learned positions")) == {"encoder": 64, "decoder": 64}
    assert max_positions(bundle_of("ALiBi")) == {"encoder": None, "decoder": None}
    bundle = bundle_of("decoder-only translator")
    long = replace(bundle, decode=DecodeConfig(max_source=2000))
    assert max_positions(long) == {"decoder": 3 * 2000 + 14}


@pytest.mark.parametrize("shape", SHAPES)
def test_graphs_equal_the_model_or_are_refused(shape: str) -> None:
    """Without the conversion to ONNX, which takes seconds."""
    bundle = bundle_of(shape)
    model = bundle.model
    if onnx_problem(bundle) is not None:
        assert not isinstance(model, EncoderDecoder | DecoderOnly) or not getattr(model.decoder, "reads_at_once", False)
    elif isinstance(model, EncoderDecoder):
        graphs = EncoderGraph(model, _N_POSITIONS), DecoderGraph(model, _N_POSITIONS)
        _check_padded_batch(bundle, *(partial(_run_graph, graph) for graph in graphs))
    else:
        assert isinstance(model, DecoderOnly)
        _check_padded_batch(bundle, None, partial(_run_graph, DecoderGraph(model, _N_POSITIONS)))


Run = Callable[[dict[str, np.ndarray]], list[np.ndarray]]


def _run_session(session: onnxruntime.InferenceSession, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return session.run(None, inputs)


def _run_graph(graph: nn.Module, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    with torch.inference_mode():
        outputs = graph(**{name: torch.from_numpy(value) for name, value in inputs.items()})
    return [output.numpy() for output in (outputs if isinstance(outputs, tuple) else (outputs,))]


def _check_padded_batch(bundle: Bundle, encode: Run | None, decode: Run) -> None:
    """Two sources of different lengths, and targets read in two parts, give our logits."""
    sources, targets = [[7, 8, 9, 10], [11]], [[12, 13, 14], [15, 16, 17]]
    with torch.inference_mode():
        expected = bundle.model(forced_batch(sources if encode else None, targets)).numpy()
    inputs: dict[str, np.ndarray] = {}
    if encode:
        ids = np.array([[*sources[0], EOS], [*sources[1], EOS, PAD, PAD, PAD]])
        mask = (ids != PAD).astype(np.int64)
        inputs = {"source": encode({"input_ids": ids, "source_mask": mask})[0], "source_mask": mask}
    read, logits = np.array([[BOS, *target] for target in targets]), []
    attention = bundle.model.decoder.layers[0].mixer
    cache = np.zeros((len(bundle.model.decoder.layers), 2, 0, attention.key_value.out_features), np.float32)
    for part in (read[:, :3], read[:, 3:]):
        new, cache = decode({"input_ids": part, "cache": cache, **inputs})
        logits.append(new)
    np.testing.assert_allclose(np.concatenate(logits, axis=1), expected, atol=1e-5)


def test_other_models_and_options_are_refused(tmp_path: Path) -> None:
    models = toy_models(tmp_path)
    for folder in (models["rnn"], toy_linear(tmp_path / "linear"), toy_captioner(tmp_path / "captioner")):
        with pytest.raises(UserError, match="not a Transformer"):
            export(folder, tmp_path / "onnx", "onnx")
    with pytest.raises(UserError, match="use float32 or int8"):
        export(models["toy"], tmp_path / "onnx", "onnx", quantization="float16")
    with pytest.raises(UserError, match="--shortlist"):
        export(models["toy"], tmp_path / "onnx", "onnx", shortlist=10)
    assert not (tmp_path / "onnx").exists()
