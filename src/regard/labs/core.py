"""Lab: self-attention without learnt weights, as a weighted mean of similar vectors."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.explain.similarity import DEVICE, FRUIT, WORDS
from regard.labs.result import ArrowPanel, Column, LabResult, LinePanel, ResultTable
from regard.labs.training import Budget, seeded
from regard.nn.attention import Heads, SelfAttention, attend

QUESTION = "What is the core of self-attention?"
FULL, QUICK = Budget(0, 1000), Budget(0, 100)
WORD, NEIGHBOURS = "Apple", ("Orange", "Phone")
SENTENCES = {"an apple and an orange": FRUIT, "an apple phone": DEVICE}
_ALONE = "alone"
_N_LAYERS = 6
_SETUP = (
    f"{WORD} alone is as similar to {NEIGHBOURS[0]} as to {NEIGHBOURS[1]}. The words of a sentence attend to each "
    "other by softmax(XXᵀ)X, without any learnt weights. Two more measurements: the outputs of a layer of four heads "
    "with random weights, and random tokens to which attention is applied several times."
)


def run(seed: int = 1, budget: Budget = FULL) -> LabResult:
    weights = {_ALONE: {WORD: 1.0}}
    vectors = {_ALONE: _vector(WORD)}
    for sentence, words in SENTENCES.items():
        weights[sentence], vectors[sentence] = attend_in_sentence(words)
    spread = relative_spread(seed)
    metrics = {
        "outside values, softmax": share_outside_values("softmax", budget.samples, seed),
        "outside values, no softmax": share_outside_values("none", budget.samples, seed),
        "relative spread": spread[-1],
    }
    table = _table(weights, vectors)
    panels = (
        ArrowPanel(
            f"softmax(XXᵀ)X moves {WORD} towards its context",
            "first component",
            "second component",
            {word: _plane(_vector(word)) for word in (WORD, *NEIGHBOURS)},
            {sentence: (_plane(vectors[_ALONE]), _plane(vectors[sentence])) for sentence in SENTENCES},
        ),
        LinePanel(
            "Repeated attention averages the tokens",
            "number of times applied",
            "spread relative to the start",
            range(_N_LAYERS + 1),
            {"": spread},
        ),
    )
    return LabResult(QUESTION, _SETUP, table, _answer(table, metrics), panels, metrics)


def attend_in_sentence(words: tuple[str, ...]) -> tuple[dict[str, float], Tensor]:
    """Return the attention weights of `WORD` in a sentence and its output vector, by softmax(XXᵀ)X."""
    x = torch.stack([_vector(word) for word in words])
    y, weights = attend(x, x, x, "dot")
    row = words.index(WORD)
    return dict(zip(words, weights[row].tolist(), strict=True)), y[row]


def share_outside_values(normalise: str, n_directions: int, seed: int) -> float:
    """Return the share of a random layer's outputs that exceed all of its values in one of `n_directions` directions.

    A mean of the values cannot: it lies in their convex hull.
    """
    with seeded(seed), torch.no_grad():
        layer, x = SelfAttention(Heads(64, 4), causal=False), torch.randn(32, 16, 64)
        (k, v), q = layer.keys_values(x), layer.queries(x)
        directions = torch.randn(v.shape[-1], n_directions)
        y, _ = attend(q, k, v, normalise=normalise)
        furthest = (v @ directions).amax(-2, keepdim=True)
        return float((y @ directions > furthest + 1e-5).any(-1).float().mean())


def relative_spread(seed: int) -> list[float]:
    """Return the spread of 32 random tokens around their mean, relative to the start, as softmax(XXᵀ/√d)X is repeated.

    Element i belongs to i applications; element 0 is 1.
    """
    x = torch.randn(32, 16, generator=torch.Generator().manual_seed(seed))
    spreads = [float(x.std(0).norm())]
    for _ in range(_N_LAYERS):
        x, _ = attend(x, x, x)
        spreads.append(float(x.std(0).norm()))
    return [spread / spreads[0] for spread in spreads]


def _table(weights: Mapping[str, Mapping[str, float]], vectors: Mapping[str, Tensor]) -> ResultTable:
    columns = {f"weight of {word}": Column(f"weight of {word}", ".2f") for word in (WORD, *NEIGHBOURS)}
    columns |= {f"cosine with {word}": Column(f"cosine with {word}", ".2f") for word in NEIGHBOURS}
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for sentence, vector in vectors.items():
        row = {f"weight of {word}": weights[sentence].get(word, 0.0) for word in (WORD, *NEIGHBOURS)}
        row |= {f"cosine with {word}": _cosine(vector, _vector(word)) for word in NEIGHBOURS}
        rows[(sentence,)] = row
    return ResultTable((f"{WORD} in",), columns, rows)


def _answer(table: ResultTable, metrics: Mapping[str, float]) -> tuple[str, str, str]:
    before = [table.value(f"cosine with {word}", _ALONE) for word in NEIGHBOURS]
    after = [table.value(f"cosine with {word}", sentence) for word, sentence in zip(NEIGHBOURS, SENTENCES, strict=True)]
    nearer = all(a > b for a, b in zip(after, before, strict=True))
    left = metrics["relative spread"]
    return (
        "Each word becomes a mean of the words in its sentence, weighted by their similarity to it: "
        f"{WORD} {'moves' if nearer else 'does not move'} towards its context. Its cosine similarity changes from "
        f"{before[0]:.2f} to {after[0]:.2f} with {NEIGHBOURS[0]} in the first sentence and from {before[1]:.2f} to "
        f"{after[1]:.2f} with {NEIGHBOURS[1]} in the second.",
        "A mean stays among the values it averages: "
        f"{metrics['outside values, softmax']:.1%} of the outputs of a random layer exceed all of its values in some "
        f"direction, compared with {metrics['outside values, no softmax']:.1%} without the softmax.",
        f"Repeated {_N_LAYERS} times with nothing in between, attention leaves {left:.1%} of the spread of random "
        f"tokens{': this is why a layer also has residual connections and a feed-forward part' if left < 0.5 else ''}.",
    )


def _cosine(a: Tensor, b: Tensor) -> float:
    return float(F.cosine_similarity(a, b, dim=0))


def _vector(word: str) -> Tensor:
    return torch.tensor(WORDS[word], dtype=torch.float32)


def _plane(vector: Tensor) -> tuple[float, float]:
    """Return the first two components; the third is only used by "and" and "an"."""
    return float(vector[0]), float(vector[1])
