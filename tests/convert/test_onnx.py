"""ONNX export: the graphs equal the model. bench/export_shapes.py goes through all shapes, which takes minutes."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import regard
from regard.bundle import Bundle
from regard.convert.export import export
from regard.data.batch import forced_batch
from regard.errors import UserError
from regard.text.vocab import BOS, EOS, PAD
from tests.convert.shapes import bundle_of, sentencepiece
from tests.serve.models import STACK, save_toy, toy_captioner, toy_linear, toy_models


def test_translator_equals_ours(tmp_path: Path) -> None:
    """Its README's program too."""
    bundle = replace(bundle_of("ALiBi", sentencepiece(), n_layers=1), examples=('the "witch" sat',))
    bundle.save(tmp_path / "model", "toy")
    result = export(tmp_path / "model", tmp_path / "onnx", "onnx")
    assert result.checked is not None and result.checked.differences == ()
    assert result.checked.max_log_prob_difference < 1e-5
    _check_padded_batch(tmp_path / "onnx", bundle)
    program = (tmp_path / "onnx" / "README.md").read_text(encoding="utf-8").split("```")[1].removeprefix("python\n")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path / "onnx", capture_output=True, encoding="utf-8")
    [expected] = regard.load(tmp_path / "model", device="cpu").translate(['the "witch" sat'], beam=1, max_len=200)
    assert done.stdout.strip() == expected.text, done.stderr


def _check_padded_batch(folder: Path, bundle: Bundle) -> None:
    """Two sources of different lengths, and targets read in two parts, give our logits."""
    sources, targets = [[7, 8, 9, 10], [11]], [[12, 13, 14], [15, 16, 17]]
    batch = forced_batch(sources, targets)
    with torch.inference_mode():
        expected = bundle.model(batch).numpy()
    ids = np.array([[*sources[0], EOS], [*sources[1], EOS, PAD, PAD, PAD]])
    mask = (ids != PAD).astype(np.int64)
    encoder, decoder = (onnxruntime.InferenceSession(folder / f"{name}coder.onnx") for name in ("en", "de"))
    [source] = encoder.run(None, {"input_ids": ids, "source_mask": mask})
    read = np.array([[BOS, *target] for target in targets])
    cache, logits = np.zeros((len(source), 2, 0, source.shape[-1]), np.float32), []
    for part in (read[:, :3], read[:, 3:]):
        inputs = {"input_ids": part, "cache": cache, "source": source, "source_mask": mask}
        new, cache = decoder.run(None, inputs)
        logits.append(new)
    np.testing.assert_allclose(np.concatenate(logits, axis=1), expected, atol=1e-5)


def test_language_model_equals_ours(tmp_path: Path) -> None:
    options = {
        "kind": "decoder",
        "decoder": {**STACK, "n_layers": 1, "positions": "rotary", "n_kv_heads": 2, "norm_kind": "rms"},
    }
    result = export(save_toy(tmp_path / "model", options, "text"), tmp_path / "onnx", "onnx")
    assert result.checked is not None and result.checked.differences == ()
    assert result.checked.max_log_prob_difference < 1e-5
    assert not (tmp_path / "onnx" / "encoder.onnx").exists()


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
