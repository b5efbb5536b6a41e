import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from regard.errors import UserError
from regard.models.record import AttentionRecord
from regard.text.labels import token_labels
from regard.visualize import figure
from regard.visualize.curves import draw_curves
from regard.visualize.grid import draw_grid
from regard.visualize.heatmap import MOST, draw_heatmap, mean_weights
from regard.visualize.links import draw_links, select_links
from regard.visualize.regions import caption_record, draw_regions, lit
from regard.visualize.terminal import print_heatmap

SCRIPTS = ("▁猫", "が", "▁مرحبا", "▁שלום", "▁नमस्ते", "▁안녕", "▁😀", "▁🦜", "▁👨‍👩‍👧", "▁❤️", "▁$b$")
ODD = ("▁$a$", "▁$\\frac", "<0xE2>", "▁<b>", "▁&", "\x07", "▁" + "long" * 9, "</s>")


def random_record(source: tuple[str, ...], target: tuple[str, ...], layers: int = 2, heads: int = 3) -> AttentionRecord:
    generator = np.random.default_rng(0)

    def weights(rows: int, columns: int) -> np.ndarray:
        return generator.dirichlet(np.full(columns, 0.3), size=(layers, heads, rows)).astype(np.float32)

    s, t = len(source), len(target)
    return AttentionRecord(source, target, weights(s, s), weights(t, t), weights(t, s))


def svg(path: Path) -> tuple[set[str], set[str]]:
    """The texts and the ids of an SVG"""
    elements = list(ElementTree.parse(path).iter())
    texts = {element.text or "" for element in elements if element.tag.endswith("}text")}
    return texts, {element.get("id", "") for element in elements}


def test_a_map_and_curves_are_drawn(tmp_path: Path) -> None:
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
    record = random_record(SCRIPTS, ODD)
    rows, columns = record.axis_tokens(kind)
    for draw in (draw_heatmap, draw_links, draw_grid):
        texts, _ = svg(draw(record, tmp_path / "it.svg", kind))
        assert {*token_labels(rows), *token_labels(columns)} <= texts, draw


def test_scripts_signs_and_forty_tokens_are_drawn_without_a_warning(tmp_path: Path) -> None:
    long = tuple(f"▁word{i}" for i in range(40))
    for record in (random_record(SCRIPTS, ODD), random_record(long, long), random_record(("</s>",), ("</s>",))):
        for draw in (draw_heatmap, draw_links, draw_grid):
            assert draw(record, tmp_path / "it.png").stat().st_size > 1000


def test_figures_stand_in_the_cells_while_there_is_room(tmp_path: Path) -> None:
    def sample_tokens(n: int) -> set[str]:
        tokens = tuple(f"▁w{i}" for i in range(n))
        texts, _ = svg(draw_heatmap(random_record(tokens, tokens), tmp_path / "map.svg"))
        return texts - set(token_labels(tokens))

    assert all(re.fullmatch(r"[01]\.\d\d", text) for text in sample_tokens(8)) and sample_tokens(8)
    assert not sample_tokens(30)


def test_the_grid_has_a_panel_a_head(tmp_path: Path) -> None:
    record = random_record(("▁a", "▁b"), ("▁c", "▁d", "</s>"), layers=3, heads=4)
    texts, ids = svg(draw_grid(record, tmp_path / "grid.svg"))
    expected = [(layer, head) for layer in range(3) for head in range(4)]
    assert {name for name in ids if name.startswith("layer-")} == {f"layer-{i}-head-{j}" for i, j in expected}
    assert {f"layer {i}, head {j}" for i, j in expected} <= texts


def test_links_are_those_above_the_threshold_and_no_others(tmp_path: Path) -> None:
    record = random_record(("▁a", "▁b", "▁c", "</s>"), ("▁x", "▁y", "</s>"))
    weights = mean_weights(record, "cross")
    for threshold in (0.0, 0.2, 0.5, 1.0):
        above = {(i, j) for i in range(3) for j in range(4) if weights[i, j] > threshold}
        assert {(i, j) for i, j, _ in select_links(weights, threshold)} == above
        _, ids = svg(draw_links(record, tmp_path / "links.svg", threshold=threshold))
        assert {name for name in ids if name.startswith("link-")} == {f"link-{i}-{j}" for i, j in above}
    assert 0 < len(select_links(weights, 0.2)) < weights.size


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    tokens = tuple(f"▁w{i}" for i in range(MOST + 1))
    long = random_record(tokens, ("▁a", "</s>"), layers=1, heads=1)
    for draw in (draw_heatmap, draw_links, draw_grid):
        with pytest.raises(UserError, match=rf"{MOST + 1} tokens .* {MOST}"):
            draw(long, tmp_path / "it.png")
    with pytest.raises(UserError, match="no cross attention"):
        draw_heatmap(AttentionRecord(("a",), ("b",), *np.zeros((3, 0, 0, 1, 1), np.float32)), tmp_path / "it.png")
    assert not list(tmp_path.iterdir())


