"""Beam search: extend the k best hypotheses of each sentence in parallel."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.search.constraints import Constraints
from regard.search.length_penalty import length_penalty_factor, normalise_score
from regard.search.protocols import Hypothesis, S, SearchStep, StepObserver, Stepper
from regard.text.vocab import BOS, EOS


@dataclass(frozen=True)
class FinishedHypotheses:
    """The best finished hypotheses of each sentence, [N, k]; −∞ where there is none yet."""

    scores: Tensor
    log_probs: Tensor
    tokens: Tensor
    counts: Tensor
    """How many have finished in total, [N]"""

    @classmethod
    def none(cls, n: int, k: int, device: torch.device) -> "FinishedHypotheses":
        empty = torch.full((n, k), -torch.inf, dtype=torch.float64, device=device)
        tokens = torch.full((n, k, 1), BOS, device=device)
        return cls(empty, empty, tokens, torch.zeros(n, dtype=torch.int64, device=device))

    def add(self, scores: Tensor, log_probs: Tensor, tokens: Tensor) -> "FinishedHypotheses":
        """Add candidates [N, c] (score −∞: not finished) with tokens [N, c, t]; keep the best k."""
        k, t = self.scores.shape[1], tokens.shape[2]
        padded = torch.nn.functional.pad(self.tokens, (0, t - self.tokens.shape[2]), value=EOS)
        best, index = torch.cat([self.scores, scores], dim=1).topk(k, dim=1)
        best_log_probs = torch.cat([self.log_probs, log_probs], dim=1).gather(1, index)
        best_tokens = torch.cat([padded, tokens], dim=1).gather(1, index[:, :, None].expand(-1, -1, t))
        return FinishedHypotheses(best, best_log_probs, best_tokens, self.counts + (scores > -torch.inf).sum(1))

    def select(self, sentences: Tensor) -> "FinishedHypotheses":
        parts = (self.scores, self.log_probs, self.tokens, self.counts)
        return FinishedHypotheses(*(part[sentences] for part in parts))

    def hypotheses(self, sentence: int, n_best: int) -> list[Hypothesis]:
        """Return up to `n_best` finished hypotheses of a sentence, best first."""
        hypotheses = []
        for i in range(n_best):
            if (score := self.scores[sentence, i].item()) > -torch.inf:
                tokens = self.tokens[sentence, i].tolist()
                ids = tuple(tokens[1 : tokens.index(EOS)])
                hypotheses.append(Hypothesis(ids, score, self.log_probs[sentence, i].item()))
        return hypotheses


@dataclass(frozen=True)
class Beam:
    """The unfinished hypotheses: log-probabilities [N, k] (−∞: an empty slot) and tokens [N, k, t]."""

    log_probs: Tensor
    tokens: Tensor

    @classmethod
    def start(cls, n: int, k: int, device: torch.device) -> "Beam":
        # All k slots hold the same empty hypothesis. Only one counts, otherwise the beam would fill with copies.
        log_probs = torch.full((n, k), -torch.inf, dtype=torch.float64, device=device)
        log_probs[:, 0] = 0.0
        return cls(log_probs, torch.full((n, k, 1), BOS, device=device))

    def best_possible(self, limits: Tensor, alpha: float) -> Tensor:
        """[N]: upper bound of the score that an unfinished hypothesis can still reach, given maximum lengths [N]

        Its log-probability cannot rise, and the length penalty is largest at the maximum length.
        """
        factors = [length_penalty_factor(int(limit) + 1, alpha) for limit in limits.tolist()]
        return self.log_probs.amax(1) / torch.tensor(factors, dtype=torch.float64).to(self.log_probs)


@torch.inference_mode()
def beam_search(
    model: Stepper[S],
    batch: Batch,
    constraints: Constraints,
    limits: Tensor,
    k: int,
    n_best: int,
    alpha: float,
    observer: StepObserver | None = None,
) -> list[list[Hypothesis]]:
    """Return the n_best hypotheses of each sentence, best first; if the observer stops one, those that had finished.

    A sentence is done when k hypotheses have finished and no unfinished one can still get into the n_best.
    """
    n, device = batch.size, batch.src.device
    sentences = torch.arange(n, device=device)
    rows = sentences.repeat_interleave(k)
    state, constraints = model.start(batch).select(rows, sentences), constraints.select(rows)
    beam, finished = Beam.start(n, k, device), FinishedHypotheses.none(n, k, device)
    results: list[list[Hypothesis]] = [[] for _ in range(n)]
    while len(sentences):
        log_probs, state = model.step(state, beam.tokens[:, :, -1].flatten())
        log_probs = constraints(log_probs, beam.tokens.flatten(0, 1))
        beam, finished, parents, step = advance(beam, finished, log_probs, alpha)
        unfinished = beam.log_probs.amax(1) > -torch.inf
        enough = finished.counts >= k
        hopeless = beam.best_possible(limits[sentences], alpha) <= finished.scores[:, n_best - 1]
        done = ~unfinished | (enough & hopeless)
        if observer is not None and (stopped := observer(replace(step, sentences=sentences))) is not None:
            done = done | stopped
        for i in done.nonzero().squeeze(1).tolist():
            results[int(sentences[i])] = finished.hypotheses(i, n_best)
        keep = (~done).nonzero().squeeze(1)
        rows = (keep[:, None] * k + parents[keep]).flatten()
        state, constraints = state.select(rows, keep), constraints.select(rows)
        beam, finished = Beam(beam.log_probs[keep], beam.tokens[keep]), finished.select(keep)
        sentences = sentences[keep]
    return results


def advance(
    beam: Beam, finished: FinishedHypotheses, log_probs: Tensor, alpha: float
) -> tuple[Beam, FinishedHypotheses, Tensor, SearchStep]:
    """Advance by one step, given log_probs [N·k, V].

    Returns the new beam, the finished hypotheses, each new hypothesis's parent slot [N, k], and the candidates.
    Of the k best continuations those that end are finished. Lower-ranked ones fill their slots until k hypotheses
    have finished; from then on the beam only shrinks (with k = 1 this is greedy search).
    """
    n, k = beam.log_probs.shape
    n_vocab = log_probs.shape[1]
    totals = (beam.log_probs[:, :, None] + log_probs.view(n, k, n_vocab)).flatten(1)
    top, index = totals.topk(min(2 * k, totals.shape[1]), dim=1)
    parents, ids = index // n_vocab, index % n_vocab
    history = beam.tokens.gather(1, parents[:, :, None].expand(-1, -1, beam.tokens.shape[2]))
    tokens = torch.cat([history, ids[:, :, None]], dim=2)

    first_k = torch.arange(top.shape[1], device=top.device) < k
    ends = (ids == EOS) & first_k
    scores = normalise_score(top, tokens.shape[2] - 1, alpha).masked_fill(~ends, -torch.inf)
    finished = finished.add(scores, top, tokens)

    may_continue = first_k | (finished.counts < k)[:, None]
    continuing = top.masked_fill((ids == EOS) | ~may_continue, -torch.inf)
    best, order = continuing.topk(min(k, continuing.shape[1]), dim=1)
    tokens = tokens.gather(1, order[:, :, None].expand(-1, -1, tokens.shape[2]))
    slot_numbers = torch.arange(order.shape[1], device=order.device).expand_as(order)
    slots = torch.full_like(ids, -1).scatter(1, order, slot_numbers.masked_fill(best == -torch.inf, -1))
    step = SearchStep(torch.arange(n, device=ids.device), top, parents, ids, slots)
    return Beam(best, tokens), finished, parents.gather(1, order), step
