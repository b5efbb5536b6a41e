"""One sentence seen from inside: what the search considered, where every head looked, and with what numbers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.images import scale_pixels
from regard.errors import UserError
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.image_encoder import ImageEncoder
from regard.models.protocols import AttentionTraces
from regard.models.record import KINDS, AttentionRecord, HeadRecord
from regard.models.rnn import RnnEncoder
from regard.nn.attention import MultiHeadAttention
from regard.pipelines.captioner import Captioner, region_names
from regard.pipelines.generator import Generator
from regard.search.decode import DecodeConfig, decode
from regard.search.protocols import Hypothesis, SearchStep
from regard.search.search_tree import ROOT, Node, SearchTree
from regard.serve.registry import Served
from regard.text.tokenizer import Tokenizer
from regard.text.vocab import BOS, EOS, PAD


@dataclass(frozen=True)
class Question:
    """What is asked of a sentence."""

    source: tuple[int, ...]
    config: DecodeConfig
    prefix: tuple[int, ...] = ()
    masked: tuple[int, ...] = ()
    """Source tokens that the model does not see"""
    off: tuple[tuple[str, int, int], ...] = ()
    """(kind, layer, head) that are switched off"""
    target: tuple[int, ...] | None = None
    """Look at this, and search for nothing"""
    hypothesis: int = 0
    pixels: bytes | None = None
    """Of a picture, for a captioner: its middle square, row by row, a byte each of red, green and blue"""


@dataclass(frozen=True)
class Probe:
    """What was found."""

    question: Question
    hypotheses: tuple[Hypothesis, ...]
    nodes: dict[tuple[int, ...], str]
    """Ids of a hypothesis → its place in the tree"""
    steps: tuple[tuple[Node, ...], ...]
    record: AttentionRecord
    target: tuple[int, ...]
    """Ids that were looked at, with EOS where the text ended"""

    @property
    def size(self) -> int:
        """Bytes"""
        nodes = sum(300 + 8 * len(node.ids) for step in self.steps for node in step)
        return nodes + sum(self.record.weights(kind).nbytes for kind in KINDS)


@dataclass(frozen=True)
class _Leaving:
    """Writes the search down until nobody waits for it any more"""

    tree: SearchTree
    give_up: Callable[[], bool]

    def __call__(self, step: SearchStep) -> Tensor | None:
        self.tree(step)
        return torch.ones_like(step.sentences, dtype=torch.bool) if self.give_up() else None


@torch.inference_mode()
def probe(served: Served, question: Question, give_up: Callable[[], bool] = lambda: False) -> Probe | None:
    """Search, or take the given target, and look at every head on the way to it; None: it was given up."""
    tree = SearchTree(question.config.beam, question.config.length_penalty)
    found: list[Hypothesis] = []
    if question.target is None:
        with switched_off(served.model, question.off):
            asked = Batch(_shown(served, question), *[_nothing(served)] * 2)
            found = decode(served.model, asked, question.config, [question.prefix], _Leaving(tree, give_up))[0]
        if give_up():
            return None
        if not found:
            raise UserError("the model gives no probabilities; its weights are damaged, or training diverged")
        target = (*found[min(question.hypothesis, len(found) - 1)].ids, EOS)
    else:
        target = question.target
    _, record = watched(served, question, target)
    ends = {node.ids[:-1]: node.name for node in tree.ended}
    nodes = {h.ids: ends.get(h.ids, ROOT) for h in found}
    return Probe(question, tuple(found), nodes, tuple(tree.steps), record, target)


@torch.inference_mode()
def watched(served: Served, question: Question, target: Sequence[int]) -> tuple[AttentionTraces, AttentionRecord]:
    """Every head while the model says the target, as it was asked the question"""
    with switched_off(served.model, question.off):
        traces = served.model.trace_attention(_saying(served, question, target))
    return traces, AttentionRecord.from_traces(
        traces, source_names(served, question), tuple(target_tokenizer(served).tokens(target))
    )


def head_at(served: Served, found: Probe, kind: str, layer: int, head: int) -> HeadRecord:
    """One head with its numbers. They are computed again rather than kept: all heads' would fill the memory."""
    return HeadRecord.from_traces(*watched(served, found.question, found.target), kind, layer, head)


