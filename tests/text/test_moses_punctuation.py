"""Moses' rules, on texts whose normal form is known."""

import pytest

from regard.text.moses_punctuation import normalise_punctuation


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("„Ja“, sagte er – so…", "de", '"Ja", sagte er - so...'),
        ("It’s ‘fine’ — really", "en", "It's 'fine' - really"),
        ('He said "no", then "yes".', "en", 'He said "no," then "yes."'),
        ('Il dit "non," puis "oui."', "fr", 'Il dit "non", puis "oui."'),
        ("a ( b ) .  50 % : x ;", "en", "a (b). 50%: x;"),
        ("«oui»", "fr", '"oui"'),
        ("", "en", ""),
    ],
)
def test_punctuation_becomes_plain(text: str, language: str, expected: str) -> None:
    assert normalise_punctuation(text, language) == expected
