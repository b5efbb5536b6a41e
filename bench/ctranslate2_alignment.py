"""Attention of one head in CTranslate2 (`return_attention`) against ours, on the outputs of greedy search.

    python -m bench.ctranslate2_alignment DIR SOURCES [LAYER HEAD]

DIR is the model directory of a translator, SOURCES a file of sentences. By default the head is the second one of the
last layer but one.
"""

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from regard.alignment.from_attention import Aligner
from regard.bundle import Bundle
from regard.convert.ctranslate2.model import CTranslate2Model, write_ctranslate2
from regard.data.batch import forced_batch


@torch.inference_mode()
def our_weights(bundle: Bundle, source: list[int], target: list[int]) -> Tensor:
    """Return the weights of the chosen head [target tokens, source tokens]."""
    aligner = bundle.alignment
    traces = bundle.model.trace_attention(forced_batch([source], [target])).cross
    return traces[aligner.layer or 0].weights[0, aligner.head or 0]


def main(folder: str, sources: str, layer: int | None = None, head: int = 1) -> None:
    bundle = Bundle.load(folder)
    layer = len(bundle.model.attention_modules("cross")) - 2 if layer is None else layer
    bundle = replace(bundle, alignment=Aligner(layer=layer, head=head))
    encoded = bundle.tokenizers.src.encode(Path(sources).read_text(encoding="utf-8").splitlines())
    largest, n_equal, n_tokens = 0.0, 0, 0
    with TemporaryDirectory() as temporary:
        write_ctranslate2(bundle, Path(temporary))
        model = CTranslate2Model(Path(temporary), bundle)
        for source, [target] in ((ids, model.greedy([ids], [[]], max_len=100)) for ids in encoded if ids):
            theirs = torch.tensor(model.attention(source, target))
            ours = our_weights(bundle, source, target)[: len(theirs), : theirs.shape[-1]]
            if len(theirs):
                largest = max(largest, float((ours - theirs).abs().max()))
                n_equal += int((ours.argmax(1) == theirs.argmax(1)).sum())
                n_tokens += len(theirs)
    print(f"layer {layer}, head {head}: largest difference {largest:.1e}, {n_equal:,} of {n_tokens:,} links equal")


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
