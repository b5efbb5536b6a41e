import math
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.labs import LABS, bottleneck, core, positions, qkv, scaling, width
from regard.labs.heads import HEADS
from regard.labs.letter_task import Letters, exact, new_model
from regard.labs.lookup_task import CHANCE, N_LETTERS, Lookup, Reader, right
from regard.labs.report import LabRun, save_index, save_session, to_text
from regard.labs.result import LabResult, LinePanel, against
from regard.labs.training import fit, n_parameters, seeded, unseen
from regard.nn.attention import Heads, SelfAttention
from regard.nn.scores import Dot, ScaledDot
from regard.text.vocab import BOS, EOS
from tests.cli.command import failed_in_one_line, regard

FIRST_COLUMN = {
    "core": ["alone", "an apple and an orange", "an apple phone"],
    "positions": ["with positions", "without"],
    "qkv": ["Q = K = V", "Q = K, V", "Q, K = V", "Q, K, V"],
    "heads": ["1", "2", "4", "8"],
    "scaling": [d for d in ("4", "16", "64", "256", "1024") for _ in range(2)],
    "width": [h for h in ("2", "4", "8") for _ in range(2)],
    "bottleneck": list(bottleneck.MODELS),
}


@pytest.mark.parametrize("name", LABS)
def test_every_lab_runs_and_leaves_no_trace(name: str, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    found = LABS[name].run(1, True)
    assert torch.equal(torch.get_rng_state(), before)
    head, *rows = found.table
    assert [row[0] for row in rows] == FIRST_COLUMN[name]
    assert all(len(row) == len(head) for row in rows)
    assert found.question == LABS[name].question and found.question.endswith("?")
    assert len(found.answer) == 3 and all(sentence.endswith(".") for sentence in found.answer)
    paths = save_session(LabRun(name, found, f"regard lab {name}", 1.0), tmp_path / "new")
    assert [path.name for path in paths] == [f"{name}.md", f"{name}.png", f"{name}.svg"]
    assert [path.read_bytes()[:4] for path in paths[1:]] == [b"\x89PNG", b"<?xm"]
    page = paths[0].read_text()
    assert f"({name}.png)" in page and all(part in page for part in (found.setup, *found.answer))


@pytest.mark.parametrize("name", ["core", "qkv", "scaling", "bottleneck"])
def test_a_lab_is_a_function_of_its_seed(name: str) -> None:
    found = []
    for other in (0, 1):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(other)  # whatever was drawn before
            found.append(LABS[name].run(3, True))
    assert found[0] == found[1]
    if name == "qkv":
        assert LABS[name].run(4, True) != found[0]


def test_the_variance_of_dot_products_is_the_width() -> None:
    for d in (4, 64, 512):
        plain, scaled = (scaling.measure(score, d, 200, seed=5) for score in (Dot(), ScaledDot()))
        assert plain.variance == pytest.approx(d, rel=0.15)
        assert scaled.variance == pytest.approx(1, rel=0.15)
        assert scaled.variance * d == pytest.approx(plain.variance, rel=1e-4)
        assert plain.entropy < scaled.entropy < math.log2(64)
    assert plain.derivative < 0.1 * scaled.derivative


def test_equal_scores_give_the_entropy_and_the_derivative_known_by_hand() -> None:
    class Nothing(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            return 0 * Dot()(q, k)

    measured = scaling.measure(Nothing(), 8, 3, seed=1)
    assert measured.entropy == pytest.approx(6)  # log2 of 64 keys
    assert measured.derivative == pytest.approx(math.sqrt(63) / 64)  # ‖(I − 11ᵀ/n) / n‖ = √(n − 1) / n


def test_without_positions_a_shuffled_source_gives_shuffled_outputs() -> None:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 2, "dropout": 0.0}
    moved = {
        kind: positions.shift_of_permuted(new_model({**sizes, "positions": kind}, 1).eval(), 1)
        for kind in ("none", "sinusoidal")
    }
    assert moved["none"] < 1e-5 and moved["sinusoidal"] > 0.05


def test_heads_of_the_whole_width_cost_so_many_times_as_much() -> None:
    for n_heads in width.HEADS:
        reduced, full = (n_parameters(make(n_heads)) for make in width.FORMS.values())
        assert full == n_heads * reduced == n_heads * 4 * width.D_MODEL**2
    assert len({n_parameters(SelfAttention(Heads(8, n), causal=False)) for n in HEADS}) == 1
    one, same = (make(1) for make in width.FORMS.values())
    same.load_state_dict(one.state_dict())
    x = torch.randn(2, 5, width.D_MODEL, generator=torch.Generator().manual_seed(0))
    assert torch.equal(one(x)[0], same(x)[0])


def test_a_shared_matrix_makes_the_scores_symmetric() -> None:
    for form in qkv.FORMS.values():
        with seeded(1):
            attention = qkv.Shared(form)
            scores = qkv.mean_scores(Reader(16, 1, attention), attention, 20, seed=1)
        assert (qkv.asymmetry(scores) < 1e-6) == (form[0] == form[1])
    turned = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    assert qkv.asymmetry(turned) == pytest.approx(1.0) and qkv.asymmetry(turned.abs()) == 0


def test_what_comes_out_of_attention_lies_among_its_values() -> None:
    assert core.outside("softmax", 200, seed=2) == 0
    assert core.outside("none", 200, seed=2) > 0.5
    weights, apple = core.looked(("Apple", "Orange"))
    share = 1 / (1 + math.exp(6 - 8))  # Apple·Apple = 8, Apple·Orange = 6
    assert weights == f"Apple {share:.2f}, Orange {1 - share:.2f}"
    assert apple.tolist() == pytest.approx([2 * share, 2 * share + 3 * (1 - share), 0])
    left = core.spread_left(seed=1)
    assert left[0] == 1 and left == sorted(left, reverse=True) and left[-1] < 0.5


def test_a_look_up_asks_for_what_stands_by_other_letters() -> None:
    batch = Lookup((1, -1)).batch(5, seed=1)
    for row, answers in zip(batch.src.tolist(), batch.tgt_out.view(5, N_LETTERS, 2).tolist(), strict=True):
        digit = dict(row)
        assert sorted(digit) == list(range(N_LETTERS))
        wanted = [[digit[(letter + step) % N_LETTERS] + 1 for step in (1, -1)] for letter, _ in row]
        assert answers == wanted


def test_training_learns_the_look_up_and_only_from_other_rows() -> None:
    task = Lookup((1,))
    with seeded(1):
        model = Reader(16, 1, SelfAttention(Heads(16, 1), causal=False))
    assert float(right(model, task, 100, unseen(1)).float().mean()) < 2 * CHANCE
    assert fit(model, task, updates=250, lr=2e-2, seed=1) > 0
    assert float(right(model, task, 100, unseen(1)).float().mean()) > 0.9


def test_batches_are_those_of_no_other_seed_and_of_no_test() -> None:
    class Recorder(Lookup):
        def batch(self, n: int, seed: int) -> Batch:
            drawn.append(seed)
            return super().batch(n, seed)

    drawn: list[int] = []
    for seed in (1, 2):
        fit(Reader(4, 1, SelfAttention(Heads(4, 1), causal=False)), Recorder((1,)), updates=3, lr=1e-3, seed=seed)
    assert len({*drawn, unseen(1), unseen(2)}) == 8
    first, second = (Lookup((1,)).batch(3, seed).src for seed in drawn[:2])
    assert not torch.equal(first, second)


def test_exact_counts_whole_lines() -> None:
    @dataclass(frozen=True)
    class State:
        src: Tensor
        place: int = 0

        def select(self, rows: Tensor) -> "State":
            return State(self.src[rows], self.place)

    class Copier(nn.Module):
        def room(self, batch: Batch) -> None:
            return None

        def start(self, batch: Batch) -> State:
            return State(batch.src)

        def step(self, state: State, ids: Tensor) -> tuple[Tensor, State]:
            assert state.place or set(ids.tolist()) == {BOS}
            said = nn.functional.one_hot(state.src[:, state.place], 20).double()
            return (said + 1e-9).log(), State(state.src, state.place + 1)

    assert EOS in Letters("copy", (3, 3)).batch(1, seed=1).src
    assert exact(Copier(), Letters("copy", (3, 6)), 20, seed=1) == 1  # type: ignore[arg-type]
    line, mirrored = (Letters(task, (2, 2)) for task in ("copy", "reverse"))
    palindromes = sum(src == src[::-1] for src in mirrored.pairs(40, 1)[0])
    assert exact(Copier(), mirrored, 40, seed=1) == palindromes / 40 < 0.5  # type: ignore[arg-type]
    assert exact(Copier(), line, 40, seed=1) == 1  # type: ignore[arg-type]


def test_sentences_follow_the_figures() -> None:
    assert against(0.5, 0.9, "with") == "40.0 points fewer than with"
    assert against(0.9, 0.5, "with") == "40.0 points more than with"
    assert against(0.5, 0.51, "with") == "about as many as with"
    assert [bottleneck.reach(s) for s in ([1.0] * 7, [1, 0.9, 0.2, 0.9, 0, 0, 0], [0.0] * 7)] == [14, 4, 0]
    moved = {"with positions": 0.2, "without": 1e-7}
    told = {
        shares: " ".join(positions._answer({"with positions": list(shares[:2]), "without": list(shares[2:])}, moved))
        for shares in ((0.9, 0.9, 0.1, 0.9), (0.1, 0.9, 0.1, 0.4), (0.1, 0.1, 0.3, 0.1))
    }
    usual, other, failed = told.values()
    assert "that decides" in usual and "a set is enough" in usual
    assert "that decides" not in other and "positions helped too" in other
    assert "that decides" not in failed and "neither learnt" in failed


def test_without_matplotlib_there_is_a_page_without_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.labs.plot.has_matplotlib", lambda: False)
    found = LabResult(
        "Why?", "So.", (("a", "b"), ("x", "1")), ("One.", "Two.", "Three."), (LinePanel("t", "x", "y", [1], {"": [1]}),)
    )
    session = LabRun("core", found, "regard lab core", 2.0)
    [page] = save_session(session, tmp_path)
    assert "![" not in page.read_text() and "| x |" in page.read_text()
    assert to_text(session).splitlines()[-3:] == ["One.", "Two.", "Three."]
    assert "[Why?](core.md)" in save_index([session], tmp_path).read_text()


def test_the_verb_lists_runs_and_refuses(tmp_path: Path) -> None:
    listed = regard("lab").stdout
    assert all(name in listed and lab.question in listed for name, lab in LABS.items())
    for name in ("scaling", "qkv"):
        run = regard("lab", name, "--quick", "--seed", 2, "--out", tmp_path / "labs")
        assert run.returncode == 0, run.stderr
        assert LABS[name].question in run.stdout and f"{name}.png" in run.stdout
        page = (tmp_path / "labs" / f"{name}.md").read_text()
        assert f"regard lab {name} --seed 2 --quick" in page
    assert "core, positions" in failed_in_one_line(regard("lab", "nonsense", "--out", tmp_path / "none"))
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("")
    assert "file" in failed_in_one_line(regard("lab", "core", "--out", tmp_path / "file"))


def test_the_pages_of_the_docs_are_those_of_the_labs() -> None:
    folder = Path(__file__).parents[2] / "docs" / "labs"
    index = (folder / "README.md").read_text()
    for name, lab in LABS.items():
        assert f"[{lab.question}]({name}.md)" in index
        page = (folder / f"{name}.md").read_text()
        assert f"regard lab {name} --seed 1\n" in page and (folder / f"{name}.png").is_file()
