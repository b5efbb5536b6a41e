"""Compare an exported model with the original: the same inputs, greedy search, token by token."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from regard.bundle import Bundle
from regard.convert.export_format import ExportedModel
from regard.data.batch import Batch, forced_batch
from regard.errors import UserError
from regard.models.encoder_only import EncoderOnly
from regard.search.decode import DecodeConfig, decode
from regard.text.clean import clean
from regard.text.vocab import NEVER_GENERATED, SPECIALS

_N_RANDOM = 20
_MAX_INPUT = 1024  # tokens
_MAX_SHOWN = 10  # differences in a README
_PROMPT = 8  # tokens of a text that a language model continues


@dataclass(frozen=True)
class Difference:
    """An input for which the two models give different outputs."""

    source: str
    original: str
    exported: str


@dataclass(frozen=True)
class ExportCheck:
    """How far an exported model agrees with the original."""

    n_inputs: int
    differences: tuple[Difference, ...]
    max_log_prob_difference: float
    """Largest difference of the log-probabilities of a token of the original's outputs"""

    @property
    def n_equal(self) -> int:
        return self.n_inputs - len(self.differences)

    def describe(self) -> str:
        return (
            f"{self.n_equal:,} of {self.n_inputs:,} outputs equal (greedy search), "
            f"largest difference of a log-probability {self.max_log_prob_difference:.1e}"
        )

    def table(self) -> str:
        """Return the first outputs that differ as a Markdown table."""
        rows = [("source", "original", "exported"), ("---", "---", "---")]
        rows += [(d.source, d.original, d.exported) for d in self.differences[:_MAX_SHOWN]]
        return "\n".join(f"| {' | '.join(_cell(text) for text in row)} |" for row in rows)


def _cell(text: str) -> str:
    """Return a text on one line, as a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def sample_inputs(bundle: Bundle) -> list[list[int]]:
    """Return the ids of the bundle's examples, and some random ones."""
    tokenizer = bundle.tokenizers.src
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 20, (_N_RANDOM,), generator=generator).tolist()
    rows = [torch.randint(len(SPECIALS), tokenizer.size, (n,), generator=generator).tolist() for n in lengths]
    return _within_limit(bundle, [*_encode(bundle, bundle.examples), *rows])


def encode_inputs(bundle: Bundle, texts: Iterable[str], where: str) -> list[list[int]]:
    """Return the ids of texts that are neither empty nor longer than the model can read; `where` is named in errors."""
    inputs = _within_limit(bundle, _encode(bundle, texts))
    if not inputs:
        raise UserError(
            f"{where}: there is no text that the model can read; give one that has lines of ordinary length"
        )
    return inputs


def _encode(bundle: Bundle, texts: Iterable[str]) -> list[list[int]]:
    """Return the ids of texts; those without a tag get that of the first target language, if the model needs one."""
    return bundle.tokenizers.src.encode([clean(bundle.tagged_text(text)) for text in texts])


def _within_limit(bundle: Bundle, inputs: Iterable[list[int]]) -> list[list[int]]:
    limits = (_MAX_INPUT, bundle.decode.max_source, bundle.model.max_source_tokens)
    most = min(limit for limit in limits if limit is not None)
    return [ids for ids in inputs if 0 < len(ids) <= most]


def compare(
    bundle: Bundle, exported: ExportedModel, inputs: Sequence[Sequence[int]], max_len: int = 100
) -> ExportCheck:
    """Run both models on the same inputs, which a translator reads and a language model continues.

    An output has at most `max_len` tokens.
    """
    is_text = bundle.task == "text"
    sources: list[Sequence[int]] = [() for _ in inputs] if is_text else list(inputs)
    prefixes: list[Sequence[int]] = [ids[:_PROMPT] for ids in inputs] if is_text else [() for _ in inputs]
    expected = [_greedy(bundle, source, prefix, max_len) for source, prefix in zip(sources, prefixes, strict=True)]
    received = exported.greedy(sources, prefixes, max_len)
    largest = max(
        (
            abs(ours - theirs)
            for source, target in zip(sources, expected, strict=True)
            for ours, theirs in zip(
                forced_log_probs(bundle, source, target, exported.suppresses_specials),
                exported.log_probs(source, target),
                strict=True,
            )
        ),
        default=0.0,
    )
    src, tgt = bundle.tokenizers.src, bundle.tokenizers.tgt
    differences = tuple(
        Difference(src.decode(ids), tgt.decode(ours), tgt.decode(theirs))
        for ids, ours, theirs in zip(inputs, expected, received, strict=True)
        if list(ours) != list(theirs)
    )
    return ExportCheck(len(inputs), differences, largest)


def _greedy(bundle: Bundle, source: Sequence[int], prefix: Sequence[int], max_len: int) -> list[int]:
    """Return the output of greedy search, prefix included."""
    assert not isinstance(bundle.model, EncoderOnly)
    config = DecodeConfig(beam=1, n_best=1, max_len=max_len, precision="fp32")
    batch = _batch(source, [])
    with torch.inference_mode():
        [[hypothesis]] = decode(bundle.model, batch, config, [prefix] if prefix else None)
    return list(hypothesis.ids)


@torch.inference_mode()
def forced_log_probs(
    bundle: Bundle, source: Sequence[int], target: Sequence[int], suppress_specials: bool
) -> list[float]:
    """Return the log-probability of each target token, and of EOS after them, in the original model."""
    batch = _batch(source, target)
    logits = bundle.model(batch).float()
    if suppress_specials:
        logits[..., list(NEVER_GENERATED)] = -torch.inf
    log_probs = logits.log_softmax(-1)[0]
    return log_probs.gather(1, batch.tgt_out[0][:, None])[:, 0].tolist()


def _batch(source: Sequence[int], target: Sequence[int]) -> Batch:
    return forced_batch([source] if source else None, [target])
