"""The look-up task: each token is a letter with a digit, and has to find the digits of other letters."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.data.builtin.toy_tasks import LETTERS

N_LETTERS, N_DIGITS = 8, 8
ALPHABET = LETTERS[:N_LETTERS]
CHANCE = 1 / N_DIGITS
DESCRIPTION = f"Each row has the letters {ALPHABET[0]} to {ALPHABET[-1]} in random order, each with a random digit."


@dataclass(frozen=True)
class LookupTask:
    """For each token, find the digit of the letter at each offset in the (cyclic) alphabet.

    With the offsets (1,), the answer for the token `c5` is the digit of the token with the letter d.
    """

    offsets: tuple[int, ...] = (1,)

    def batch(self, n: int, seed: int) -> Batch:
        """Return src [n, letters, 2] with every letter once per row, and tgt_out [n, letters · offsets]."""
        generator = torch.Generator().manual_seed(seed)
        letters = torch.rand(n, N_LETTERS, generator=generator).argsort(1)
        digits = torch.randint(N_DIGITS, (n, N_LETTERS), generator=generator)
        positions = letters.argsort(1)  # letter → its position in the row
        answers = [digits.gather(1, positions.gather(1, (letters + offset) % N_LETTERS)) for offset in self.offsets]
        tgt_out = torch.stack(answers, dim=-1).flatten(1) + 1  # 0 is padding
        return Batch(torch.stack([letters, digits], dim=-1), tgt_out[:, :0], tgt_out)


class LookupModel(nn.Module):
    """Embeddings, one attention layer, and a linear layer per answer: only attention can bring in other digits."""

    def __init__(self, d_model: int, n_answers: int, attention: nn.Module) -> None:
        super().__init__()
        self.letters = nn.Embedding(N_LETTERS, d_model)
        self.digits = nn.Embedding(N_DIGITS, d_model)
        self.attention = attention
        self.answers = nn.Linear(d_model, n_answers * (N_DIGITS + 1))
        self.n_answers = n_answers

    def embed(self, batch: Batch) -> Tensor:
        return self.letters(batch.src[..., 0]) + self.digits(batch.src[..., 1])

    def forward(self, batch: Batch) -> Tensor:
        """Return logits [B, letters · answers, digits + 1]."""
        y, _ = self.attention(self.embed(batch))
        return self.answers(y).unflatten(-1, (self.n_answers, -1)).flatten(1, 2)


@torch.inference_mode()
def correct_answers(model: LookupModel, task: LookupTask, n: int, seed: int) -> Tensor:
    """Return which answers are correct on `n` rows: bool [tokens, answers]."""
    batch = task.batch(n, seed)
    correct: Tensor = model(batch).argmax(-1) == batch.tgt_out
    return correct.view(-1, model.n_answers)
