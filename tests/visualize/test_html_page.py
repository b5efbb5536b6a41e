"""The stand-alone page, and what a notebook shows."""

import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image

from regard.errors import UserError
from regard.models.record import KINDS, AttentionRecord
from regard.pipelines.captioner import Caption
from regard.pipelines.classifier import Classification
from regard.pipelines.generator import GeneratedText
from regard.pipelines.length_limit import TooLong
from regard.pipelines.translation import Candidate, Translation
from regard.visualize import html_page
from regard.visualize.heatmap import mean_weights
from regard.visualize.html_page import InitialView, render_page
from regard.visualize.picture import draw_attention
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
        if tag not in ("meta", "input", "img"):
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
    assert page.texts["th"][:9] == ["the", "wit", "-ch", "</s>", "la", "sor", "-ci", "-ère", "</s>"]
    shown = [int(x) for x in page.texts["td"][:20]]
    assert shown == [round(100 * float(w)) for w in mean_weights(record, "cross").flat]
    assert PageReader(translation(None)._repr_html_()).count("table") == 0
    decoder_only = AttentionRecord(SRC, TGT, record.encoder[:0], record.decoder, record.cross[:0])
    assert PageReader(translation(decoder_only)._repr_html_()).texts["th"][0] == "<s>"
    long = random_record(tuple(f"▁{i}" for i in range(100)), TGT)
    assert PageReader(translation(long)._repr_html_()).count("table") == 1  # that of the decoder is small


def test_a_notebook_shows_score_alignment_and_all_hypotheses() -> None:
    record = random_record(SRC, TGT)
    best = Candidate("la sorcière", -0.25, TGT[:-1], record, ((0, 0), (1, 1)))
    shown = Translation("the witch", SRC[:-1], (best, Candidate("<i>", -1.5, ("▁<i>",))))._repr_html_()
    page = PageReader(shown)
    assert page.texts["div"][:2] == ["score: -0.250", "alignment: the – la, witch – sorcière"]
    assert page.texts["td"][:4] == ["-0.250", "la sorcière", "-1.500", "<i>"]
    skipped = Translation("a b", (), (Candidate("", 0.0, ()),), TooLong("has 2 tokens", is_option=True))
    assert "has 2 tokens; split it" in skipped._repr_html_()


def test_a_notebook_shows_every_head_of_a_record_as_an_image_of_its_weights() -> None:
    record = random_record(SRC, TGT)
    page = PageReader(record._repr_html_())
    summaries = [text.partition(",")[0] for text in page.texts["summary"]]
    assert summaries == ["cross attention", "decoder attention", "encoder attention"]
    assert [("open" in attributes) for tag, attributes in page.elements if tag == "details"] == [True, False, False]
    images = {(a["title"], i): a["src"] for i, (tag, a) in enumerate(page.elements) if tag == "img"}
    assert len(images) == sum(record.weights(kind).shape[0] * record.weights(kind).shape[1] for kind in KINDS)
    source = next(src for (title, _), src in images.items() if title == "layer 1, head 0") or ""
    pixels = np.asarray(Image.open(BytesIO(b64decode(source.partition(",")[2]))))
    scale = pixels.shape[0] // len(TGT)
    opacity = pixels[scale // 2 :: scale, scale // 2 :: scale, 3]
    assert np.array_equal(opacity, np.round(255 * record.cross[1, 0]))


def test_what_a_notebook_shows_is_bounded() -> None:
    tokens = tuple(f"▁{i}" for i in range(300))
    empty = np.zeros((0, 0, 1, 1), dtype=np.float32)
    few = AttentionRecord(tokens, ("▁a",), np.full((2, 2, 300, 300), 1 / 300, np.float32), empty, empty)
    many = AttentionRecord(("▁a",), ("▁b",), np.ones((12, 16, 1, 1), np.float32), empty, empty)
    for record, sentence in ((few, "300 × 300 tokens are too many for a table"), (many, "192 heads are too many")):
        shown = record._repr_html_()
        assert len(shown) < 10_000 and "<img" not in shown and sentence in shown
    assert AttentionRecord((), (), empty, empty, empty)._repr_html_() == "<p>no attention</p>"


def test_a_notebook_shows_the_other_results() -> None:
    label = PageReader(Classification("<b>", "good", {"bad": 0.25, "good": 0.75})._repr_html_())
    assert label.texts["td"] == ["75.0 %", "good", "25.0 %", "bad"] and label.count("b") == 0
    regions = np.random.default_rng(0).random((1, 2, 3, 4, 4), dtype=np.float32)
    caption = PageReader(Caption("a box", -0.5, ("▁a", "▁box"), regions)._repr_html_())
    assert caption.texts["figcaption"] == ["a", "box", "</s>"] and caption.count("img") == 3
    assert "score: -2.000" in GeneratedText("to be", -2.0)._repr_html_()


def test_a_picture_of_attention_for_notebooks() -> None:
    record = random_record(SRC, TGT)
    maps = [draw_attention(record, view, kind="cross", words=True)._repr_png_() for view in ("map", "grid", "links")]
    assert len({png for png, _ in maps}) == 3
    for png, shown in maps:
        assert shown == {"width": 2 * Image.open(BytesIO(png)).width // 3}
    with pytest.raises(UserError, match="choose one of map, grid, links"):
        draw_attention(record, "picture")
