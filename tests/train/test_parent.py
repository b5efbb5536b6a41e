"""Training that starts from another model: what is taken over, what is refused, and what is trained."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard.alignment.from_attention import Aligner
from regard.bundle import Bundle, save_alignment
from regard.errors import UserError
from regard.models.weights import weights_of
from regard.text.direction import Directions
from regard.train.adapter import merge_adapter
from regard.train.auto_recipe import AutoRecipe
from regard.train.average import average_run
from regard.train.parent import transfer_warning
from regard.train.recipe import load_recipe
from regard.train.run import Run, train
from tests.conftest import write_pairs

SMALL = ("model.n_layers=1", "model.d_model=16", "model.d_ff=16", "model.n_heads=2", "tokenizer.vocab_size=330")
SHORT = ("train.steps=4", "valid.every=2", "batch.tokens=128", "batch.workers=0", "valid.sentences=2")
LORA = ("train.lora.rank=2",)
NOUNS = [(x, y) for x in ("cat", "dog", "cow") for y in ("bee", "ant", "owl")]
PAIRS = [(f"the {x} sees a {y}", f"das {x} sieht ein {y}") for x, y in NOUNS]
MORE = [(f"the {x} hears a {y}", f"das {x} hört ein {y}") for x, y in NOUNS]
CYRILLIC = [(source, f"тут {a * 2} и {b}") for (source, _), a, b in zip(PAIRS, "абвгдежзи", "клмнопрст", strict=True)]


def make_run(folder: Path, name: str, pairs: list[tuple[str, str]], *settings: str) -> Run:
    files = write_pairs(folder / f"{name}-data", "train", pairs * 4)
    recipe = load_recipe("tiny", settings=(*SHORT, "data.drop_duplicates=false", *settings))
    return Run(recipe, files, None, folder / name, device="cpu", languages=("en", "de"))


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = make_run(tmp_path_factory.mktemp("parent"), "parent", PAIRS, *SMALL)
    return train(run).folder


def child(folder: Path, parent: Path, *settings: str, name: str = "child", pairs: list[tuple[str, str]] = MORE) -> Run:
    model = [option for option in SMALL if option.startswith("model.")]
    return make_run(folder, name, pairs, *model, f"train.init={parent}", *settings)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return weights_of(Bundle.load(folder).model)


def assert_equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name


def test_the_tokenizer_is_kept_if_it_suits_the_text(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizers = Bundle.load(parent).tokenizers
    train(run := child(tmp_path, parent, pairs=PAIRS))
    printed = capsys.readouterr().err
    assert "which suits this text" in printed and "keep their embeddings" not in printed
    assert Bundle.load(run.out).tokenizers.fingerprint == tokenizers.fingerprint
    assert f"started from | {parent.name} (en → de)" in (run.out / "README.md").read_text()
    train(run := child(tmp_path, parent, "train.init_tokenizer=new", name="new", pairs=PAIRS[:-1]))
    printed = capsys.readouterr().err
    assert "train.init_tokenizer=new" in printed and "pieces keep their embeddings" in printed
    assert Bundle.load(run.out).tokenizers.fingerprint != tokenizers.fingerprint


def test_another_script_gets_a_new_tokenizer(parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(run := child(tmp_path, parent, pairs=CYRILLIC))
    assert "times as many pieces on the target side" in capsys.readouterr().err
    assert "ут" in "".join(Bundle.load(run.out).tokenizers.tgt.tokens(range(330)))
    train(child(tmp_path, parent, "train.init_tokenizer=keep", name="kept", pairs=CYRILLIC))
    assert f"that of {parent}" in capsys.readouterr().err
    train(child(tmp_path, parent, *LORA, name="lora", pairs=CYRILLIC))
    assert "new, because" not in capsys.readouterr().err, "adapters cannot learn new pieces"


def test_a_tag_that_the_tokenizer_would_split_needs_a_new_one(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tagged = [(f">>fra<< {source}", target) for source, target in PAIRS]
    run = child(tmp_path, parent, pairs=tagged)
    options = run.recipe.tokenizer.model_copy(update={"symbols": (">>fra<<",)})
    train(replace(run, recipe=run.recipe.model_copy(update={"tokenizer": options})))
    assert "has no piece >>fra<<" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["model.n_layers=2"], r"model\.n_layers is 2, but 1 in --init .*; leave it out"),
        (["model.norm=post"], r"model\.norm is post, but pre"),
        (["model.kind=decoder"], r"model\.kind is decoder, but transformer"),
        (["model.encoder.n_layers=1"], r"model\.encoder\.n_layers is not an option of the model"),
        (["train.lora.rank=2", "train.init_tokenizer=new"], "lora trains no embeddings"),
        (["train.freeze=[embeddings]", "train.init_tokenizer=new"], "must be trained"),
    ],
)
def test_options_that_contradict_the_parent_are_refused(parent: Path, settings: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        AutoRecipe(settings=[f"train.init={parent}", *settings]).load()


def test_a_recipe_of_another_model_is_refused(parent: Path) -> None:
    settings = [f"train.init={parent}"]
    with pytest.raises(UserError, match=r"--recipe: model\.\w+ is .* leave out --recipe or --init"):
        load_recipe("small", settings=settings)
    with pytest.raises(UserError, match=r"--recipe: model\.kind is encoder-decoder"):
        load_recipe("rnn-dot", settings=settings)
    with pytest.raises(UserError, match="a model for task translate cannot be the start of one for task text"):
        load_recipe("gpt", settings=settings)
    assert AutoRecipe(settings=settings).load().model.d_model == 16  # type: ignore[union-attr]
    recipe = AutoRecipe(settings=[*settings, "model.dropout=0.4", "model.attention_dropout=0.2"]).load()
    assert recipe.model.dropout == 0.4  # type: ignore[union-attr]


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_frozen_parts_stay_as_they_were(parent: Path, tmp_path: Path, optimizer: str) -> None:
    settings = (f"train.optimizer={optimizer}", "train.weight_decay=0.1", "train.ema=0.9")
    run = child(tmp_path, parent, *settings, "train.freeze=[encoder, embeddings]")
    train(run)
    before, after = weights(parent), weights(run.out)
    frozen = {name for name in before if name.startswith("encoder.")}
    assert {name for name, tensor in after.items() if torch.equal(tensor, before[name])} == frozen
    saved = load_file(next((run.out / "checkpoints").glob("step-*")) / "state.safetensors")
    assert not any(name in key for key in saved for name in frozen), "neither weights nor optimizer state"
    average_run(run.out, "last", 1, tmp_path / "averaged")
    assert weights(tmp_path / "averaged").keys() == after.keys()


@pytest.mark.parametrize(
    "settings", [("train.freeze=[encoder]",), LORA, (*LORA, "train.freeze=[decoder]"), ("train.init_tokenizer=new",)]
)
def test_a_resumed_run_needs_no_parent_and_gives_the_same_bits(
    parent: Path, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    moved = shutil.copytree(parent, tmp_path / "moved")
    settings = (*settings, "train.ema=0.9", "model.dropout=0.2")
    run = child(tmp_path, moved, *settings)
    train(run)
    files = {name: (run.out / name).read_bytes() for name in ("model.safetensors", "words.tsv", "README.md")}
    (run.out / "model.safetensors").unlink()
    shutil.rmtree(max((run.out / "checkpoints").glob("step-*")))
    shutil.rmtree(moved)
    train(replace(child(tmp_path, moved, *settings), resume=True))
    assert files == {name: (run.out / name).read_bytes() for name in files}


def test_what_was_kept_of_the_parent_is_made_again_if_it_is_damaged(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = child(tmp_path, parent, "train.freeze=[encoder]")
    train(run)
    expected = weights(run.out)
    (run.out / "parent" / "frozen.safetensors").write_bytes(b"x")
    train(replace(run, resume=True))
    assert "parent: damaged, so it is made again" in capsys.readouterr().err
    assert_equal(weights(run.out), expected)


def test_a_resumed_run_has_the_model_options_of_its_parent(parent: Path, tmp_path: Path) -> None:
    """The recipe has other ones, and the parent is gone."""
    moved = shutil.copytree(parent, tmp_path / "moved")
    run = child(tmp_path, moved)
    train(run)
    shutil.rmtree(moved)
    recipe = load_recipe("tiny", settings=(*SHORT, "data.drop_duplicates=false", f"train.init={moved}"))
    assert recipe.model != run.recipe.model
    assert train(replace(run, recipe=recipe, resume=True)).progress.step == 4


def test_the_adapter_of_a_part_of_the_model_and_the_settings_of_the_parent(parent: Path, tmp_path: Path) -> None:
    aligned = shutil.copytree(parent, tmp_path / "aligned")
    save_alignment(aligned, Aligner(layer=0, head=1, threshold=0.5))
    run = child(tmp_path, aligned, *LORA, "train.freeze=[encoder]", "train.lr=0.1")
    train(run)
    assert Bundle.load(run.out).alignment == Aligner(layer=0, head=1, threshold=0.5)
    merge_adapter(aligned, run.out, tmp_path / "merged")
    assert_equal(weights(tmp_path / "merged"), weights(run.out))
    before, after = weights(parent), weights(run.out)
    changed = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert changed and all(name.startswith("decoder.") for name in changed)


def test_an_adapter_is_small_and_can_be_merged_later(parent: Path, tmp_path: Path) -> None:
    run = child(tmp_path, parent, *LORA, "train.lora.targets=[attention]", "train.lr=0.1")
    train(run)
    assert not torch.equal(*(m["decoder.layers.0.mixer.query.weight"] for m in (weights(parent), weights(run.out))))
    merge_adapter(parent, run.out, tmp_path / "merged")
    for path in (tmp_path / "merged").rglob("*"):
        if path.is_file() and path.name != "manifest.json":
            assert path.read_bytes() == (run.out / path.relative_to(tmp_path / "merged")).read_bytes(), path
    merge_adapter(parent, run.out / "adapter", tmp_path / "again")
    assert_equal(weights(tmp_path / "again"), weights(run.out))
    adapter, whole = (run.out / name for name in ("adapter/adapter.safetensors", "model.safetensors"))
    assert adapter.stat().st_size < whole.stat().st_size
    with pytest.raises(UserError, match="not the model that the adapter was trained for, which was named parent"):
        merge_adapter(run.out, run.out, tmp_path / "wrong")
    with pytest.raises(UserError, match="no adapter found"):
        merge_adapter(parent, parent, tmp_path / "wrong")
    adapter.write_bytes(adapter.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"adapter\.safetensors"):
        merge_adapter(parent, run.out, tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


def test_the_mean_of_adapters_is_merged(parent: Path, tmp_path: Path) -> None:
    run = child(tmp_path, parent, *LORA, "train.average=none", "train.lr=0.1")
    train(run)
    best = weights(run.out)
    average_run(run.out, "best", 1, tmp_path / "one")
    assert_equal(weights(tmp_path / "one"), best)
    average_run(run.out, "last", 2, tmp_path / "two")
    assert weights(tmp_path / "two").keys() == best.keys()


@pytest.mark.parametrize(
    ("settings", "pairs", "warning"),
    [
        (["train.lr=6e-3"], [("en", "de")], "try --set train.lr=0.0006"),
        (["train.lr=6e-3"], [("eng", "deu")], "try --set train.lr=0.0006"),
        (["train.lr=6e-4"], [("en", "de")], ""),
        (["train.lr=6e-3", *LORA], [("en", "de")], ""),
        (["train.lr=6e-3"], [("en", "fr")], ""),
        (["train.lr=6e-3"], [("en", "de"), ("en", "fr")], ""),
        (["train.lr=6e-4", *LORA], [("en", "fr")], "LoRA trains no embeddings"),
        (["train.lr=6e-3"], [("src", "tgt")], "try --set"),
    ],
)
def test_what_is_unlikely_to_work_is_a_warning(
    parent: Path, settings: list[str], pairs: list[tuple[str, str]], warning: str
) -> None:
    config = AutoRecipe(settings=[f"train.init={parent}", *settings]).load().train
    printed = transfer_warning(config, 16, Directions.of(pairs))
    assert warning in printed and bool(warning) == bool(printed)


def test_words_of_the_parent_are_known_in_the_same_language(parent: Path, tmp_path: Path) -> None:
    train(run := child(tmp_path, parent))
    words = Bundle.load(run.out).words
    assert words and "hears" in words and "sees" in words
    other = replace(child(tmp_path, parent, name="other"), languages=("nl", "de"))
    train(other)
    words = Bundle.load(other.out).words
    assert words and "hears" in words and "sees" not in words
