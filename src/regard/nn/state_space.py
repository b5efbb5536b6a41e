"""The selective state space of Mamba (Gu & Dao 2023): a recurrence whose coefficients depend on the input."""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

CHUNK = 64


class SsmState(NamedTuple):
    """The state after some tokens: conv [B, E, W−1], the last inputs of the convolution, and ssm [B, E, N]"""

    conv: Tensor
    ssm: Tensor

    def select(self, rows: Tensor) -> "SsmState":
        return SsmState(self.conv.index_select(0, rows), self.ssm.index_select(0, rows))


def scan(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """h_t = a_t ⊙ h_{t−1} + b_t  with  h_{−1} = start;  a, b [B, T, E, N], start [B, E, N] → all h [B, T, E, N]"""
    if torch.compiler.is_compiling():
        return _states(a, b, start)  # the compiler derives the gradient itself
    return _Scan.apply(a, b, start)


class _Scan(torch.autograd.Function):
    """A scan whose gradient is a scan from the end, so that only a and h are kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, start: Tensor) -> Tensor:
        h = _states(a, b, start)
        ctx.save_for_backward(a, h, start)
        return h

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """γ_t = g_t + a_{t+1} ⊙ γ_{t+1};  ∂a_t = γ_t ⊙ h_{t−1},  ∂b_t = γ_t,  ∂start = a_0 ⊙ γ_0"""
        a, h, start = ctx.saved_tensors
        later = torch.cat([a[:, 1:], torch.zeros_like(a[:, :1])], dim=1)
        back = _states(later.flip(1), gradient.flip(1), torch.zeros_like(start)).flip(1)
        return back * torch.cat([start[:, None], h[:, :-1]], dim=1), back, a[:, 0] * back[:, 0]


def _states(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    if a.device.type == "cpu" and not torch.compiler.is_compiling():
        return sequential(a, b, start)
    return parallel(a, b, start)


def sequential(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """Compute the scan one step at a time: one pass over memory, faster on a CPU."""
    h = torch.empty_like(b)
    for t in range(b.shape[1]):
        start = torch.addcmul(b[:, t], a[:, t], start, out=h[:, t])
    return h


def parallel(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """Compute the scan chunk by chunk, all positions of a chunk in parallel."""
    states = []
    for a_chunk, b_chunk in zip(a.split(CHUNK, dim=1), b.split(CHUNK, dim=1), strict=True):
        states.append(_scan_chunk(a_chunk, b_chunk, start))
        start = states[-1][:, -1]
    return torch.cat(states, dim=1)


def _scan_chunk(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """Scan at most CHUNK positions by doubling: after step s, b_t is the sum of the last 2s terms.

    The pair (a, b) represents h ↦ a h + b, and two of them compose as (a, b) ∘ (a', b') = (a a', a b' + b).
    There are products only, no division: a product of many a < 1 may underflow to 0.
    """
    b = torch.cat([b[:, :1] + a[:, :1] * start[:, None], b[:, 1:]], dim=1)
    # The same steps for every length, so that one compiled graph serves all; steps past the length add zeros.
    length = CHUNK if torch.compiler.is_compiling() else a.shape[1]
    shift = 1
    while shift < length:
        b = b + a * _delay(b, shift)
        a = a * _delay(a, shift)
        shift *= 2
    return b


def _delay(x: Tensor, by: int) -> Tensor:
    """Shift x by `by` positions, filling with zeros: y_t = x_{t−by};  [B, T, E, N] → [B, T, E, N]"""
    return F.pad(x, (0, 0, 0, 0, by, 0))[:, : x.shape[1]]


def _at_least_float32(x: Tensor) -> Tensor:
    """Cast to float32 or wider: a recurrence in bf16 loses small terms."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class SelectiveStateSpace(nn.Module):
    """h_t = exp(Δ_t A) ⊙ h_{t−1} + Δ_t B_t x_t,  y_t = C_t h_t + D ⊙ x_t  with Δ, B and C functions of x_t.

    With a gate and a short causal convolution around it: [x, z] = W_in u, x ← SiLU(conv(x)), out = W_out (y ⊙ SiLU(z)).
    There are E = expand · D channels with N = d_state states each; the convolution covers `width` positions.
    """

    def __init__(self, d_model: int, d_state: int = 16, expand: int = 2, width: int = 4) -> None:
        super().__init__()
        inner, rank = expand * d_model, math.ceil(d_model / 16)
        self.d_state, self.rank, self.width = d_state, rank, width
        self.in_proj = nn.Linear(d_model, 2 * inner, bias=False)
        self.conv_weight = nn.Parameter(torch.empty(inner, width).uniform_(-(width**-0.5), width**-0.5))
        self.conv_bias = nn.Parameter(torch.zeros(inner))
        self.x_proj = nn.Linear(inner, rank + 2 * d_state, bias=False)
        self.dt_proj = nn.Linear(rank, inner, bias=False)
        # Separate from dt_proj, because it is added in float32 where the product is in bf16.
        self.dt_bias = nn.Parameter(_inverse_softplus(_log_uniform(inner, 1e-3, 1e-1)))
        self.a_log = nn.Parameter(torch.arange(1.0, d_state + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, d_model, bias=False)
        nn.init.uniform_(self.dt_proj.weight, -(rank**-0.5), rank**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]; the output at t depends on x_0 … x_t only."""
        x, gate = self.in_proj(x).chunk(2, dim=-1)
        x = self._convolve(F.pad(x, (0, 0, self.width - 1, 0)))
        h = _at_least_float32(x.new_zeros(x.shape[0], x.shape[2], self.d_state))
        chunks = x.split(CHUNK, dim=1)
        if len(chunks) == 1:
            return self._gate_output(self._chunk(x, h)[0], gate)
        outputs = []
        for chunk in chunks:
            # States [B, T, E, N] are N times as large as the input: compute them chunk by chunk, and again for the
            # backward pass.
            y, h = checkpoint(self._chunk, chunk, h, use_reentrant=False, preserve_rng_state=False)
            outputs.append(y)
        return self._gate_output(torch.cat(outputs, dim=1), gate)

    def start(self, rows: int, like: Tensor) -> SsmState:
        """Return the state before the first position, on the device and in the type of `like`."""
        inner = self.skip.shape[0]
        zeros = like.new_zeros(rows, inner, self.d_state)
        return SsmState(like.new_zeros(rows, inner, self.width - 1), _at_least_float32(zeros))

    @property
    def state_size(self) -> int:
        """Numbers that the state holds per row."""
        return self.skip.shape[0] * (self.width - 1 + self.d_state)

    def step(self, x: Tensor, state: SsmState) -> tuple[Tensor, SsmState]:
        """Process one more position [B, 1, D] → [B, 1, D] and the state after it"""
        x, gate = self.in_proj(x).chunk(2, dim=-1)
        window = torch.cat([state.conv, x.mT.to(state.conv.dtype)], dim=-1)  # [B, E, W]
        x = self._convolve(window.mT)
        a, b, c = self._discretise(x)
        h = a[:, 0] * state.ssm + b[:, 0]
        y = self._read(x, h[:, None], c)
        return self._gate_output(y, gate), SsmState(window[..., 1:], h)

    def _convolve(self, x: Tensor) -> Tensor:
        """SiLU(Σ_w weight_w ⊙ x_{t+w} + bias);  [B, T + W − 1, E] → [B, T, E]"""
        # Not nn.Conv1d, which torch.compile recompiles for every length.
        length = x.shape[1] - self.width + 1
        y: Tensor = self.conv_bias
        for w in range(self.width):
            y = y + x[:, w : w + length] * self.conv_weight[:, w]
        return F.silu(y.to(x.dtype))

    def _chunk(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, T, E] and the state before it [B, E, N] → y [B, T, E] and the state after it."""
        a, b, c = self._discretise(x)
        states = scan(a, b, h)
        return self._read(x, states, c), states[:, -1].clone()  # a view would keep all states alive

    def _discretise(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, T, E] → Ā = exp(ΔA) and B̄x = ΔBx [B, T, E, N], C [B, T, N]"""
        dt, b, c = self.x_proj(x).split([self.rank, self.d_state, self.d_state], dim=-1)
        dt = F.softplus(_at_least_float32(self.dt_proj(dt)) + self.dt_bias)
        a = -_at_least_float32(self.a_log).exp()
        return (dt[..., None] * a).exp(), (dt * x)[..., None] * _at_least_float32(b)[:, :, None], _at_least_float32(c)

    def _read(self, x: Tensor, states: Tensor, c: Tensor) -> Tensor:
        """y = C h + D ⊙ x;  states [B, T, E, N] → [B, T, E]"""
        # A product and a sum, because autocast would run a matmul in bf16.
        return (states * c[:, :, None]).sum(-1) + self.skip * x

    def _gate_output(self, y: Tensor, gate: Tensor) -> Tensor:
        """[B, T, E] → [B, T, D]"""
        return self.out_proj(y.to(gate.dtype) * F.silu(gate))


def _log_uniform(n: int, low: float, high: float) -> Tensor:
    """Draw n numbers whose logarithm is uniform."""
    return torch.empty(n).uniform_(math.log(low), math.log(high)).exp()


def _inverse_softplus(x: Tensor) -> Tensor:
    """log(eˣ − 1), computed as x + log(1 − e⁻ˣ) to avoid overflow"""
    return x + (-(-x).expm1()).log()
