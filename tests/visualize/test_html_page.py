"""The page that stands alone, the notebook's table, and the verb that makes them, on models that learnt nothing."""

import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import models
from regard.bundle import Bundle, TaskName
from regard.cli.app import app
from regard.data.images import save_image
from regard.errors import UserError
from regard.models.record import KINDS, AttentionRecord
from regard.pipelines.translator import Candidate, Translation
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import ListTokenizer, TokenizerPair
from regard.visualize import html_page as page
from regard.visualize.heatmap import mean_weights
from regard.visualize.html_page import InitialView, render_page
from tests.visualize.test_figures import random_record

EVIL = ("▁</script>", "<b>", "▁<!--", "▁{{data}}", "▁&amp;", "</s>")
SRC, TGT = ("▁the", "▁wit", "ch", "</s>"), ("▁la", "▁sor", "ci", "ère", "</s>")


class Reader(HTMLParser):
    """Elements by name, and the text within each kind of them"""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
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
        return sum(name == tag for name, _ in self.found)


def test_the_page_holds_the_records_weights() -> None:
    record = random_record(SRC, TGT)
    read = Reader(render_page(record, "the witch", "la sorcière", InitialView("cross", layer=1, words=True)))
    assert read.open == [] and read.count("script") == 2 and read.count("title") == 1
    for kind in KINDS:
        found = read.data["kinds"][kind]
        weights = record.weights(kind)
        coded = np.frombuffer(b64decode(found["weights"]), dtype=np.uint8).reshape(found["shape"])
        assert (np.abs((coded / 255.0) ** 2 - weights) <= np.sqrt(weights) / 255 + 255.0**-2).all()
        for axis, tokens, words in zip(
            ("rows", "columns"), record.axis_tokens(kind), record.merge_words().tokens(kind), strict=True
        ):
            assert len(found[axis]["labels"]) == len(found[axis]["word"]) == len(found[axis]["special"]) == len(tokens)
            assert found[axis]["names"] == list(words)
    assert read.data["opening"] | {"layer": 1, "head": None, "words": True, "kind": "cross"} == read.data["opening"]
    assert read.texts["p"] == ["the witch"] and read.texts["strong"] == ["la sorcière"]


def test_a_model_without_a_kind_of_attention_has_a_page_without_it() -> None:
    record = random_record(SRC, TGT)
    alone = AttentionRecord(SRC, TGT, record.encoder[:0], record.decoder, record.cross[:0])
    assert list(Reader(render_page(alone, "a", "b", InitialView("decoder"))).data["kinds"]) == ["decoder"]
    with pytest.raises(UserError, match="no cross attention"):
        render_page(alone, "a", "b", InitialView("cross"))


