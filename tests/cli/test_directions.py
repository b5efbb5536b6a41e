"""One model for several language pairs, by the command line: train, translate, evaluate, align and attend."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.bundle import Bundle
from regard.data.builtin.grammar_corpus import generate_corpus
from tests.cli.command import StartedCommand, regard
from tests.train.test_resume import digest, wait_for_step

SETTINGS = (
    *("tokenizer.vocab_size=500", "model.d_model=64", "model.d_ff=128", "model.n_layers=1", "model.n_heads=2"),
    *("batch.tokens=2048", "train.steps=160", "train.warmup=40", "train.lr=6e-3", "train.log_every=20"),
    *("train.save_every=40", "valid.every=80", "valid.sentences=40"),
)
OPTIONS = ("--recipe", "tiny", *(word for setting in SETTINGS for word in ("--set", setting)))
DATA = """
temperature: 2
corpora:
  - {files: [train.en, train.fr], languages: en-fr, valid: [valid.en, valid.fr], test: [test.en, test.fr]}
  - {files: [few.en, few.upper], languages: en-upper, valid: [valid.en, valid.upper], test: [test.en, test.upper]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files in which English becomes French, or capitals, and a model that is trained on both"""
    folder = tmp_path_factory.mktemp("directions")
    splits = generate_corpus(2500, 40, 40)
    splits["few"], splits["ten"] = splits["train"][:600], splits["train"][:10]
    for name, pairs in splits.items():
        sides = {"en": [p.src for p in pairs], "fr": [p.tgt for p in pairs], "upper": [p.src.upper() for p in pairs]}
        for language, lines in sides.items():
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))
    (folder / "data.yaml").write_text(DATA)
    done = regard("train", "--data", folder / "data.yaml", "--out", folder / "run", *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert "BLEU of en-fr" in done.stderr and "BLEU of en-upper" in done.stderr
    assert "try it:" in done.stdout and done.stdout.rstrip().endswith("--to fr")
    return folder


def lines(*arguments: object, stdin: bytes | None = None) -> list[str]:
    done = regard(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_bundle_knows_its_directions(folder: Path) -> None:
    bundle = Bundle.load(folder / "run")
    assert [(d.source, d.target, d.tag) for d in bundle.directions] == [
        ("en", "fr", ">>fra<<"),
        ("en", "upper", ">>upper<<"),
    ]
    assert bundle.examples and not any(">>" in text for text in bundle.examples)
    assert bundle.words is not None and ">" not in bundle.words.counts and "fra" not in bundle.words.counts
    rows = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    last = [row for row in rows if "valid_loss" in row][-1]
    assert last["bleu"] == pytest.approx((last["bleu_en-fr"] + last["bleu_en-upper"]) / 2)


def test_each_language_is_translated_with_its_tag(folder: Path) -> None:
    text = (folder / "test.en").read_bytes()
    upper = lines("translate", folder / "run", "--to", "upper", stdin=text)
    french = lines("translate", folder / "run", "--to", "fra", stdin=text)
    assert sum(line.isupper() for line in upper) == len(upper) and not any(line.isupper() for line in french)
    tagged = "".join(f">>upper<< {line}\n" for line in text.decode().splitlines()).encode()
    assert lines("translate", folder / "run", stdin=tagged) == upper
    document = folder / "test.txt"
    document.write_bytes(text)
    regard("translate", folder / "run", "--to", "upper", "--input", document, "--output", folder / "out.txt")
    assert (folder / "out.txt").read_text().splitlines() == upper
    [marked] = lines("translate", folder / "run", "--to", "upper", "--markup", "--text", "the <b>green</b> cat sleeps")
    assert marked.count("<b>") == marked.count("</b>") == 1 and ">>" not in marked


def test_words_are_counted_without_the_tag(folder: Path) -> None:
    [line] = lines("translate", folder / "run", "--to", "upper", "--text", "the cat sleeps", "--alignment")
    _, links = line.split(" ||| ")
    assert max(int(link.split("-")[0]) for link in links.split()) <= 2
    for name, side in (("one.en", "the cat sleeps\n"), ("one.upper", "THE CAT SLEEPS\n")):
        (folder / name).write_text(side)
    [aligned] = lines("align", folder / "run", folder / "one.en", folder / "one.upper", "--to", "upper")
    assert {link.split("-")[1] for link in aligned.split()} == {"0", "1", "2"}
    shown = lines("attend", folder / "run", "the cat sleeps", "--to", "upper")
    merged = lines("attend", folder / "run", "the cat sleeps", "--to", "upper", "--words")
    assert any(">>upper<<" in line for line in shown) and not any(">>upper<<" in line for line in merged[1:])


def test_evaluate_per_direction_and_all_at_once(folder: Path) -> None:
    alone = {}
    for to, direction in (("fr", "en-fr"), ("upper", "en-upper")):
        command = ("evaluate", folder / "run", folder / "test.en", folder / f"test.{to}", "--to", to, "--json")
        alone[direction] = json.loads("\n".join(lines(*command)))
    together = json.loads("\n".join(lines("evaluate", folder / "run", "--data", folder / "data.yaml", "--json")))
    assert together["tests"] == alone
    for metric, value in together["mean"].items():
        scores = [each["scores"][metric]["score"] for each in alone.values()]
        assert value == pytest.approx(sum(scores) / 2)
    table = lines("evaluate", folder / "run", "--data", folder / "data.yaml")
    assert [row.split()[0] for row in table[:4]] == ["test", "en-fr", "en-upper", "mean"]


def test_a_killed_run_is_resumed_with_the_same_bits(folder: Path) -> None:
    out = folder / "killed"
    arguments = ["train", "--data", folder / "data.yaml", "--out", out, *OPTIONS, "--resume"]
    running = StartedCommand(*arguments)
    wait_for_step(out, 100)
    running.kill()
    again = regard(*arguments)
    assert again.returncode == 0 and "resumed from" in again.stderr, again.stderr
    assert digest(out) == digest(folder / "run")
    assert (out / "config.json").read_bytes() == (folder / "run" / "config.json").read_bytes()


def test_pairs_are_held_out_of_every_direction_and_many_sources_need_no_tag(folder: Path) -> None:
    sources = [f"{{files: [few.{source}, few.upper], languages: {source}-upper}}" for source in ("en", "fr")]
    (folder / "one.yaml").write_text(f"corpora: [{', '.join(sources)}]")
    settings = ("--set", "train.steps=2", "--set", "valid.every=2", "--set", "tokenizer.vocab_size=400")
    done = regard("train", "--data", folder / "one.yaml", "--out", folder / "one", *OPTIONS, *settings)
    assert done.returncode == 0, done.stderr
    assert "60 pairs held out" in done.stderr and "BLEU of fr-upper" in done.stderr
    bundle = Bundle.load(folder / "one")
    assert [(d.source, d.target, d.tag) for d in bundle.directions] == [("en", "upper", ""), ("fr", "upper", "")]
    assert len(lines("translate", folder / "one", "--text", "the cat sleeps")) == 1


def test_valid_in_the_file_is_the_same_as_valid_on_the_command_line(folder: Path) -> None:
    (folder / "pair.yaml").write_text("corpora: [{files: [few.en, few.upper], valid: [valid.en, valid.upper]}]")
    files = [folder / f"{name}.{side}" for name in ("few", "valid") for side in ("en", "upper")]
    commands = {"by-file": ["--data", folder / "pair.yaml"], "by-option": [*files[:2], "--valid", *files[2:]]}
    for out, data in commands.items():
        done = regard(
            "train", *data, "--out", folder / out, *OPTIONS, "--set", "train.steps=4", "--set", "valid.every=2"
        )
        assert done.returncode == 0, done.stderr
    assert digest(folder / "by-file") == digest(folder / "by-option")
    assert "directions" not in json.loads((folder / "by-file" / "config.json").read_text())


KEEP = [*OPTIONS, "--init", "run", "--set", "train.init_tokenizer=keep"]
BOTH = "corpora: [{files: [few.en, few.fr], languages: en-fr%s}, {files: [few.en, few.upper], %s}]"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (BOTH % ("", "languages: en-upper"), ["--valid", "valid.en", "valid.fr"], "give each corpus 'valid' files"),
        (BOTH % (", valid: [valid.en, valid.fr]", "languages: en-upper"), [], "en-upper has no 'valid' files"),
        (BOTH % ("", "languages: en-de"), KEEP, "the tokenizer has no token >>deu<<"),
        (BOTH % ("", "languages: en-upper"), ["--languages", "en-fr"], "--data has several; leave it out"),
        (
            "corpora: [{files: [ten.en, ten.fr], languages: en-fr}, {files: [few.en, few.upper], languages: en-upper}]",
            ["--set", "tokenizer.vocab_size=400"],
            "en-fr: 10 pairs are too few to hold some out for validation; give each language pair 'valid' files",
        ),
        ("corpora: [{files: [few.fr, few.en], languages: en-fr}]", [], "fr-en files for en-fr; name them in the other"),
        ("corpora: [{files: [few.en, few.fr], valid: [valid.en, valid.fr, x]}]", [], "not 3 files"),
        ("corpora: [{files: [few.en, few.fr], valid: [none.en, none.fr]}]", [], "none.en: no such file"),
        ("corpora: [{files: [few.en, few.fr], valid: [valid.en, valid.fr]}]", ["--valid", "a", "b"], "already"),
        (
            "corpora: [{files: a, languages: en-fr}, {files: b, languages: en-de}, {files: c}]",
            [],
            "'c' needs 'languages'",
        ),
    ],
)
def test_mistakes_in_training_take_one_line(
    text: str,
    options: list[str],
    message: str,
    folder: Path,
    error_line: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    (folder / "wrong.yaml").write_text(text)
    assert message in error_line("train", "--data", "wrong.yaml", "--out", "wrong", "--recipe", "tiny", *options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["translate", "run", "--text", "a cat"],
            "choose it with --to, in Python with to=: this model translates to fr, upper",
        ),
        (["translate", "run", "--text", "a cat", "--to", "de"], "'de' is not a target language of this model"),
        (["attend", "run", "a cat"], "translates to fr, upper"),
        (["evaluate", "run", "test.en", "test.fr"], "translates to fr, upper"),
        (["evaluate", "run"], "name the test files, or with --data"),
        (["evaluate", "run", "--data", "one.yaml"], "one.yaml: no corpus has 'test' files"),
        (["evaluate", "run", "--data", "data.yaml", "--to", "fr"], "--to has no effect on several test sets"),
    ],
)
def test_mistakes_in_use_take_one_line(
    arguments: list[str], message: str, folder: Path, error_line: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "one.yaml").write_text("corpora: [{files: [few.en, few.upper], languages: en-upper}]")
    assert message in error_line(*arguments)


def test_back_translation_with_one_of_several_target_languages(folder: Path, error_line: Callable[..., str]) -> None:
    (folder / "few-lines.en").write_text("the cat sleeps\nthe green witch arrived\n")
    command = ("backtranslate", folder / "run", folder / "few-lines.en", "--out", folder / "synthetic.tsv")
    assert "translates to fr, upper" in error_line(*command)
    done = regard(*command, "--to", "upper")
    assert done.returncode == 0, done.stderr
    pairs = [line.split("\t") for line in (folder / "synthetic.tsv").read_text().splitlines()]
    assert [source.isupper() for source, _ in pairs] == [True, True]
