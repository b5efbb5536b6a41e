"""The form in which text is learnt from and translated."""


def clean(text: str) -> str:
    """One line, single spaces (whatever kind they were), no byte order mark, nothing that UTF-8 cannot write."""
    return " ".join(text.removeprefix("\ufeff").encode("utf-8", "replace").decode("utf-8").split())
