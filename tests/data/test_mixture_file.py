from pathlib import Path

import pytest

from regard.data.mixture import Mixture
from regard.data.mixture_file import read_mixture
from regard.data.modifiers import Noise, TitleCase, Typos, UpperCase
from regard.errors import UserError

THREE_STAGES = """
datasets:
  clean: test/data/clean
  medium: test/data/medium.tsv.gz
  dirty: [test/data/dirty.en, test/data/dirty.zh]
stages:
  - start
  - mid
  - end
start:
  - clean 0.8
  - medium 0.2
  - dirty 0
  - until clean 2 # Until two epochs of clean
mid:
  mix:
  - clean 0.6
  - medium 0.3
  - dirty 0.1
  - until medium 1
  modifiers:
    - UpperCase: 0.05
end:
  - clean 0.4
  - medium 0.3
  - dirty 0.3
  - until dirty 5
modifiers:
- UpperCase: 0.05
- TitleCase: 0.05
seed: 1111
num_fields: 2
trainer: /path/to/trainer/run.py
"""

MODIFIERS = """
modifiers:
- UpperCase: 0.05
- TitleCase: 0.05
- Typos: 0.05
  char_swap:     0.1 # Swaps two random consecutive word characters in the string.
  missing_char:  0.1
  extra_char:    0.1
  nearby_char:   0.1
  similar_char:  0.1
  skipped_space: 0.1
  random_space:  0.1
  repeated_char: 0.1
  unichar:       0.1
- Noise: 0.01
  min_word_length: 2
  max_word_length: 5
  max_words: 6
- RemoveEndPunct: 0.2
"""


def read(folder: Path, text: str) -> Mixture:
    path = folder / "data.yaml"
    path.write_text(text)
    return read_mixture(path)


def test_a_file_of_opustrainer_is_accepted(tmp_path: Path) -> None:
    mixture = read(tmp_path, THREE_STAGES)
    assert [corpus.name for corpus in mixture.corpora] == ["clean", "medium", "dirty"]
    assert [corpus.format for corpus in mixture.corpora] == ["tsv", "auto", "auto"]
    assert mixture.corpora[2].files == (tmp_path / "test/data/dirty.en", tmp_path / "test/data/dirty.zh")
    assert [(stage.name, stage.until, stage.passes) for stage in mixture.stages] == [
        *(("start", "clean", 2), ("mid", "medium", 1), ("end", "dirty", 5))
    ]
    assert mixture.stages[0].weights == {"clean": 0.8, "medium": 0.2, "dirty": 0.0}
    assert mixture.stages[0].modifiers is None and mixture.stages[1].modifiers == (UpperCase(probability=0.05),)
    assert mixture.modifiers == (UpperCase(probability=0.05), TitleCase(probability=0.05))
    assert mixture.seed == 1111 and len(mixture.notes) == 1 and "trainer and num_fields" in mixture.notes[0]


def test_modifiers_of_opustrainer_are_accepted(tmp_path: Path) -> None:
    mixture = read(tmp_path, f"datasets: {{a: x}}\n{MODIFIERS}")
    assert [modifier.kind for modifier in mixture.modifiers] == [
        *("UpperCase", "TitleCase", "Typos", "Noise", "RemoveEndPunct")
    ]
    assert mixture.modifiers[2] == Typos(probability=0.05), (
        "without options, each kind of typo has a probability of 0.1"
    )
    assert mixture.modifiers[3] == Noise(probability=0.01)
    assert Typos.parse({"probability": 1, "unichar": 0.5}).char_swap == 0.0


def test_modifiers_may_be_joined_by_references(tmp_path: Path) -> None:
    stages = "stages: [s]\ns:\n  mix: [a 1, until a inf]\n  modifiers: [*shared, Noise: 0.1]\n"
    mixture = read(tmp_path, "datasets: {a: x}\nmodifiers: &shared [TitleCase: 0.5]\n" + stages)
    assert [modifier.kind for modifier in mixture.stages[0].modifiers or ()] == ["TitleCase", "Noise"]


def test_target_tags_come_before_other_tags_if_there_are_several_target_languages(tmp_path: Path) -> None:
    corpora = "{files: a.tsv, languages: en-fr}, {files: b.tsv, languages: en-de, tag: <bt>}"
    mixture = read(tmp_path, f"corpora: [{corpora}]")
    assert list(map(mixture.prefix, mixture.corpora)) == [">>fra<< ", ">>deu<< <bt> "]
    assert mixture.prefix(mixture.corpora[1], tagged=False) == ">>deu<< "
    assert mixture.tags == (">>fra<<", ">>deu<<", "<bt>")
    for others in ("languages: nl-fr, tag: <bt>", "tag: <bt>, weight: 1", "languages: en-de, weight: 0, tag: <bt>"):
        mixture = read(
            tmp_path, f"corpora: [{{files: a.tsv, languages: en-fr, weight: 1}}, {{files: b.tsv, {others}}}]"
        )
        assert mixture.tags == ("<bt>",) and mixture.prefix(mixture.corpora[0]) == "", others


def test_our_own_format(tmp_path: Path) -> None:
    mixture = read(
        tmp_path,
        """
        corpora:
          - files: [train.en, train.fr]
            weight: 2
          - files: synthetic.tsv.gz
            name: synthetic
            tag: "<bt>"
            languages: en-fr
        modifiers: [{UpperCase: 0.1}]
        """,
    )
    first, second = mixture.corpora
    assert (first.name, first.files, mixture.prefix(first)) == (
        *("train.en + train.fr", (tmp_path / "train.en", tmp_path / "train.fr"), ""),
    )
    assert (second.name, mixture.prefix(second), second.languages) == ("synthetic", "<bt> ", ("en", "fr"))
    assert mixture.weights == {"train.en + train.fr": 2.0, "synthetic": 1.0} and mixture.tags == ("<bt>",)


