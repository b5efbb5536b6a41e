"""Write a model as a CTranslate2 folder, and run one."""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import ctranslate2

from regard.bundle import Bundle
from regard.convert.ctranslate2.spec import ctranslate2_spec
from regard.convert.export_format import Quantization
from regard.data.batch import forced_batch
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_only import EncoderOnly
from regard.text.vocab import BOS, EOS, SEP, SPECIALS


def write_ctranslate2(bundle: Bundle, folder: Path, quantization: Quantization = "float32") -> None:
    """Write model.bin, config.json and the vocabulary into a folder that exists.

    An id is a token's place in the vocabulary's list, the same as in our model.
    """
    ctranslate2_spec(bundle, quantization).save(str(folder))


class CTranslate2Model:
    """A CTranslate2 folder, run on the CPU; takes and returns our ids."""

    suppresses_specials: ClassVar[bool] = True

    def __init__(self, folder: Path, bundle: Bundle, n_threads: int = 1) -> None:
        self._bundle = bundle
        self._is_decoder_only = isinstance(bundle.model, DecoderOnly)
        make = ctranslate2.Generator if self._is_decoder_only else ctranslate2.Translator
        with quiet():  # float16 and bfloat16 become float32 on most CPUs, which the user need not be told
            self._runner: Any = make(str(folder), device="cpu", intra_threads=n_threads)
        self._source_tokens, self._target_tokens = _read_vocabularies(folder)
        self._ids = {token: i for i, token in enumerate(self._target_tokens)}

    def greedy(
        self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], max_len: int
    ) -> list[list[int]]:
        """Return the output of greedy search for each source, prefix included, without BOS and EOS."""
        rows = zip(sources, prefixes, strict=True)
        return [self._greedy(source, prefix, self._limit(source, max_len)) for source, prefix in rows]

    def log_probs(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        """Return the log-probability of each target token, and of EOS after them, when the output is forced."""
        if self._is_decoder_only:
            tokens = [*self._prompt(source), *self._targets(target), SPECIALS[EOS]]
            [result] = self._runner.score_batch([tokens], max_input_length=0)
            return list(result.log_probs[-len(target) - 1 :])
        [result] = self._runner.score_batch([self._sources(source)], [self._targets(target)], max_input_length=0)
        return list(result.log_probs)

    def attention(self, source: Sequence[int], target: Sequence[int]) -> list[list[float]]:
        """Return the attention of the alignment head for a forced output [target tokens, source tokens]."""
        options = {"beam_size": 1, "return_attention": True, "max_input_length": 0, "max_decoding_length": len(target)}
        [result] = self._runner.translate_batch([self._sources(source)], [self._targets(target)], **options)
        return [list(row) for row in result.attention[0]]

    def _greedy(self, source: Sequence[int], prefix: Sequence[int], limit: int) -> list[int]:
        if self._is_decoder_only:
            [result] = self._runner.generate_batch(
                [[*self._prompt(source), *self._targets(prefix)]],
                beam_size=1,
                max_length=limit - len(prefix),
                include_prompt_in_result=False,
            )
            return [*prefix, *result.sequences_ids[0]]
        [result] = self._runner.translate_batch(
            [self._sources(source)],
            [self._targets(prefix)],
            beam_size=1,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=limit,
        )
        return [self._ids[token] for token in result.hypotheses[0]]

    def _limit(self, source: Sequence[int], max_len: int) -> int:
        """Return the longest output that our search would allow."""
        assert not isinstance(self._bundle.model, EncoderOnly)
        of_model = self._bundle.model.max_target_len(forced_batch([source] if source else None, [[]]))
        return max_len if of_model is None else min(max_len, int(of_model))

    def _prompt(self, source: Sequence[int]) -> list[str]:
        """Return the tokens before a decoder-only model's output: the source and SEP, if there is one, and BOS."""
        return [*([*self._targets(source), SPECIALS[SEP]] if source else []), SPECIALS[BOS]]

    def _sources(self, ids: Sequence[int]) -> list[str]:
        return [self._source_tokens[i] for i in ids]

    def _targets(self, ids: Sequence[int]) -> list[str]:
        return [self._target_tokens[i] for i in ids]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep CTranslate2's warnings from the user."""
    level = ctranslate2.get_log_level()
    ctranslate2.set_log_level(logging.ERROR)
    try:
        yield
    finally:
        ctranslate2.set_log_level(level)


def _read_vocabularies(folder: Path) -> tuple[list[str], list[str]]:
    """Return the tokens of source and target by id."""
    lists = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*vocabulary.json")}
    if len(lists) == 1:  # one for both sides, or that of a decoder-only model
        [tokens] = lists.values()
        return tokens, tokens
    return lists["source_vocabulary"], lists["target_vocabulary"]
