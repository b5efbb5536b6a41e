from dataclasses import dataclass

from torch import Tensor, nn

from regard.data.batch import Batch
from regard.labs.letter_task import LetterTask, exact_match
from regard.text.vocab import BOS, EOS


def test_exact_match_counts_lines_without_any_error() -> None:
    @dataclass(frozen=True)
    class State:
        src: Tensor
        position: int = 0

        def select(self, rows: Tensor, sentences: object = None) -> "State":
            return State(self.src[rows], self.position)

    class Copier(nn.Module):
        """Generates its source."""

        def max_target_len(self, batch: Batch) -> None:
            return None

        def start(self, batch: Batch) -> State:
            return State(batch.src)

        def step(self, state: State, ids: Tensor) -> tuple[Tensor, State]:
            assert state.position or set(ids.tolist()) == {BOS}
            probabilities = nn.functional.one_hot(state.src[:, state.position], 20).double()
            return (probabilities + 1e-9).log(), State(state.src, state.position + 1)

    assert EOS in LetterTask("copy", (3, 3)).batch(1, seed=1).src
    assert exact_match(Copier(), LetterTask("copy", (3, 6)), 20, seed=1) == 1  # type: ignore[arg-type]
    copy, reverse = (LetterTask(name, (2, 2)) for name in ("copy", "reverse"))
    palindromes = sum(src == src[::-1] for src in reverse.pairs(40, 1)[0])
    assert exact_match(Copier(), reverse, 40, seed=1) == palindromes / 40 < 0.5  # type: ignore[arg-type]
    assert exact_match(Copier(), copy, 40, seed=1) == 1  # type: ignore[arg-type]