def test_the_fingerprint_covers_every_option_and_is_empty_for_a_plain_corpus(tmp_path: Path) -> None:
    plain = "corpora: [{files: a.tsv}]"
    assert read(tmp_path, plain).fingerprint == "" == Mixture.of_files((Path("a.tsv"),)).fingerprint
    two = "corpora: [{files: a.tsv}, {files: b.tsv%s}]\n%s"
    texts = [
        *(two % ("", ""), two % (", weight: 2", ""), two % (", upsample: 2", ""), two % (", tag: x", "")),
        *(two % ("", "temperature: 2"), two % ("", "modifiers: [UpperCase: 0.1]"), two % ("", "seed: 3")),
        *(two % ("", "modifiers: [Typos: 0.1]"), two % ("", "modifiers: [{Typos: 0.1, unichar: 0.1}]")),
        f"{plain}\nmodifiers: [UpperCase: 0.1]",
    ]
    assert len({read(tmp_path, text).fingerprint for text in texts}) == len(texts)


CORPORA = "corpora: [{files: a.tsv, name: a}, {files: b.tsv, name: b}]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("corpora: []", "there is no corpus"),
        ("modifiers: []", "list the data under 'corpora'"),
        ("corpora: [a.tsv]", "corpora must be a list, with 'files'"),
        ("corpora: [{files: [a, b, c]}]", "corpus 1: files: give two line-aligned files or one file of pairs, not 3"),
        ("corpora: [{files: a.tsv, wieght: 1}]", "corpus 1: unknown key 'wieght'; did you mean 'weight'?"),
        ("corpora: [{files: a.tsv, tag: <b t>}]", "corpus 1: tag: a tag is one word"),
        ("corpora: [{files: a.tsv, languages: enfr}]", "corpus 1: languages: write two codes with a hyphen"),
        ("corpora: [{files: a.tsv, weight: 0}]", "the weight of every corpus is 0"),
        ("corpora: [{files: a.tsv, weight: -1}]", "corpus 1: weight must be at least 0"),
        ("corpora: [{files: a.tsv}, {files: x/a.tsv}]", "2 corpora are called 'a.tsv'; give each another name"),
        ("corpora: [{files: a.tsv, weight: 1}]\ntemperature: 5", "temperature and the weight of 'a.tsv' exclude"),
        ("corpora: [{files: a.tsv, weight: 1, upsample: 2}]", "upsample of 'a.tsv' has no effect"),
        ("corpora: [{files: a.tsv}]\ntemperature: 0.005", "temperature must be at least 1"),
        (
            "corpora: [{files: a.tsv, languages: en-fr}, {files: b.tsv, languages: en-fra}]",
            "'fr' and 'fra' are the same language",
        ),
        ("datasets: {a: x, a: y}", "'a' occurs twice"),
        ("datasets: {a: x}\ntemprature: 5", "unknown key 'temprature'"),
        (CORPORA + "stages: [s]", "stage s: must be a list of lines"),
        (CORPORA + "stages: [s, s]\ns: [a 1, until a 1]", "stage 's' is listed twice"),
        (CORPORA + "stages: [s]\ns: [a 1]", "stage s: the last line must be 'until CORPUS PASSES'"),
        (CORPORA + "stages: [s]\ns: [c 1, until c 1]", "stage s: there is no corpus 'c'; there are a, b"),
        (CORPORA + "stages: [s]\ns: [a 1, until b 1]", "stage s: 'until b', but that corpus has no share"),
        (CORPORA + "stages: [s]\ns: [a 1, b 0, until b 1]", "stage s: 'until b', but that corpus has no share"),
        (CORPORA + "stages: [s]\ns: [a 0, until a 1]", "stage s: the weight of every corpus is 0"),
        (CORPORA + "stages: [s]\ns: [a 1, a 2, until a 1]", "stage s: corpus 'a' is listed twice"),
        (CORPORA + "stages: [s]\ns: [a many, until a 1]", "stage s: 'a many' is not a corpus and its weight"),
        (CORPORA + "stages: [s]\ns: [a -1, until a 1]", "stage s: the weight of 'a' must be at least 0"),
        (CORPORA + "stages: [s]\ns: [a 1, until a 0]", "passes must be at least 1"),
        (CORPORA + "stages: [s]\ns: [a 1, until a 1.5]", "must have a whole number of passes"),
        (CORPORA + "stages: [s, t]\ns: [a 1, until a inf]\nt: [a 1, until a 1]", "inf' is for the last stage only"),
        (CORPORA + "modifiers: [Tags: 0.1]", "modifier 'Tags' is not supported; choose one of UpperCase"),
        (CORPORA + "modifiers: [Merge: 0.1]", "modifier 'Merge' is not supported"),
        (CORPORA + "modifiers: [UpperCase: 2]", "modifier UpperCase: probability must be at most 1"),
        (CORPORA + "modifiers: [{Noise: 1, min_word_legnth: 1}]", "did you mean 'min_word_length'?"),
        (CORPORA + "modifiers: &all [UpperCase: 0.1, *all]", "a list contains itself"),
        (CORPORA + "modifiers: [UpperCase]", "a modifier must be written as its name and probability"),
    ],
)
def test_mistakes_are_told_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, text)
    assert message in str(error.value) and str(error.value).startswith(str(tmp_path / "data.yaml")), error.value
    assert "\n" not in str(error.value)
