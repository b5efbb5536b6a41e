import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.builtin.shapes import generate_scenes
from regard.data.images import (
    CaptionFile,
    ImageStore,
    collate_images,
    load_image,
    read_captions,
    save_image,
)
from regard.errors import UserError
from regard.text.vocab import BOS, EOS, PAD

Image = pytest.importorskip("PIL.Image")

CAPTIONS = [[7, 8, 9], [10], list(range(6, 18))]


def plain(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def encode(captions: list[str]) -> Sequence[Sequence[int]]:
    return [[10 + len(word) for word in caption.split()] for caption in captions]


def sample_tokens(folder: Path, text: str) -> Path:
    (folder / "captions.tsv").write_bytes(text.encode())
    return folder / "captions.tsv"


def test_shapes_there_and_back_through_a_folder(tmp_path: Path) -> None:
    made = generate_scenes({"train": 5})["train"]
    images = tmp_path / "images"
    images.mkdir()
    for i, scene in enumerate(made):
        save_image(scene.image, images / f"{i}.png")
    lines = [f"{i}.png\t{scene.caption}" for i, scene in enumerate(made)]
    tsv = sample_tokens(tmp_path, "\ufeff" + "\r\n".join([*lines, "", "0.png\tsomething  else"]) + "\n")
    pairs = read_captions(tsv, images)
    assert pairs == [
        *((images / f"{i}.png", s.caption) for i, s in enumerate(made)),
        (images / "0.png", "something else"),
    ]
    for (path, _), scene in zip(pairs, made, strict=False):
        assert np.array_equal(load_image(path, 48), scene.image)
    store = CaptionFile(tsv, images).store(encode, 48)
    assert len(store) == 6 and store.array.shape == (5, 48, 48, 3), "a picture of two captions is kept once"
    both = store.pictures(np.array([0, 5]))
    assert torch.equal(both[0], both[1])
    assert store.captions(np.array([5, 1])).lists() == encode(["something else", made[1].caption])


def test_the_folder_is_the_tsvs_own_unless_told(tmp_path: Path) -> None:
    save_image(plain(8, 8, 3), tmp_path / "a.png")
    assert CaptionFile(sample_tokens(tmp_path, "a.png\tone\na.png\ttwo")).pairs() == [
        (tmp_path / "a.png", "one"),
        (tmp_path / "a.png", "two"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.png\tone\nb.png\ttwo\n", r"line 2: no picture 'b\.png' in "),
        ("a.png\tone\n\na.png one\n", "line 3: expected a picture's name, one tab"),
        ("a.png\tone\ttwo\n", "line 1: expected"),
        ("a.png\tone\na.png\t  \n", r"line 2: no caption for 'a\.png'"),
        ("\tone\n", "line 1: no picture ''"),
        ("", "no captions in it"),
        ("\n\n", "no captions in it"),
    ],
)
def test_a_bad_tsv_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    save_image(plain(8, 8, 3), tmp_path / "a.png")
    with pytest.raises(UserError, match=message) as caught:
        read_captions(sample_tokens(tmp_path, text))
    assert "\n" not in str(caught.value) and "captions.tsv" in str(caught.value)


def test_a_tsv_that_is_not_there_or_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.tsv: cannot be read"):
        read_captions(tmp_path / "none.tsv")
    (tmp_path / "latin.tsv").write_bytes("a.png\tun chât".encode("latin-1"))
    with pytest.raises(UserError, match="line 1: not UTF-8"):
        read_captions(tmp_path / "latin.tsv")


@pytest.mark.parametrize("shape", [(40, 20, 3), (20, 40, 3)])
def test_the_middle_is_kept(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    array = np.zeros(shape, dtype=np.uint8)
    height, width = shape[0] // 2, shape[1] // 2
    array[height - 10 : height + 10, width - 10 : width + 10] = (10, 200, 30)
    save_image(array, tmp_path / "a.png")
    for size in (10, 20, 50):
        loaded = load_image(tmp_path / "a.png", size)
        assert loaded.shape == (size, size, 3) and loaded.dtype == np.uint8
        # the filter that scales looks a little over the edge and overshoots
        assert np.abs(loaded[1:-1, 1:-1].astype(int) - (10, 200, 30)).max() < 20


def test_every_mode_becomes_rgb(tmp_path: Path) -> None:
    grey = (np.arange(64, dtype=np.uint16).reshape(8, 8) << 10) + 7
    clear = plain(8, 8, 4)
    clear[..., 3] = 0
    images = {
        "16 bits.png": Image.fromarray(grey),
        "grey.png": Image.fromarray((grey >> 8).astype(np.uint8)),
        "clear.png": Image.fromarray(clear),
        "palette.gif": Image.fromarray(plain(8, 8, 3)).quantize(4),
        "photo.jpg": Image.fromarray(plain(8, 8, 3)),
    }
    for name, image in images.items():
        image.save(tmp_path / name)
    loaded = {name: load_image(tmp_path / name, 8) for name in images}
    assert {array.shape for array in loaded.values()} == {(8, 8, 3)}
    assert np.array_equal(loaded["16 bits.png"], loaded["grey.png"]), "and not cut off at 255"
    assert (loaded["clear.png"] == 255).all(), "nothing to see is white"


def test_a_photo_stands_upright(tmp_path: Path) -> None:
    array = plain(8, 8, 3)
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(array).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(load_image(tmp_path / "a.png", 8), array[::-1, ::-1])


def test_files_that_are_no_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.png").write_text("no picture")
    Image.fromarray(plain(8, 8, 3)).save(tmp_path / "unasked.ppm")  # Pillow knows it, but it is not in FORMATS
    save_image(plain(32, 32, 3), tmp_path / "whole.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:1500])
    for name in ("text.png", "unasked.ppm", "half.png"):
        with pytest.raises(UserError, match=f"{name}: not a whole picture"):
            load_image(tmp_path / name, 8)
    with pytest.raises(UserError, match=r"none\.png: cannot be read \(No such file"):
        load_image(tmp_path / "none.png", 8)
    for limit in (1000, 100):  # 1024 pixels: Pillow would warn at one limit and raise at the other
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(UserError, match=r"whole\.png: over .* make the picture smaller"):
            load_image(tmp_path / "whole.png", 8)


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match=r"pip install 'regard\[image\]'"):
        load_image(tmp_path / "a.png", 8)


def test_saving_where_nothing_can_be(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        save_image(plain(8, 8, 3), tmp_path / "none" / "a.png")


@pytest.mark.parametrize("mapped", [False, True])
def test_store_and_collate(tmp_path: Path, mapped: bool) -> None:
    array = plain(3, 4, 4, 3)
    array[0, 0, 0], array[0, 3, 3] = 0, 255
    store = ImageStore.of(array, CAPTIONS, path=tmp_path / "pictures" if mapped else None)
    assert isinstance(store.array, np.memmap) == mapped and len(store) == 3
    batch = collate_images(store, np.array([2, 0]))
    assert batch.src.shape == (2, 3, 4, 4) and batch.src.dtype == torch.float32 and batch.src.is_contiguous()
    assert torch.equal(((batch.src + 1) * 127.5).round(), torch.tensor(array[[2, 0]]).permute(0, 3, 1, 2).float())
    assert (batch.src[1, :, 0, 0] == -1).all() and (batch.src[1, :, 3, 3] == 1).all()
    assert batch.tgt_in.tolist() == [[BOS, *CAPTIONS[2], EOS, *[PAD] * 2], [BOS, 7, 8, 9, EOS, *[PAD] * 11]]
    assert batch.tgt_out.tolist() == [[*CAPTIONS[2], EOS, *[PAD] * 3], [7, 8, 9, EOS, *[PAD] * 12]]
    assert batch.select(torch.tensor([1])).src.shape == (1, 3, 4, 4)
    assert list(tmp_path.glob(".*")) == [], "nothing temporary stays"


def test_the_fingerprint_is_of_all_that_is_stored(tmp_path: Path) -> None:
    array = plain(3, 4, 4, 3)
    other = array.copy()
    other[2, 3, 3, 2] ^= 1
    known = ImageStore.of(array, CAPTIONS).fingerprint
    assert known == ImageStore.of(array, CAPTIONS, [0, 1, 2], tmp_path / "pictures").fingerprint
    changed = {
        ImageStore.of(other, CAPTIONS).fingerprint,
        ImageStore.of(array, [*CAPTIONS[:2], [5]]).fingerprint,
        ImageStore.of(array, [[7, 8], [9, 10], CAPTIONS[2]]).fingerprint,
        ImageStore.of(array, CAPTIONS, [0, 2, 1]).fingerprint,
    }
    assert len({known, *changed}) == 5


def test_what_cannot_be_stored(tmp_path: Path) -> None:
    array = plain(3, 4, 4, 3)
    for path in (None, tmp_path / "pictures"):
        with pytest.raises(UserError, match="no pictures"):
            ImageStore.of([], [], path=path)
        with pytest.raises(UserError, match=r"picture 2 is uint8 \[5, 5, 3\]"):
            ImageStore.of([array[0], plain(5, 5, 3)], CAPTIONS[:2], path=path)
        with pytest.raises(UserError, match="picture 1 is float64"):
            ImageStore.of(array / 255, CAPTIONS, path=path)
    for captions, which in (([], None), (CAPTIONS * 2, None), (CAPTIONS, [0, 1]), (CAPTIONS, [0, 1, 3])):
        with pytest.raises(UserError, match="captions do not fit 3 pictures"):
            ImageStore.of(array, captions, which)
    assert list(tmp_path.iterdir()) == []
