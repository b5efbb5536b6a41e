"""Figures and terminal output: heat map, grid, links, image regions, learning curves, fonts."""

import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

from regard import models
from regard.errors import UserError
from regard.models.record import AttentionRecord
from regard.pipelines.captioner import Captioner, region_names
from regard.search.decode import DecodeConfig
from regard.text.labels import token_labels
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import TokenizerPair
from regard.visualize import figure
from regard.visualize.curves import draw_curves
from regard.visualize.grid import draw_grid
from regard.visualize.heatmap import MAX_TOKENS, draw_heatmap, mean_weights
from regard.visualize.links import draw_links, select_links
from regard.visualize.regions import draw_regions, shade_image
from regard.visualize.terminal import render_heatmap

SCRIPTS = ("▁猫", "が", "▁مرحبا", "▁שלום", "▁नमस्ते", "▁안녕", "▁😀", "▁🦜", "▁👨‍👩‍👧", "▁❤️", "▁$b$")
SPECIAL_CHARACTERS = ("▁$a$", "▁$\\frac", "<0xE2>", "▁<b>", "▁&", "\x07", "▁" + "long" * 9, "</s>")


def random_record(source: tuple[str, ...], target: tuple[str, ...], layers: int = 2, heads: int = 3) -> AttentionRecord:
    generator = np.random.default_rng(0)

    def weights(rows: int, columns: int) -> np.ndarray:
        return generator.dirichlet(np.full(columns, 0.3), size=(layers, heads, rows)).astype(np.float32)

    s, t = len(source), len(target)
    return AttentionRecord(source, target, weights(s, s), weights(t, t), weights(t, s))


def svg_content(path: Path) -> tuple[set[str], set[str]]:
    """Return the texts and the ids of an SVG."""
    elements = list(ElementTree.parse(path).iter())
    texts = {element.text or "" for element in elements if element.tag.endswith("}text")}
    return texts, {element.get("id", "") for element in elements}


def test_a_heatmap_and_curves_are_drawn(tmp_path: Path) -> None:
    record = random_record(("▁the", "▁cat", "</s>"), ("▁le", "▁ch", "at", "</s>"))
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        assert draw_heatmap(record, tmp_path / f"map{suffix}").read_bytes().startswith(magic)
    rows = [
        {"step": 1, "loss": 3.0},
        {"step": 2, "loss": 2.0},
        {"step": 2, "valid_loss": 2.5, "bleu": 1.0, "chrf": 9.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows) + '{"step": 3, "lo')
    assert [p.name for p in draw_curves(tmp_path)] == ["curves.png", "curves.svg"]


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_every_token_is_a_text_of_the_svg(tmp_path: Path, kind: str) -> None:
    record = random_record(SCRIPTS, SPECIAL_CHARACTERS)
    rows, columns = record.axis_tokens(kind)
    for draw in (draw_heatmap, draw_links, draw_grid):
        texts, _ = svg_content(draw(record, tmp_path / "it.svg", kind))
        assert {*token_labels(rows), *token_labels(columns)} <= texts, draw


def test_many_scripts_special_characters_and_forty_tokens_are_drawn_without_a_warning(tmp_path: Path) -> None:
    long = tuple(f"▁word{i}" for i in range(40))
    pairs = ((SCRIPTS, SPECIAL_CHARACTERS), (long, long), (("</s>",), ("</s>",)))
    for source, target in pairs:
        for draw in (draw_heatmap, draw_links, draw_grid):
            assert draw(random_record(source, target), tmp_path / "it.png").stat().st_size > 1000


def test_numbers_are_written_into_the_cells_if_there_is_room(tmp_path: Path) -> None:
    def numbers(n: int) -> set[str]:
        tokens = tuple(f"▁w{i}" for i in range(n))
        texts, _ = svg_content(draw_heatmap(random_record(tokens, tokens), tmp_path / "map.svg"))
        return texts - set(token_labels(tokens))

    assert all(re.fullmatch(r"[01]\.\d\d", text) for text in numbers(8)) and numbers(8)
    assert not numbers(30)


def test_the_grid_has_one_panel_per_head(tmp_path: Path) -> None:
    record = random_record(("▁a", "▁b"), ("▁c", "▁d", "</s>"), layers=3, heads=4)
    texts, ids = svg_content(draw_grid(record, tmp_path / "grid.svg"))
    expected = [(layer, head) for layer in range(3) for head in range(4)]
    assert {name for name in ids if name.startswith("layer-")} == {f"layer-{i}-head-{j}" for i, j in expected}
    assert {f"layer {i}, head {j}" for i, j in expected} <= texts


def test_links_are_drawn_for_exactly_the_weights_above_the_threshold(tmp_path: Path) -> None:
    record = random_record(("▁a", "▁b", "▁c", "</s>"), ("▁x", "▁y", "</s>"))
    weights = mean_weights(record, "cross")
    for threshold in (0.0, 0.2, 0.5, 1.0):
        above = {(i, j) for i in range(3) for j in range(4) if weights[i, j] > threshold}
        assert {(i, j) for i, j, _ in select_links(weights, threshold)} == above
        _, ids = svg_content(draw_links(record, tmp_path / "links.svg", threshold=threshold))
        assert {name for name in ids if name.startswith("link-")} == {f"link-{i}-{j}" for i, j in above}
    assert 0 < len(select_links(weights, 0.2)) < weights.size


