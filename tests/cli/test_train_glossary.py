"""Training on annotated terms: the model follows the glossary among translations that are equally likely without it."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import regard as library
from regard.errors import UserError
from tests.cli.command import TOY, regard
from tests.conftest import write_pairs

WORDS = [f"s{i}" for i in range(8)]


def synonyms(word: str) -> tuple[str, str]:
    return f"x{word[1:]}", f"y{word[1:]}"


def pairs(n: int, seed: int) -> list[tuple[str, str]]:
    """Sentences in which each word is translated at random by one of two words"""
    random = Random(seed)
    sources = [random.choices(WORDS, k=random.randint(3, 5)) for _ in range(n)]
    return [(" ".join(words), " ".join(random.choice(synonyms(word)) for word in words)) for words in sources]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terms")
    train = pairs(3000, 1)
    links = folder / "train.links"
    links.write_text("".join(" ".join(f"{i}-{i}" for i in range(len(s.split()))) + "\n" for s, _ in train))
    files = [*write_pairs(folder, "train", train), "--valid", *write_pairs(folder, "valid", pairs(50, 2))]
    settings = (
        "train.steps=300",
        "valid.every=300",
        "train.average=last",
        "glossary.share=0.7",
        "glossary.max_words=1",
    )
    options = [word for setting in settings for word in ("--set", setting)]
    done = regard("train", *files, "--alignments", links, "--out", folder / "run", *TOY, *options)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_the_model_follows_the_glossary(run_folder: Path, tmp_path: Path) -> None:
    assert json.loads((run_folder / "config.json").read_text())["reads_terms"] is True
    translator = library.load(run_folder)
    assert isinstance(translator, library.Translator) and translator.reads_terms
    sources = [source for source, _ in pairs(60, 3)]
    shares = []
    for choice in (0, 1):
        glossary = library.Glossary.of({word: synonyms(word)[choice] for word in WORDS[:4]})
        translations = translator.translate(sources, glossary=glossary)
        n_terms = sum(len(glossary.find(source)) for source in sources)
        shares.append(1 - sum(len(t.unmet_terms) for t in translations) / n_terms)
        [hard] = translator.translate(sources[:1], glossary=glossary, glossary_mode="hard")
        assert hard.unmet_terms == ()
    assert min(shares) > 0.75, "without a glossary one of the two choices would be below one half"
    plain = translator.translate(sources)
    for translation, before in zip(translations, plain, strict=True):
        is_annotated = "▁__source__" in translation.source_tokens  # the tokens are what the model read
        assert is_annotated == (translation.text != before.text), "texts are annotated if that adds terms"
    assert any("▁__source__" in translation.source_tokens for translation in translations)
    terms = tmp_path / "terms.tsv"
    terms.write_text("".join(f"{word}\t{synonyms(word)[1]}\n" for word in WORDS[:4]), encoding="utf-8")
    done = regard(
        "translate", run_folder, "--glossary", terms, "--glossary-mode", "soft", stdin="\n".join(sources).encode()
    )
    assert done.stdout.splitlines() == [translation.text for translation in translations]


def test_alignments_and_markup_count_the_words_of_the_source(run_folder: Path) -> None:
    translator = library.load(run_folder)
    assert isinstance(translator, library.Translator)
    glossary = library.Glossary.of({word: synonyms(word)[0] for word in WORDS})
    [translation] = translator.translate(["s1 s2 s3 s4"], glossary=glossary, attention=True)
    assert translation.alignment and {i for i, _ in translation.alignment} <= set(range(4))
    done = regard("translate", run_folder, "--markup", "--text", "s1 <b>s2 s3</b> s4")
    assert done.stdout.count("<b>") == done.stdout.count("</b>") >= 1


def test_a_model_without_annotated_terms_refuses_soft_glossaries(toy_run: Path, tmp_path: Path) -> None:
    assert "reads_terms" not in json.loads((toy_run / "config.json").read_text())
    translator = library.load(toy_run)
    assert isinstance(translator, library.Translator)
    with pytest.raises(UserError, match="not trained on annotated terms"):
        translator.translate(["a"], glossary=library.Glossary.of({"a": "b"}), glossary_mode="soft")


def test_contradictions_are_refused(toy_run: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    src, tgt = write_pairs(tmp_path, "train", pairs(100, 1))
    assert "needs the word alignments" in error_line(
        "train", src, tgt, "--out", tmp_path / "run", "--set", "glossary.share=0.1"
    )
    assert "no effect without --glossary" in error_line("translate", toy_run, "--text", "a", "--glossary-mode", "hard")
    terms = tmp_path / "terms.tsv"
    terms.write_text("a\tb\n", encoding="utf-8")
    line = error_line("translate", toy_run, "--text", "a", "--glossary", terms, "--glossary-mode", "firm")
    assert "choose hard or soft" in line
