"""A job for the queue: turn a text into a vector."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.pipelines.text_embedder import TextEmbedder
from regard.serve.batch_queue import QueuedJob, QueueName
from regard.serve.registry import ServedModel


@dataclass(frozen=True)
class EmbeddingJob:
    """Embeds one text. Texts for the same model are embedded in one batch."""

    served: ServedModel[TextEmbedder]
    ids: tuple[int, ...]

    @property
    def queue(self) -> QueueName:
        return "generate" if self.served.pipeline.noun == "generator" else "translate"

    @property
    def batch_key(self) -> Hashable:
        return "embedding", self.served.name

    @property
    def size(self) -> int:
        return len(self.ids)

    def run(self, batch: Sequence[QueuedJob]) -> list[NDArray[np.float32] | None]:
        """Return vectors of length 1; a vector of zeros stays as it is."""
        vectors = self.served.pipeline.embed_ids([queued.job.ids for queued in batch])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return list(vectors / np.maximum(lengths, np.finfo(np.float32).tiny))
