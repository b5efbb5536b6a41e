"""Attention of small untrained models of every task, shown in every format through `regard attend`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import models
from regard.bundle import Bundle, TaskName
from regard.cli.app import app
from regard.data.images import save_image
from regard.errors import UserError
from regard.models.record import AttentionRecord
from regard.search.decode import DecodeConfig
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import TokenizerPair
from tests.visualize.test_html_page import PageReader

WORDS = ListTokenizer("word", ["the", "green", "witch", "arrived", "la", "sorcière", "verte"])
SMALL = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 2}


def save_untrained(folder: Path, task: TaskName, config: dict[str, Any]) -> Path:
    torch.manual_seed(0)
    parsed = models.parse_config(config)
    decode = DecodeConfig.parse({"max_len": 4, "min_len": 3, "beam": 3}, where="test")
    pair = TokenizerPair(WORDS, WORDS)
    Bundle(models.build(parsed, WORDS.size).eval(), parsed, pair, ("en", "fr"), decode, task, 6).save(folder, "card")
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("models")
    image_encoder = {"kind": "image", "size": 16, "patch": 4, **SMALL}
    configs: dict[TaskName, dict[str, Any]] = {
        "translate": SMALL,
        "text": {"kind": "decoder", "decoder": {"kind": "transformer", **SMALL}},
        "classify": {"kind": "encoder", "encoder": {"kind": "transformer", **SMALL}},
        "caption": {"kind": "encoder-decoder", "encoder": image_encoder, "decoder": {"kind": "transformer", **SMALL}},
    }
    return {task: save_untrained(base / task, task, config) for task, config in configs.items()}


@pytest.fixture
def image_file(tmp_path: Path) -> Path:
    save_image(np.random.default_rng(0).integers(0, 256, (20, 16, 3)).astype(np.uint8), tmp_path / "image.png")
    return tmp_path / "image.png"


def attend(*arguments: object) -> None:
    app(["attend", *map(str, arguments), "--device", "cpu"], standalone_mode=False)


@pytest.mark.parametrize(
    ("task", "kind"), [("translate", "cross"), ("text", "decoder"), ("classify", "encoder"), ("caption", "cross")]
)
def test_attention_of_every_kind_of_model_in_every_format(
    folders: dict[str, Path], tmp_path: Path, image_file: Path, task: str, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    sentence = image_file if task == "caption" else "the green witch arrived"
    for name in ("it.png", "it.svg", "it.html", "it.json", "it.safetensors"):
        attend(folders[task], sentence, "--out", tmp_path / name)
        assert capfd.readouterr().out.splitlines()[-1] == str(tmp_path / name)
    data = PageReader((tmp_path / "it.html").read_text()).data
    record = AttentionRecord.from_json((tmp_path / "it.json").read_text())
    assert data["initial"]["kind"] == kind and (data["image"] is not None) == (task == "caption")
    assert data["initial"]["view"] == ("picture" if task == "caption" else "map")
    assert record.weights(kind).shape == tuple(data["kinds"][kind]["shape"])
    same = AttentionRecord.from_safetensors((tmp_path / "it.safetensors").read_bytes())
    assert np.allclose(same.weights(kind), record.weights(kind))
    attend(folders[task], sentence)
    assert len(capfd.readouterr().out.splitlines()) == 2 + len(record.axis_tokens(kind)[0])


def test_a_forced_target_and_lower_ranks(
    folders: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def attend_to_json(*arguments: object) -> tuple[str, AttentionRecord]:
        attend(folders["translate"], "the green witch", "--out", tmp_path / "it.json", *arguments)
        output = capfd.readouterr().out.splitlines()[0]
        return output, AttentionRecord.from_json((tmp_path / "it.json").read_text())

    output, record = attend_to_json("--target", "la sorcière verte")
    assert output == "la sorcière verte" and record.target_tokens == ("▁la", "▁sorcière", "▁verte", "</s>")
    ranked = [attend_to_json("--rank", rank) for rank in (1, 2, 3)]
    assert len({output for output, _ in ranked}) == 3
    second_output, second_record = ranked[1]
    forced = attend_to_json("--target", second_output)[1]
    assert np.allclose(forced.cross, second_record.cross, atol=1e-6)  # the record belongs to the printed output


def test_mistakes_are_refused_with_a_reason(folders: dict[str, Path], tmp_path: Path, image_file: Path) -> None:
    out = tmp_path / "it.png"
    translator, generator = folders["translate"], folders["text"]
    long = " ".join(["witch"] * 10_000)
    for arguments, message in (
        ((translator, " "), "text is empty"),
        ((translator, "the", "--kind", "self"), "encoder, decoder, cross"),
        ((translator, "the", "--layer", 2), "0 to 1"),
        ((translator, "the", "--view", "tree", "--out", out), "map, grid, links, picture"),
        ((translator, "the", "--view", "grid"), "needs --out"),
        ((translator, "the", "--view", "grid", "--head", 0, "--out", out), "leave --layer and --head out"),
        ((translator, "the", "--view", "picture", "--out", out), "caption"),
        ((translator, "the", "--rank", 2, "--target", "la"), "a rank selects"),
        ((translator, long, "--out", out), "10,000 tokens .* 128"),
        ((translator, long, "--words"), "10,000 tokens .* 128"),
        ((translator, long, "--out", tmp_path / "it.html"), "40 million"),
        ((translator, "the", "--out", tmp_path / "it.gif"), ".svg"),
        ((translator, "the", "--out", tmp_path / "none" / "it.png"), "folder that exists"),
        ((tmp_path, "the"), "no model found"),
        ((generator, "the", "--kind", "cross"), "no cross attention"),
        ((generator, "the", "--rank", 2), "rank"),
        ((folders["caption"], tmp_path / "none.png"), "cannot be read"),
    ):
        with pytest.raises(UserError, match=message):
            attend(*arguments)
    assert not out.exists()


def test_a_warning_says_that_the_input_was_cut(
    folders: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    attend(folders["text"], "the green witch arrived " * 2, "--out", tmp_path / "it.svg")
    assert "reads at most 6 tokens; the rest of the 8" in capfd.readouterr().err
    attend(folders["text"], "the green witch arrived", "--out", tmp_path / "it.svg")
    assert capfd.readouterr().err == ""
