"""The writing system of a text: Latin, Cyrillic, Arabic …, from the Unicode names of its letters."""

import unicodedata
from collections import Counter
from functools import cache

_FEWEST_LETTERS = 4
"""A text with fewer letters has no script: it may be a number, a unit or an abbreviation"""

_ONE_SCRIPT = {"CJK": "Han or kana", "HIRAGANA": "Han or kana", "KATAKANA": "Han or kana", "BOPOMOFO": "Han or kana"}
"""Chinese characters and kana are one script here: Japanese text mixes them"""


def main_script(text: str) -> str:
    """Return the script of more than half of the letters of a text; "" if there is none, or few letters.

    >>> main_script("Москва и NATO"), main_script("猫が好きです"), main_script("12:30")
    ('Cyrillic', 'Han or kana', '')
    """
    if text.isascii():
        return "Latin" if sum(map(str.isalpha, text)) >= _FEWEST_LETTERS else ""
    counts = Counter(script for script in map(_script, text) if script)
    n_letters = counts.total()
    if n_letters < _FEWEST_LETTERS:
        return ""
    [(script, count)] = counts.most_common(1)
    return script if 2 * count > n_letters else ""


@cache
def _script(character: str) -> str:
    """Return the script of a letter; "" for anything else."""
    if not character.isalpha():
        return ""
    words = unicodedata.name(character, "").split()
    if words and words[0] in ("FULLWIDTH", "HALFWIDTH"):
        words = words[1:]
    if not words or words[0] in ("MODIFIER", "MATHEMATICAL", "FEMININE", "MASCULINE", "DOUBLE-STRUCK", "SCRIPT"):
        return ""
    return _ONE_SCRIPT.get(words[0], words[0].capitalize())
