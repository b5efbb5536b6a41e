"""The vocabularies of Marian models: one for both languages, or one for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.convert.id_map import IdMap
from regard.convert.imports.model_folder import ModelFolder
from regard.errors import UserError
from regard.text.marian_tokenizer import MarianTokenizer
from regard.text.tokenizer import TokenizerPair

SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
UNKNOWN, END, PADDING = "<unk>", "</s>", "<pad>"


@dataclass(frozen=True)
class MarianVocabulary:
    """Token → id of one or both languages"""

    ids: Mapping[str, int]
    size: int
    """Rows of the embedding table, of which some may have no token"""
    where: str

    @classmethod
    def of(cls, ids: Mapping[str, Any], size: int, where: str) -> "MarianVocabulary":
        """Check that ids are different numbers of rows."""
        for token, i in ids.items():
            if not isinstance(i, int) or isinstance(i, bool) or not 0 <= i < size:
                raise UserError(f"{where}: the id of token {token!r:.40} is not one of 0 … {size - 1}")
        if len(set(ids.values())) != len(ids):
            raise UserError(f"{where}: two tokens have the same id")
        for token in (UNKNOWN, END):
            if token not in ids:
                raise UserError(f"{where}: has no token {token}")
        return cls(ids, size, where)

    @property
    def symbols(self) -> list[str]:
        by_id = {i: token for token, i in self.ids.items()}
        return [by_id.get(i, "") for i in range(self.size)]

    def id_map(self, **specials: int | None) -> IdMap:
        """Return the map of ids; `specials` are those that differ from the tokens <unk>, </s> and <pad>."""
        found = {"unk": self.ids[UNKNOWN], "eos": self.ids[END], "pad": self.ids.get(PADDING)}
        try:
            return IdMap.of(self.size, **{**found, **{name: i for name, i in specials.items() if i is not None}})
        except UserError as error:
            raise UserError(f"{self.where}: {error}") from None


def marian_tokenizers(
    folder: ModelFolder, vocabularies: Sequence[MarianVocabulary], maps: Sequence[IdMap], languages: tuple[str, str]
) -> TokenizerPair:
    """Return the tokenizers of both sides; with one vocabulary they have the same ids."""
    names = (SOURCE_MODEL, TARGET_MODEL)
    sides = []
    for name, language, vocabulary, id_map in zip(
        names, languages, (vocabularies[0], vocabularies[-1]), (maps[0], maps[-1]), strict=True
    ):
        if not folder.has(name):
            raise UserError(f"{folder}: there is no {name}, the SentencePiece model of the tokenizer")
        symbols = id_map.symbols(vocabulary.symbols)
        try:
            sides.append(MarianTokenizer(folder.read(name), symbols, language, shares_ids=len(vocabularies) == 1))
        except UserError as error:
            raise UserError(f"{folder.path / name}: {error}") from None
    return TokenizerPair(*sides)
