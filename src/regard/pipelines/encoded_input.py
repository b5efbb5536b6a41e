"""An input as the model reads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.images import ImageArray
from regard.errors import UserError
from regard.text.vocab import BOS

Input = str | Path | ImageArray
"""A text or, for a captioner, an image file or an image as an array"""


@dataclass(frozen=True)
class EncodedInput:
    """An input as the model reads it."""

    src: Tensor
    """[1, S] ids ending in EOS, [1, 3, H, W] pixels, or [1, 0] for a language model"""
    src_ids: tuple[int, ...] = ()
    """Source ids without EOS"""
    src_tokens: tuple[str, ...] = ()
    """What the positions of the source are: tokens and EOS, or regions of an image"""
    prefix: tuple[int, ...] = ()
    """Ids that the output starts with: the prompt of a language model"""

    def batch(self, target: Sequence[int] = ()) -> Batch:
        """Make a batch of one sentence; `target` are the ids after BOS, for teacher forcing."""
        return Batch.of(self.src, torch.tensor([[BOS, *target]], dtype=torch.int64, device=self.src.device))

    def check_not_empty(self) -> None:
        """Refuse a text without tokens."""
        is_image = self.src.is_floating_point()
        if not (is_image or self.src_ids or self.prefix):
            raise UserError("the text is empty; give at least one word")
