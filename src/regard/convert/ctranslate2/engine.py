"""Search with CTranslate2 in the place of ours: the same sources in, the same hypotheses out."""

import hashlib
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import ctranslate2
import torch

from regard import __version__
from regard.bundle import Bundle
from regard.bundle_files import read_files
from regard.convert.ctranslate2.model import quiet, write_ctranslate2
from regard.convert.ctranslate2.spec import vocabulary
from regard.convert.export_format import Quantization
from regard.convert.position_count import position_count
from regard.errors import UserError
from regard.files import cache_folder, delete_folder, disk_error, new_folder, remove_leftovers, write_atomically
from regard.manifest import MANIFEST, DamagedFile, read_regular
from regard.models.encoder_decoder import EncoderDecoder
from regard.search.decode import DecodeConfig, length_limits
from regard.search.length_penalty import normalise_score
from regard.search.protocols import Hypothesis

_FOLDER = ".engines"
"""In a model directory: the models that were made from it"""
_LAYOUT = 2  # changes when `write_ctranslate2` writes another model from the same bundle
_BATCH = 32  # sentences
_PENALTY_RATIO = 0.75
"""CTranslate2 divides by length^α, we by ((5 + length) / 6)^α. Their ratio of growth is 0.75 at 15 tokens."""


class CTranslate2Engine:
    """Decodes on the CPU, one sentence or batch per thread."""

    def __init__(self, folder: Path, bundle: Bundle, n_threads: int) -> None:
        try:
            with quiet():
                self._runner = ctranslate2.Translator(
                    str(folder), device="cpu", inter_threads=n_threads, intra_threads=1
                )
        except (RuntimeError, ValueError) as error:
            raise DamagedFile(f"{folder}: CTranslate2 cannot load it ({error})") from None
        assert isinstance(bundle.model, EncoderDecoder)
        self._n_threads = n_threads
        self._max_len = bundle.model.max_len
        self._n_positions = position_count(bundle)
        self._source_tokens = vocabulary(bundle.tokenizers.src)
        self._ids = {token: i for i, token in enumerate(vocabulary(bundle.tokenizers.tgt))}

    def can_decode(self, config: DecodeConfig) -> bool:
        """Whether CTranslate2 gives the same hypotheses and scores with these options"""
        constrained = config.sampling is not None or config.no_repeat_ngram or config.min_len or config.coverage
        return not constrained and config.precision != "bf16"

    def decode(self, sources: Sequence[Sequence[int]], config: DecodeConfig) -> dict[int, list[Hypothesis]]:
        """Return the n_best hypotheses by the number of the source, best first.

        Left out are empty sources, those with more tokens than the model has positions, and those with a hypothesis as
        long as is allowed, which our search ends properly.
        """
        limits = self._length_limits(sources, config)
        rows = [i for i, source in enumerate(sources) if source and max(len(source), limits[i]) < self._n_positions]
        rows.sort(key=lambda i: -len(sources[i]))
        decoded: dict[int, list[Hypothesis]] = {}
        for start in range(0, len(rows), _BATCH * self._n_threads):
            part = rows[start : start + _BATCH * self._n_threads]
            results = self._run([sources[i] for i in part], config, max(limits[i] for i in part))
            for i, result in zip(part, results, strict=True):
                hypotheses = self._hypotheses(result, config)
                if all(len(hypothesis.ids) < limits[i] for hypothesis in hypotheses):
                    decoded[i] = hypotheses[: config.n_best]
        return decoded

    def _length_limits(self, sources: Sequence[Sequence[int]], config: DecodeConfig) -> list[int]:
        """Return the length that each output may have."""
        limits = length_limits(torch.tensor([len(source) + 1 for source in sources]), config)
        return (limits if self._max_len is None else limits.clamp(max=self._max_len - 1)).tolist()

    def _run(
        self, sources: Sequence[Sequence[int]], config: DecodeConfig, limit: int
    ) -> "list[ctranslate2.TranslationResult]":
        return self._runner.translate_batch(
            [[self._source_tokens[i] for i in source] for source in sources],
            beam_size=config.beam,
            num_hypotheses=config.beam,
            length_penalty=self._length_penalty(config),
            min_decoding_length=0,
            max_decoding_length=limit,
            max_input_length=0,
            max_batch_size=-(-len(sources) // self._n_threads),
            return_scores=True,
        )

    def _hypotheses(self, result: "ctranslate2.TranslationResult", config: DecodeConfig) -> list[Hypothesis]:
        """Return the hypotheses of one source, scored and sorted by our length penalty."""
        hypotheses = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            n_tokens = len(tokens) + 1  # with EOS
            log_prob = score * n_tokens ** self._length_penalty(config)
            ids = tuple(self._ids[token] for token in tokens)
            hypotheses.append(Hypothesis(ids, normalise_score(log_prob, n_tokens, config.length_penalty), log_prob))
        return sorted(hypotheses, key=lambda h: -h.score)

    def _length_penalty(self, config: DecodeConfig) -> float:
        return 0.0 if config.beam == 1 else _PENALTY_RATIO * config.length_penalty


def make_engine(folder: Path, bundle: Bundle, quantization: Quantization, n_threads: int) -> CTranslate2Engine:
    """Return the engine for a model directory; if its cached model is damaged, it is made again."""
    path = engine_folder(folder, bundle, quantization)
    try:
        return CTranslate2Engine(path, bundle, n_threads)
    except DamagedFile:
        delete_folder(path)
        return CTranslate2Engine(engine_folder(folder, bundle, quantization), bundle, n_threads)


def engine_folder(folder: Path, bundle: Bundle, quantization: Quantization) -> Path:
    """Return the CTranslate2 form of a model directory, made at its first use and again when the model changes.

    It lies in the model directory or, if that cannot be written, in the cache.
    """
    name = f"ctranslate2-{quantization}-{_content_key(folder)}"
    homes = [folder / _FOLDER, _cache()]
    for home in homes:
        if (home / name).is_dir():
            return home / name
    usable = next((home for home in homes if _can_be_written(home)), None)
    if usable is None:
        raise UserError(
            f"neither {homes[0]} nor {homes[1]} can be written, so there is no place for the engine's model"
        )
    remove_leftovers(usable)
    with new_folder(usable / name) as temporary:
        write_ctranslate2(bundle, temporary, quantization)
    _remove_outdated(folder)
    return usable / name


def _cache() -> Path:
    return cache_folder() / "engines"


def _can_be_written(home: Path) -> bool:
    """Whether there is such a folder, or can be, and files can be made in it"""
    with suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
    return home.is_dir() and os.access(home, os.W_OK)


def _remove_outdated(folder: Path) -> None:
    """Delete the engines in a model directory that are older than its model."""
    with suppress(OSError):
        changed = (folder / MANIFEST).stat().st_mtime
        for path in (folder / _FOLDER).iterdir():
            if path.stat().st_mtime < changed:
                delete_folder(path)


def _content_key(folder: Path) -> str:
    """Return a hash of the files of a model directory, of what makes an engine from them, and of the user's key.

    The key is secret, so that a model directory from somebody else cannot bring an engine with it.
    """
    files = read_files(folder)
    chosen = {MANIFEST: files[MANIFEST]} if MANIFEST in files else files  # the manifest has the hashes of the others
    versions = f"{_LAYOUT} {__version__} {ctranslate2.__version__}"
    digest = hashlib.blake2b(versions.encode(), key=_user_key(), digest_size=8)
    for _, path in sorted(chosen.items()):
        digest.update(read_regular(path))
    return digest.hexdigest()


def _user_key() -> bytes:
    """Return the key of this user, which is made at its first use."""
    path = _cache() / "key"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, secrets.token_bytes(32))
            path.chmod(0o600)
        return read_regular(path)
    except OSError as error:
        raise disk_error(error, path) from None