def test_too_many_tokens_and_missing_attention_are_refused(tmp_path: Path) -> None:
    tokens = tuple(f"▁w{i}" for i in range(MAX_TOKENS + 1))
    long = random_record(tokens, ("▁a", "</s>"), layers=1, heads=1)
    for draw in (draw_heatmap, draw_links, draw_grid):
        with pytest.raises(UserError, match=rf"{MAX_TOKENS + 1} tokens .* {MAX_TOKENS}"):
            draw(long, tmp_path / "it.png")
    with pytest.raises(UserError, match="no cross attention"):
        draw_heatmap(AttentionRecord(("a",), ("b",), *np.zeros((3, 0, 0, 1, 1), np.float32)), tmp_path / "it.png")
    assert not list(tmp_path.iterdir())


def test_characters_that_no_font_has_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from matplotlib import font_manager

    figure._fallback_fonts.cache_clear()
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    assert figure.characters_without_font(["the 猫", "é שלום", "a🦜猫"]) == "猫🦜"
    assert draw_heatmap(random_record(("▁猫",), ("▁🦜",)), tmp_path / "it.png").is_file()  # and no warning
    figure._fallback_fonts.cache_clear()


def test_a_fallback_font_draws_what_the_default_font_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from matplotlib import font_manager, get_data_path

    stix = str(Path(get_data_path(), "fonts", "ttf", "STIXGeneral.ttf"))
    default = font_manager.findfont(font_manager.FontProperties())
    character = next(chr(c) for c in sorted(figure._glyphs(stix) - figure._glyphs(default)) if chr(c).isalpha())
    figure._fallback_fonts.cache_clear()
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [default, stix])
    assert figure.characters_without_font([character]) == ""
    content = draw_heatmap(random_record((f"▁{character}",), ("▁a",)), tmp_path / "it.svg").read_text()
    families = {line.count("STIX") for line in content.splitlines() if f">{character}<" in line}
    assert families == {1} and content.count("STIX") == 1
    figure._fallback_fonts.cache_clear()


def test_an_image_is_darkened_where_a_word_does_not_attend() -> None:
    image = np.random.default_rng(0).integers(0, 256, size=(12, 12, 3)).astype(np.uint8)
    brightness = np.zeros((3, 3), np.float32)
    brightness[0, 2] = 1.0
    shaded = shade_image(image, brightness)
    assert np.array_equal(shaded[:4, 8:], image[:4, 8:])
    assert np.array_equal(shaded[4:], image[4:] // 4) and np.array_equal(shaded[:, :8], image[:, :8] // 4)


def test_regions_are_drawn_for_each_word(tmp_path: Path) -> None:
    image = np.zeros((12, 12, 3), np.uint8)
    record = random_record(region_names(3, 3), ("▁red", "▁cross", "</s>"), layers=2, heads=4)
    assert record.merge_words().cross.shape == (2, 4, 2, 9)  # each region counts as one word
    texts, _ = svg_content(draw_regions(record, image, tmp_path / "it.svg", "mean"))
    assert {"red", "cross", "</s>"} <= texts
    without = AttentionRecord(
        record.source_tokens, record.target_tokens, record.encoder, record.decoder, record.cross[:0]
    )
    with pytest.raises(UserError, match="no cross attention"):
        draw_regions(without, image, tmp_path / "it.svg")


def test_the_record_of_an_image_holds_the_weights_of_its_regions() -> None:
    torch.manual_seed(0)
    size = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 2}
    encoder, decoder = {"kind": "image", "size": 12, "patch": 4, **size}, {"kind": "transformer", **size}
    words = ListTokenizer("word", ["red", "cross"])
    model = models.build({"kind": "encoder-decoder", "encoder": encoder, "decoder": decoder}, words.size).eval()
    config = DecodeConfig(max_len=4, min_len=2)
    captioner = Captioner(model, TokenizerPair(words, words), config, torch.device("cpu"))
    image = np.random.default_rng(1).integers(0, 256, size=(12, 12, 3)).astype(np.uint8)
    [caption] = captioner.caption([image], attention=True)
    record = captioner.record(image)
    assert record.target_tokens == (*caption.tokens, "</s>") and record.source_tokens[5] == "▁1,2"
    assert caption.regions is not None and caption.regions.shape == (2, 2, len(record.target_tokens), 3, 3)
    assert np.array_equal(record.cross[..., 5], caption.regions[..., 1, 2])


def terminal_lines(record: AttentionRecord, width: int, is_terminal: bool = True) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=is_terminal, color_system=None)
    return render_heatmap(record, "cross", console).splitlines()


@pytest.mark.parametrize("width", [24, 60, 80, 200, 1000])
def test_output_is_never_wider_than_the_terminal(width: int) -> None:
    long = (*(f"▁word{i}" for i in range(39)), "</s>")
    for record in (random_record(long, long), random_record(SCRIPTS, SPECIAL_CHARACTERS)):
        lines = terminal_lines(record, width)
        assert max(map(cell_len, lines)) <= width
        for label in token_labels(record.source_tokens):  # in the header or in the legend
            assert label in " ".join(lines)


def test_narrow_cells_are_tenths_and_wide_ones_percent() -> None:
    record = random_record(tuple(f"▁column{i}" for i in range(12)), ("▁a", "▁b", "▁c"))
    weights = mean_weights(record, "cross")
    narrow = terminal_lines(record, 40)
    rows = [line.split()[-1] for line in narrow if re.match(r" *[abc] ", line)]
    expected = ["".join("·" if w < 0.1 else str(min(9, int(10 * w))) for w in row) for row in weights]
    assert rows == expected
    # Output to a pipe has full width, however narrow the terminal is.
    for wide in (terminal_lines(record, 40, is_terminal=False), terminal_lines(record, 400)):
        assert [[int(x) for x in line.split()[1:]] for line in wide[1:]] == [
            [round(100 * float(w)) for w in row] for row in weights
        ]