def test_characters_that_no_font_has_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from matplotlib import font_manager

    figure._fonts_for.cache_clear()
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    assert figure.characters_without_font(["the 猫", "é שלום", "a🦜猫"]) == "猫🦜"
    assert draw_heatmap(random_record(("▁猫",), ("▁🦜",)), tmp_path / "it.png").is_file()  # and no warning
    figure._fonts_for.cache_clear()


def test_another_font_draws_what_the_usual_one_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from matplotlib import font_manager, get_data_path

    stix = str(Path(get_data_path(), "fonts", "ttf", "STIXGeneral.ttf"))
    own = font_manager.findfont(font_manager.FontProperties())
    character = next(chr(c) for c in sorted(figure._glyphs(stix) - figure._glyphs(own)) if chr(c).isalpha())
    figure._fonts_for.cache_clear()
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [own, stix])
    assert figure.characters_without_font([character]) == ""
    content = draw_heatmap(random_record((f"▁{character}",), ("▁a",)), tmp_path / "it.svg").read_text()
    families = {line.count("STIX") for line in content.splitlines() if f">{character}<" in line}
    assert families == {1} and content.count("STIX") == 1
    figure._fonts_for.cache_clear()


def test_a_picture_is_lit_where_a_word_looked(tmp_path: Path) -> None:
    picture = np.random.default_rng(0).integers(0, 256, size=(12, 12, 3)).astype(np.uint8)
    light = np.zeros((3, 3), np.float32)
    light[0, 2] = 1.0
    shone = lit(picture, light)
    assert np.array_equal(shone[:4, 8:], picture[:4, 8:])
    assert np.array_equal(shone[4:], picture[4:] // 4) and np.array_equal(shone[:, :8], picture[:, :8] // 4)
    regions = np.random.default_rng(1).dirichlet(np.ones(9), size=(2, 4, 3)).reshape(2, 4, 3, 3, 3).astype(np.float32)
    record = caption_record(["▁red", "▁cross"], regions)
    assert record.target_tokens == ("▁red", "▁cross", "</s>") and record.source_tokens[5] == "▁1,2"
    assert np.array_equal(record.cross[..., 5], regions[..., 1, 2])
    assert record.merge_words().cross.shape == (2, 4, 2, 9)  # a region is a word
    texts, _ = svg(draw_regions(record, picture, tmp_path / "it.svg", "mean"))
    assert {"red", "cross", "</s>"} <= texts
    with pytest.raises(UserError, match="no cross attention"):
        caption_record([], np.zeros((0, 0, 1, 3, 3), np.float32))


def terminal(record: AttentionRecord, width: int, is_terminal: bool = True) -> list[str]:
    file = io.StringIO()
    print_heatmap(record, "cross", Console(file=file, width=width, force_terminal=is_terminal, color_system=None))
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [24, 60, 80, 200, 1000])
def test_a_terminal_is_never_overrun(width: int) -> None:
    long = (*(f"▁word{i}" for i in range(39)), "</s>")
    for record in (random_record(long, long), random_record(SCRIPTS, ODD)):
        lines = terminal(record, width)
        assert max(map(cell_len, lines)) <= width
        for name in token_labels(record.source_tokens):  # at the top or in the legend, however it is cut into lines
            assert name in " ".join(lines)


def test_narrow_cells_are_tenths_and_wide_ones_per_cent() -> None:
    record = random_record(tuple(f"▁column{i}" for i in range(12)), ("▁a", "▁b", "▁c"))
    weights = mean_weights(record, "cross")
    narrow = terminal(record, 40)
    rows = [line.split()[-1] for line in narrow if re.match(r" *[abc] ", line)]
    expected = ["".join("·" if w < 0.1 else str(min(9, int(10 * w))) for w in row) for row in weights]
    assert rows == expected
    # What is piped stays whole, however narrow the terminal
    for wide in (terminal(record, 40, is_terminal=False), terminal(record, 400)):
        assert [[int(x) for x in line.split()[1:]] for line in wide[1:]] == [
            [round(100 * float(w)) for w in row] for row in weights
        ]
