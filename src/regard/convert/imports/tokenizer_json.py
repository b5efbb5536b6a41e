"""The file tokenizer.json of transformers: byte-pair encoding over bytes (GPT-2, Llama 3) or characters (Llama 2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.convert.id_map import IdMap
from regard.convert.imports.model_folder import ModelFolder
from regard.errors import UserError
from regard.text.byte_pair_tokenizer import BytePairOptions, BytePairTokenizer
from regard.text.pretokenizers import KNOWN_PATTERNS
from regard.text.vocab import WORD_START

NAME = "tokenizer.json"

_PREPEND = {"type": "Prepend", "prepend": WORD_START}
_UNDERSCORES = {"type": "Replace", "pattern": {"String": " "}, "content": WORD_START}
_STRIP = {"type": "Strip", "strip_left": True, "strip_right": True}
_SINGLE_SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}


@dataclass(frozen=True)
class TokenizerJson:
    """The content of the file."""

    ids: Mapping[str, int]
    """Every token and its id"""
    merges: Sequence[tuple[str, str]]
    unknown: str | None
    added: tuple[str, ...]
    """Tokens that are recognised in a text before it is split"""
    options: BytePairOptions
    where: str

    @classmethod
    def read(cls, folder: ModelFolder) -> "TokenizerJson":
        """Read the file; refuse anything that would be encoded otherwise here."""
        if not folder.has(NAME):
            raise UserError(f"{folder}: there is no {NAME}; load the tokenizer with AutoTokenizer and save it again")
        file = folder.json(NAME)
        try:
            return cls._parse(file.tree, file.where)
        except UserError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError(f"{file.where}: not a tokenizer of transformers; the file is damaged") from None

    @classmethod
    def _parse(cls, tree: Mapping[str, Any], where: str) -> "TokenizerJson":
        model = tree["model"]
        if model.get("type", "BPE") != "BPE" or model.get("dropout"):
            raise UserError(f"{where}: tokenizers of type {model.get('type')!r:.40} cannot be imported, only BPE")
        if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
            raise UserError(f"{where}: BPE with marks inside or at the end of words cannot be imported")
        added = {str(token["content"]): as_id(token["id"]) for token in tree.get("added_tokens") or ()}
        ids = {**{str(token): as_id(i) for token, i in model["vocab"].items()}, **added}
        options = _options(tree, ids.keys() - added.keys())
        if options is None:
            raise UserError(f"{where}: splits texts in a way that is not known here, so it cannot be imported")
        merges = [_as_pair(merge) for merge in model["merges"]]
        for left, right in merges:
            if any(symbol not in model["vocab"] for symbol in (left, right, left + right)):
                raise UserError(f"{where}: the merge of {left!r:.40} and {right!r:.40} is not in the vocabulary")
        unknown = model.get("unk_token")
        if not isinstance(unknown, str | None):
            raise TypeError
        return cls(ids, merges, unknown, (*added,), options, where)

    def id_map(self, size: int, **specials: int | None) -> IdMap:
        """Return the map of ids to ours, of an embedding table with `size` rows."""
        if max(self.ids.values(), default=0) >= size:
            raise UserError(
                f"{self.where}: has ids up to {max(self.ids.values())}, but the model has {size} embeddings"
            )
        unknown = self.ids.get(self.unknown) if self.unknown is not None else None
        try:
            return IdMap.of(size, unk=unknown, **specials)
        except UserError as error:
            raise UserError(f"{self.where}: {error}") from None

    def tokenizer(self, id_map: IdMap) -> BytePairTokenizer:
        """Return the tokenizer with our ids. Tokens that have become our special ones are not recognised in texts."""
        by_id = [""] * id_map.size
        for token, i in self.ids.items():
            by_id[i] = token
        symbols = id_map.symbols(by_id)
        added = tuple(sorted({*self.added} & {*symbols}))
        return BytePairTokenizer(symbols, self.merges, self.options.model_copy(update={"added": added}))


def _options(tree: Mapping[str, Any], tokens: Sequence[str] | set[str]) -> BytePairOptions | None:
    """Return how texts are split; None if that is not known here."""
    model = tree["model"]
    whole_words = bool(model.get("ignore_merges"))
    normalizers, splits = _steps(tree, "normalizer", "normalizers"), _steps(tree, "pre_tokenizer", "pretokenizers")
    if splits and splits[-1]["type"] == "ByteLevel":
        rules = _byte_level_rules(splits)
        nfc = normalizers == [{"type": "NFC"}]
        if rules is None or not (nfc or not normalizers):
            return None
        return BytePairOptions(rules=rules, nfc=nfc, whole_words=whole_words)
    prefix = _metaspace_prefix(normalizers, splits)
    if prefix is None or not model.get("byte_fallback"):
        return None
    # Unless a token goes on after a space inside of it, words can be encoded one by one, which is much faster.
    crosses = any(WORD_START in token.lstrip(WORD_START) for token in tokens)
    return BytePairOptions(
        over_bytes=False,
        rules=() if crosses else ("words",),
        prefix=prefix,
        whole_words=whole_words,
        single_spaces=normalizers[:2] == [_STRIP, _SINGLE_SPACES],
    )


def _byte_level_rules(splits: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    rules = []
    for split in splits[:-1]:
        if split["type"] == "Digits" and split.get("individual_digits"):
            rules.append("digits")
        elif split["type"] == "Split" and split.get("behavior") == "Isolated" and not split.get("invert"):
            rules.append(KNOWN_PATTERNS.get(split["pattern"].get("Regex"), ""))
        else:
            return None
    if splits[-1].get("add_prefix_space"):
        return None
    if splits[-1].get("use_regex", True):
        rules.append("gpt-2")
    return tuple(rules) if rules and all(rules) else None


def _metaspace_prefix(normalizers: list[Any], splits: Sequence[Mapping[str, Any]]) -> str | None:
    """Return where a space is added, as in `BytePairOptions`; None if texts are split in another way."""
    normalizers = normalizers[2:] if normalizers[:2] == [_STRIP, _SINGLE_SPACES] else normalizers
    if not splits:
        return {1: "", 2: "always"}.get(len(normalizers)) if normalizers in _UNDERSCORE_FORMS else None
    if len(splits) > 1 or normalizers or splits[0]["type"] != "Metaspace" or splits[0]["replacement"] != WORD_START:
        return None
    if splits[0].get("split", True):
        return None
    return {"always": "always", "first": "first", "never": ""}.get(splits[0].get("prepend_scheme", "always"))


_UNDERSCORE_FORMS = ([_UNDERSCORES], [_PREPEND, _UNDERSCORES])


def _steps(tree: Mapping[str, Any], key: str, inner: str) -> list[Any]:
    """Return the steps of a normalizer or pre-tokenizer."""
    step = tree.get(key)
    if step is None:
        return []
    return list(step[inner]) if step["type"] == "Sequence" else [step]


def as_id(value: object) -> int:
    """Return a value that must be an id, or raise a ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise ValueError
    return value


def _as_pair(merge: str | Sequence[str]) -> tuple[str, str]:
    """A merge is written as ["a", "b"] or, in older files, as "a b"."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return str(left), str(right)
