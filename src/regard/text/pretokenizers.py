r"""How tokenizers of language models split a text into words before byte-pair encoding.

Only patterns that are known here are used: a pattern from a file could take for ever on some texts. Python's `re` lacks
`\p{L}` and `\p{N}`, so that these classes are written as ranges of characters.
"""

import re
import sys
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from unicodedata import category

_SPACES = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_ENDINGS = "'s|'t|'re|'ve|'m|'ll|'d"

_MARKS = r"[^\s\p{L}\p{N}]+"
_END = r"\s+(?!\S)|\s+"
_LLAMA = rf"(?i:{_ENDINGS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|DIGITS| ?{_MARKS}[\r\n]*|\s*[\r\n]+|{_END}"

KNOWN_PATTERNS = {
    rf"{_ENDINGS}| ?\p{{L}}+| ?\p{{N}}+| ?{_MARKS}|{_END}": "gpt-2",
    _LLAMA.replace("DIGITS", r"\p{N}{1,3}"): "llama-3",
    _LLAMA.replace("DIGITS", r"\p{N}"): "qwen-2",
}
"""Patterns in tokenizer.json → their names here"""


def split_text(text: str, rules: Sequence[str]) -> list[str]:
    """Split a text by the rules of these names, one after the other; together the parts are the text."""
    parts = [text] if text else []
    for rule in rules:
        pattern = _pattern(rule)
        parts = [piece for part in parts for piece in pattern.findall(part)]
    return parts


@cache
def _pattern(rule: str) -> re.Pattern[str]:
    """Return a pattern whose matches cover every text."""
    letters, numbers, spaces = _ranges("L"), _ranges("N"), _SPACES
    end = rf"[{spaces}]+(?![^{spaces}])|[{spaces}]+"
    marks = rf" ?[^{spaces}{letters}{numbers}]+"
    match rule:
        case "gpt-2":
            source = rf"{_ENDINGS}| ?[{letters}]+| ?[{numbers}]+|{marks}|{end}"
        case "digits":
            source = rf"[{numbers}]|[^{numbers}]+"
        case "words":
            source = "▁+[^▁]*|[^▁]+"
        case "llama-3" | "qwen-2":
            digits = rf"[{numbers}]{{1,3}}" if rule == "llama-3" else rf"[{numbers}]"
            words = rf"(?i:{_ENDINGS})|[^\r\n{letters}{numbers}]?[{letters}]+|{digits}"
            source = rf"{words}|{marks}[\r\n]*|[{spaces}]*[\r\n]+|{end}"
        case _:
            raise ValueError(f"unknown rule {rule}")
    return re.compile(source)


@cache
def _ranges(kind: str) -> str:
    """Return all characters of a major category of Unicode, letters or numbers, as ranges inside of brackets."""
    runs = []
    for is_kind, run in groupby(range(sys.maxunicode + 1), key=lambda code: category(chr(code))[0] == kind):
        codes = list(run)
        if is_kind:
            runs.append(f"\\U{codes[0]:08x}-\\U{codes[-1]:08x}")
    return "".join(runs)
