"""Files of other programs that are read in spite of their oddities."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.convert.import_model import read_model
from regard.convert.imports.model_folder import ModelFolder
from regard.convert.imports.tensor_files import Npz
from regard.text.vocab import BOS, EOS, PAD
from tests.convert.foreign_models import write_marian


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_may_have_any_order_of_bytes_and_numbers(dtype: str, order: str, tmp_path: Path) -> None:
    expected = np.arange(6.0).reshape(2, 3)
    np.savez(tmp_path / "model.npz", a=np.array(expected, dtype=dtype, order=order))  # type: ignore[call-overload]
    assert torch.equal(Npz(tmp_path / "model.npz").read("a").double(), torch.from_numpy(expected))


def test_special_tokens_that_the_config_leaves_out_come_from_the_vocabulary(tmp_path: Path) -> None:
    model = write_marian(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    for name in ("eos_token_id", "pad_token_id"):
        del config[name]
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    [id_map] = read_model(ModelFolder(tmp_path / "model")).weights.maps  # type: ignore[attr-defined]
    pad = model.config.pad_token_id
    assert [id_map.inputs[i] for i in (EOS, PAD, BOS)] == [model.config.eos_token_id, pad, pad]


def test_tokens_of_vocab_yml_are_read_as_yaml(tmp_path: Path) -> None:
    from regard.convert.imports.marian import _read_vocabulary

    lines = ["</s>: 0", '"▁a": 1', r'"\u2581b": 2', r'"\x41": 3', "'it''s': 4", '":": 5', '"\'": 6']
    (tmp_path / "v.yml").write_text("\n".join(lines))
    assert [*_read_vocabulary(ModelFolder(tmp_path), "v.yml")] == ["</s>", "▁a", "▁b", "A", "it's", ":", "'"]
