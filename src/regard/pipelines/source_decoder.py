"""Decoding of tokenised sources in groups of similar length, by an engine or by PyTorch, and with a draft model."""

from collections.abc import Sequence
from typing import Any, Self

import torch

from regard.data.batch import collate_sources, padded_length
from regard.errors import UserError
from regard.models import GenerativeModel
from regard.models.inference import inference_copy
from regard.pipelines.encoded_input import EncodedInput
from regard.pipelines.engine import Engine
from regard.pipelines.length_groups import LengthGroup, groups_by_length, split_for_threads
from regard.pipelines.pair_scorer import PairScorer
from regard.search.decode import DecodeConfig, decode, is_narrow, length_limits
from regard.search.ensemble import Ensemble
from regard.search.protocols import Hypothesis, RenumberedObserver, StepObserver, Stepper, is_optional
from regard.search.required_terms import TermSearch
from regard.search.speculative import DraftedModel, check_draft
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import UNK
from regard.threads import run_in_threads


class SourceDecoder(PairScorer):
    """A pipeline that decodes many sources."""

    def __init__(
        self,
        model: GenerativeModel | Ensemble[GenerativeModel],
        tokenizers: TokenizerPair,
        decode_config: DecodeConfig,
        device: torch.device,
        engine: Engine | None = None,
        draft: GenerativeModel | None = None,
    ) -> None:
        super().__init__(model, tokenizers, decode_config, device)
        self.model: GenerativeModel | Ensemble[GenerativeModel] = model
        self.engine = engine
        """What runs the search, unless only PyTorch can; None: always PyTorch"""
        self._drafted: DraftedModel | None = None
        """The faster copies of the model and its draft"""
        self.draft: GenerativeModel | None = None
        if draft is not None:
            self.use_draft(draft)

    def use_draft(self, draft: GenerativeModel) -> None:
        """Decode greedily from now on, with tokens that the model `draft` proposes; the output stays the same."""
        if isinstance(self.model, Ensemble):
            raise UserError("a draft model proposes tokens to one model, not to an ensemble; leave one of them out")
        check_draft(self.model, draft)
        self.draft = draft
        self.decode_config = self.decode_config.model_copy(update={"beam": 1, "n_best": 1, "sampling": None})

    def limit_sources(self, max_source: int | None) -> Self:
        """Set the limit on the tokens of a source, unless it is None, and return this pipeline."""
        if max_source is not None:
            options = {**self.decode_config.model_dump(), "max_source": max_source}
            self.decode_config = DecodeConfig.parse(options, where="--max-source")
        return self

    def max_output_tokens(self, n_source: int, config: DecodeConfig) -> int:
        """Return the number of tokens after which the search ends a translation of `n_source` source tokens."""
        batch = collate_sources([[UNK] * n_source])
        limits = [length_limits(batch.lengths, config), self.decoding_model(config).max_target_len(batch)]
        return min(int(limit) for limit in limits if limit is not None)

    def _decode_all(
        self,
        sources: Sequence[Sequence[int]],
        config: DecodeConfig,
        forced: Sequence[Sequence[int]] | None = None,
        observer: StepObserver | None = None,
        terms: TermSearch | None = None,
    ) -> dict[int, list[Hypothesis]]:
        """Decode sources by the engine, and what it leaves out by PyTorch, in groups of similar length.

        Empty and stopped sources may have no result. Only PyTorch can search for `terms`.
        """
        results: dict[int, list[Hypothesis]] = {}
        is_observed = observer is not None and not is_optional(observer)
        needs_torch = forced is not None or terms is not None or is_observed
        if self.engine is not None and not needs_torch and self.engine.can_decode(config):
            results = self.engine.decode(sources, config)
            sources = [() if i in results else source for i, source in enumerate(sources)]  # empty ones are left out
        model = self._search_model(config) if terms is None else self.decoding_model(config)

        def decode_group(group: LengthGroup) -> list[list[Hypothesis]]:
            rows, n_slots = group
            batch = collate_sources([sources[i] for i in rows], self._width(len(sources[rows[0]]))).to(self.device)
            renumbered = None if observer is None else RenumberedObserver(observer, torch.tensor(rows))
            prefixes = [forced[i] for i in rows] if forced else None
            required = None if terms is None else terms.select(rows)
            n_slots = n_slots if required is None else required.n_slots(n_slots, config.beam)
            return decode(model, batch, config, prefixes, renumbered, n_slots, required)

        alone = observer is not None or self.device.type != "cpu" or is_narrow(model)
        n_threads = 1 if alone else torch.get_num_threads()
        groups = split_for_threads(list(groups_by_length(sources, config, self.device)), n_threads)
        for group, decoded in zip(groups, run_in_threads(decode_group, groups, n_threads), strict=True):
            for i, hypotheses in zip(group.rows, decoded, strict=True):
                if hypotheses or observer is None:  # a stopped sentence may have no finished hypothesis
                    results[i] = hypotheses
        return results

    def _replace_empty(
        self, decoded: dict[int, list[Hypothesis]], sources: Sequence[Sequence[int]], config: DecodeConfig
    ) -> None:
        """Search again, for outputs of at least one token, where the best output is empty although the source is not.

        Forbidding empty outputs from the start would also change the outputs of other sources.
        """
        rows = [i for i, hypotheses in decoded.items() if hypotheses and not self.decode_target(hypotheses[0].ids)]
        if not rows:
            return
        again = self._decode_all([sources[i] for i in rows], without_empty(config))
        for n, i in enumerate(rows):
            decoded[i] = self._empty_last(again[n])[: config.n_best] or decoded[i]

    def _empty_last(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Sort hypotheses whose text is empty, such as a lone space, behind the others."""
        return sorted(hypotheses, key=lambda hypothesis: not self.decode_target(hypothesis.ids))

    def _decode_ranked(self, encoded: EncodedInput, rank: int) -> list[int]:
        ids = super()._decode_ranked(encoded, rank)
        if rank > 1 or self.decode_target(ids):
            return ids
        config = without_empty(self.decode_config)
        [hypotheses] = decode(self.decoding_model(config), encoded.batch(), config)
        return list(self._empty_last(hypotheses)[0].ids) if hypotheses else ids

    def _width(self, longest: int) -> int:
        """Return the width of a batch of sources; only some occur, because each is captured separately."""
        width = padded_length(-(-(longest + 1) // 8) * 8)
        return width if self.max_input_tokens is None else min(width, self.max_input_tokens + 1)

    def _search_model(self, config: DecodeConfig) -> Stepper[Any]:
        """Return what decodes: the model, with its draft if it has one, as copies that decode faster."""
        model = self.decoding_model(config)
        if self.draft is None:
            return model
        members = model, inference_copy(self.draft, config.precision)
        if self._drafted is None or self._drafted.members != members:
            self._drafted = DraftedModel(*members)  # type: ignore[arg-type]  # see `check_draft`
        return self._drafted


def without_empty(config: DecodeConfig) -> DecodeConfig:
    """Return settings of a search for outputs of at least one token."""
    width = max(2, config.beam, config.n_best)
    update = {"min_len": max(1, config.min_len), "beam": width, "n_best": width, "sampling": None}
    return config.model_copy(update=update)
