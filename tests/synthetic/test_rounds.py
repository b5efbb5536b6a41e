"""Rounds of back-translation are the steps that one could do one by one."""

from dataclasses import replace
from pathlib import Path

import pytest

from regard.bundle import load_directions, load_tokenizers
from regard.data.data_file import read_lines
from regard.data.mixture_file import read_mixture
from regard.errors import UserError
from regard.synthetic.backtranslation import TAG, BackTranslation
from regard.synthetic.model_training import ModelTraining
from regard.synthetic.rounds import RoundsPlan, best_forward, run_rounds
from regard.synthetic.text_translation import TextTranslation
from regard.train.recipe import load_recipe
from regard.train.run import Run, train
from tests.synthetic.conftest import SETTINGS

TINY = (*SETTINGS, "tokenizer.kind=char")


@pytest.fixture
def plan(pairs: tuple[Path, Path], text: Path, tmp_path: Path) -> RoundsPlan:
    training = ModelTraining("tiny", settings=TINY, device="cpu")
    return RoundsPlan(pairs, None, text, tmp_path / "rounds", rounds=2, training=training, part_lines=20)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, without those that hold times."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "metrics.jsonl"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_rounds_that_are_added_later_give_the_same(plan: RoundsPlan, tmp_path: Path) -> None:
    results = run_rounds(plan)
    assert [(each.round, each.direction) for each in results] == [
        *((1, "reverse"), (1, "forward"), (2, "reverse"), (2, "forward"))
    ]
    later = replace(plan, out=tmp_path / "later")
    run_rounds(replace(later, rounds=1))
    assert not (later.out / "round-2").exists()
    steps: list[str] = []
    run_rounds(later, announce=steps.append)
    assert [step.split(":")[0] for step in steps] == ["reading the data", *["round-2"] * 4], "round 1 is not done again"
    with pytest.raises(UserError, match=r"--rounds 1: 2 rounds in .* are finished; give --rounds 2 or more"):
        run_rounds(replace(later, rounds=1))
    assert contents(later.out) == contents(plan.out)
    best = best_forward(results).model.folder
    assert (plan.out / "model" / "model.safetensors").read_bytes() == (best / "model.safetensors").read_bytes()
    assert len((plan.out / "rounds.tsv").read_text().splitlines()) == 5


def test_each_step_is_what_one_could_do_by_hand(plan: RoundsPlan, tmp_path: Path) -> None:
    run_rounds(replace(plan, rounds=1))
    folder = plan.out / "round-1"
    languages = [load_directions(folder / name).first.languages for name in ("reverse", "forward")]
    assert languages == [("fr", "en"), ("en", "fr")]
    by_hand = TextTranslation((folder / "reverse",), plan.target_text, tmp_path / "parts")
    BackTranslation(by_hand, tmp_path / "pairs.tsv.gz").run()
    assert (tmp_path / "pairs.tsv.gz").read_bytes() == (folder / "target-text.tsv.gz").read_bytes()
    mixture, valid = read_mixture(folder / "forward.yaml"), plan.out / "data" / "valid.tsv.gz"
    assert [corpus.tag for corpus in mixture.corpora] == ["", TAG]
    recipe = load_recipe("tiny", settings=TINY)
    train(Run(recipe, (), (valid,), tmp_path / "forward", ("en", "fr"), device="cpu", mixture=mixture))
    models = [each / "model.safetensors" for each in (tmp_path / "forward", folder / "forward")]
    assert models[0].read_bytes() == models[1].read_bytes()


def test_the_tag_and_symbols_of_the_user_are_one_token_of_all_models(plan: RoundsPlan, tmp_path: Path) -> None:
    config = tmp_path / "ctx.yaml"
    config.write_text("tokenizer: {symbols: ['<ctx>']}\n")
    with_baseline = replace(plan, baseline=True, rounds=1, training=replace(plan.training, config=config))
    results = run_rounds(with_baseline)
    for result in results:
        tokenizer = load_tokenizers(result.model.folder).src
        for symbol in (TAG, "<ctx>"):
            [tagged], [plain] = tokenizer.encode([f"{symbol} a b"]), tokenizer.encode(["a b"])
            assert len(tagged) - len(plain) <= 2, "the symbol, and perhaps the space behind it"
    assert run_rounds(replace(with_baseline, baseline=False)) == results, "round 0 stays one of the results"


def test_held_out_pairs_are_not_trained_on(plan: RoundsPlan) -> None:
    run_rounds(replace(plan, rounds=1))
    train_pairs, valid = (set(read_lines(plan.out / "data" / f"{name}.tsv.gz")) for name in ("pairs", "valid"))
    assert valid and not train_pairs & valid


def test_models_can_start_from_those_of_the_round_before(plan: RoundsPlan, capfd: pytest.CaptureFixture[str]) -> None:
    run_rounds(replace(plan, continue_models=True))
    assert f"starts from {plan.out / 'round-1' / 'forward'}" in capfd.readouterr().err


def test_other_inputs_are_refused(plan: RoundsPlan) -> None:
    run_rounds(replace(plan, rounds=1))
    with pytest.raises(UserError, match=r"was begun with continue models false, not true; .*delete this folder"):
        run_rounds(replace(plan, continue_models=True))
    plan.target_text.write_text("a b c\n")
    with pytest.raises(UserError, match="another target text"):
        run_rounds(plan)


def test_mistakes_are_found_before_anything_is_written(plan: RoundsPlan) -> None:
    with pytest.raises(UserError, match=r"unknown key .train\.step."):
        ModelTraining("tiny", settings=("train.step=3",))
    with pytest.raises(UserError, match="is for the task text"):
        ModelTraining("gpt")
    with pytest.raises(UserError, match="annotated terms need word alignments"):
        ModelTraining("tiny", settings=("glossary.share=0.5",))
    with pytest.raises(UserError, match="no such file"):
        run_rounds(replace(plan, source_text=Path("none.en")))
    assert not plan.out.exists()
