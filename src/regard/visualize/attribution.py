"""Gradient-based attribution: how much each source token contributes to each target token."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.errors import UserError
from regard.models.record import AttentionRecord
from regard.pipelines.translator import Translator
from regard.text.vocab import EOS

METHODS = {
    "attention": "where the model attends; it need not use what it reads there",
    "gradient": "(times input) how a small change of a token's vector would change the log-probability; blind where "
    "the model is saturated",
    "integrated": "(gradients) the log-probability gained over a source of zero vectors, divided among the tokens; "
    "assumes that a zero vector means no information",
}
"""What each method measures, and its limits"""
_N_STEPS = 32  # of the numerical integral


@dataclass(frozen=True)
class Attribution:
    """Contributions [target, source] to the log-probability of each target token, in nats; they may be negative."""

    method: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    values: NDArray[np.float32]

    @property
    def shares(self) -> NDArray[np.float32]:
        """Absolute contributions as shares of their row; each row sums to 1"""
        sizes = np.abs(self.values)
        shares: NDArray[np.float32] = sizes / np.maximum(sizes.sum(1, keepdims=True), 1e-12)
        return shares

    @property
    def record(self) -> AttentionRecord:
        """The shares as cross-attention of one head, so that they can be merged into words and drawn in the same way"""
        s, t = len(self.source_tokens), len(self.target_tokens)
        encoder, decoder = (np.zeros((0, 0, n, n), dtype=np.float32) for n in (s, t))
        return AttentionRecord(self.source_tokens, self.target_tokens, encoder, decoder, self.shares[None, None])


def compare_methods(translator: Translator, source: str, target: str) -> dict[str, AttentionRecord]:
    """Return one record per method: mean attention, if the model has any, and the shares of both attributions."""
    attention = translator.record(source, target)
    records = {"attention": attention.mean()} if attention.cross.size else {}
    for method in ("gradient", "integrated"):
        records[method] = attribute(translator, source, target, method).record
    return records


def attribute(translator: Translator, source: str, target: str, method: str, steps: int = _N_STEPS) -> Attribution:
    """Attribute each token of `target` to the source tokens, by method "gradient" or "integrated".

    `steps` is the number of points at which integrated gradients evaluate their integral.
    """
    encoded, target_ids = translator.encode(source), [*translator.encode_target(target), EOS]
    if not encoded.src_ids:
        raise UserError("the text is empty; give at least one word")
    batch = encoded.batch(target_ids)
    match method:
        case "gradient":
            vectors, gradients, _ = source_gradients(translator, batch)
        case "integrated":
            vectors, gradients = _integrated_gradients(translator, batch, steps)
        case _:
            raise UserError(f"attribution method '{method}' is unknown; choose gradient or integrated")
    values = (vectors * gradients).sum(-1).float().cpu().numpy()
    target_tokens = tuple(translator.tgt_tokenizer.tokens(target_ids))
    return Attribution(method, encoded.src_tokens, target_tokens, values)


def _integrated_gradients(translator: Translator, batch: Batch, steps: int) -> tuple[Tensor, Tensor]:
    """Return (x, ∫₀¹ ∂ log p / ∂x at αx dα), computed by the midpoint rule (Sundararajan et al. 2017)."""
    scales = [(step + 0.5) / steps for step in range(steps)]
    gradients = torch.stack([source_gradients(translator, batch, scale)[1] for scale in scales]).mean(0)
    return source_gradients(translator, batch)[0], gradients


def source_gradients(translator: Translator, batch: Batch, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Return the source vectors x [S, D] times `scale`, ∂ log p(y_t) / ∂x there [T, S, D], and log p(y_t) [T].

    The sentence is repeated once per target token, so that one backward pass gives the gradients of all of them.
    """
    model = translator.traced_model
    n_src, n_tgt = batch.src.shape[1], batch.tgt_out.shape[1]
    rows = batch.select(torch.zeros(n_tgt, dtype=torch.int64, device=batch.src.device))
    embedded: list[Tensor] = []

    def replace_embedding(module: nn.Module, inputs: Any, output: Tensor) -> Tensor | None:
        if embedded:  # the source is embedded first, or is the first part of the only sequence
            return None
        vectors = output.detach().clone()
        vectors[:, :n_src] *= scale
        embedded.append(vectors.requires_grad_())
        return embedded[0]

    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    hooks = [table.register_forward_hook(replace_embedding) for table in tables]
    try:
        # cuDNN's recurrent layers have a backward pass only in training mode.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            log_probs = model(rows).log_softmax(-1).gather(-1, rows.tgt_out[..., None]).squeeze(-1).diagonal()
            [gradients] = torch.autograd.grad(log_probs.sum(), embedded)
    finally:
        for hook in hooks:
            hook.remove()
    return embedded[0][0, :n_src].detach(), gradients[:, :n_src], log_probs.detach()
