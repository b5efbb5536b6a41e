import torch

from regard.data.batch import Batch
from regard.labs.lookup_task import CHANCE, N_LETTERS, LookupModel, LookupTask, correct_answers
from regard.labs.training import heldout_seed, seeded, train_model
from regard.nn.attention import Heads, SelfAttention


def test_answers_are_the_digits_of_the_letters_at_the_offsets() -> None:
    batch = LookupTask((1, -1)).batch(5, seed=1)
    for row, answers in zip(batch.src.tolist(), batch.tgt_out.view(5, N_LETTERS, 2).tolist(), strict=True):
        digit = dict(row)
        assert sorted(digit) == list(range(N_LETTERS))
        assert answers == [[digit[(letter + offset) % N_LETTERS] + 1 for offset in (1, -1)] for letter, _ in row]


def test_training_raises_accuracy_on_new_rows_from_chance_to_nearly_1() -> None:
    task = LookupTask((1,))
    with seeded(1):
        model = LookupModel(16, 1, SelfAttention(Heads(16, 1), causal=False))
    assert float(correct_answers(model, task, 100, heldout_seed(1)).float().mean()) < 2 * CHANCE
    assert train_model(model, task, updates=250, lr=2e-2, seed=1) > 0
    assert float(correct_answers(model, task, 100, heldout_seed(1)).float().mean()) > 0.9


def test_no_batch_is_shared_with_another_seed_or_with_a_test_set() -> None:
    class Recorder(LookupTask):
        def batch(self, n: int, seed: int) -> Batch:
            seeds.append(seed)
            return super().batch(n, seed)

    seeds: list[int] = []
    for seed in (1, 2):
        model = LookupModel(4, 1, SelfAttention(Heads(4, 1), causal=False))
        train_model(model, Recorder((1,)), updates=3, lr=1e-3, seed=seed)
    assert len({*seeds, heldout_seed(1), heldout_seed(2)}) == 8
    first, second = (LookupTask((1,)).batch(3, seed).src for seed in seeds[:2])
    assert not torch.equal(first, second)
