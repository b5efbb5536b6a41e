"""All tasks except translation, on the command line."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import regard as library
from tests.cli.command import regard

TEXT = "the cat sat on the mat.\nthe dog sat on the log.\n\n" * 120
SMALL_DECODER = (
    "model.decoder.n_layers=1",
    "model.decoder.d_model=32",
    "model.decoder.d_ff=64",
    "model.decoder.n_heads=2",
)


def settings(*options: str) -> list[str]:
    return [part for option in options for part in ("--set", option)]


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A character-level model trained on a repetitive text, and the text."""
    folder = tmp_path_factory.mktemp("text")
    text = folder / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    out = folder / "run"
    options = settings(*SMALL_DECODER, "train.steps=150", "valid.every=75", "batch.tokens=512", "train.lr=1e-2")
    done = regard("train", text, "--recipe", "gpt-cpu", "--out", out, *options)
    assert done.returncode == 0, done.stderr
    assert "bits per byte" in done.stderr and "regard generate" in done.stdout
    return out, text


def test_a_prompt_is_continued_and_the_same_seed_gives_the_same_text(language_model: tuple[Path, Path]) -> None:
    run, _ = language_model
    arguments = ("generate", run, "--prompt", "the cat", "--max-new-tokens", "60", "--temperature", "0.2")
    first, again = regard(*arguments).stdout, regard(*arguments).stdout
    assert first == again and first.startswith("the cat sat on the ")
    assert len(first) == len("the cat") + 60 + 1
    assert regard(*arguments, "--seed", "2", "--temperature", "2").stdout != first
    model = library.load(run)
    assert isinstance(model, library.Generator)
    drawn = model.generate("the cat", max_new_tokens=60, temperature=0.2, seed=1)
    assert drawn + "\n" == first
    assert "".join(model.stream("the cat", 60, temperature=0.2)) == drawn.removeprefix("the cat")
    likely, unlikely = model.score(["the cat sat on the mat.", "tac eht tas no eht tam."])
    assert likely > unlikely
    proposed = model.next("the cat sat on the ", k=3)
    assert proposed[0][0] == "m" and proposed[0][1] > 0.5 and sum(p for _, p in proposed) <= 1
    shown = regard("generate", run, "--prompt", "the cat sat on the ", "--next", "2").stdout.splitlines()
    assert shown[0] == f"{proposed[0][1]:.4f}\tm" and len(shown) == 2
    beam = regard(
        "generate", run, "--prompt", "the dog", "--beam", "3", "--n-best", "2", "--max-new-tokens", "9"
    ).stdout
    assert beam.count("\tthe dog") == 2


def test_generated_text_can_be_longer_than_the_context(language_model: tuple[Path, Path]) -> None:
    model = library.load(language_model[0])
    text = model.generate("the cat", max_new_tokens=200, temperature=0.2)  # the context is 64
    assert len(text) == 207 and " on the " in text[150:]


