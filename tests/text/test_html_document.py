"""HTML is divided into texts, and only the texts change."""

import random
import time

import pytest

from regard.text.html_document import HtmlDocument
from regard.text.html_tokens import HtmlToken, html_tokens
from regard.text.markup import TaggedText
from regard.text.units import split_units


def in_capitals(text: TaggedText) -> str:
    words = split_units(text.plain)
    return text.restore([word.upper() for word in words], range(len(words)))


def translate(source: str) -> str:
    """Put all texts into capitals."""
    document = HtmlDocument.parse(source)
    return document.join([in_capitals(text) for text in document.texts])


# Capitals stand for the translation; what must not change has none.
UNCHANGED = "<!-- x --><td>&nbsp;</td><td>12</td><script>if (a < b) {}</script><style>p > a {}</style><pre>a\n  b</pre>"
XML = "<?xml version='1.0'?><!DOCTYPE html>"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<ul>\n <li>a</li><li>b <b>c</b></li>\n</ul> d", "<ul>\n <li>A</li><li>B <b>C</b></li>\n</ul> D"),
        ("before<div>a<p>b</p>c</div>after", "BEFORE<div>A<p>B</p>C</div>AFTER"),
        ("<a href='x > y' title=\"<b>\">a</a>", "<a href='x > y' title=\"<b>\">A</a>"),
        ("<a href=x><div>card</div></a>", "<a href=x><div>CARD</div></a>"),
        ("<a id=top></a>a <img src=x> b", "<a id=top></a>A <img src=x> B"),
        ("a<br>b<BR/>c", "A<br>B<BR/>C"),
        ("a <b>b<br>c</b> d", "A <b>B</b><b><br></b><b>C</b> D"),
        ("<p>a &lt;b&gt; R&amp;D,</p>", "<p>A &lt;B&gt; R&amp;D,</p>"),
        ("<b>R&amp;D</b>, a", "<b>R&amp;D</b>, A"),
        ("<td>12 &eacute;</td><td>&nbsp;a&nbsp;</td>", "<td>12 É</td><td>&nbsp;A&nbsp;</td>"),
        ("<p>a <!-- y --> b</p>", "<p>A <!-- y --> B</p>"),
        (f"{UNCHANGED}a{UNCHANGED}", f"{UNCHANGED}A{UNCHANGED}"),
        ("run <code>a <i>b</i></code> now", "RUN <code>a <i>b</i></code> NOW"),
        ("<p translate='no'>a</p>b", "<p translate='no'>a</p>B"),
        ("a <i class='x notranslate'>b</i> c", "A <i class='x notranslate'>b</i> C"),
        ("<p translate=no>a<p>b", "<p translate=no>a<p>B"),
        ("<title>a</title><meta name=x content=y>", "<title>A</title><meta name=x content=y>"),
        ("hello {{ name }}, <b>{n}</b>", "HELLO {{ name }}, <b>{n}</b>"),
        (f"{XML}<p>a<![CDATA[b]]></p>", f"{XML}<p>A<![CDATA[b]]></p>"),
        # broken HTML
        ("<p>a <b>b <i>c</p>d</b>", "<p>A <b>B <i>C</p>D</b>"),
        ("</p>a</div>", "</p>A</div>"),
        ("a < b <c", "A &lt; B &lt;C"),
        ("<a href='x>a</a>", "&lt;A HREF='X&gt;A</a>"),
        ("a <!-- b", "A <!-- b"),
        ("<script>a", "<script>a"),
        ("", ""),
    ],
)
def test_only_texts_change(source: str, expected: str) -> None:
    assert translate(source) == expected


def test_texts_are_plain_and_on_one_line() -> None:
    document = HtmlDocument.parse("<h1>A\n title</h1>\n<p>One.&#10;Two &amp; <b>three</b>.</p>")
    assert [text.plain for text in document.texts] == ["A title", "One. Two & three."]


def test_nothing_is_lost_whatever_the_tags_are() -> None:
    draw = random.Random(1)
    pieces = [
        "<b>",
        "</b>",
        "<p>",
        "</p>",
        "<br>",
        "x ",
        "y",
        "<",
        ">",
        '"',
        "'",
        "<!--",
        "-->",
        "<i k='",
        "<code>",
        " ",
    ]
    for _ in range(500):
        source = "".join(draw.choices([*pieces, "</code>", "&amp;"], k=draw.randint(1, 14)))
        tokens = list(html_tokens(source))
        assert "".join(token.source for token in tokens) == source
        document = HtmlDocument.parse(source)
        result = document.join([in_capitals(text) for text in document.texts])
        letters = [[letter for letter in text.lower() if letter in "xy"] for text in (source, result)]
        assert letters[0] == letters[1]
        assert all(result.count(token.source) >= 1 for token in tokens if token.kind != "text")


def test_tokens_of_tags() -> None:
    opening, text, image, closing = html_tokens("<P Class=x data-y='1 2'>a<img/></P>")
    assert opening == HtmlToken("open", "<P Class=x data-y='1 2'>", "p")
    assert opening.attributes == {"class": "x", "data-y": "1 2"}
    assert (text.kind, image.kind, closing.kind, closing.name) == ("text", "empty", "close", "p")


@pytest.mark.parametrize("raw", ['<script>x = "<p>"</script >', "<STYLE>p {}</STYLE>", "<xmp><b>", "<script>x"])
def test_no_word_gets_into_a_script(raw: str) -> None:
    assert [token.source for token in html_tokens(f"a{raw}")] == ["a", raw]
    end = "" if raw in ("<xmp><b>", "<script>x") else "b c"  # those without a closing tag go on to the end
    assert raw in translate(f"a{raw}{end}") and raw in translate(f"<i>a{raw}</i>{end}")


HOSTILE = ["<a ", "<!--", '<a "', "<b>w ", "</b>", "<!", "<pre>", "<br>w", "{x} ", "&nbsp;", "<p translate=no>"]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_html_takes_little_time(piece: str) -> None:
    begin = time.process_time()
    translate(piece * (40_000 // len(piece)))
    assert time.process_time() - begin < 3.0  # 0.4 s; a method whose time grows with the square takes minutes
