"""Import of models that Marian itself wrote: .npz, vocab.yml and SentencePiece files, as OPUS-MT packs them."""

import json
import re
from pathlib import PurePath

from regard.config import parse_yaml
from regard.convert.imports.imported_model import ImportedModel
from regard.convert.imports.marian_npz import MarianNpz
from regard.convert.imports.marian_vocabulary import MarianVocabulary, marian_tokenizers
from regard.convert.imports.model_folder import MAX_YAML, ModelFolder
from regard.convert.imports.model_languages import find_languages
from regard.convert.imports.seq2seq import seq2seq_model
from regard.convert.imports.tensor_files import Npz
from regard.errors import UserError

_DECODER = "decoder.yml"
"""Marian's settings of decoding, which name the files"""
_VOCABULARIES = ("*.vocab.yml", "vocab*.yml")
_ID = re.compile(r"[0-9]{1,9}")
_SOURCE = "model.encoder.embed_tokens.weight"
_TABLES = ("model.shared.weight", "model.decoder.embed_tokens.weight")


def read_marian_npz(folder: ModelFolder, languages: tuple[str, str] | None) -> ImportedModel:
    """Read what is known of a Marian model before its weights."""
    settings = _settings(folder)
    models = _named(settings, "models") or folder.names("*.npz")
    if len(models) != 1:
        raise UserError(f"{folder}: has {len(models)} .npz files; leave one, or name it as `models` in {_DECODER}")
    files = MarianNpz(Npz(folder.file(models[0])))
    names = list(dict.fromkeys(_named(settings, "vocabs") or folder.names(*_VOCABULARIES)))
    tables = [table for table in (_SOURCE, *_TABLES) if table in files.shapes]
    if not 1 <= len(names) <= 2 or len(names) != len(tables):
        raise UserError(
            f"{folder}: has {len(names)} vocabularies for {len(tables)} tables of embeddings; name them as `vocabs` in "
            f"{_DECODER}, that of the source first"
        )
    vocabularies = [
        MarianVocabulary.of(_read_vocabulary(folder, name), files.shapes[table][0], str(folder.path / name))
        for name, table in zip(names, tables, strict=True)
    ]
    languages = languages or find_languages(folder)
    # Without an id for the start, its embedding is zero, as in Marian.
    maps = [vocabulary.id_map() for vocabulary in vocabularies]
    tokenizers = marian_tokenizers(folder, vocabularies, maps, languages)
    return seq2seq_model("Marian", folder, files.config(), files, tokenizers, maps, languages)


def _settings(folder: ModelFolder) -> dict[str, object]:
    """Read decoder.yml, if there is one."""
    if not folder.has(_DECODER):
        return {}
    content = folder.read(_DECODER, 2**20)
    try:
        tree = parse_yaml(content[:MAX_YAML].decode(), aliases=False)
    except ValueError:
        tree = None
    return tree if isinstance(tree, dict) else {}


def _named(settings: dict[str, object], key: str) -> list[str]:
    """Return the names of files in the settings, which must lie in the folder itself."""
    names = settings.get(key)
    return [PurePath(name).name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _read_vocabulary(folder: ModelFolder, name: str) -> dict[str, int]:
    """Read lines such as `token: 12`. A YAML parser would take long, and leave out tokens that it finds odd."""
    ids = {}
    for number, line in enumerate(folder.read(name).decode("utf-8", "replace").split("\n"), start=1):
        if line.strip():
            token, _, value = line.rpartition(":")
            if not _ID.fullmatch(value.strip()):
                raise UserError(f"{folder.path / name}: line {number} is not a token and its id")
            ids[_unquoted(token)] = int(value.strip())
    return ids


def _unquoted(token: str) -> str:
    """Return a key of a YAML file as text."""
    if len(token) < 2 or token[0] != token[-1] or token[0] not in "'\"":
        return token
    try:
        text = json.loads(token)  # most are JSON too, which is read much faster
    except ValueError:
        text = _parsed(token)
    return str(text).encode("utf-8", "replace").decode()


def _parsed(token: str) -> object:
    try:
        return parse_yaml(token, aliases=False)
    except ValueError:
        return token[1:-1]
