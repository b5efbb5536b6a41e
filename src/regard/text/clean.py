"""Text normalisation applied before training and translation."""


def clean(text: str) -> str:
    """Return the text on one line, with single spaces, no byte order mark and only characters that UTF-8 can encode."""
    return " ".join(text.removeprefix("\ufeff").encode("utf-8", "replace").decode("utf-8").split())
