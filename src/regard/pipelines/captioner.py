"""Captioner: images in, captions out, with the regions that each word attends to."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.images import ImageArray, load_image, scale_pixels
from regard.errors import UserError
from regard.models import Model
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.image_encoder import ImageEncoder
from regard.models.record import AttentionRecord
from regard.pipelines.base import ImageSize, Pipeline, check_hypotheses
from regard.pipelines.encoded_input import EncodedInput, Input
from regard.search.decode import DecodeConfig, decode
from regard.text.html_table import image_row_html, text_html
from regard.text.labels import token_labels
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import EOS, SPECIALS
from regard.text.weight_image import weight_image_html

RegionWeights = NDArray[np.float32]
_BATCH = 64


@dataclass(frozen=True)
class Caption:
    text: str
    score: float
    tokens: tuple[str, ...]
    regions: RegionWeights | None = None
    """[layers, heads, tokens + 1, rows, columns]: attention of each token (EOS is the last), if requested"""

    def _repr_html_(self) -> str:
        """Show the caption and its score in a notebook, and where in the image each word attends if requested."""
        parts = [text_html(self.text), f"<div>score: {self.score:.3f}</div>"]
        if self.regions is not None:
            maps = self.regions.mean((0, 1))
            largest = max(float(maps.max()), 1e-9)
            names = token_labels((*self.tokens, SPECIALS[EOS]))
            images = [(weight_image_html(part / largest, name), name) for part, name in zip(maps, names, strict=True)]
            parts.append(image_row_html(images))
        return "".join(parts)


class Captioner(Pipeline):
    """Describes images.

    >>> captioner = regard.load(captioner_dir)
    >>> [caption] = captioner.caption([image_file], attention=True)
    >>> caption.regions.ndim  # [layers, heads, tokens, rows, columns]
    5
    """

    noun = "captioner"
    example_recipe = "caption"

    def __init__(
        self, model: Model, tokenizers: TokenizerPair, decode_config: DecodeConfig, device: torch.device
    ) -> None:
        if not isinstance(model, EncoderDecoder) or not isinstance(model.encoder, ImageEncoder):
            raise UserError("this model does not read images; train one with --recipe caption")
        super().__init__(model, tokenizers, decode_config, device)
        self.model: EncoderDecoder = model
        self.size = model.encoder.size
        self.n_regions = model.encoder.regions

    def caption(self, images: Sequence[Input], *, attention: bool = False, **options: object) -> list[Caption]:
        """Return one Caption per image, in order. `options` are those of DecodeConfig.

        An image is a file, or an array uint8 [size, size, 3].
        """
        if isinstance(images, str | bytes | Path) or not isinstance(images, Sequence | np.ndarray):
            raise UserError("caption takes a list of images; write caption([image])")
        config = DecodeConfig.parse({**self.decode_config.model_dump(), **options}, where="caption")
        captions: list[Caption] = []
        for i in range(0, len(images), _BATCH):
            src = self._pixels(images[i : i + _BATCH])
            no_target = torch.empty(len(src), 0, dtype=torch.int64)
            captions += self.caption_batch(Batch(src, no_target, no_target), config, attention)
        return captions

    @torch.inference_mode()
    def caption_batch(self, batch: Batch, config: DecodeConfig | None = None, attention: bool = False) -> list[Caption]:
        """Return one Caption per image of a batch."""
        batch, config = batch.to(self.device), config or self.decode_config
        captions = []
        for i, hypotheses in enumerate(decode(self.decoding_model(config), batch, config)):
            best, regions = check_hypotheses(hypotheses)[0], None
            if attention:
                _, record = self.trace(self._encoded(batch.src[i : i + 1]), [*best.ids, EOS])
                regions = self.region_weights(record)
            tokens = tuple(self.tgt_tokenizer.tokens(best.ids))
            captions.append(Caption(self.decode_target(best.ids), best.score, tokens, regions))
        return captions

    def encode(self, source: Input, hidden: Collection[int] = ()) -> EncodedInput:
        """Scale an image to the size that the model reads."""
        if hidden:
            raise UserError("an image has no source tokens to hide")
        return self._encoded(self._pixels([source]).to(self.device))

    def encode_ids(self, ids: Sequence[int], hidden: Collection[int] = ()) -> EncodedInput:
        raise UserError("this model reads images, not text")

    def input_tokens(self, source: Input) -> list[str]:
        return []

    @property
    def max_input_tokens(self) -> int | None:
        return None

    @property
    def image_size(self) -> ImageSize:
        return ImageSize(self.size, self.n_regions)

    def thumbnail(self, source: Input, size: int) -> ImageArray | None:
        """Return an image file at another size than the model reads; an array is returned as it is."""
        return load_image(Path(source), size) if isinstance(source, str | Path) else source

    def region_weights(self, record: AttentionRecord) -> RegionWeights:
        """Cross-attention of a record as maps over the image [layers, heads, tokens, rows, columns]"""
        return record.cross.reshape(*record.cross.shape[:3], self.n_regions, self.n_regions)

    def _encoded(self, pixels: torch.Tensor) -> EncodedInput:
        return EncodedInput(pixels, src_tokens=region_names(self.n_regions, self.n_regions))

    def _pixels(self, images: Sequence[Input]) -> torch.Tensor:
        """Load and scale images → [B, 3, size, size]"""
        return scale_pixels(np.stack([_load(image, self.size) for image in images]))


def _load(image: Input, size: int) -> ImageArray:
    if isinstance(image, str | Path):
        return load_image(Path(image), size)
    if not isinstance(image, np.ndarray):
        raise UserError(f"an image is a file or an array, not a value of type {type(image).__name__}")
    if image.dtype != np.uint8:
        raise UserError(f"the image has values of type {image.dtype}; give uint8")
    if image.shape != (size, size, 3):
        raise UserError(f"the image has shape {image.shape}; this model reads ({size}, {size}, 3)")
    return image


def region_names(n_rows: int, n_columns: int) -> tuple[str, ...]:
    """Name the regions `row,column`, row by row, each as a separate word."""
    return tuple(f"▁{row},{column}" for row in range(n_rows) for column in range(n_columns))
