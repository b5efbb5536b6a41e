"""The languages of an imported translator: from its tokenizer's settings, its model card or the name of its folder."""

import re

from regard.bundle import NO_LANGUAGES
from regard.config import parse_yaml
from regard.convert.imports.model_folder import MAX_YAML, ModelFolder

_CARD = re.compile(r"\A---\n(.*?)\n---", re.DOTALL)
_NAME = re.compile(r"opus-mt[\w-]*-(?P<src>[a-z]{2,3})-(?P<tgt>[a-z]{2,3})")
_CODE = re.compile(r"[a-z]{2,3}")
_MAX_CARD = 2**22


def find_languages(folder: ModelFolder) -> tuple[str, str]:
    """Return the codes of source and target language, or ("src", "tgt") if they cannot be found."""
    candidates = (_from_tokenizer(folder), _from_card(folder), _from_name(folder.path.resolve().name))
    return next((pair for pair in candidates if pair is not None), NO_LANGUAGES)


def _from_tokenizer(folder: ModelFolder) -> tuple[str, str] | None:
    if not folder.has("tokenizer_config.json"):
        return None
    settings = folder.config("tokenizer_config.json").tree
    return _pair(settings.get("source_lang"), settings.get("target_lang"))


def _from_card(folder: ModelFolder) -> tuple[str, str] | None:
    """Read `language: [en, fr]` at the beginning of README.md."""
    if not folder.has("README.md"):
        return None
    header = _CARD.match(folder.read("README.md", _MAX_CARD)[:MAX_YAML].decode("utf-8", "replace"))
    try:
        return _pair(*parse_yaml(header[1], aliases=False)["language"]) if header else None
    except (KeyError, TypeError, ValueError):
        return None


def _from_name(name: str) -> tuple[str, str] | None:
    found = _NAME.fullmatch(name)
    return (found["src"], found["tgt"]) if found else None


def _pair(src: object, tgt: object) -> tuple[str, str] | None:
    both = [code for code in (src, tgt) if isinstance(code, str) and _CODE.fullmatch(code)]
    return (both[0], both[1]) if len(both) == 2 else None