def test_the_page_asks_nothing_of_the_network() -> None:
    content = render_page(random_record(SRC, TGT), "the witch", "la sorcière", InitialView("cross"))
    assert set(re.findall(r"\w+://[^\"' ]*", content)) == {"http://www.w3.org/2000/svg"}
    read = Reader(content)
    assert not any({"src", "href"} & attributes.keys() for _, attributes in read.found)
    assert any("default-src 'none'" in (attributes.get("content") or "") for _, attributes in read.found)
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|@import|url\(|innerHTML|eval\(", content)


def test_tokens_and_sentences_cannot_break_the_page() -> None:
    text = "</script><script>alert(1)</script> <b>{{data}}</b> <!-- \\u003c &amp;"
    plain, evil = (
        Reader(render_page(random_record(tokens, tokens), said, said[::-1], InitialView("cross")))
        for tokens, said in ((("▁a",) * 6, "a bc"), (EVIL, text))
    )
    assert [tag for tag, _ in evil.found] == [tag for tag, _ in plain.found] and evil.open == []
    assert evil.texts["p"] == [text] and not set("<>&") & set(evil.texts["script"][0])
    assert evil.data["kinds"]["cross"]["columns"]["labels"] == ["</script>", "<b>", "<!--", "{{data}}", "&amp;", "</s>"]


def test_a_page_of_too_many_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    record = random_record(SRC, TGT)
    n = sum(record.weights(kind).size for kind in KINDS)
    monkeypatch.setattr(page, "MOST_CELLS", n)
    render_page(record, "a", "b", InitialView("cross"))
    monkeypatch.setattr(page, "MOST_CELLS", n - 1)
    with pytest.raises(UserError, match="split the text"):
        render_page(record, "a", "b", InitialView("cross"))


def translation(record: AttentionRecord | None, source: str = "the <b>", text: str = "la & </p>") -> Translation:
    return Translation(source, ("▁the",), (Candidate(text, 0.0, ("▁la",), record),))


def test_a_notebook_shows_the_pair_and_its_map() -> None:
    record = random_record(SRC, TGT)
    read = Reader(translation(record)._repr_html_())
    assert read.open == [] and read.count("script") == 0 and read.count("b") == 0
    assert "".join(read.texts["p"]) == "the <b>" and "".join(read.texts["strong"]) == "la & </p>"
    assert read.texts["th"] == ["the", "wit", "-ch", "</s>", "la", "sor", "-ci", "-ère", "</s>"]
    assert [int(x) for x in read.texts["td"]] == [round(100 * float(w)) for w in mean_weights(record, "cross").flat]
    assert Reader(translation(None)._repr_html_()).count("table") == 0
    decoder_only = AttentionRecord(SRC, TGT, record.encoder[:0], record.decoder, record.cross[:0])
    assert Reader(translation(decoder_only)._repr_html_()).texts["th"][0] == "<s>"
    long = random_record(tuple(f"▁{i}" for i in range(100)), TGT)
    assert Reader(translation(long)._repr_html_()).count("table") == 0


# ---- The verb ----

WORDS = ListTokenizer("word", ["the", "green", "witch", "arrived", "la", "sorcière", "verte"])
SMALL = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 2}


def untrained(folder: Path, task: TaskName, config: dict[str, Any]) -> Path:
    torch.manual_seed(0)
    parsed = models.parse_config(config)
    decode = DecodeConfig.parse({"max_len": 4, "min_len": 3, "beam": 3}, where="test")
    pair = TokenizerPair(WORDS, WORDS)
    Bundle(models.build(parsed, WORDS.size).eval(), parsed, pair, ("en", "fr"), decode, task, 6).save(folder, "card")
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("models")
    picture = {"kind": "image", "size": 16, "patch": 4, **SMALL}
    configs: dict[TaskName, dict[str, Any]] = {
        "translate": SMALL,
        "text": {"kind": "decoder", "decoder": {"kind": "transformer", **SMALL}},
        "classify": {"kind": "encoder", "encoder": {"kind": "transformer", **SMALL}},
        "caption": {"kind": "encoder-decoder", "encoder": picture, "decoder": {"kind": "transformer", **SMALL}},
    }
    return {task: untrained(base / task, task, config) for task, config in configs.items()}


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    save_image(np.random.default_rng(0).integers(0, 256, (20, 16, 3)).astype(np.uint8), tmp_path / "seen.png")
    return tmp_path / "seen.png"


def attend(*arguments: object) -> None:
    app(["attend", *map(str, arguments), "--device", "cpu"], standalone_mode=False)


@pytest.mark.parametrize(
    ("task", "kind"), [("translate", "cross"), ("text", "decoder"), ("classify", "encoder"), ("caption", "cross")]
)
def test_every_front_door_is_looked_at(
    folders: dict[str, Path], tmp_path: Path, picture: Path, task: str, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    given = picture if task == "caption" else "the green witch arrived"
    for name in ("it.png", "it.svg", "it.html", "it.json", "it.safetensors"):
        attend(folders[task], given, "--out", tmp_path / name)
        assert capfd.readouterr().out.splitlines()[-1] == str(tmp_path / name)
    data = Reader((tmp_path / "it.html").read_text()).data
    record = AttentionRecord.from_json((tmp_path / "it.json").read_text())
    assert data["opening"]["kind"] == kind and (data["picture"] is not None) == (task == "caption")
    assert data["opening"]["view"] == ("picture" if task == "caption" else "map")
    assert record.weights(kind).shape == tuple(data["kinds"][kind]["shape"])
    same = AttentionRecord.from_safetensors((tmp_path / "it.safetensors").read_bytes())
    assert np.allclose(same.weights(kind), record.weights(kind))
    attend(folders[task], given)
    assert len(capfd.readouterr().out.splitlines()) == 2 + len(record.axis_tokens(kind)[0])


def test_another_target_and_another_rank(
    folders: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def looked_at(*arguments: object) -> tuple[str, AttentionRecord]:
        attend(folders["translate"], "the green witch", "--out", tmp_path / "it.json", *arguments)
        said = capfd.readouterr().out.splitlines()[0]
        return said, AttentionRecord.from_json((tmp_path / "it.json").read_text())

    said, record = looked_at("--target", "la sorcière verte")
    assert said == "la sorcière verte" and record.target_tokens == ("▁la", "▁sorcière", "▁verte", "</s>")
    found = [looked_at("--rank", rank) for rank in (1, 2, 3)]
    assert len({said for said, _ in found}) == 3
    again = looked_at("--target", found[1][0])[1]
    assert np.allclose(again.cross, found[1][1].cross, atol=1e-6)  # the weights are of the text that is shown


def test_mistakes_are_one_line(folders: dict[str, Path], tmp_path: Path, picture: Path) -> None:
    out = tmp_path / "it.png"
    translator, writer = folders["translate"], folders["text"]
    long = " ".join(["witch"] * 10_000)
    for arguments, words in (
        ((translator, " "), "empty sentence"),
        ((translator, "the", "--kind", "self"), "encoder, decoder, cross"),
        ((translator, "the", "--layer", 2), "0 to 1"),
        ((translator, "the", "--view", "tree", "--out", out), "map, grid, links, picture"),
        ((translator, "the", "--view", "grid"), "needs --out"),
        ((translator, "the", "--view", "grid", "--head", 0, "--out", out), "leave --layer and --head out"),
        ((translator, "the", "--view", "picture", "--out", out), "caption"),
        ((translator, "the", "--rank", 2, "--target", "la"), "--rank"),
        ((translator, long, "--out", out), "10,000 tokens .* 128"),
        ((translator, long, "--words"), "10,000 tokens .* 128"),
        ((translator, long, "--out", tmp_path / "it.html"), "40 million"),
        ((translator, "the", "--out", tmp_path / "it.gif"), ".svg"),
        ((translator, "the", "--out", tmp_path / "none" / "it.png"), "folder that exists"),
        ((tmp_path, "the"), "no model there"),
        ((writer, "the", "--kind", "cross"), "no cross attention"),
        ((writer, "the", "--rank", 2), "--rank"),
        ((folders["caption"], tmp_path / "none.png"), "cannot be read"),
    ):
        with pytest.raises(UserError, match=words):
            attend(*arguments)
    assert not out.exists()


def test_what_is_left_out_is_said(folders: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    attend(folders["text"], "the green witch arrived " * 2, "--out", tmp_path / "it.svg")
    assert "reads at most 6 tokens; the rest of the 8" in capfd.readouterr().err
    attend(folders["text"], "the green witch arrived", "--out", tmp_path / "it.svg")
    assert capfd.readouterr().err == ""
