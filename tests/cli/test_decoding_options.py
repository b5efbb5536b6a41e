"""Other ways of decoding on the command line: a draft, ensembles, mbr, reranking and coverage."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.pipelines.load import load_translator
from regard.search import speculative
from regard.search.speculative import DraftedModel
from tests.cli.command import regard
from tests.pipelines.examples import BUNDLES


def translate(*arguments: object, lines: Path) -> list[str]:
    done = regard("translate", *arguments, stdin=lines.read_bytes())
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def early(toy_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy model after its first checkpoint, which is often wrong"""
    folder = tmp_path_factory.mktemp("early") / "run"
    shutil.copytree(toy_run, folder)
    for checkpoint in sorted((folder / "checkpoints").glob("step-*"))[1:]:
        shutil.rmtree(checkpoint)
    done = regard("average", folder, "--last", 1)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_draft_changes_nothing(toy_run: Path, early: Path, held_out: tuple[Path, Path]) -> None:
    greedy = translate(toy_run, "--beam", 1, lines=held_out[0])
    assert translate(early, "--beam", 1, lines=held_out[0]) != greedy
    assert translate(toy_run, "--draft", early, lines=held_out[0]) == greedy
    assert translate(toy_run, "--draft", early, "--draft-tokens", 2, "--beam", 1, lines=held_out[0]) == greedy
    plain, drafted = (
        json.loads(regard("evaluate", toy_run, *held_out, "--json", *options).stdout)["scores"]
        for options in (["--beam", 1], ["--draft", early])
    )
    assert plain == drafted


def test_sentences_one_by_one_and_together_are_those_of_greedy_search(
    toy_run: Path, early: Path, held_out: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, greedy = held_out[0].read_text().splitlines(), load_translator(toy_run, device="cpu")
    drafted = load_translator(toy_run, draft=early, device="cpu")
    expected = [translation.text for translation in greedy.translate(lines, beam=1)]
    model = drafted._search_model(drafted.decode_config)
    assert isinstance(model, DraftedModel)
    for k in (1, 3):
        assert [drafted.translate([line], draft_tokens=k)[0].text for line in lines] == expected
    monkeypatch.setattr(speculative, "MOST_ON_CPU", 100)
    with pytest.MonkeyPatch.context() as patch:
        passes: list[int] = []
        read = model.model.read_logits
        patch.setattr(model.model, "read_logits", lambda state, ids: (passes.append(len(ids)), read(state, ids))[1])
        assert [translation.text for translation in drafted.translate(lines)] == expected
    assert max(passes) > 2 and sum(passes) < sum(len(line.split()) + 1 for line in expected), "proposals are kept"


def test_several_directories_are_an_ensemble(toy_run: Path, early: Path, held_out: tuple[Path, Path]) -> None:
    both = translate(early, toy_run, lines=held_out[0])
    assert both == translate(early, "--ensemble", toy_run, lines=held_out[0])
    assert both != translate(early, lines=held_out[0])
    scores, alone = (
        json.loads(regard("evaluate", *models, *held_out, "--json").stdout)["scores"]["BLEU"]["score"]
        for models in ([early, toy_run], [early])
    )
    assert scores > alone


def test_mbr_reranking_and_coverage(toy_run: Path, early: Path, held_out: tuple[Path, Path]) -> None:
    src, ref = held_out
    chosen = translate(toy_run, "--mbr", 8, lines=src)
    right = sum(one == other for one, other in zip(chosen, ref.read_text().splitlines(), strict=True))
    assert right > 0.8 * len(chosen) and chosen == translate(toy_run, "--mbr", 8, "--seed", 1, lines=src)
    beam = translate(early, "--n-best", 3, lines=src)
    assert translate(early, "--n-best", 3, "--rerank", toy_run, "--rerank-weight", 0, lines=src) == beam
    assert translate(early, "--n-best", 3, "--coverage", 0, lines=src) == beam
    # Reversing twice gives the source, so the model is its own reverse model.
    reranked, plain = translate(early, "--rerank", toy_run, lines=src), translate(early, lines=src)
    n_right = [
        sum(one == other for one, other in zip(lines, ref.read_text().splitlines(), strict=True))
        for lines in (reranked, plain)
    ]
    assert n_right[0] > n_right[1]
    evaluated = regard("evaluate", early, src, ref, "--rerank", toy_run, "--coverage", 0.1, "--json")
    assert evaluated.returncode == 0, evaluated.stderr


def test_useless_combinations_are_one_line(toy_run: Path, error_line: Callable[..., str]) -> None:
    rnn, text = BUNDLES / "rnn-fed", ("--text", "a b")
    for arguments, message in (
        ([toy_run, "--draft", toy_run, "--beam", 5], "--draft is for greedy search, not for --beam 5"),
        ([toy_run, "--draft", toy_run, "--sample"], "a draft model is for greedy search"),
        ([toy_run, "--draft", toy_run, "--mbr", 4], "a draft model is for greedy search"),
        ([toy_run, "--draft", toy_run, "--n-best", 2], "which finds one translation"),
        ([toy_run, "--draft", toy_run, "--coverage", 0.1], "--coverage ranks the translations of a beam"),
        ([toy_run, "--draft", toy_run, "--engine", "ctranslate2"], "with one model, not with a draft"),
        ([toy_run, "--draft", BUNDLES / "transformer"], "its tokenizer differs from that of the model"),
        ([toy_run, "--draft", BUNDLES / "generator"], "not a translator; a draft model is one"),
        ([toy_run, toy_run, "--draft", toy_run], "a draft model proposes tokens to one model, not to an ensemble"),
        ([rnn, "--draft", BUNDLES / "transformer"], "a draft needs Transformers with an encoder and a decoder"),
        ([toy_run, "--draft-tokens", 3], "--draft-tokens has no effect without --draft"),
        ([toy_run, "--rerank-weight", 3], "--rerank-weight has no effect without --rerank"),
        ([toy_run, "--rerank", toy_run, "--beam", 1], "a reverse model ranks several translations"),
        ([toy_run, "--rerank", toy_run, "--mbr", 4], "mbr and a reverse model both choose"),
        ([toy_run, "--mbr", 4, "--beam", 2], "--mbr samples instead of searching"),
        ([toy_run, "--mbr", 4, "--n-best", 2], "so n_best has no effect"),
        ([toy_run, "--coverage", 0.2, "--beam", 1], "--coverage ranks the translations of a beam"),
        ([toy_run, "--sample", "--beam", 3], "--sample samples instead of searching"),
        ([toy_run, "--rerank", toy_run, "--sample"], "set n_best to at least 2"),
        ([toy_run, "--coverage", 0.2, "--sample"], "--coverage ranks the translations of a beam"),
        ([toy_run, BUNDLES / "transformer"], "an ensemble needs one vocabulary"),
    ):
        assert message in error_line("translate", *arguments, *text), arguments
    with_draft = ("evaluate", toy_run, toy_run, "missing", "--draft", BUNDLES / "transformer")
    assert "its tokenizer differs from that of the model" in error_line(*with_draft)
