"""Aligning the words of many sentence pairs at once."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.alignment.from_attention import Aligner, links_between_units
from regard.data.batch import Batch, forced_batch, run_parts
from regard.data.word_alignments import Links
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnly, pad_left
from regard.models.encoder_decoder import EncoderDecoder
from regard.pipelines.arguments import check_texts
from regard.pipelines.length_limit import TooLongError
from regard.pipelines.translator import Translator
from regard.text.words import TokenWords, WordFinder

NO_CROSS_ATTENTION = "this model has no cross attention, so it cannot align words"

_BATCH_TOKENS = 4096  # of the longer sides, padding included
_BATCH_WEIGHTS = 1 << 20  # of one head: target tokens times source tokens

Words = NDArray[np.int64]
"""[B, tokens]: the index of each token's word, −1 for tokens of no word"""


class PairAligner:
    """Finds the same links in pairs as the translator's aligner does in the record of each pair, but in batches."""

    def __init__(self, translator: Translator, to: str | None = None) -> None:
        """`to` is the language of the targets, which a model with several target languages needs to know."""
        self._translator = translator
        self._to = to
        self._find_src_words = WordFinder(translator.src_tokenizer)
        self._find_tgt_words = WordFinder(translator.tgt_tokenizer)

    def __call__(self, sources: Sequence[str], targets: Sequence[str]) -> list[Links | TooLongError]:
        """Return the links of each pair, or what is wrong with a pair that is too long."""
        translator = self._translator
        sides, results = [], list[Links | TooLongError](set() for _ in sources)
        tagged = [translator.with_tag(source, self._to) for source in check_texts(sources, "align")]
        for texts, tokenizer, limit, name in (
            (check_texts(targets, "align"), translator.tgt_tokenizer, translator.target_limit, "the target"),
            (tagged, translator.src_tokenizer, translator.length_limit(), "the text"),
        ):
            ids, too_long = limit.encode([translator.clean(text) for text in texts], tokenizer)
            for i, problem in too_long.items():
                results[i] = TooLongError(problem.describe(name, "max_source"))
            sides.append(ids)
        tgt, src = sides
        for rows in _batches([i for i, result in enumerate(results) if isinstance(result, set)], src, tgt):
            batch = forced_batch([src[i] for i in rows], [tgt[i] for i in rows])
            links = (found for part in run_parts(self._align, batch, translator.device) for found in part)
            for i, found in zip(rows, links, strict=True):
                results[i] = found
        return results

    @torch.inference_mode()
    def _align(self, batch: Batch) -> list[Links]:
        model, aligner = self._translator.traced_model, self._translator.aligner
        weights = _mean_weights(_cross_attention(model, batch), aligner)
        src = pad_left(batch.src)[0] if isinstance(model, DecoderOnly) else batch.src
        src_ids, tgt_ids = src.cpu().numpy(), batch.tgt_out.cpu().numpy()
        src_words, tgt_words = self._find_src_words(src_ids), self._find_tgt_words(tgt_ids)
        links = _links(_merge_words(weights, tgt_words, src_words), tgt_words, src_words, aligner.threshold)
        units = self._find_src_words.without_spaces(src_ids), self._find_tgt_words.without_spaces(tgt_ids)
        for row in units[0].keys() | units[1].keys():
            sides = zip(units, (src_words, tgt_words), strict=True)
            links[row] = links_between_units(links[row], *(_units_per_word(each, words, row) for each, words in sides))
        return links


def _batches(rows: list[int], src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield rows in batches of similar lengths, limited in memory.

    The longest come first: shorter ones then fit into the memory that these leave, which does not become fragmented.
    """
    lengths = {i: max(len(src[i]), len(tgt[i])) + 1 for i in rows}
    remaining = sorted(rows, key=lambda i: (lengths[i], len(src[i]), i))
    while remaining:
        longest = lengths[remaining[-1]]
        n = max(1, min(_BATCH_TOKENS // longest, _BATCH_WEIGHTS // longest**2))
        yield remaining[-n:]
        del remaining[-n:]


def _cross_attention(model: object, batch: Batch) -> list[Tensor]:
    """Return the weights of cross-attention while the model is forced to generate the targets, per layer [B, H, T, S].

    The source of a decoder-only model has its padding on the left.
    """
    if isinstance(model, EncoderDecoder):  # its encoder's attention and its predictions are not needed
        traces = model.decoder(batch.tgt_in, model.encoder(batch.src), need_trace=True).cross_traces
    else:
        assert isinstance(model, DecoderOnly)
        traces = model.trace_attention(batch).cross
    if not traces:
        raise UserError(NO_CROSS_ATTENTION)
    return [trace.weights for trace in traces]


def _mean_weights(weights: list[Tensor], aligner: Aligner) -> Tensor:
    """Return the mean of the layers and heads that the aligner uses [B, T, S]."""
    aligner.check(len(weights), weights[0].shape[1])
    layers = weights if aligner.layer is None else [weights[aligner.layer]]
    heads = [w.float().mean(1) if aligner.head is None else w[:, aligner.head].float() for w in layers]
    return torch.stack(heads).mean(0)


def _merge_words(weights: Tensor, tgt_words: Words, src_words: Words) -> NDArray[np.float32]:
    """Merge tokens into words as `AttentionRecord.merge_words`;  [B, T, S] → [B, target words, source words]"""

    def membership(words: Words) -> Tensor:
        indices = torch.from_numpy(words).to(weights.device)
        return (indices[..., None] == torch.arange(int(words.max()) + 1, device=weights.device)).float()

    tgt, src = membership(tgt_words), membership(src_words)
    means = tgt / tgt.sum(1, keepdim=True).clamp(min=1.0)
    merged: NDArray[np.float32] = (means.transpose(1, 2) @ weights @ src).cpu().numpy()
    return merged


def _units_per_word(without_spaces: Mapping[int, TokenWords], words: Words, row: int) -> list[int]:
    return without_spaces[row].n_units if row in without_spaces else [1] * (int(words[row].max()) + 1)


def _links(weights: NDArray[np.float32], tgt_words: Words, src_words: Words, threshold: float | None) -> list[Links]:
    """Return the links of each pair for word weights [B, target words, source words], as `Aligner` does for one."""
    n_tgt, n_src = (words.max(1)[:, None] + 1 for words in (tgt_words, src_words))
    inside = np.arange(weights.shape[2]) < n_src
    weights = np.where(inside[:, None], weights, -np.inf)
    if threshold is not None:
        rows, j, i = np.nonzero(weights >= threshold)
    elif weights.size:
        rows, j = np.nonzero((np.arange(weights.shape[1]) < n_tgt) & (n_src > 0))
        i = weights.argmax(2)[rows, j]
    else:
        rows = i = j = np.empty(0, dtype=np.int64)
    links = list(zip(i.tolist(), j.tolist(), strict=True))
    bounds = np.searchsorted(rows, np.arange(len(weights) + 1)).tolist()
    return [set(links[low:high]) for low, high in pairwise(bounds)]