def test_perplexity_includes_every_token_once_and_more_context_lowers_it(
    language_model: tuple[Path, Path], tmp_path: Path
) -> None:
    run, _ = language_model
    test = tmp_path / "test.txt"
    test.write_text(TEXT[:1000])

    def evaluated(*more: str) -> dict[str, float]:
        done = regard("evaluate", run, test, "--json", *more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    apart, sliding = evaluated(), evaluated("--stride", "16")
    assert apart["tokens"] == 1001, "EOS counts too"
    assert apart["perplexity"] == pytest.approx(math.exp(apart["loss"]))
    assert apart["bits_per_byte"] == pytest.approx(apart["loss"] * 1001 / math.log(2) / 1000)
    assert sliding["loss"] < apart["loss"]


def test_classification(tmp_path: Path) -> None:
    tsv = tmp_path / "labels.tsv"
    rows = [
        f"the {a} is {b}\t{'good' if b in ('fine', 'nice') else 'not so good'}"
        for a in ("cat", "dog", "cow", "hen", "fish", "duck")
        for b in ("fine", "nice", "bad", "poor")
    ]
    tsv.write_text("\n".join(rows * 4) + "\n")
    encoder = ("n_layers=1", "d_model=32", "d_ff=64", "n_heads=2", "dropout=0.0")
    options = settings(
        *(f"model.encoder.{o}" for o in encoder),
        "train.steps=60",
        "valid.every=30",
        "train.lr=1e-2",
        "tokenizer.kind=word",
        "batch.tokens=512",
    )
    out = tmp_path / "run"
    done = regard("train", tsv, "--recipe", "classifier", "--out", out, *options)
    assert done.returncode == 0, done.stderr
    labels = regard("classify", out, stdin=b"the fox is nice\nthe fox is bad\n").stdout.splitlines()
    assert labels == ["good", "not so good"]
    [row] = [
        json.loads(line) for line in regard("classify", out, "--text", "the hen is bad", "--json").stdout.splitlines()
    ]
    assert row["label"] == "not so good" and row["probabilities"]["not so good"] > 0.5
    scores = json.loads(regard("evaluate", out, tsv, "--json").stdout)
    assert scores["accuracy"] == 100 and scores["f1"] == 100
    vectors = [json.loads(line) for line in regard("embed", out, stdin=b"the cat\nthe cat\n\n").stdout.splitlines()]
    assert len(vectors) == 3 and len(vectors[0]) == 32 and vectors[0] == vectors[1] != vectors[2]


def test_captioning(tmp_path: Path) -> None:
    data, out = tmp_path / "shapes", tmp_path / "run"
    assert regard("data", "shapes", data, "--size", "120").returncode == 0
    parts = [f"model.{part}.{o}" for part in ("encoder", "decoder") for o in ("n_layers=1", "d_model=32", "d_ff=64")]
    options = settings(*parts, "train.steps=20", "valid.every=20", "batch.tokens=256", "valid.sentences=20")
    done = regard(
        "train", data / "train.tsv", "--valid", data / "valid.tsv", "--recipe", "caption", "--out", out, *options
    )
    assert done.returncode == 0, done.stderr
    image = sorted((data / "pictures").glob("test-*.png"))[0]
    text = regard("caption", out, image).stdout.strip()
    model = library.load(out)
    assert isinstance(model, library.Captioner)
    [caption] = model.caption([image], attention=True)
    assert caption.text == text
    assert caption.regions is not None and caption.regions.shape == (1, 4, len(caption.tokens) + 1, 6, 6)
    np.testing.assert_allclose(caption.regions.sum((-2, -1)), 1.0, atol=1e-5)
    evaluated = regard("evaluate", out, data / "test.tsv", "--regions", data / "regions.jsonl", "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    values = json.loads(evaluated.stdout)
    assert 0 < values["attention_on_region"] <= values["attention_best_head"] <= 100


def test_user_errors_are_one_line(language_model: tuple[Path, Path], tmp_path: Path) -> None:
    run, text = language_model
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\n")
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    for arguments, words in (
        (("translate", run, "--text", "x"), "not a translator"),
        (("classify", run, "--text", "x"), "not a classifier"),
        (("caption", run, text), "not a captioner"),
        (("evaluate", run, tmp_path / "none.txt"), "no such file"),
        (("evaluate", run, text, "--stride", "65"), "stride of 65"),
        (("generate", run, "--temperature", "0"), "temperature"),
        (
            ("train", text, "--recipe", "gpt-cpu", "--out", tmp_path / "a", "--set", "model.decoder.max_len=32"),
            "max_len",
        ),
        (("train", empty, "--recipe", "gpt-cpu", "--out", tmp_path / "b"), "no text"),
        (("train", text, "--recipe", "tiny", "--out", tmp_path / "c"), "two line-aligned files"),
        (("train", pairs, "--recipe", "caption", "--out", tmp_path / "d"), "no image"),
        (("train", text, "--recipe", "gpt-cpu", "--out", tmp_path / "e", "--set", "task=masked"), "model.kind=encoder"),
        (("train", pairs, "--recipe", "rnn-lm", "--out", tmp_path / "f", "--set", "task=translate"), "concatenation"),
        (("train", text, "--recipe", "bert", "--out", tmp_path / "g", "--init", run), "cannot be the start"),
    ):
        done = regard(*arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert words in done.stderr and "Traceback" not in done.stderr, (arguments, done.stderr)
        assert len(done.stderr.strip().splitlines()[-1]) < 400
