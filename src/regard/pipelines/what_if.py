"""What if: the output of a model with heads switched off, or with activations of another input."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.models.intervention import Intervention
from regard.models.patch import PatchSite
from regard.pipelines.encoded_input import Input


@dataclass(frozen=True)
class Patch:
    """Another input, whose activations take the place of the model's own.

    `sites` says where, by default in the outputs of all layers. `target` is the output with which the decoder reads
    the other input, by default the model's own. If activations of the decoder are replaced, all outputs are those of
    greedy search, because the activations belong to one output and not to the hypotheses of a beam.

    Position i is replaced by position i, so that the comparison makes most sense for inputs with the same number of
    tokens.

    >>> translator = regard.load(translator_dir)
    >>> result = translator.what_if("a b c", patch=regard.Patch("a b c"))  # its own activations change nothing
    >>> result.before == result.after, abs(result.delta) < 0.001
    (True, True)
    """

    source: Input
    sites: Sequence[PatchSite] = ()
    target: str | None = None

    @property
    def has_decoder_sites(self) -> bool:
        """Whether activations of a decoder are replaced: they belong to one output, so the search must be greedy."""
        return not self.sites or any(site.kind != "encoder" for site in self.sites)


@dataclass(frozen=True)
class PatchActivations:
    """The activations of a patch, and the tokens whose positions they have."""

    intervention: Intervention
    source_tokens: tuple[str, ...]
    """What the encoder reads"""
    read_tokens: tuple[str, ...]
    """What the decoder reads"""
    is_greedy: bool
    """Whether outputs are to be searched for greedily"""


@dataclass(frozen=True)
class WhatIf:
    """The output of a model before and after a change."""

    before: str
    after: str
    tokens: tuple[str, ...]
    """Of the output before the change"""
    log_probs_before: tuple[float, ...]
    """Of these tokens, without the change"""
    log_probs_after: tuple[float, ...]
    """Of the same tokens, with the change"""

    @property
    def delta(self) -> float:
        """Change of log p of the output"""
        return sum(self.log_probs_after) - sum(self.log_probs_before)
