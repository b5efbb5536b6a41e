"""The front door of captioning models: pictures → captions, and where the model looked."""

from collections.abc import Sequence
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
from regard.search.decode import DecodeConfig, decode
from regard.text.clean import clean
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import BOS, EOS

RegionWeights = NDArray[np.float32]
_BATCH = 64


@dataclass(frozen=True)
class Caption:
    text: str
    score: float
    tokens: tuple[str, ...]
    regions: RegionWeights | None = None
    """[layers, heads, tokens + 1, rows, columns]: where each token (EOS is the last) looked, if asked for"""


class Captioner:
    def __init__(self, model: Model, tokenizers: TokenizerPair, config: DecodeConfig, device: torch.device) -> None:
        if not isinstance(model, EncoderDecoder) or not isinstance(model.encoder, ImageEncoder):
            raise UserError("this model takes no pictures; train one with --recipe caption")
        self.size = model.encoder.size
        self.n_regions = model.encoder.regions
        self.model = model
        self.tokenizers = tokenizers
        self.config = config
        self.device = device

    def caption(
        self, pictures: Sequence[Path | str | ImageArray], *, attention: bool = False, **options: object
    ) -> list[Caption]:
        """One Caption a picture: a file, or an array uint8 [size, size, 3]. `options` are those of DecodeConfig."""
        config = DecodeConfig.parse({**self.config.model_dump(), **options}, where="caption")
        found: list[Caption] = []
        for i in range(0, len(pictures), _BATCH):
            src = self._pixels(pictures[i : i + _BATCH])
            nothing = torch.empty(len(src), 0, dtype=torch.int64)
            found += self.of_batch(Batch(src, nothing, nothing), config, attention)
        return found

    @torch.inference_mode()
    def of_batch(self, batch: Batch, config: DecodeConfig | None = None, attention: bool = False) -> list[Caption]:
        moved = batch.to(self.device)
        target = self.tokenizers.tgt
        captions = []
        for i, (best, *_) in enumerate(decode(self.model, moved, config or self.config)):
            regions = self._regions(moved.src[i : i + 1], best.ids) if attention else None
            captions.append(
                Caption(clean(target.decode(best.ids)), best.score, tuple(target.tokens(best.ids)), regions)
            )
        return captions

    @torch.inference_mode()
    def attention(self, picture: Path | str | ImageArray, caption: str) -> tuple[list[str], RegionWeights]:
        """The caption's tokens, and where the model looks while it is made to say them"""
        [ids] = self.tokenizers.tgt.encode([clean(caption)])
        return self.tokenizers.tgt.tokens(ids), self._regions(self._pixels([picture]).to(self.device), ids)

    def _pixels(self, pictures: Sequence[Path | str | ImageArray]) -> torch.Tensor:
        arrays = [load_image(Path(p), self.size) if isinstance(p, str | Path) else p for p in pictures]
        return scale_pixels(np.stack(arrays))

    def _regions(self, picture: torch.Tensor, ids: Sequence[int]) -> RegionWeights:
        tgt = torch.tensor([[BOS, *ids, EOS]], device=self.device)
        layers = [trace.weights[0] for trace in self.model.attention(Batch.of(picture, tgt)).cross]
        side = self.n_regions
        if not layers:
            return np.zeros((0, 0, len(ids) + 1, side, side), dtype=np.float32)
        return torch.stack(layers).unflatten(-1, (side, side)).float().cpu().numpy()
