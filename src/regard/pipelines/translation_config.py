"""Options of translation: those of decoding, and how the translation is chosen from several candidates."""

from typing import Self

from pydantic import Field, model_validator

from regard.errors import UserError
from regard.search.decode import DecodeConfig
from regard.search.sampling import SamplingConfig

_MBR_EPSILON = 0.02  # of the samples for mbr, unless epsilon is given


class TranslationConfig(DecodeConfig):
    """Options of a translator."""

    mbr: int = Field(0, ge=0, le=1000)
    """Draw this many samples, and choose the one that is most like all of them in chrF; 0: search."""
    rerank_weight: float = Field(0.5, ge=0.0, le=100.0)
    """With a reverse model: weight of log p(source | translation)."""
    rerank_length: float = Field(0.0, ge=-100.0, le=100.0)
    """With a reverse model: what each token of a translation adds to its score."""

    @model_validator(mode="after")
    def _check_mbr(self) -> Self:
        if self.mbr and (self.n_best > 1 or self.coverage):
            other = "n_best" if self.n_best > 1 else "coverage"
            raise ValueError(f"mbr chooses one of its samples, so {other} has no effect; leave {other} or mbr out")
        return self

    def of_candidates(self, reranked: bool) -> "TranslationConfig":
        """Return the options of the search for the candidates, from which a translation is chosen."""
        if self.mbr:
            sampling = self.sampling or SamplingConfig()
            if "epsilon" not in sampling.model_fields_set:
                sampling = sampling.model_copy(update={"epsilon": _MBR_EPSILON})
            return self.model_copy(update={"n_best": self.mbr, "sampling": sampling})
        if reranked and self.sampling is None:
            return self.model_copy(update={"n_best": self.beam})
        return self

    def check(self, has_draft: bool, has_reverse: bool) -> None:
        """Refuse options that make no sense with a draft or with a reverse model."""
        if has_draft and (self.mbr or not self.is_greedy):
            raise UserError("a draft model is for greedy search; leave it out, or set beam=1 without sampling and mbr")
        if has_reverse and self.mbr:
            raise UserError("mbr and a reverse model both choose the translation; leave one of them out")
        if has_reverse and self.of_candidates(True).n_best == 1:
            option = "beam" if self.sampling is None else "n_best"
            raise UserError(f"a reverse model ranks several translations; set {option} to at least 2, or leave it out")
