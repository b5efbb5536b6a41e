"""The stand-alone page, and the table that a notebook shows."""

import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from regard.errors import UserError
from regard.models.record import KINDS, AttentionRecord
from regard.pipelines.translator import Candidate, Translation
from regard.visualize import html_page
from regard.visualize.heatmap import mean_weights
from regard.visualize.html_page import InitialView, render_page
from tests.visualize.test_figures import random_record

EVIL = ("▁</script>", "<b>", "▁<!--", "▁{{data}}", "▁&amp;", "</s>")
SRC, TGT = ("▁the", "▁wit", "ch", "</s>"), ("▁la", "▁sor", "ci", "ère", "</s>")


class PageReader(HTMLParser):
    """The elements of a page, and the texts of each kind of element; checks that elements are well nested."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    @property
    def data(self) -> Any:
        return json.loads(self.texts["script"][0])

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def test_the_page_contains_the_weights_of_the_record() -> None:
    record = random_record(SRC, TGT)
    page = PageReader(render_page(record, "the witch", "la sorcière", InitialView("cross", layer=1, words=True)))
    assert page.open == [] and page.count("script") == 2 and page.count("title") == 1
    for kind in KINDS:
        data = page.data["kinds"][kind]
        weights = record.weights(kind)
        quantised = np.frombuffer(b64decode(data["weights"]), dtype=np.uint8).reshape(data["shape"])
        assert (np.abs((quantised / 255.0) ** 2 - weights) <= np.sqrt(weights) / 255 + 255.0**-2).all()
        for axis, tokens, words in zip(
            ("rows", "columns"), record.axis_tokens(kind), record.merge_words().axis_tokens(kind), strict=True
        ):
            assert (
                len(data[axis]["tokens"]) == len(data[axis]["wordIndex"]) == len(data[axis]["isSpecial"]) == len(tokens)
            )
            assert data[axis]["words"] == list(words)
    assert page.data["initial"] | {"layer": 1, "head": None, "words": True, "kind": "cross"} == page.data["initial"]
    assert page.texts["p"] == ["the witch"] and page.texts["strong"] == ["la sorcière"]


def test_the_page_has_only_the_kinds_of_attention_that_the_model_has() -> None:
    record = random_record(SRC, TGT)
    alone = AttentionRecord(SRC, TGT, record.encoder[:0], record.decoder, record.cross[:0])
    assert list(PageReader(render_page(alone, "a", "b", InitialView("decoder"))).data["kinds"]) == ["decoder"]
    with pytest.raises(UserError, match="no cross attention"):
        render_page(alone, "a", "b", InitialView("cross"))


def test_the_page_makes_no_network_requests() -> None:
    content = render_page(random_record(SRC, TGT), "the witch", "la sorcière", InitialView("cross"))
    assert set(re.findall(r"\w+://[^\"' ]*", content)) == {"http://www.w3.org/2000/svg"}
    page = PageReader(content)
    assert not any({"src", "href"} & attributes.keys() for _, attributes in page.elements)
    assert any("default-src 'none'" in (attributes.get("content") or "") for _, attributes in page.elements)
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|@import|url\(|innerHTML|eval\(", content)


def test_tokens_and_sentences_cannot_break_the_page() -> None:
    text = "</script><script>alert(1)</script> <b>{{data}}</b> <!-- \\u003c &amp;"
    plain, evil = (
        PageReader(render_page(random_record(tokens, tokens), sentence, sentence[::-1], InitialView("cross")))
        for tokens, sentence in ((("▁a",) * 6, "a bc"), (EVIL, text))
    )
    assert [tag for tag, _ in evil.elements] == [tag for tag, _ in plain.elements] and evil.open == []
    assert evil.texts["p"] == [text] and not set("<>&") & set(evil.texts["script"][0])
    assert evil.data["kinds"]["cross"]["columns"]["tokens"] == ["</script>", "<b>", "<!--", "{{data}}", "&amp;", "</s>"]


def test_too_many_weights_for_a_page_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    record = random_record(SRC, TGT)
    n = sum(record.weights(kind).size for kind in KINDS)
    monkeypatch.setattr(html_page, "MAX_WEIGHTS", n)
    render_page(record, "a", "b", InitialView("cross"))
    monkeypatch.setattr(html_page, "MAX_WEIGHTS", n - 1)
    with pytest.raises(UserError, match="split the text"):
        render_page(record, "a", "b", InitialView("cross"))


def translation(record: AttentionRecord | None, source: str = "the <b>", text: str = "la & </p>") -> Translation:
    return Translation(source, ("▁the",), (Candidate(text, 0.0, ("▁la",), record),))


def test_a_notebook_shows_the_sentence_pair_and_a_table_of_weights() -> None:
    record = random_record(SRC, TGT)
    page = PageReader(translation(record)._repr_html_())
    assert page.open == [] and page.count("script") == 0 and page.count("b") == 0
    assert "".join(page.texts["p"]) == "the <b>" and "".join(page.texts["strong"]) == "la & </p>"
    assert page.texts["th"] == ["the", "wit", "-ch", "</s>", "la", "sor", "-ci", "-ère", "</s>"]
    assert [int(x) for x in page.texts["td"]] == [round(100 * float(w)) for w in mean_weights(record, "cross").flat]
    assert PageReader(translation(None)._repr_html_()).count("table") == 0
    decoder_only = AttentionRecord(SRC, TGT, record.encoder[:0], record.decoder, record.cross[:0])
    assert PageReader(translation(decoder_only)._repr_html_()).texts["th"][0] == "<s>"
    long = random_record(tuple(f"▁{i}" for i in range(100)), TGT)
    assert PageReader(translation(long)._repr_html_()).count("table") == 0
