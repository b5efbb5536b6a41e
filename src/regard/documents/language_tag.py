"""The language of a document as its format writes it."""

import re

_TAG = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_UNKNOWN = "und"
_EAST_ASIAN = ("ja", "ko", "zh")
_RIGHT_TO_LEFT = ("ar", "fa", "he", "ur")


def language_tag(code: str) -> str:
    """Return a language code as BCP 47 has it: en_GB → en-GB; what is no code is "und", undetermined."""
    tag = code.replace("_", "-")
    return tag if _TAG.fullmatch(tag) else _UNKNOWN


def script_group(tag: str) -> str:
    """Return the group of scripts for which office programs have a setting: western, asian or complex."""
    language = tag.lower().split("-")[0]
    if language in _EAST_ASIAN:
        return "asian"
    return "complex" if language in _RIGHT_TO_LEFT else "western"
