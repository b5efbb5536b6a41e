"""Markup leaves a text and comes back around the words that come from those it stood around."""

import re

import pytest

from regard.text.tags import TaggedText

SWAPPED = ([0, 2, 1, 3, 3], ["la", "sorcière", "verte", "est", "arrivée"])  # the green witch arrived


@pytest.mark.parametrize(
    ("text", "plain", "expected"),
    [
        ("the green witch arrived", "the green witch arrived", "la sorcière verte est arrivée"),
        ("the <b>green</b> witch arrived", "the green witch arrived", "la sorcière <b>verte</b> est arrivée"),
        ("<p>the green witch <i>arrived</i></p>", None, "<p>la sorcière verte <i>est arrivée</i></p>"),
        (
            "the <a href='x y'>green <b>witch</b></a> arrived",
            None,
            "la <a href='x y'><b>sorcière</b> verte</a> est arrivée",
        ),
        ("the {colour} green witch arrived", "the  green witch arrived", "la sorcière {colour} verte est arrivée"),
        ("%(n)s the green witch arrived%s", "the green witch arrived", "%(n)s la sorcière verte est arrivée%s"),
        ("the green<br/> witch arrived", None, "la<br/> sorcière verte est arrivée"),
        ("the <b></b> green witch arrived", None, "la sorcière <b></b> verte est arrivée"),
        ("the <b>{x}</b> green witch arrived", None, "la sorcière <b>{x}</b> verte est arrivée"),
        ("the </b> green witch arrived <i>", None, "la sorcière </b> verte est arrivée <i>"),
        ("the green witch arrived <!-- so -->", None, "la sorcière verte est arrivée <!-- so -->"),
    ],
)
def test_markup_goes_with_its_words(text: str, plain: str | None, expected: str) -> None:
    marked = TaggedText.parse(text)
    assert plain is None or marked.plain.strip() == plain
    assert marked.plain.split() == ["the", "green", "witch", "arrived"]
    assert marked.restore(SWAPPED[1], SWAPPED[0]) == expected


def test_a_mark_stays_outside_if_it_was_outside() -> None:
    assert TaggedText.parse("a <b>b</b>, c").restore(["x", "y,", "z"], [0, 1, 2]) == "x <b>y</b>, z"
    assert TaggedText.parse("a <b>b,</b> c").restore(["x", "y,", "z"], [0, 1, 2]) == "x <b>y,</b> z"
    assert TaggedText.parse("hello {name}, you").restore(["salut", ",", "toi"], [0, 1, 2]) == "salut {name}, toi"


def test_an_element_that_is_torn_apart_stays_well_nested_and_none_is_lost() -> None:
    marked = TaggedText.parse("<b>a b</b> <i>c</i>")
    assert marked.restore(["x", "y", "z"], [0, 2, 1]) == "<b>x</b> <i>y</i> <b>z</b>"
    assert marked.restore(["x", "y"], [0, 1]) == "<b>x y</b> <i></i>"
    assert marked.restore([], []) == "<b></b> <i></i>"
    assert TaggedText.parse("<br>").restore([], []) == "<br>"


def test_what_is_no_markup_stays() -> None:
    for text in ("5 < 6 and 7 > 3", "100% sure", "{ a }", "a <3 b", "100 %d'accord"):
        marked = TaggedText.parse(text)
        words = text.split()
        if marked.plain == text:
            assert marked.restore(words, range(len(words))) == text
    assert TaggedText.parse("5 < 6 and 7 > 3").plain == "5 < 6 and 7 > 3"


def test_identity_on_random_markup() -> None:
    """With every word where it was, everything comes back as it stood."""
    import random

    draw = random.Random(1)
    for _ in range(300):
        n = draw.randint(1, 6)
        words = [f"w{i}" for i in range(n)]
        start = draw.randrange(n)
        end = draw.randrange(start, n)
        words[start] = f"<b k='{start}'>{words[start]}"
        words[end] += "</b>"
        if draw.random() < 0.5:
            words.insert(draw.randrange(n + 1), "{x}")
        text = " ".join(words)
        marked = TaggedText.parse(text)
        plain = marked.plain.split()
        back = marked.restore(plain, range(len(plain)))
        assert sorted(re.findall(r"\S+", TaggedText.parse(back).plain)) == sorted(plain)
        if "{x}" not in text:
            assert back == text
        assert back.count("{x}") == text.count("{x}") and back.count("</b>") == 1


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("<p>a</p><p>b</p>", ["A", "B"], "<p>A</p> <p>B</p>"),
        ("<ul><li>a</li><li>b</li></ul>", ["A", "B"], "<ul><li>A</li> <li>B</li></ul>"),
        ("a<br>b", ["A", "B"], "A<br>B"),
        ("a{x}b c", ["Ab", "C"], "{x}Ab C"),
        ("<p>a b {x}</p>", ["A", "B"], "<p>A B {x}</p>"),
        ("<p>{x} a b</p>", ["A", "B"], "<p>{x} A B</p>"),
        ("<div><b>{x}</b> a</div>", ["A"], "<div><b>{x}</b> A</div>"),
        ("<p>a <i>b</i><br></p>", ["A", "B"], "<p>A <i>B</i><br></p>"),
        ("<a href='x>y'>link</a>", ["LINK"], "<a href='x>y'>LINK</a>"),
    ],
)
def test_blocks_part_words_and_nothing_leaves_its_element(text: str, words: list[str], expected: str) -> None:
    marked = TaggedText.parse(text)
    assert len(marked.plain.split()) == len(words)
    assert marked.restore(words, range(len(words))) == expected


def test_a_lost_element_stays_in_the_one_around_it() -> None:
    assert TaggedText.parse("<p>a <b>lost</b></p>").restore(["A"], [0]) == "<p>A <b></b></p>"