@torch.inference_mode()
def next_tokens(served: Served, question: Question) -> Tensor:
    """log p [V] of the token that follows the prefix"""
    with switched_off(served.model, question.off):
        batch = _saying(served, question, [*question.prefix, EOS])
        return served.model(batch)[0, -1].double().log_softmax(-1)


def source_names(served: Served, question: Question) -> tuple[str, ...]:
    """What the columns of cross-attention stand for"""
    match served.pipeline:
        case Generator():
            return ()
        case Captioner():
            return region_names(served.pipeline.n_regions, served.pipeline.n_regions)
    return tuple(source_tokenizer(served).tokens((*question.source, EOS)))


def _saying(served: Served, question: Question, target: Sequence[int]) -> Batch:
    said = torch.tensor([[BOS, *target]], dtype=torch.int64, device=served.pipeline.device)
    return Batch.of(_shown(served, question), said)


def _shown(served: Served, question: Question) -> Tensor:
    """What the model sees: nothing, a picture, or ids; what is masked is padding, which no head may attend to"""
    match served.pipeline:
        case Generator():
            return _nothing(served)
        case Captioner(size=size):
            if question.pixels is None or len(question.pixels) != 3 * size * size:
                raise UserError("the picture is missing or of another size")
            picture = np.frombuffer(question.pixels, dtype=np.uint8).reshape(1, size, size, 3)
            return scale_pixels(picture.copy()).to(served.pipeline.device)
    ids = [PAD if i in question.masked else token for i, token in enumerate(question.source)]
    return torch.tensor([[*ids, EOS]], dtype=torch.int64, device=served.pipeline.device)


def _nothing(served: Served) -> Tensor:
    return torch.empty(1, 0, dtype=torch.int64, device=served.pipeline.device)


def check_maskable(served: Served) -> None:
    if not isinstance(served.model, EncoderDecoder) or isinstance(served.model.encoder, RnnEncoder | ImageEncoder):
        raise UserError("only a Transformer's encoder can be kept from seeing a token")


@contextmanager
def switched_off(model: Any, heads: Sequence[tuple[str, int, int]]) -> Iterator[None]:
    """Heads whose part of W_O is zero meanwhile: what they say is not heard. One thread at a time may do this."""
    saved = []
    try:
        for kind, layer, head in heads:
            part = attention_at(model, kind, layer)
            if not 0 <= head < part.n_heads:
                raise UserError(f"there is no head {head}; this model has 0 to {part.n_heads - 1}")
            width = part.out.in_features // part.n_heads
            columns = part.out.weight[:, head * width : (head + 1) * width]
            saved.append((columns, columns.clone()))
            columns.zero_()
        yield
    finally:
        for columns, before in reversed(saved):
            columns.copy_(before)


def attention_at(model: Any, kind: str, layer: int) -> MultiHeadAttention:
    """The attention of that kind in that layer"""
    part = getattr(model, "encoder" if kind == "encoder" else "decoder", None)
    layers = getattr(getattr(part, "stack", part), "layers", None)
    found = None
    if kind in KINDS and layers is not None and 0 <= layer < len(layers):
        found = getattr(layers[layer], "cross" if kind == "cross" else "mixer", None)
    if not isinstance(found, MultiHeadAttention):
        raise UserError("there is no such layer of attention to switch a head off in")
    return found


def source_tokenizer(served: Served) -> Tokenizer:
    return served.pipeline.src_tokenizer


def target_tokenizer(served: Served) -> Tokenizer:
    return served.pipeline.tgt_tokenizer
