"""Folders that cannot be imported: one line, exit code 2, and nothing is written."""

import io
import json
import re
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.cli import main
from tests.convert.foreign_models import byte_level, write_bert, write_llama, write_marian, write_marian_npz

Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model of each kind, in folders of these names"""
    root = tmp_path_factory.mktemp("models")
    write_marian(root / "marian")
    write_marian_npz(root / "npz")
    write_bert(root / "bert")
    write_llama(root / "llama", byte_level(), shards=True)
    return root


def edit_json(name: str, **changes: Any) -> Change:
    def change(folder: Path) -> None:
        tree = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**tree, **changes}))

    return change


def edit_tensors(**changes: torch.Tensor | None) -> Change:
    """Replace tensors, or remove those that are None. Dots in names are written as two underscores."""

    def change(folder: Path) -> None:
        named = {name.replace("__", "."): tensor for name, tensor in changes.items()}
        tensors = {**load_file(folder / "model.safetensors"), **named}
        save_file({n: t for n, t in tensors.items() if t is not None}, folder / "model.safetensors")

    return change


def write(name: str, content: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content)


def remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def truncate(name: str) -> Change:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-100])


def link_out(name: str) -> Change:
    def change(folder: Path) -> None:
        outside = folder.parent / "outside"
        shutil.move(folder / name, outside)
        (folder / name).symlink_to(outside)

    return change


def link_to_itself(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(name)

    return change


def edit_bpe(**changes: Any) -> Change:
    def change(folder: Path) -> None:
        model = json.loads((folder / "tokenizer.json").read_text())["model"]
        edit_json("tokenizer.json", model={**model, **changes})(folder)

    return change


def edit_options(text: str) -> Change:
    """Replace the options of a Marian model."""
    return replace_member("special:model.yml", npy(np.frombuffer(text.encode(), dtype=np.int8)))


def replace_member(name: str, array: bytes) -> Change:
    def change(folder: Path) -> None:
        with zipfile.ZipFile(folder / "model.npz") as file:
            members = {**{member: file.read(member) for member in file.namelist()}, f"{name}.npy": array}
        with zipfile.ZipFile(folder / "model.npz", "w") as file:
            for member, content in members.items():
                file.writestr(member, content)

    return change


def only_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def add_member(name: str, array: bytes) -> Change:
    def change(folder: Path) -> None:
        with zipfile.ZipFile(folder / "model.npz", "a", zipfile.ZIP_DEFLATED) as file:
            file.writestr(f"{name}.npy", array)

    return change


def npy(array: "np.ndarray[Any, Any]") -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=True)
    return content.getvalue()


def header(shape: str) -> bytes:
    """An array that has this shape, but hardly any content"""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text.encode() + bytes(8)


MERGED_ALIASES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40))
"""YAML whose last mapping is merged from 2^39"""
HUGE_HEADER = (2**60).to_bytes(8, "little") + b"{}"
SHARDS = "model.safetensors.index.json"
VOCAB = "opus.spm32k.vocab.yml"
CASES: dict[str, tuple[str, Change, str]] = {
    "truncated weights": ("marian", truncate("model.safetensors"), "not a complete safetensors file"),
    "a header of 2^60 bytes": ("marian", write("model.safetensors", HUGE_HEADER), "not a complete safetensors file"),
    "another width": ("marian", edit_json("config.json", d_model=20), "has shape"),
    "too few layers": ("marian", edit_json("config.json", encoder_layers=1), "has no place in this kind of model"),
    "too many layers": ("marian", edit_json("config.json", decoder_layers=2), "'model.decoder.layers.1"),
    "billions of layers": ("marian", edit_json("config.json", encoder_layers=10**9), "n_layers must be at most 1,000"),
    "a huge width": ("marian", edit_json("config.json", d_model=2**62), "d_model must be at most 65,536"),
    "a huge vocabulary": ("marian", edit_json("config.json", vocab_size=2**61), "vocab"),
    "a vocabulary of millions": ("marian", edit_json("config.json", vocab_size=4_000_000), "with that many rows"),
    "no heads": ("marian", edit_json("config.json", encoder_attention_heads=0), "n_heads must be at least 1"),
    "a width in words": ("marian", edit_json("config.json", d_model="wide"), "'d_model' is not of type int"),
    "an unknown activation": ("marian", edit_json("config.json", activation_function="quick"), "'activation_function'"),
    "a model of regard": (
        "marian",
        lambda folder: (folder / "manifest.json").write_text("{}"),
        "is a model directory of regard already",
    ),
    "another kind of model": ("marian", edit_json("config.json", model_type="t5"), "models of type 't5'"),
    "config.json is a list": ("marian", write("config.json", b"[1, 2]"), "not a JSON object"),
    "config.json is not JSON": ("marian", write("config.json", b"{" * 10_000), "not a JSON object"),
    "a large config.json": ("marian", write("config.json", b" " * 5_000_000), "larger than 4 MiB"),
    "no config.json": ("marian", remove("config.json"), "no config.json and no .npz"),
    "no weights": ("marian", remove("model.safetensors"), "there is no model.safetensors"),
    "a pickle": ("marian", only_pickle, "a pickle, .* save_pretrained"),
    "a tensor of integers": (
        "marian",
        edit_tensors(model__encoder__layers__0__fc1__bias=torch.zeros(24, dtype=torch.int64)),
        "has type torch.int64",
    ),
    "no SentencePiece model": ("marian", remove("source.spm"), "there is no source.spm"),
    "SentencePiece damaged": ("marian", write("target.spm", b"abc"), "target.spm: not a SentencePiece model"),
    "an empty vocabulary": ("marian", write("vocab.json", b"{}"), "has no token <unk>"),
    "ids past the table": ("marian", edit_json("vocab.json", **{"▁new": 9999}), "the id of token '▁new'"),
    "ids that are no numbers": ("marian", edit_json("vocab.json", **{"▁new": "x"}), "the id of token '▁new'"),
    "two tokens with one id": ("marian", edit_json("vocab.json", **{"▁new": 3}), "two tokens have the same id"),
    "a link out of the folder": ("marian", link_out("source.spm"), "leads out of the folder"),
    "weights outside": ("marian", link_out("model.safetensors"), "leads out of the folder"),
    "the start is no token": ("marian", edit_json("config.json", decoder_start_token_id=-5), "not the id of a token"),
    "a link to itself": ("marian", link_to_itself("vocab.json"), "cannot be the path of a file"),
    "half a character": ("marian", edit_json("vocab.json", **{"\ud800": 1}), "not a JSON object"),
    "a line feed in a name": ("marian", edit_tensors(**{"a\nb": torch.zeros(1)}), r"tensor 'a\\nb' has no place"),
    "a merge of unknown symbols": (
        "llama",
        edit_bpe(merges=[["x", "\u00e9"]]),
        "merge of 'x' and 'é' is not in the voc",
    ),
    "the unknown token is a list": ("llama", edit_bpe(unk_token=[]), "not a tokenizer"),
    "a shard with a long name": (
        "llama",
        edit_json(SHARDS, weight_map={"a": f"{300 * 'x'}.safetensors"}),
        "not the name of a safetensors file",
    ),
    "shards elsewhere": (
        "llama",
        edit_json(SHARDS, weight_map={"a": "../../x.safetensors"}),
        "not the name of a safetensors file in this folder",
    ),
    "a shard is missing": ("llama", edit_json(SHARDS, weight_map={"a": "no.safetensors"}), "no.safetensors: missing"),
    "no shards": ("llama", edit_json(SHARDS, weight_map={}), "names no files"),
    "no tokenizer": ("llama", remove("tokenizer.json"), "there is no tokenizer.json"),
    "a tokenizer of another type": ("llama", edit_json("tokenizer.json", model={"type": "Unigram"}), "only BPE"),
    "a tokenizer without a model": ("llama", write("tokenizer.json", b'{"model": 3}'), "not a tokenizer"),
    "another pre-tokenizer": (
        "llama",
        edit_json("tokenizer.json", pre_tokenizer={"type": "Whitespace"}),
        "splits texts in a way that is not known here",
    ),
    "other rotary positions": (
        "llama",
        edit_json("config.json", rope_parameters={"rope_type": "yarn", "rope_theta": 1e4}),
        "type 'yarn'",
    ),
    "another gate": ("llama", edit_json("config.json", hidden_act="gelu"), "'hidden_act' is 'gelu'"),
    "no vocabulary": ("bert", remove("tokenizer.json"), "no tokenizer.json and no vocab.txt"),
    "other positions": ("bert", edit_json("config.json", position_embedding_type="relative_key"), "only 'absolute'"),
    "an array of objects": (
        "npz",
        add_member("Wx", npy(np.array([{}], dtype=object))),
        "'Wx' cannot be read .*not that of numbers",
    ),
    "a zip bomb": ("npz", add_member("Wx", npy(np.zeros(10**8, dtype=np.int8))), "unpacks to far more"),
    "an array without content": ("npz", add_member("Wx", npy(np.zeros((9, 9)))[:-80]), "no place in this kind"),
    "a short embedding table": ("npz", truncate("model.npz"), "not a complete .npz file"),
    "no zip file": ("npz", write("model.npz", b"PK\x03\x04"), "not a complete .npz file"),
    "a shape of 2^64": (
        "npz",
        replace_member("special:model.yml", header(f"({2**32}, {2**32})")),
        "not that of its content",
    ),
    "a table of 10^9 rows": ("npz", replace_member("Wemb", header(f"({10**9}, 16)")), "not that of its content"),
    "an empty table": ("npz", replace_member("Wemb", header(f"({10**9}, 0)")), "not that of its content"),
    "a negative shape": ("npz", add_member("Wx", header("(-1,)")), "'Wx' cannot be read"),
    "a header that does not end": ("npz", add_member("Wx", header("((((((")), "'Wx' cannot be read"),
    "numbers of 16 bytes": ("npz", add_member("Wx", npy(np.zeros(2, dtype=np.longdouble))), "not that of numbers"),
    "options that expand": ("npz", edit_options(MERGED_ALIASES), "not valid YAML"),
    "options in many brackets": ("npz", edit_options(60_000 * "["), "not valid YAML"),
    "options of a wrong type": ("npz", edit_options("type: !!int ''"), "not valid YAML"),
    "a layer with a long number": ("npz", add_member(f"encoder_l{5000 * '1'}_Wo", npy(np.zeros(2))), "has no place"),
    "a null byte in a name": ("npz", write("decoder.yml", b'models: ["a\\0b"]'), "cannot be the path of a file"),
    "an id of many digits": ("npz", write(VOCAB, b"a: " + 5000 * b"1"), "line 1 is not a token and its id"),
    "two models": ("npz", write("other.npz", b""), "has 2 .npz files"),
    "no ids": ("npz", write(VOCAB, b"a\nb\n"), "line 1 is not a token and its id"),
    "no vocab.yml": ("npz", remove(VOCAB), "has 0 vocabularies"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_damaged_or_hostile_folder_is_refused(
    case: str, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, change, message = CASES[case]
    shutil.copytree(models / kind, tmp_path / "model")
    change(tmp_path / "model")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(sys, "argv", ["regard", "import", str(tmp_path / "model"), str(tmp_path / "out")])
    with pytest.raises(SystemExit) as error:
        main()
    [line] = capsys.readouterr().err.strip().splitlines()
    assert error.value.code == 2, line
    assert re.search(message, line), line
    assert len(line) < 400
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written"
