"""Markup is taken out of a text and put back around the corresponding words of a translation."""

import random
import re

import pytest

from regard.text.markup import TaggedText
from regard.text.units import split_units, touching_units

# Translation of "the green witch arrived", and the source word of each of its words
WORDS, SOURCE_WORDS = ["la", "sorcière", "verte", "est", "arrivée"], [0, 2, 1, 3, 3]


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
def test_markup_moves_with_its_words(text: str, plain: str | None, expected: str) -> None:
    tagged = TaggedText.parse(text)
    assert plain is None or tagged.plain.strip() == plain
    assert tagged.plain.split() == ["the", "green", "witch", "arrived"]
    assert tagged.restore(WORDS, SOURCE_WORDS) == expected


def test_punctuation_stays_inside_or_outside_an_element() -> None:
    assert TaggedText.parse("a <b>b</b>, c").restore(["x", "y,", "z"], [0, 1, 2]) == "x <b>y</b>, z"
    assert TaggedText.parse("a <b>b,</b> c").restore(["x", "y,", "z"], [0, 1, 2]) == "x <b>y,</b> z"
    assert TaggedText.parse("hello {name}, you").restore(["salut", ",", "toi"], [0, 1, 2]) == "salut {name}, toi"


def test_a_split_element_stays_well_nested_and_no_element_is_dropped() -> None:
    tagged = TaggedText.parse("<b>a b</b> <i>c</i>")
    assert tagged.restore(["x", "y", "z"], [0, 2, 1]) == "<b>x</b> <i>y</i> <b>z</b>"
    assert tagged.restore(["x", "y"], [0, 1]) == "<b>x y</b> <i></i>"
    assert tagged.restore([], []) == "<b></b> <i></i>"
    assert TaggedText.parse("<br>").restore([], []) == "<br>"


def test_text_that_only_resembles_markup_is_kept() -> None:
    for text in ("5 < 6 and 7 > 3", "100% sure", "{ a }", "a <3 b", "100 %d'accord"):
        tagged = TaggedText.parse(text)
        words = text.split()
        if tagged.plain == text:
            assert tagged.restore(words, range(len(words))) == text
    assert TaggedText.parse("5 < 6 and 7 > 3").plain == "5 < 6 and 7 > 3"


def test_restoring_around_the_same_words_gives_the_same_text() -> None:
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
        tagged = TaggedText.parse(text)
        plain = tagged.plain.split()
        restored = tagged.restore(plain, range(len(plain)))
        assert sorted(re.findall(r"\S+", TaggedText.parse(restored).plain)) == sorted(plain)
        if "{x}" not in text:
            assert restored == text
        assert restored.count("{x}") == text.count("{x}") and restored.count("</b>") == 1


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
def test_block_tags_separate_words_and_markup_stays_in_its_element(text: str, words: list[str], expected: str) -> None:
    tagged = TaggedText.parse(text)
    assert len(tagged.plain.split()) == len(words)
    assert tagged.restore(words, range(len(words))) == expected


def test_an_emptied_element_stays_in_its_parent() -> None:
    assert TaggedText.parse("<p>a <b>lost</b></p>").restore(["A"], [0]) == "<p>A <b></b></p>"


def test_untagged_text_is_all_words() -> None:
    tagged = TaggedText.untagged("a <b>b</b>")
    assert tagged.plain == "a <b>b</b>" and tagged.restore(["x", "y"], [0, 1]) == "x y"


def test_markup_of_texts_without_spaces_is_counted_in_characters_and_adds_no_space() -> None:
    japanese, touching = ["彼", "女", "は", "先", "生", "が", "好", "き", "。"], frozenset(range(1, 9))
    english = TaggedText.parse("she likes <b>the teacher</b>. {x}")
    assert english.restore(japanese, [0, 0, 0, 3, 3, 3, 1, 1, 3], touching) == "彼女は<b>先生が</b>好き。{x}"
    tagged = TaggedText.parse("彼女は<b>先生</b>が<br/>好き。")
    assert tagged.plain == "彼女は先生が\n好き。" and (tagged.elements[0].first, tagged.elements[0].end) == (3, 5)
    tagged = TaggedText.parse("<i>iPhone</i>を{n}買った")
    assert tagged.restore(["bought", "an", "iPhone", "{"], [2, 2, 0, 1]) == "{n} bought an <i>iPhone</i> {"
    units = ["iPhone", "を", "買", "っ", "た"]
    assert tagged.restore(units, range(5), frozenset(range(1, 5))) == tagged.text


@pytest.mark.parametrize(
    ("text", "words", "source_words", "expected"),
    [
        ("it worked<n/>. so", ["ça", "a", "marché.", "alors"], [0, 1, 1, 2], "ça a marché<n/>. alors"),
        ("the green<n/> cat", ["le", "chat", "vert"], [0, 2, 1], "le chat vert<n/>"),
        ("<b>it worked<n/>.</b> so", ["oui.", "alors"], [1, 2], "<b>oui<n/>.</b> alors"),
        ("a <b>cat</b><n/>, so", ["un", "chat,", "alors"], [0, 1, 2], "un <b>chat</b><n/>, alors"),
        ("hi {x}, you {y}", ["toi"], [2], "{x} toi {y}"),
        ("hi {x}, {y}!", ["toi"], [0], "toi {x} {y}"),
    ],
)
def test_marks_of_notes_follow_their_words_and_spaces_are_not_lost(
    text: str, words: list[str], source_words: list[int], expected: str
) -> None:
    assert TaggedText.parse(text).restore(words, source_words) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<b>one </b><img>two", "<b>one</b> <img>two"),
        ("one<img><b> two</b>", "one<img> <b>two</b>"),
        ("<i><b>one </b></i>{x}two", "<i><b>one</b></i> {x}two"),
        ("<b>one</b>{x}.", "<b>one</b>{x}."),
    ],
)
def test_a_space_next_to_a_tag_separates_the_words_around_markup(source: str, expected: str) -> None:
    tagged = TaggedText.parse(source)
    words = split_units(tagged.plain)
    assert tagged.restore(words, range(len(words)), touching_units(tagged.plain)) == expected
