"""Q1: a word moves towards the words that it resembles; nothing comes out that was not put in; again and again."""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.explain.similarity import DEVICE, FRUIT, WORDS
from regard.labs.result import ArrowPanel, LabResult, LinePanel, percent
from regard.labs.training import seeded
from regard.nn.attention import Heads, SelfAttention, attend

QUESTION = "What is the core of self-attention?"
_SENTENCES = {"an apple and an orange": FRUIT, "an apple phone": DEVICE}
_WORD, _SIDES = "Apple", ("Orange", "Phone")
_LAYERS = 6
_SETUP = (
    f"{_WORD} alone is as near to {_SIDES[0]} as to {_SIDES[1]}. The words of a sentence attend to each other by "
    "softmax(XXᵀ)X, in which nothing is learnt. Beside it: four heads with random weights, and random tokens that "
    "attend to each other again and again."
)


def run(seed: int = 1, quick: bool = False) -> LabResult:
    moved = {sentence: looked(words) for sentence, words in _SENTENCES.items()}
    alone = _vector(_WORD)
    rows = [("alone", f"{_WORD} 1.00", *_nearness(alone))]
    rows += [(sentence, weights, *_nearness(after)) for sentence, (weights, after) in moved.items()]
    head = (f"{_WORD} in", "its weights", *(f"cosine with {side}" for side in _SIDES))
    n = 100 if quick else 1000
    inside, beyond = (outside(normalise, n, seed) for normalise in ("softmax", "none"))
    left = spread_left(seed)
    arrows = {sentence: (_plane(alone), _plane(after)) for sentence, (_, after) in moved.items()}
    words = {word: _plane(_vector(word)) for word in (_WORD, *_SIDES)}
    panels = (
        ArrowPanel(f"softmax(XXᵀ)X moves {_WORD} by its company", "first number", "second number", words, arrows),
        LinePanel(
            "Applied again and again, it averages",
            "times",
            "spread of the tokens, 1 at first",
            range(_LAYERS + 1),
            {"": left},
        ),
    )
    return LabResult(
        QUESTION, _SETUP, (head, *rows), _answer([v for _, v in moved.values()], inside, beyond, left), panels
    )


def looked(words: tuple[str, ...]) -> tuple[str, Tensor]:
    """What the word looks at in this company, by softmax(XXᵀ)X, and what becomes of it"""
    x = torch.stack([_vector(word) for word in words])
    y, weights = attend(x, x, x, "dot")
    row = words.index(_WORD)
    seen = [f"{word} {weight:.2f}" for word, weight in zip(words, weights[row].tolist(), strict=True) if weight >= 0.01]
    return ", ".join(seen), y[row]


def outside(normalise: str, n_directions: int, seed: int) -> float:
    """The share of a random layer's outputs that lie beyond all of its values in one of so many random directions"""
    with seeded(seed), torch.no_grad():
        layer, x = SelfAttention(Heads(64, 4), causal=False), torch.randn(32, 16, 64)
        (k, v), q = layer.keys_values(x), layer.queries(x)
        directions = torch.randn(v.shape[-1], n_directions)
        y, _ = attend(q, k, v, normalise=normalise)
        furthest = (v @ directions).amax(-2, keepdim=True)
        return float((y @ directions > furthest + 1e-5).any(-1).float().mean())


def spread_left(seed: int) -> list[float]:
    """How far 32 random tokens lie from their mean, against the start, each time softmax(XXᵀ/√d)X has been applied"""
    x = torch.randn(32, 16, generator=torch.Generator().manual_seed(seed))
    spreads = [float(x.std(0).norm())]
    for _ in range(_LAYERS):
        x, _ = attend(x, x, x)
        spreads.append(float(x.std(0).norm()))
    return [spread / spreads[0] for spread in spreads]


def _answer(moved: list[Tensor], inside: float, beyond: float, left: list[float]) -> tuple[str, str, str]:
    before = [_cosine(_vector(_WORD), _vector(side)) for side in _SIDES]
    after = [_cosine(vector, _vector(side)) for vector, side in zip(moved, _SIDES, strict=True)]
    nearer = all(a > b for a, b in zip(after, before, strict=True))
    return (
        "A word becomes a mean of the words around it, weighted by how much they resemble it: "
        f"{_WORD} moves {'towards' if nearer else 'about in'} its company, its cosine with {_SIDES[0]} from "
        f"{before[0]:.2f} to {after[0]:.2f} in one sentence, with {_SIDES[1]} from {before[1]:.2f} to {after[1]:.2f} "
        "in the other.",
        f"Being a mean, it makes nothing that was not there: {percent(inside)} of a random layer's outputs lie beyond "
        f"all of its values in some direction, against {percent(beyond)} without the softmax that makes it one.",
        f"Applied {_LAYERS} times with nothing in between, it leaves {percent(left[-1])} of the spread of random tokens"
        f"{', which is why a layer has more in it than attention' if left[-1] < 0.5 else ''}.",
    )


def _nearness(vector: Tensor) -> tuple[str, ...]:
    return tuple(f"{_cosine(vector, _vector(side)):.2f}" for side in _SIDES)


def _cosine(a: Tensor, b: Tensor) -> float:
    return float(F.cosine_similarity(a, b, dim=0))


def _vector(word: str) -> Tensor:
    return torch.tensor(WORDS[word], dtype=torch.float32)


def _plane(vector: Tensor) -> tuple[float, float]:
    """The first two numbers; the third is that of the little words"""
    return float(vector[0]), float(vector[1])
