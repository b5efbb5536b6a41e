"""Files that are translated into a folder are those that a single process writes, however the job was cut up."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
import zstandard

from regard.bulk.line_format import LineFormat
from regard.bulk.line_translator import PartWorker, TranslationWork
from regard.bulk.shard_translation import ShardTranslation
from regard.bulk.shards import find_shards
from regard.bulk.workers import Workers
from regard.errors import UserError
from regard.pipelines.load import load_translator
from tests.synthetic.conftest import random_lines, untrained_translator, write_lines

ALONE = Workers(1, device="cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_translator(tmp_path_factory.mktemp("bulk") / "model")


@pytest.fixture
def sources(tmp_path: Path) -> tuple[Path, ...]:
    """Three files; the second is empty, and the third has empty lines and one that is too long"""
    folder = tmp_path / "sources"
    folder.mkdir()
    odd = ["", "a b", "a " * 2000, "", "c"]
    lines = {"a.fr": random_lines(50), "b.fr": [], "c.fr": [*odd, *random_lines(20, seed=2)]}
    return tuple(write_lines(folder / name, each) for name, each in lines.items())


def work_of(model: Path, **options: Any) -> TranslationWork:
    return TranslationWork(models=(model,), options={"split": True, **options}, format=LineFormat())


def translations(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def translate(work: TranslationWork, sources: tuple[Path, ...], folder: Path, **options: Any) -> dict[str, bytes]:
    ShardTranslation(work, sources, folder, **{"workers": ALONE, **options}).run()
    return translations(folder)


def test_any_number_of_workers_and_size_of_parts_gives_what_the_translator_gives(
    model: Path, sources: tuple[Path, ...], tmp_path: Path
) -> None:
    work = work_of(model)
    whole = translate(work, sources, tmp_path / "whole")
    assert translate(work, sources, tmp_path / "parts", part_lines=7) == whole
    assert translate(work, sources, tmp_path / "two", part_lines=9, workers=Workers(2, device="cpu")) == whole
    translator = load_translator(model, device="cpu")
    for source in sources:
        lines = source.read_text().splitlines()
        expected = [each.text for each in translator.translate(lines, split=True, skip_long=True)]
        assert whole[source.name].decode().splitlines() == expected
    assert not list((tmp_path / "parts" / ".parts").rglob("part-*"))


def test_compressed_files_stay_compressed(model: Path, sources: tuple[Path, ...], tmp_path: Path) -> None:
    plain = translate(work_of(model), sources[:1], tmp_path / "plain")["a.fr"]
    kinds = {".gz": (gzip.compress, gzip.decompress), ".xz": (lzma.compress, lzma.decompress)}
    kinds[".zst"] = zstandard.compress, lambda content: zstandard.ZstdDecompressor().decompressobj().decompress(content)
    for suffix, (compress, decompress) in kinds.items():
        packed = tmp_path / f"a.fr{suffix}"
        packed.write_bytes(compress(sources[0].read_bytes()))
        written = translate(work_of(model), (packed,), tmp_path / f"out{suffix}", part_lines=20)
        assert decompress(written[packed.name]) == plain


def test_a_job_does_only_what_is_missing(model: Path, sources: tuple[Path, ...], tmp_path: Path) -> None:
    work, folder = work_of(model), tmp_path / "out"
    first = translate(work, sources[:1], folder, part_lines=10)
    time = (folder / "a.fr").stat().st_mtime_ns
    both = translate(work, sources, folder, part_lines=10)
    assert both.items() > first.items() and (folder / "a.fr").stat().st_mtime_ns == time, "more files may be added"
    (folder / "c.fr").unlink()
    assert translate(work, sources, folder, part_lines=10) == both
    with pytest.raises(UserError, match="lines per part 10, not 20"):
        translate(work, sources, folder, part_lines=20)
    with pytest.raises(UserError, match=r"was begun with options .*; give the same"):
        translate(work_of(model, beam=1), sources, folder, part_lines=10)
    sources[0].write_text("a\n")
    with pytest.raises(UserError, match=r"a\.fr: has changed since its translation began"):
        translate(work, sources, folder, part_lines=10)
    assert translations(folder) == both


def test_the_report_is_the_same_after_a_stop(model: Path, sources: tuple[Path, ...], tmp_path: Path) -> None:
    sources[0].write_bytes(b"a b\n\xff\n")
    job = ShardTranslation(work_of(model), sources, tmp_path / "out", ALONE, part_lines=3)
    warnings = list(job.run().warnings())
    assert warnings == list(job.run().warnings())
    assert warnings[0].startswith("1 × a line with invalid UTF-8") and warnings[0].endswith("sources/a.fr, line 2")
    assert warnings[1].startswith("1 × a line without a translation") and "c.fr, line 3 has" in warnings[1]


def test_every_format_works(model: Path, sources: tuple[Path, ...], tmp_path: Path) -> None:
    best = work_of(model, n_best=3).model_copy(update={"format": LineFormat(scores=True)})
    rows = translate(best, sources[:1], tmp_path / "best", part_lines=20)["a.fr"].decode().splitlines()
    assert len(rows) == 150 and all(float(row.split("\t")[0]) < 0 for row in rows)
    as_json = work_of(model).model_copy(update={"format": LineFormat(as_json=True, alignment=True)})
    objects = map(json.loads, translate(as_json, sources[:1], tmp_path / "json")["a.fr"].splitlines())
    assert [row["source"] for row in objects] == random_lines(50)


def test_a_mistake_leaves_nothing_that_is_in_the_way(model: Path, sources: tuple[Path, ...], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not trained on annotated terms"):
        soft = work_of(model).model_copy(update={"glossary_mode": "soft"})
        translate(soft, sources, tmp_path / "out", part_lines=20)
    assert translate(work_of(model), sources, tmp_path / "out")


def test_a_worker_replies_with_mistakes_and_translations(model: Path) -> None:
    worker = PartWorker()
    assert "no model found" in worker.start({"models": [str(model / "no")]}, "cpu")["error"]
    assert worker.start(work_of(model, to="xx").model_dump(mode="json"), "cpu") == {"ready": True}
    assert "xx" in worker.translate(["a"], 1)["error"]
    work = json.loads(json.dumps(work_of(model).model_dump(mode="json")))
    assert worker.start(work, "cpu") == {"ready": True}
    lines = random_lines(5)
    expected = [each.text for each in load_translator(model, device="cpu").translate(lines)]
    assert worker.translate(lines, 1) == {"rows": expected, "report": {}}


def test_damaged_parts_are_named(model: Path, sources: tuple[Path, ...], tmp_path: Path) -> None:
    job = ShardTranslation(work_of(model), sources[:1], tmp_path / "out", ALONE, part_lines=20)
    job.run()
    (tmp_path / "out" / "a.fr").unlink()
    part = tmp_path / "out" / ".parts" / "a.fr" / "part-000002.gz"
    part.write_bytes(b"\x1f\x8bnot gzip")
    with pytest.raises(UserError, match=r"part-000002\.gz: damaged; delete it"):
        job.run()


def test_which_files_are_meant(sources: tuple[Path, ...], tmp_path: Path) -> None:
    folder = sources[0].parent
    (folder / ".hidden").write_text("a\n")
    (folder / "more").mkdir()
    assert tuple(find_shards([folder])) == sources
    assert tuple(find_shards([folder / "[ab].fr", sources[2]])) == sources
    same = write_lines(folder / "more" / "a.fr", ["a"])
    (tmp_path / "pairs.tsv").write_text("a\tb\n")
    for named, message in (
        ([sources[0], same], "have the same name"),
        ([tmp_path / "pairs.tsv"], "is a file of pairs"),
        ([tmp_path / "*.no"], "no file has such a name"),
        ([tmp_path / "no"], "no such file"),
    ):
        with pytest.raises(UserError, match=message):
            find_shards(named)
