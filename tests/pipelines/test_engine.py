"""A translator whose search is run by CTranslate2 gives what PyTorch gives."""

import importlib.util
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase

import pytest
import torch

import regard
from regard.errors import UserError
from regard.pipelines.engine import EngineChoice
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.search.protocols import Hypothesis, SearchStep
from regard.serve.jobs import TranslationJob
from regard.serve.registry import Registry
from regard.text.list_tokenizer import ListTokenizer
from tests.convert.shapes import bundle_of

pytest.importorskip("ctranslate2")

TEXTS = ["a b c", "d", "", "f e d c b a a b c", "g h a", "b b b b c d e"]


def write_bundle(folder: Path, shape: str = "rotary positions") -> Path:
    bundle_of(shape, tokenizer=ListTokenizer("word", [*ascii_lowercase])).save(folder, card="")
    return folder


@pytest.fixture(scope="module")
def folder(toy_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model: the outputs of an untrained one are too long for the engine, which leaves them to PyTorch."""
    return Path(shutil.copytree(toy_run, tmp_path_factory.mktemp("engine") / "model"))


@pytest.fixture(scope="module")
def engines(folder: Path) -> tuple[Translator, Translator]:
    """The same model with PyTorch and with CTranslate2"""
    pair = regard.load(folder, device="cpu"), regard.load(folder, device="cpu", engine="ctranslate2")
    assert isinstance(pair[0], Translator) and isinstance(pair[1], Translator)
    assert pair[0].engine is None and pair[1].engine is not None
    return pair[0], pair[1]


def outputs(translations: Sequence[Translation]) -> list[list[tuple[str, ...]]]:
    return [[hypothesis.tokens for hypothesis in translation.hypotheses] for translation in translations]


def test_greedy_search_gives_the_same_tokens_scores_and_attention(engines: tuple[Translator, Translator]) -> None:
    ours, theirs = (each.translate(TEXTS, beam=1, attention=True) for each in engines)
    assert outputs(ours) == outputs(theirs)
    for one, other in zip(ours, theirs, strict=True):
        # CTranslate2 gives tokens that are never generated no probability, so that the others have a little more.
        assert one.hypotheses[0].log_prob <= other.hypotheses[0].log_prob + 1e-3
        if one.attention is not None and other.attention is not None:
            torch.testing.assert_close(one.attention.cross, other.attention.cross)


def test_most_sentences_are_decoded_by_the_engine(engines: tuple[Translator, Translator]) -> None:
    translator, engine = engines[1], engines[1].engine
    assert engine is not None
    sources = translator.src_tokenizer.encode(TEXTS)
    for beam in (1, 4):
        decoded = engine.decode(sources, DecodeConfig(beam=beam))
        assert len(decoded) == 5 and all(hypotheses[0].ids for hypotheses in decoded.values())


def test_the_n_best_are_sorted_by_our_score(engines: tuple[Translator, Translator]) -> None:
    for translation in engines[1].translate(TEXTS, beam=4, n_best=4, length_penalty=1.0):
        scores = [hypothesis.score for hypothesis in translation.hypotheses]
        assert scores == sorted(scores, reverse=True) and len(scores) == 4
        for hypothesis in translation.hypotheses if translation.source else ():
            expected = hypothesis.log_prob / ((5 + hypothesis.n_tokens) / 6)
            assert hypothesis.score == pytest.approx(expected)


@pytest.mark.parametrize(
    "options",
    [
        {"min_len": 3},
        {"no_repeat_ngram": 2},
        {"max_len": 2},
        {"max_len": 500},  # more than there are positions
        {"n_best": 2, "sampling": {"seed": 3}},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_it_cannot_do_goes_to_pytorch(engines: tuple[Translator, Translator], options: dict[str, object]) -> None:
    ours, theirs = (each.translate(TEXTS, beam=2, **options) for each in engines)  # type: ignore[arg-type]
    assert outputs(ours) == outputs(theirs)


def test_sources_longer_than_the_positions_go_to_pytorch(engines: tuple[Translator, Translator]) -> None:
    texts = ["a b c d " * 60, "a b"]
    ours, theirs = (each.translate(texts, beam=1, max_source=400, max_len=20) for each in engines)
    assert outputs(ours) == outputs(theirs)


def test_prefixes_go_to_pytorch(engines: tuple[Translator, Translator]) -> None:
    ours, theirs = (each.translate(TEXTS, beam=2, prefixes=["a"] * len(TEXTS)) for each in engines)
    assert outputs(ours) == outputs(theirs) and theirs[0].text.startswith("a")


class CountingEngine:
    """Counts the sources that it gets, and decodes none."""

    def __init__(self) -> None:
        self.n_sources = 0

    def can_decode(self, config: DecodeConfig) -> bool:
        return True

    def decode(self, sources: Sequence[Sequence[int]], config: DecodeConfig) -> dict[int, list[Hypothesis]]:
        self.n_sources += len(sources)
        return {}


def test_what_the_engine_leaves_out_and_what_is_watched_is_decoded_by_pytorch(folder: Path) -> None:
    translator, plain = regard.load(folder, device="cpu"), regard.load(folder, device="cpu")
    assert isinstance(translator, Translator) and isinstance(plain, Translator)
    translator.engine = engine = CountingEngine()
    assert outputs(translator.translate(TEXTS)) == outputs(plain.translate(TEXTS)) and engine.n_sources == len(TEXTS)
    steps: list[SearchStep] = []
    translator.translate(TEXTS, observer=steps.append)  # type: ignore[arg-type,func-returns-value]
    assert steps and engine.n_sources == len(TEXTS)


def test_the_server_decodes_with_the_engine_unless_somebody_watches(folder: Path) -> None:
    from regard.serve.batch_queue import QueuedJob

    [served] = Registry.open([folder], "cpu", "ctranslate2").of_kind(Translator)
    assert served.pipeline.engine is not None
    served.pipeline.engine = engine = CountingEngine()
    for report, expected in ((None, 1), (lambda text: None, 1)):
        job = TranslationJob(served, "a b c", served.pipeline.decode_config, report=report)
        [translation] = job.run([QueuedJob(job, float("inf"))])
        assert translation is not None and translation.text
        assert engine.n_sources == expected


def test_it_is_made_once_per_content(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(folder, model, ignore=shutil.ignore_patterns(".engines"))
    regard.load(model, device="cpu", engine="auto")
    [made] = (model / ".engines").iterdir()
    before = made.stat().st_mtime_ns
    regard.load(model, device="cpu", engine="ctranslate2")
    assert [path.stat().st_mtime_ns for path in (model / ".engines").iterdir()] == [before]
    shutil.rmtree(model)
    write_bundle(model, "RMSNorm")
    regard.load(model, device="cpu", engine="ctranslate2")
    assert [path.name for path in (model / ".engines").iterdir()] != [made.name]


def test_the_cache_is_used_if_the_model_directory_cannot_be_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    shutil.copytree(folder, model, ignore=shutil.ignore_patterns(".engines"))
    (model / ".engines").write_text("a file in its place")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    regard.load(model, device="cpu", engine="ctranslate2")
    assert len(list((tmp_path / "cache" / "engines").glob("ctranslate2-*"))) == 1


def test_pytorch_is_used_if_there_is_no_place_for_the_engine(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    shutil.copytree(folder, model, ignore=shutil.ignore_patterns(".engines"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match="no place for the engine"):
        regard.load(model, device="cpu", engine="ctranslate2")
    translator = regard.load(model, device="cpu", engine="auto")
    assert isinstance(translator, Translator) and translator.engine is None


def test_a_model_that_it_cannot_run(tmp_path: Path) -> None:
    rnn = write_bundle(tmp_path / "rnn", "RNN")
    with pytest.raises(UserError, match="is of kind rnn"):
        regard.load(rnn, device="cpu", engine="ctranslate2")
    translator = regard.load(rnn, device="cpu", engine="auto")
    assert isinstance(translator, Translator) and translator.engine is None
    assert EngineChoice.parse("auto").describe(None) == (
        "engine: PyTorch, because CTranslate2 cannot run this model here"
    )
    with pytest.raises(UserError, match="ensemble"):
        regard.load(rnn, rnn, device="cpu", engine="ctranslate2")


def test_auto_says_that_ctranslate2_is_not_installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    translator = regard.load(folder, device="cpu", engine="auto")
    assert isinstance(translator, Translator) and translator.engine is None
    assert "pip install 'regard[export]'" in str(EngineChoice.parse("auto").describe(None))
    with pytest.raises(UserError, match="not installed"):
        regard.load(folder, device="cpu", engine="ctranslate2")


@pytest.mark.parametrize("name", ["cuda", "ctranslate2:int7", "torch:int8", "auto:int8", ""])
def test_unknown_engines_are_refused(name: str, folder: Path) -> None:
    with pytest.raises(UserError, match="--engine"):
        regard.load(folder, engine=name)


def test_a_damaged_engine_is_made_again(tmp_path: Path) -> None:
    model = write_bundle(tmp_path / "model")
    expected = outputs(regard.load(model, device="cpu", engine="ctranslate2").translate(TEXTS))  # type: ignore[union-attr]
    [made] = (model / ".engines").iterdir()
    (made / "model.bin").write_bytes(b"x")
    assert outputs(regard.load(model, device="cpu", engine="ctranslate2").translate(TEXTS)) == expected  # type: ignore[union-attr]


def test_an_engine_of_somebody_else_is_not_used(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "model"
    shutil.copytree(folder, model, ignore=shutil.ignore_patterns(".engines"))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "stranger"))
    regard.load(model, device="cpu", engine="ctranslate2")
    [theirs] = (model / ".engines").iterdir()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "own"))
    regard.load(model, device="cpu", engine="ctranslate2")
    assert {path.name for path in (model / ".engines").iterdir()} > {theirs.name}
    assert (tmp_path / "own" / "engines" / "key").stat().st_mode & 0o077 == 0


def test_engines_of_an_older_model_are_deleted(tmp_path: Path) -> None:
    model = write_bundle(tmp_path / "model")
    regard.load(model, device="cpu", engine="ctranslate2")
    [old] = (model / ".engines").iterdir()
    os.utime(old, (1.0, 1.0))
    write_bundle(model, "RMSNorm")
    regard.load(model, device="cpu", engine="ctranslate2")
    assert not old.exists() and len(list((model / ".engines").iterdir())) == 1
