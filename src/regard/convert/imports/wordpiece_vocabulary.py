"""The vocabulary of BERT models, in tokenizer.json or, in older folders, in vocab.txt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.convert.id_map import IdMap
from regard.convert.imports.model_folder import ModelFolder
from regard.convert.imports.tokenizer_json import NAME as TOKENIZER_JSON
from regard.convert.imports.tokenizer_json import as_id
from regard.errors import UserError
from regard.text.wordpiece_tokenizer import CONTINUES, WordPieceOptions, WordPieceTokenizer

_TEXT = "vocab.txt"
_SETTINGS = "tokenizer_config.json"
START = "[CLS]"
_SPECIALS = {"pad": "[PAD]", "unk": "[UNK]", "eos": "[SEP]", "mask": "[MASK]"}


@dataclass(frozen=True)
class WordPieceVocabulary:
    """Token → id, and how texts are split"""

    ids: Mapping[str, int]
    options: WordPieceOptions
    where: str

    @classmethod
    def read(cls, folder: ModelFolder) -> "WordPieceVocabulary":
        vocabulary = _from_json(folder) if folder.has(TOKENIZER_JSON) else _from_text(folder)
        for token in (START, *_SPECIALS.values()):
            if token not in vocabulary.ids:
                raise UserError(f"{vocabulary.where}: has no token {token}")
        return vocabulary

    def id_map(self, size: int) -> IdMap:
        if len(set(self.ids.values())) != len(self.ids):
            raise UserError(f"{self.where}: two tokens have the same id")
        if max(self.ids.values()) >= size:
            raise UserError(f"{self.where}: has ids above {size - 1}, but the model has {size} embeddings")
        return IdMap.of(size, **{name: self.ids[token] for name, token in _SPECIALS.items()})

    def tokenizer(self, id_map: IdMap) -> WordPieceTokenizer:
        by_id = [""] * id_map.size
        for token, i in self.ids.items():
            by_id[i] = token
        return WordPieceTokenizer(id_map.symbols(by_id), self.options)


def _from_json(folder: ModelFolder) -> WordPieceVocabulary:
    file = folder.json(TOKENIZER_JSON)
    where = file.where
    try:
        model, normalizer = file.tree["model"], file.tree["normalizer"]
        kinds = (model["type"], normalizer["type"], file.tree["pre_tokenizer"]["type"])
        if kinds != ("WordPiece", "BertNormalizer", "BertPreTokenizer"):
            raise UserError(f"{where}: a tokenizer of type {kinds[0]!r:.40} is not BERT's, so it cannot be imported")
        if model.get("continuing_subword_prefix", CONTINUES) != CONTINUES:
            raise UserError(f"{where}: pieces inside of words do not start with {CONTINUES}")
        ids = {str(token): as_id(i) for token, i in model["vocab"].items()}
        return WordPieceVocabulary(ids, _options(normalizer, "lowercase", "handle_chinese_chars"), where)
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{where}: not a tokenizer of BERT; the file is damaged") from None


def _from_text(folder: ModelFolder) -> WordPieceVocabulary:
    if not folder.has(_TEXT):
        raise UserError(f"{folder}: there is no {TOKENIZER_JSON} and no {_TEXT}, so texts cannot be tokenised")
    lines = [line.removesuffix("\r") for line in folder.read(_TEXT).decode("utf-8", "replace").split("\n")]
    settings = folder.config(_SETTINGS).tree if folder.has(_SETTINGS) else {}
    options = _options(settings, "do_lower_case", "tokenize_chinese_chars")
    return WordPieceVocabulary({token: i for i, token in enumerate(lines) if token}, options, str(folder.path / _TEXT))


def _options(settings: Mapping[str, Any], lowercase: str, chinese: str) -> WordPieceOptions:
    """Return how texts are split. Accents are removed with capitals, unless the settings say otherwise."""
    lower = settings.get(lowercase) is not False
    accents = settings.get("strip_accents")
    return WordPieceOptions(
        lowercase=lower,
        strip_accents=lower if accents is None else bool(accents),
        clean=settings.get("clean_text") is not False,
        split_chinese=settings.get(chinese) is not False,
        start=START,
    )
