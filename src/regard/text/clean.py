"""Text normalisation applied before training and translation."""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_ODD_SPACES = (
    "\t\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""White space other than the space and the line feed"""
WHITE_SPACE = f" \n{_ODD_SPACES}"
"""The characters that `str.split` splits at"""
_UNCLEAN = ("  ", " \n", "\n ", "\ufeff", *_ODD_SPACES)


def has_surrogate(text: str) -> bool:
    """Whether the text has a half of a surrogate pair, which UTF-8 cannot encode."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def encodable(text: str) -> str:
    """Return the text with a question mark in the place of what UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8") if has_surrogate(text) else text


def clean(text: str) -> str:
    """Return the text on one line, with single spaces, no byte order mark and only characters that UTF-8 can encode."""
    return " ".join(encodable(text).removeprefix("\ufeff").split())


def needs_cleaning(lines: str) -> bool:
    """Whether `clean` could change one of these lines, which were decoded from UTF-8. Fast for many lines at a time."""
    return lines[:1] == " " or lines[-1:] == " " or any(part in lines for part in _UNCLEAN)
