"""What the source's tokens did for each target token, by gradients: beside attention, which says where was looked."""

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
    "attention": "where the model looked; it need not have used what it saw there",
    "gradient": "(times input) what a small change of a token's vector would do to the log-probability; blind where "
    "the model is saturated",
    "integrated": "(gradients) the log-probability gained over a source of zero vectors, shared among the tokens; "
    "depends on zero standing for nothing",
}
"""What each tells, and what it does not"""
_STEPS = 32


@dataclass(frozen=True)
class Attribution:
    """Contributions [target, source] to the log-probability of each target token, in nats; they may be negative."""

    method: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    values: NDArray[np.float32]

    @property
    def shares(self) -> NDArray[np.float32]:
        """How much of each row is whose, whatever its sign: rows sum to one"""
        size = np.abs(self.values)
        found: NDArray[np.float32] = size / np.maximum(size.sum(1, keepdims=True), 1e-12)
        return found

    @property
    def record(self) -> AttentionRecord:
        """The shares in the form of cross-attention of one head, to be merged and drawn as such"""
        s, t = len(self.source_tokens), len(self.target_tokens)
        encoder, decoder = (np.zeros((0, 0, n, n), dtype=np.float32) for n in (s, t))
        return AttentionRecord(self.source_tokens, self.target_tokens, encoder, decoder, self.shares[None, None])


def compare_methods(translator: Translator, source: str, target: str) -> dict[str, AttentionRecord]:
    """Attention (the mean of all heads) and the shares of each attribution, by their methods"""
    attention = translator.record(source, target)
    found = {method: attribute(translator, source, target, method).record for method in ("gradient", "integrated")}
    return ({"attention": attention.mean()} if attention.cross.size else {}) | found


def attribute(translator: Translator, source: str, target: str, method: str, steps: int = _STEPS) -> Attribution:
    """What the source's tokens do for each token of a given target; `steps` are of the integral."""
    encoded, target_ids = translator.encode(source), [*translator.encode_target(target), EOS]
    if not encoded.src_ids:
        raise UserError("the text is empty; give at least one word")
    batch = encoded.batch(target_ids)
    match method:
        case "gradient":
            vectors, gradients, _ = source_gradients(translator, batch)
        case "integrated":
            vectors, gradients = _integrated(translator, batch, steps)
        case _:
            raise UserError(f"attribution by '{method}' is unknown; choose gradient or integrated")
    values = (vectors * gradients).sum(-1).float().cpu().numpy()
    target_tokens = tuple(translator.tgt_tokenizer.tokens(target_ids))
    return Attribution(method, encoded.src_tokens, target_tokens, values)


def _integrated(translator: Translator, batch: Batch, steps: int) -> tuple[Tensor, Tensor]:
    """(x, ∫ ∂ log p / ∂x at α x dα from 0 to 1), by the midpoint rule (Sundararajan et al. 2017)"""
    scales = [(step + 0.5) / steps for step in range(steps)]
    gradients = torch.stack([source_gradients(translator, batch, scale)[1] for scale in scales]).mean(0)
    return source_gradients(translator, batch)[0], gradients


def source_gradients(translator: Translator, batch: Batch, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """The source's vectors x [S, D], times `scale`; ∂ log p(y_t) / ∂x at that place [T, S, D]; and log p [T]

    Each target token has a row of its own in the batch, so that one backward pass serves them all.
    """
    model = translator.traced_model
    n_src, n_tgt = batch.src.shape[1], batch.tgt_out.shape[1]
    rows = batch.select(torch.zeros(n_tgt, dtype=torch.int64, device=batch.src.device))
    leaves: list[Tensor] = []

    def swap(module: nn.Module, inputs: Any, output: Tensor) -> Tensor | None:
        if leaves:  # the source is looked up first, and stands first where source and target are one text
            return None
        vectors = output.detach().clone()
        vectors[:, :n_src] *= scale
        leaves.append(vectors.requires_grad_())
        return leaves[0]

    hooks = [part.register_forward_hook(swap) for part in model.modules() if isinstance(part, nn.Embedding)]
    try:
        # cuDNN's recurrent layers differentiate in training alone.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            log_probs = model(rows).log_softmax(-1).gather(-1, rows.tgt_out[..., None]).squeeze(-1).diagonal()
            [gradients] = torch.autograd.grad(log_probs.sum(), leaves)
    finally:
        for hook in hooks:
            hook.remove()
    return leaves[0][0, :n_src].detach(), gradients[:, :n_src], log_probs.detach()
