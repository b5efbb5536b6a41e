"""Case and punctuation: fitted to the training data before translation, restored after it."""

import pytest

from regard.text.fitted_text import FittedText, capitalise
from regard.text.seen_words import SeenWords

LOWER = SeenWords.count(["the green witch arrived", "the cat sat ?", "a red cat sees the witch"])
GERMAN = SeenWords.count(
    ["Der Hund sieht die Katze.", "Die Katze sieht der Hund.", "Im Garten sieht Anna die Katze, und der Hund schläft."]
)


def fit(text: str, seen: SeenWords = LOWER) -> FittedText:
    return FittedText.fit(text, seen)


@pytest.mark.parametrize(
    ("text", "fitted", "restored"),
    [
        ("The Cat sat!", "the cat sat", "Ø x!"),
        ("THE GREEN WITCH ARRIVED", "the green witch arrived", "Ø X"),
        ("THE GREEN WITCH ARRIVED!!!", "the green witch arrived", "Ø X!!!"),
        ("The Green Witch Arrived", "the green witch arrived", "Ø x"),
        ("the cat SAT ?", "the cat sat ?", "ø x"),
        ("The cat sat?!", "the cat sat ?", "Ø x!"),
        ("« the cat » !", "the cat", "« ø x » !"),
        ("(The cat)", "the cat", "(Ø x)"),
        ("CAT", "cat", "Ø x"),
        ("Zorglub sees the cat.", "zorglub sees the cat", "Ø x."),
        ("ZORGLUB SEES THE CAT.", "zorglub sees the cat", "Ø X."),
        ("the cat 🙂🙂", "the cat", "ø x 🙂🙂"),
        ("3 CATS", "3 cats", "ø x"),
    ],
)
def test_lower_case_training_text(text: str, fitted: str, restored: str) -> None:
    assert fit(text).text == fitted
    assert fit(text).restore("ø x") == restored


@pytest.mark.parametrize(
    ("text", "fitted"),
    [
        ("DER HUND SIEHT DIE KATZE", "Der Hund sieht die Katze"),
        ("IM GARTEN SCHLÄFT ANNA.", "Im Garten schläft Anna."),
        ("der hund schläft", "der Hund schläft"),
        ("Der Schläft im garten", "Der schläft Im Garten"),
        ("Zorglub sieht NATO", "Zorglub sieht NATO"),
    ],
)
def test_the_usual_form_is_not_always_lower_case(text: str, fitted: str) -> None:
    assert fit(text, GERMAN).text == fitted


@pytest.mark.parametrize("text", ["the cat sat ?", "the the", "", "?", "a  cat"])
def test_a_text_whose_words_have_been_seen_stays_as_it_is(text: str) -> None:
    assert fit(text) == FittedText(text)
    assert fit(text).restore("Any text, as it is") == "Any text, as it is"


def test_a_text_of_unknown_marks_has_nothing_to_translate() -> None:
    assert fit("!!! –").text == "" and fit("!!! –").restore("") == "!!! –"


def test_the_number_of_words_stays_the_same_when_only_the_case_changes() -> None:
    for text in ("The GREEN Witch", "THE CAT SAT", "Straße und İstanbul"):
        assert len(fit(text).text.split()) == len(text.split())


def test_links_count_punctuation_that_was_taken_off() -> None:
    links = ((0, 1), (1, 0))
    assert fit("– The cat!").restore_links(links, 2) == ((0, 0), (1, 2), (2, 1))
    assert fit("The cat ! )").restore_links(links, 2) == ((0, 1), (1, 0), (2, 2), (3, 3))
    assert fit("(The cat)").restore_links(links, 2) == links


def test_marks_are_separated_if_they_were_in_training() -> None:
    tokenised = SeenWords.count(["the cat , sat ?", "in the u.s. ( the cat ) .", '" the cat "', *["the cat ."] * 60])
    fitted = fit('the cat, "in the u.s." (the cat).', tokenised)
    assert fitted.text == 'the cat , " in the u.s. " ( the cat ) .'
    assert fitted.word_numbers == (0, 1, 1, 2, 2, 3, 4, 4, 5, 5, 6, 6, 6)
    assert fitted.restore_links([(2, 0), (12, 1), (11, 1)], 2) == ((1, 0), (6, 1))
    for text in ('the cat , " in the u.s. " .', "in the u.s. the cat", "the cat in the u.s.", "."):
        assert fit(text, tokenised) == FittedText(text)
    assert fit("The Cat sat?!", tokenised).text == "the cat sat ?" and fit("u.s..", tokenised).text == "u.s.."
    assert fit("Der Hund, die Katze.", GERMAN) == FittedText("Der Hund, die Katze.")


def test_links_count_punctuation_without_spaces() -> None:
    fitted = FittedText("私は猫です", after="！")
    assert fitted.restore_links([(0, 0), (2, 1)], 2) == ((0, 0), (2, 1), (5, 2))


def test_unknown_words_are_listed_as_they_are_written() -> None:
    assert fit("Zorglub, the CAT!").unknown == ("Zorglub", ",")
    assert FittedText.as_written("The cat!", LOWER).unknown == ("!",)
    assert FittedText.as_written("The cat!", None) == FittedText("The cat!")


def test_the_first_letter_is_the_first_of_a_word() -> None:
    assert capitalise("« l'été »") == "« L'été »" and capitalise("3 cats") == "3 cats" and capitalise("…") == "…"


def test_headlines_get_the_case_of_sentences() -> None:
    seen = SeenWords.count(
        ["The man sleeps in a green room.", "A room in Paris", "Sleeps the man? Green or not", "Man"]
    )
    assert FittedText.fit("The Man Sleeps In A Green Room", seen).text == "The man sleeps in a green room"
    assert FittedText.fit("A Man Sleeps in a Room in Paris", seen).text == "A man sleeps in a room in Paris"
    for sentence in ("The man sleeps in Paris", "The Man", "Paris Paris Paris"):
        assert FittedText.fit(sentence, seen).text == sentence
    lower = SeenWords.count(["the man sleeps in a green room"])
    fitted = FittedText.fit("The Man Sleeps In Berlin", lower)
    assert fitted.restore("der mann") == "Der mann"


@pytest.mark.parametrize(
    ("training", "text", "fitted"),
    [
        ("die Straße ist groß", "DIE STRASSE IST GROSS", "die Straße ist groß"),
        ("die Straße ist groß", "DIE STRAßE IST GROß", "die Straße ist groß"),
        ("die Masse und die Maße , die Maße", "die masse", "die Masse"),
        ("istanbul güzel şehir", "İSTANBUL GÜZEL ŞEHİR", "istanbul güzel şehir"),
        ("istanbul güzel şehir", "İstanbul güzel", "istanbul güzel"),
        ("ışık var", "IŞIK VAR", "ışık var"),
        ("ο σοφός", "Ο ΣΟΦΌΣ", "ο σοφός"),
        ("le café est là", "le cafe\u0301 est là", "le café est là"),
    ],
)
def test_words_that_are_spelt_differently_in_capitals_are_known(training: str, text: str, fitted: str) -> None:
    result = FittedText.fit(text, SeenWords.count([training]))
    assert result.text == fitted and not result.unknown
