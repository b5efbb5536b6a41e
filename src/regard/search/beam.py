"""Beam search: the k best hypotheses side by side."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.search.constraints import Constraints
from regard.search.length_penalty import length_penalty_factor, normalised
from regard.search.protocols import Hypothesis, SearchStep, Stepper, Watcher
from regard.text.vocab import BOS, EOS


@dataclass(frozen=True)
class FinishedHypotheses:
    """The best hypotheses of each sentence that have ended: [N, k], −∞ where there is none yet."""

    scores: Tensor
    log_probs: Tensor
    tokens: Tensor
    counts: Tensor
    """How many have ended in all, [N]"""

    @classmethod
    def none(cls, n: int, k: int, device: torch.device) -> "FinishedHypotheses":
        empty = torch.full((n, k), -torch.inf, dtype=torch.float64, device=device)
        tokens = torch.full((n, k, 1), BOS, device=device)
        return cls(empty, empty, tokens, torch.zeros(n, dtype=torch.int64, device=device))

    def add(self, scores: Tensor, log_probs: Tensor, tokens: Tensor) -> "FinishedHypotheses":
        """Take in candidates [N, c] (score −∞: not ended) with tokens [N, c, t]; keep the best k."""
        k, t = self.scores.shape[1], tokens.shape[2]
        padded = torch.nn.functional.pad(self.tokens, (0, t - self.tokens.shape[2]), value=EOS)
        best, index = torch.cat([self.scores, scores], dim=1).topk(k, dim=1)
        kept = torch.cat([self.log_probs, log_probs], dim=1).gather(1, index)
        chosen = torch.cat([padded, tokens], dim=1).gather(1, index[:, :, None].expand(-1, -1, t))
        return FinishedHypotheses(best, kept, chosen, self.counts + (scores > -torch.inf).sum(1))

    def select(self, sentences: Tensor) -> "FinishedHypotheses":
        return FinishedHypotheses(
            self.scores[sentences], self.log_probs[sentences], self.tokens[sentences], self.counts[sentences]
        )

    def hypotheses(self, sentence: int, n_best: int) -> list[Hypothesis]:
        found = []
        for i in range(n_best):
            if (score := self.scores[sentence, i].item()) > -torch.inf:
                said = self.tokens[sentence, i].tolist()
                ids = tuple(said[1 : said.index(EOS)])
                found.append(Hypothesis(ids, score, self.log_probs[sentence, i].item()))
        return found


@dataclass(frozen=True)
class Beam:
    """The hypotheses still growing: log-probabilities [N, k] (−∞: an empty place) and tokens [N, k, t]."""

    log_probs: Tensor
    tokens: Tensor

    @classmethod
    def start(cls, n: int, k: int, device: torch.device) -> "Beam":
        # All k places hold the same empty hypothesis: one is real, or the beam would fill with copies.
        log_probs = torch.full((n, k), -torch.inf, dtype=torch.float64, device=device)
        log_probs[:, 0] = 0.0
        return cls(log_probs, torch.full((n, k, 1), BOS, device=device))

    def best_possible(self, limits: Tensor, alpha: float) -> Tensor:
        """[N]: the score that the best alive would have, were the rest of it certain and of the best length."""
        norms = torch.tensor([length_penalty_factor(int(limit) + 1, alpha) for limit in limits.tolist()])
        return self.log_probs.amax(1) / norms.to(self.log_probs)


@torch.inference_mode()
def beam_search(
    model: Stepper,
    batch: Batch,
    constraints: Constraints,
    limits: Tensor,
    k: int,
    n_best: int,
    alpha: float,
    watch: Watcher | None = None,
) -> list[list[Hypothesis]]:
    """The n_best hypotheses of each sentence, best first; of one that the watcher gave up, those that had ended.

    A sentence is done when k hypotheses have ended and none alive can still come among the n_best.
    """
    n, device = batch.size, batch.src.device
    spread = torch.arange(n, device=device).repeat_interleave(k)
    state, constraints = model.start(batch).select(spread), constraints.select(spread)
    beam, ended = Beam.start(n, k, device), FinishedHypotheses.none(n, k, device)
    sentences = torch.arange(n, device=device)
    results: list[list[Hypothesis]] = [[] for _ in range(n)]
    while len(sentences):
        log_probs, state = model.step(state, beam.tokens[:, :, -1].flatten())
        log_probs = constraints(log_probs, beam.tokens.flatten(0, 1))
        beam, ended, parents, candidates = advance(beam, ended, log_probs, alpha)
        alive = beam.log_probs.amax(1) > -torch.inf
        enough = ended.counts >= k
        hopeless = beam.best_possible(limits[sentences], alpha) <= ended.scores[:, n_best - 1]
        done = ~alive | (enough & hopeless)
        if watch is not None and (given_up := watch(replace(candidates, sentences=sentences))) is not None:
            done = done | given_up
        for i in done.nonzero().squeeze(1).tolist():
            results[int(sentences[i])] = ended.hypotheses(i, n_best)
        keep = (~done).nonzero().squeeze(1)
        rows = (keep[:, None] * k + parents[keep]).flatten()
        state, constraints = state.select(rows), constraints.select(rows)
        beam, ended = Beam(beam.log_probs[keep], beam.tokens[keep]), ended.select(keep)
        sentences = sentences[keep]
    return results


def advance(
    beam: Beam, ended: FinishedHypotheses, log_probs: Tensor, alpha: float
) -> tuple[Beam, FinishedHypotheses, Tensor, SearchStep]:
    """One step: log_probs [N·k, V] → the beam and the ended after it, each new hypothesis's parent [N, k], and what
    there was to choose from.

    Of the k best continuations those that end are put aside. Others move up into their places, until k have
    ended: from then on the beam only shrinks (with k = 1 this is greedy search).
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
    scores = normalised(top, tokens.shape[2] - 1, alpha).masked_fill(~ends, -torch.inf)
    ended = ended.add(scores, top, tokens)

    open_places = first_k | (ended.counts < k)[:, None]
    growing = top.masked_fill((ids == EOS) | ~open_places, -torch.inf)
    alive, order = growing.topk(min(k, growing.shape[1]), dim=1)
    tokens = tokens.gather(1, order[:, :, None].expand(-1, -1, tokens.shape[2]))
    taken = torch.arange(order.shape[1], device=order.device).expand_as(order).masked_fill(alive == -torch.inf, -1)
    places = torch.full_like(ids, -1).scatter(1, order, taken)
    seen = SearchStep(torch.arange(n, device=ids.device), top, parents, ids, places)
    return Beam(alive, tokens), ended, parents.gather(1, order), seen
