"""The recipe `auto`: which plan is chosen for which corpus and how much time, and a run from files to bundle."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from regard.config import flatten, read_yaml
from regard.data.builtin.grammar_corpus import generate_corpus
from regard.data.mixture import CorpusConfig, Mixture
from regard.data.parallel_corpus import Corpus
from regard.errors import UserError
from regard.train.auto import SIZES, Plan, Size, choose, row_for
from regard.train.auto_recipe import AutoRecipe, describe_plan
from regard.train.corpus_facts import CorpusFacts, measure_corpus
from regard.train.recipe import Recipe, load_recipe
from regard.train.run import Run, train
from regard.train.update_time import measure_update_time
from tests.conftest import write_pairs

CPU = torch.device("cpu")
MUCH = 1e12  # bytes
SMALL = (
    *("tokenizer.vocab_size=400", "model.n_layers=1", "model.d_model=16", "model.d_ff=16", "model.n_heads=2"),
    *("batch.tokens=256", "valid.sentences=4", "valid.samples=0"),
)


def facts_of(words: int, unit: str = "words") -> CorpusFacts:
    return CorpusFacts(max(1, words // 10), words, words, unit)  # type: ignore[arg-type]


def flops(size: Size) -> float:
    """A stand-in for a measured update: proportional to the parameters, the tokens and the passes."""
    parameters = 12 * size.layers * size.width**2 + size.width * size.vocab
    return 1e-11 * parameters * size.tokens * (2 if size.r_drop else 1)


def plan_for(words: int, seconds: float | None = None, memory: float = MUCH) -> Plan:
    facts = facts_of(words)
    return choose(facts, row_for(facts), flops, memory, seconds)


@pytest.mark.parametrize("words", [1, 13_000, 40_000, 130_000, 380_000, 5_000_000, 50_000_000, 10**9])
def test_every_plan_is_a_valid_recipe(words: int) -> None:
    for seconds in (None, 10.0, 600.0, 36_000.0):
        plan = plan_for(words, seconds)
        recipe = load_recipe("auto", chosen=plan.options())
        assert recipe.model.d_model == plan.size.width and recipe.train.warmup <= recipe.train.steps
        assert recipe.valid.every <= plan.updates
        assert len(list(plan.choices())) == 10 and all(choice.reason for choice in plan.choices())


def test_larger_corpora_get_larger_models_and_less_regularisation() -> None:
    for small, large in pairwise(SIZES):
        assert small.words < large.words and small.vocab <= large.vocab and small.width <= large.width
        assert small.updates * small.tokens < large.updates * large.tokens
        assert small.smoothing >= large.smoothing and small.r_drop >= large.r_drop


def test_without_a_limit_the_row_of_the_table_is_taken() -> None:
    assert plan_for(380_000).size == row_for(facts_of(380_000)) and plan_for(380_000).limit is None
    assert plan_for(380_000, seconds=1e9).size == row_for(facts_of(380_000))


def test_less_time_gives_cheaper_plans() -> None:
    seconds = (1e7, 1e5, 1e4, 3e3, 600, 60, 10)
    plans = [plan_for(380_000, s) for s in seconds]
    costs = [plan.updates * flops(plan.size) for plan in plans]
    assert costs == sorted(costs, reverse=True)
    assert all(cost <= s for cost, s in zip(costs, seconds, strict=True)), "no plan takes longer than there is time"
    assert plans[0].size.r_drop and not plans[-1].size.r_drop
    assert plans[-1].size.width < plans[0].size.width
    assert plans[-1].is_short and not plans[0].is_short


def test_little_time_for_a_tiny_corpus_gives_a_small_model_and_not_a_few_updates() -> None:
    """Few updates go through 1,000 pairs often enough, but a model needs more of them."""
    large = plan_for(13_000).size
    seconds = 2 * 400 * flops(replace(large, r_drop=0.0, tokens=1024, layers=4, width=256))
    plan = plan_for(13_000, seconds)
    assert plan.size.width < 256 and plan.updates >= 1_000


@pytest.mark.parametrize("words", [13_000, 40_000, 130_000, 380_000])
def test_no_plan_has_a_larger_model_than_the_table_has_for_the_corpus(words: int) -> None:
    row = row_for(facts_of(words))
    for seconds in (1e4, 3e3, 1e3, 300, 100, 30):
        size = plan_for(words, seconds).size
        assert size.layers <= row.layers and size.width <= row.width


def test_a_moving_average_of_the_weights_replaces_that_of_checkpoints() -> None:
    for size in SIZES:
        train = Plan(size, 1, 1.0, None, facts_of(10)).options()["train"]
        assert (train["average"] == "none") == bool(train["ema"])
    assert not replace(plan_for(380_000), init="runs/parent").options()["train"]["ema"]


def test_regularisation_for_long_training_is_left_out_when_time_is_short() -> None:
    full = plan_for(380_000)
    enough, short = plan_for(380_000, full.seconds * 2), plan_for(380_000, full.seconds * 0.8)
    assert full.size.ema and full.size.attention_dropout and enough.size == full.size
    assert short.size == replace(full.size, ema=0.0, attention_dropout=0.0)


def test_batches_are_split_when_memory_is_small() -> None:
    whole, parts = plan_for(50_000_000), plan_for(50_000_000, memory=4e9)
    assert whole.parts == 1 and parts.parts > 1
    options = parts.options()
    assert options["batch"]["tokens"] * options["train"]["accumulate"] == whole.options()["batch"]["tokens"]


def test_what_the_user_sets_wins(tmp_path: Path) -> None:
    config = tmp_path / "my.yaml"
    config.write_text("model: {n_layers: 1, d_model: 64, n_heads: 2, d_ff: 64}\nbatch: {tokens: 128}\n")
    auto = AutoRecipe(config, ["train.steps=40", "tokenizer.vocab_size=500"])
    plan = auto.plan(facts_of(10_000), CPU)
    recipe = auto.load(plan.options())
    assert (recipe.model.d_model, recipe.tokenizer.vocab_size, recipe.train.steps) == (64, 500, 40)  # type: ignore[union-attr]
    assert recipe.train.warmup == 4 and recipe.valid.every == 4, "they follow from the number of updates"


def test_an_update_of_more_tokens_takes_longer() -> None:
    small = load_recipe("auto", settings=[*SMALL, "batch.tokens=512"])
    large = small.model_copy(update={"batch": small.batch.model_copy(update={"tokens": 512 * 64})})
    assert 0 < measure_update_time(small, CPU) < measure_update_time(large, CPU)


def test_words_of_a_corpus(tmp_path: Path) -> None:
    pairs = [(f"a b {i}", f"x y z {i}") for i in range(30_000)]
    facts = measure_corpus(Corpus(write_pairs(tmp_path, "spaces", pairs)).read())
    assert (facts.pairs, facts.source_words, facts.target_words) == (30_000, 90_000, 120_000)
    assert facts.target_unit == "words" and "about 120,000" in facts.describe()
    japanese = [(f"number {i}", "私はテニス部員です。" + "私" * (i % 3)) for i in range(10)]
    facts = measure_corpus(Corpus(write_pairs(tmp_path, "japanese", japanese)).read())
    assert facts.target_unit == "characters" and facts.target_words == (10 * 10 + 9) // 2
    assert plan_for(10).options()["valid"]["tokenize"] == "13a"
    plan = replace(plan_for(10), facts=facts)
    assert plan.options()["valid"]["tokenize"] == "char"


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[Path, Path]:
    return write_pairs(tmp_path, "train", [(p.src, p.tgt) for p in generate_corpus()["train"][:200]])


def auto_run(files: tuple[Path, ...], out: Path, *settings: str, resume: bool = False) -> Run:
    auto = AutoRecipe(None, (*SMALL, *settings))
    return Run(auto.load(), files, None, out, device="cpu", resume=resume, auto=auto)


def test_a_run_writes_what_it_chose_and_is_resumed_with_it(
    pairs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    train(auto_run(pairs, out, "train.steps=4", "valid.every=2"))
    printed = capsys.readouterr().err
    assert "auto: 200 pairs" in printed and "R-Drop" in printed and "about" in printed
    saved = Recipe.parse(read_yaml(out / "config.yaml"), "")
    assert saved.train.r_drop == row_for(facts_of(2_000)).r_drop and saved.train.steps == 4
    again = auto_run(pairs, out, "train.steps=4", "valid.every=2", resume=True)
    assert again.auto is not None
    result = train(replace(again, auto=replace(again.auto, minutes=3.0)))
    printed = capsys.readouterr().err
    assert result.progress.step == 4 and "auto:" not in printed, "nothing is chosen again"
    assert "--minutes has no effect" in printed
    with pytest.raises(UserError, match=r"model\.dropout was"):
        train(auto_run(pairs, out, "train.steps=4", "valid.every=2", "model.dropout=0.5", resume=True))


def test_a_resumed_run_has_the_symbols_of_the_user_and_the_tags(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    mixture = Mixture(corpora=(CorpusConfig(files=pairs, tag="<bt>"),))
    for resume in (False, True):
        run = auto_run((), tmp_path / "model", "train.steps=2", "tokenizer.symbols=[<ctx>]", resume=resume)
        assert train(replace(run, mixture=mixture)).progress.step == 2
        saved = Recipe.parse(read_yaml(tmp_path / "model" / "config.yaml"), "")
        assert saved.tokenizer.symbols == ("<ctx>", "<bt>")


@pytest.mark.parametrize("parent", ["tiny", "rnn-dot"])
def test_a_run_that_starts_from_a_model_gets_the_same_model(
    pairs: tuple[Path, Path], tmp_path: Path, parent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ("train.steps=1", "valid.every=1", "tokenizer.vocab_size=400", "batch.tokens=256", "valid.sentences=2")
    recipe = load_recipe(parent, settings=short)
    train(Run(recipe, pairs, None, tmp_path / "parent", device="cpu"))
    auto = AutoRecipe(None, (*short, f"train.init={tmp_path / 'parent'}"))
    train(Run(auto.load(), pairs, None, tmp_path / "child", device="cpu", auto=auto))
    assert Recipe.parse(read_yaml(tmp_path / "child" / "config.yaml"), "").model == recipe.model
    assert f"starts from {tmp_path / 'parent'}" in capsys.readouterr().err


@pytest.mark.parametrize("parent", ["tiny", "rnn-dot"])
@pytest.mark.parametrize("settings", [(), ("model.dropout=0.05", "model.encoder.dropout=0.05")])
def test_a_model_for_other_languages_gets_the_dropout_of_the_corpus(
    pairs: tuple[Path, Path], tmp_path: Path, parent: str, settings: tuple[str, ...]
) -> None:
    short = ("train.steps=1", "valid.every=1", "tokenizer.vocab_size=400", "batch.tokens=256", "valid.sentences=2")
    recipe = load_recipe(
        parent, settings=[*short, "model.encoder.dropout=0.15" if "rnn" in parent else "model.dropout=0.15"]
    )
    train(Run(recipe, pairs, None, tmp_path / "parent", ("en", "fr"), device="cpu"))
    set_by_user = [setting for setting in settings if ("encoder" in setting) == ("rnn" in parent)]
    auto = AutoRecipe(None, (*short, *set_by_user, f"train.init={tmp_path / 'parent'}"))
    for languages, expected in ((("en", "fr"), 0.15), (("en", "oc"), 0.3)):
        train(Run(auto.load(), pairs, None, tmp_path / languages[1], languages, device="cpu", auto=auto))
        model = flatten(read_yaml(tmp_path / languages[1] / "config.yaml"))
        dropout = model["model.encoder.dropout" if "rnn" in parent else "model.dropout"]
        assert dropout == (0.05 if settings else expected)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([("a b", "")] * 30, "no usable pair of sentences: .* 30 × empty side"),
        ([("a b", "c d")] * 30, "1 pairs are too few .* 29 × duplicate of an earlier pair"),
    ],
)
def test_a_corpus_that_cannot_be_used_is_refused_before_a_recipe_is_chosen(
    lines: list[tuple[str, str]], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match=message):
        train(auto_run(write_pairs(tmp_path, "train", lines), tmp_path / "model"))
    assert "auto:" not in capsys.readouterr().err


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("inf"), float("nan")])
def test_minutes_are_checked_before_anything_is_read(minutes: float) -> None:
    with pytest.raises(UserError, match="minutes must be a number of at least"):
        AutoRecipe(minutes=minutes)


def test_a_trained_model_keeps_its_size_and_gets_a_low_learning_rate() -> None:
    plan = plan_for(380_000)
    started = replace(plan, init="runs/first")
    assert started.options()["train"]["lr"] == pytest.approx(0.1 * plan.options()["train"]["lr"])
    other = replace(started, other_languages=True)
    assert other.options()["train"]["lr"] == plan.options()["train"]["lr"], "it has much to learn"
    assert other.options()["model"] == {"dropout": plan.size.dropout, "attention_dropout": plan.size.attention_dropout}
    described, of_other = ({choice.what: choice.value for choice in each.choices()} for each in (started, other))
    assert described["model"] == "runs/first" and {"vocabulary", "dropout"}.isdisjoint(described)
    assert of_other["dropout"] == "0.2, attention 0.1"


def test_auto_is_for_translation(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    auto = AutoRecipe(None, ("task=text", "model.kind=decoder"))
    recipe = load_recipe("gpt")
    with pytest.raises(UserError, match="auto is for translation"):
        train(Run(recipe, pairs[:1], None, tmp_path / "out", device="cpu", auto=auto))


def test_the_plan_is_described_with_the_time_and_what_the_user_has_set() -> None:
    lines = list(describe_plan(plan_for(380_000, 60.0), CPU, {"model": {"d_model": 64}, "train": {"seed": 2}}))
    assert "about 42 s" in lines[-2] and "--minutes" in lines[-1]
    assert [line for line in lines if "set by you" in line] == [
        "  model           model.d_model=64          set by you"
    ]
    lines = list(
        describe_plan(plan_for(380_000), CPU, {"model": {"d_model": 64, "n_layers": 6}}, {"model": {"n_layers": 6}})
    )
    assert any("model.n_layers=6, model.d_model=64 set by you" in line for line in lines)
    lines = list(describe_plan(plan_for(380_000), CPU, {"model": {"n_layers": 6}}, {"model": {"n_layers": 6}}))
    assert any("model.n_layers=6          set by this command" in line for line in lines)
    assert "--minutes" not in list(describe_plan(plan_for(380_000, 1e9), CPU, {}))[-1]
    names = load_recipe("auto").model_dump()
    for choice in plan_for(10).choices():
        assert all(part in names[name.split(".")[0]] for name in choice.options for part in name.split(".")[1:])
