"""Texts as vectors: the summary that an encoder makes of each text, or the mean of a language model's vectors."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import collate_sources, run_parts
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.encoder_only import EncoderOnly
from regard.pipelines.arguments import check_texts
from regard.pipelines.base import Pipeline

_BATCH_TOKENS = 16_384


class TextEmbedder(Pipeline):
    """A pipeline whose model may turn texts into vectors."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text [texts, D]: the summary of the encoder.

        It is the mean of the token vectors; with `pooling: attention`, their weighted mean; of an RNN, its last states.
        Of a language model, it is the mean of the vectors from which it predicts the next tokens.
        """
        return self.embed_ids(self._encode_all(check_texts(texts, "embed")))

    @torch.inference_mode()
    def embed_ids(self, sources: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Like `embed`, for source ids without EOS."""
        vectors = np.zeros((len(sources), self.embedding_size), dtype=np.float32)
        for rows, part in self._embed(sources):
            vectors[rows] = part.float().cpu().numpy()
        return vectors

    @property
    def embedding_size(self) -> int:
        """Numbers of a vector"""
        model = self._embedding_model()
        return model.decoder.d_out if isinstance(model, DecoderOnly) else model.encoder.d_model

    def count_long(self, texts: Sequence[str]) -> int:
        """Count the texts that are longer than what the model reads of them."""
        return sum(len(ids) > self.length_limit().tokens for ids in self._encode_all(texts))

    def _embed(self, sources: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], Tensor]]:
        """Yield row numbers and vectors of sources of similar length."""
        model = self._embedding_model()
        ids = [row[: self.length_limit().tokens] for row in sources]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        while order:
            n = max(1, _BATCH_TOKENS // (len(ids[order[-1]]) + 1))
            rows, order = order[-n:], order[:-n]
            batch = collate_sources([ids[i] for i in rows])
            yield rows, torch.cat(list(run_parts(lambda part: model.embed(part.src), batch, self.device)))

    def _embedding_model(self) -> EncoderDecoder | EncoderOnly | DecoderOnly:
        model = self.traced_model
        if isinstance(model, DecoderOnly):
            raise UserError("this model has no encoder; embed takes an encoder-decoder or encoder-only model")
        return model

    def _encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenise the texts; of one that is far over the limit, only a part that is still over it."""
        n = self.length_limit().chars
        return self.src_tokenizer.encode([self.clean(text)[:n] for text in texts])
