"""The front door of captioning models: pictures → captions, and where the model looked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.pictures import Picture, load_picture, scaled
from regard.errors import UserError
from regard.models import Model
from regard.models.encdec import EncoderDecoder
from regard.models.image import ImageEncoder
from regard.search.decode import DecodeConfig, decode
from regard.text.clean import clean
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import BOS, EOS

_BATCH = 64


@dataclass(frozen=True)
class Caption:
    text: str
    score: float
    tokens: tuple[str, ...]
    regions: NDArray[np.float32]
    """[layers, heads, tokens + 1, rows, columns]: where each token (EOS is the last) looked; each map sums to one"""


class Captioner:
    def __init__(self, model: Model, tokenizers: TokenizerPair, config: DecodeConfig, device: torch.device) -> None:
        if not isinstance(model, EncoderDecoder) or not isinstance(model.encoder, ImageEncoder):
            raise UserError("this model takes no pictures; train one with --recipe caption")
        self.size = model.encoder.size
        self.model = model
        self.tokenizers = tokenizers
        self.config = config
        self.device = device

    def caption(self, pictures: Sequence[Path | str | Picture], **options: object) -> list[Caption]:
        """One Caption a picture: a file, or an array uint8 [size, size, 3]. `options` are those of DecodeConfig."""
        config = DecodeConfig.parse({**self.config.model_dump(), **options}, where="caption")
        arrays = [load_picture(Path(p), self.size) if isinstance(p, str | Path) else p for p in pictures]
        found: list[Caption] = []
        for i in range(0, len(arrays), _BATCH):
            src = scaled(np.stack(arrays[i : i + _BATCH]))
            nothing = torch.empty(len(src), 0, dtype=torch.int64)
            found += self.of_batch(Batch(src, nothing, nothing), config, attention=True)
        return found

    @torch.inference_mode()
    def of_batch(self, batch: Batch, config: DecodeConfig | None = None, attention: bool = False) -> list[Caption]:
        moved = batch.to(self.device)
        best = [row[0] for row in decode(self.model, moved, config or self.config)]
        target = self.tokenizers.tgt
        captions = []
        for i, hypothesis in enumerate(best):
            regions = self._regions(moved.src[i : i + 1], hypothesis.ids) if attention else np.zeros(0, np.float32)
            text = clean(target.decode(hypothesis.ids))
            captions.append(Caption(text, hypothesis.score, tuple(target.tokens(hypothesis.ids)), regions))
        return captions

    def _regions(self, picture: torch.Tensor, ids: tuple[int, ...]) -> NDArray[np.float32]:
        tgt = torch.tensor([[BOS, *ids, EOS]], device=self.device)
        weights = torch.stack([w[0] for w in self.model.attention(Batch.of(picture, tgt)).cross])
        side = round(weights.shape[-1] ** 0.5)
        return weights.unflatten(-1, (side, side)).float().cpu().numpy()
