"""A look-up: tokens are a letter and a digit each, and each is asked for the digits that stand by other letters."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.data.builtin.toy_tasks import LETTERS

N_LETTERS, N_DIGITS = 8, 8
ALPHABET = LETTERS[:N_LETTERS]
CHANCE = 1 / N_DIGITS
ROWS = f"Each row has the letters {ALPHABET[0]} to {ALPHABET[-1]} in any order, with a digit by each."


@dataclass(frozen=True)
class Lookup:
    asked: tuple[int, ...] = (1,)
    """How far on in the alphabet, which ends where it began, the letters stand whose digits a token wants: for (1,)
    the token `c5` wants the digit of whichever token has the letter d"""

    def batch(self, n: int, seed: int) -> Batch:
        """src [n, letters, 2]: every letter once, in any order, with any digit; tgt_out [n, letters · asked]"""
        generator = torch.Generator().manual_seed(seed)
        letters = torch.rand(n, N_LETTERS, generator=generator).argsort(1)
        digits = torch.randint(N_DIGITS, (n, N_LETTERS), generator=generator)
        places = letters.argsort(1)
        wanted = [digits.gather(1, places.gather(1, (letters + step) % N_LETTERS)) for step in self.asked]
        answers = torch.stack(wanted, dim=-1).flatten(1) + 1  # 0 is padding
        return Batch(torch.stack([letters, digits], dim=-1), answers[:, :0], answers)


class Reader(nn.Module):
    """Embeddings, one attention, a linear answer to each question: what is right came through the attention."""

    def __init__(self, d_model: int, n_asked: int, attention: nn.Module) -> None:
        super().__init__()
        self.letters = nn.Embedding(N_LETTERS, d_model)
        self.digits = nn.Embedding(N_DIGITS, d_model)
        self.attention = attention
        self.answers = nn.Linear(d_model, n_asked * (N_DIGITS + 1))
        self.n_asked = n_asked

    def embed(self, batch: Batch) -> Tensor:
        return self.letters(batch.src[..., 0]) + self.digits(batch.src[..., 1])

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, letters · asked, digits]"""
        y, _ = self.attention(self.embed(batch))
        return self.answers(y).unflatten(-1, (self.n_asked, -1)).flatten(1, 2)


@torch.inference_mode()
def right(model: Reader, task: Lookup, n: int, seed: int) -> Tensor:
    """[tokens, asked]: which answers to `n` rows are right"""
    batch = task.batch(n, seed)
    hits: Tensor = model(batch).argmax(-1) == batch.tgt_out
    return hits.view(-1, model.n_asked)
