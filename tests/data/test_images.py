import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.builtin.shapes import generate_scenes
from regard.data.image_store import ImageStore, collate_images, read_captions
from regard.data.images import load_image, save_image
from regard.errors import UserError
from regard.text.vocab import BOS, EOS, PAD

Image = pytest.importorskip("PIL.Image")

CAPTIONS = [[7, 8, 9], [10], list(range(6, 18))]


def plain(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def encode(captions: list[str]) -> Sequence[Sequence[int]]:
    return [[10 + len(word) for word in caption.split()] for caption in captions]


def write_tsv(folder: Path, text: str) -> Path:
    (folder / "captions.tsv").write_bytes(text.encode())
    return folder / "captions.tsv"


def test_images_and_captions_are_written_and_read_again(tmp_path: Path) -> None:
    made = generate_scenes({"train": 5})["train"]
    images = tmp_path / "images"
    images.mkdir()
    for i, scene in enumerate(made):
        save_image(scene.image, images / f"{i}.png")
    lines = [f"{i}.png\t{scene.caption}" for i, scene in enumerate(made)]
    tsv = write_tsv(tmp_path, "\ufeff" + "\r\n".join([*lines, "", "0.png\tsomething  else"]) + "\n")
    pairs = read_captions(tsv, images)
    assert pairs == [
        *((images / f"{i}.png", s.caption) for i, s in enumerate(made)),
        (images / "0.png", "something else"),
    ]
    for (path, _), scene in zip(pairs, made, strict=False):
        assert np.array_equal(load_image(path, 48), scene.image)
    store = ImageStore.load(pairs, encode, 48)
    assert len(store) == 6 and store.array.shape == (5, 48, 48, 3), "an image with two captions is stored once"
    both = store.images(np.array([0, 5]))
    assert torch.equal(both[0], both[1])
    assert store.captions(np.array([5, 1])).lists() == encode(["something else", made[1].caption])


def test_images_are_in_the_folder_of_the_tsv_by_default(tmp_path: Path) -> None:
    save_image(plain(8, 8, 3), tmp_path / "a.png")
    assert read_captions(write_tsv(tmp_path, "a.png\tone\na.png\ttwo")) == [
        (tmp_path / "a.png", "one"),
        (tmp_path / "a.png", "two"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.png\tone\nb.png\ttwo\n", r"line 2: no image 'b\.png' in "),
        ("a.png\tone\n\na.png one\n", "line 3: expected an image file name, one tab"),
        ("a.png\tone\ttwo\n", "line 1: expected"),
        ("a.png\tone\na.png\t  \n", r"line 2: 'a\.png' has no caption"),
        ("\tone\n", "line 1: no image ''"),
        ("", "contains no captions"),
        ("\n\n", "contains no captions"),
    ],
)
def test_an_error_in_a_tsv_names_its_line(tmp_path: Path, text: str, message: str) -> None:
    save_image(plain(8, 8, 3), tmp_path / "a.png")
    with pytest.raises(UserError, match=message) as caught:
        read_captions(write_tsv(tmp_path, text))
    assert "\n" not in str(caught.value) and "captions.tsv" in str(caught.value)


def test_a_tsv_that_does_not_exist_or_is_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.tsv: cannot be read"):
        read_captions(tmp_path / "none.tsv")
    (tmp_path / "latin.tsv").write_bytes("a.png\tun chât".encode("latin-1"))
    with pytest.raises(UserError, match="line 1: not UTF-8"):
        read_captions(tmp_path / "latin.tsv")


@pytest.mark.parametrize("shape", [(40, 20, 3), (20, 40, 3)])
def test_the_central_square_is_used(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    array = np.zeros(shape, dtype=np.uint8)
    height, width = shape[0] // 2, shape[1] // 2
    array[height - 10 : height + 10, width - 10 : width + 10] = (10, 200, 30)
    save_image(array, tmp_path / "a.png")
    for size in (10, 20, 50):
        loaded = load_image(tmp_path / "a.png", size)
        assert loaded.shape == (size, size, 3) and loaded.dtype == np.uint8
        # the scaling filter reaches a little beyond the border and overshoots
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
    assert np.array_equal(loaded["16 bits.png"], loaded["grey.png"]), "not clipped at 255"
    assert (loaded["clear.png"] == 255).all(), "transparent is white"


def test_a_photo_is_rotated_as_its_exif_data_say(tmp_path: Path) -> None:
    array = plain(8, 8, 3)
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(array).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(load_image(tmp_path / "a.png", 8), array[::-1, ::-1])


def test_files_that_are_not_images_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.png").write_text("not an image")
    Image.fromarray(plain(8, 8, 3)).save(tmp_path / "other.ppm")  # Pillow knows it, but it is not in FORMATS
    save_image(plain(32, 32, 3), tmp_path / "whole.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:1500])
    for name in ("text.png", "other.ppm", "half.png"):
        with pytest.raises(UserError, match=f"{name}: not a complete image"):
            load_image(tmp_path / name, 8)
    with pytest.raises(UserError, match=r"none\.png: cannot be read \(No such file"):
        load_image(tmp_path / "none.png", 8)
    for limit in (1000, 100):  # 1024 pixels: Pillow would warn at one limit and raise at the other
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(UserError, match=r"whole\.png: over .* make the image smaller"):
            load_image(tmp_path / "whole.png", 8)


def test_without_pillow_the_message_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match=r"pip install 'regard\[image\]'"):
        load_image(tmp_path / "a.png", 8)


def test_an_image_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        save_image(plain(8, 8, 3), tmp_path / "none" / "a.png")


@pytest.mark.parametrize("mapped", [False, True])
def test_images_and_captions_are_collated(tmp_path: Path, mapped: bool) -> None:
    array = plain(3, 4, 4, 3)
    array[0, 0, 0], array[0, 3, 3] = 0, 255
    store = ImageStore.of(array, CAPTIONS, path=tmp_path / "images" if mapped else None)
    assert isinstance(store.array, np.memmap) == mapped and len(store) == 3
    batch = collate_images(store, np.array([2, 0]))
    assert batch.src.shape == (2, 3, 4, 4) and batch.src.dtype == torch.float32 and batch.src.is_contiguous()
    assert torch.equal(((batch.src + 1) * 127.5).round(), torch.tensor(array[[2, 0]]).permute(0, 3, 1, 2).float())
    assert (batch.src[1, :, 0, 0] == -1).all() and (batch.src[1, :, 3, 3] == 1).all()
    assert batch.tgt_in.tolist() == [[BOS, *CAPTIONS[2], EOS, *[PAD] * 2], [BOS, 7, 8, 9, EOS, *[PAD] * 11]]
    assert batch.tgt_out.tolist() == [[*CAPTIONS[2], EOS, *[PAD] * 3], [7, 8, 9, EOS, *[PAD] * 12]]
    assert batch.select(torch.tensor([1])).src.shape == (1, 3, 4, 4)
    assert list(tmp_path.glob(".*")) == [], "no temporary file is left"


def test_the_fingerprint_depends_on_everything_stored(tmp_path: Path) -> None:
    array = plain(3, 4, 4, 3)
    other = array.copy()
    other[2, 3, 3, 2] ^= 1
    known = ImageStore.of(array, CAPTIONS).fingerprint
    assert known == ImageStore.of(array, CAPTIONS, [0, 1, 2], tmp_path / "images").fingerprint
    changed = {
        ImageStore.of(other, CAPTIONS).fingerprint,
        ImageStore.of(array, [*CAPTIONS[:2], [5]]).fingerprint,
        ImageStore.of(array, [[7, 8], [9, 10], CAPTIONS[2]]).fingerprint,
        ImageStore.of(array, CAPTIONS, [0, 2, 1]).fingerprint,
    }
    assert len({known, *changed}) == 5


def test_images_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    array = plain(3, 4, 4, 3)
    for path in (None, tmp_path / "images"):
        with pytest.raises(UserError, match="no images"):
            ImageStore.of([], [], path=path)
        with pytest.raises(UserError, match=r"image 2 is uint8 \[5, 5, 3\]"):
            ImageStore.of([array[0], plain(5, 5, 3)], CAPTIONS[:2], path=path)
        with pytest.raises(UserError, match="image 1 is float64"):
            ImageStore.of(array / 255, CAPTIONS, path=path)
    for captions, which in (([], None), (CAPTIONS * 2, None), (CAPTIONS, [0, 1]), (CAPTIONS, [0, 1, 3])):
        with pytest.raises(UserError, match="captions do not fit 3 images"):
            ImageStore.of(array, captions, which)
    assert list(tmp_path.iterdir()) == []
