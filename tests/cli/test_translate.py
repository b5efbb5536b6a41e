"""`regard translate` and its equivalent in Python, on the toy model."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import regard as library
from tests.cli.command import regard


def test_the_model_has_learnt_the_task_and_python_and_command_line_agree(
    toy_run: Path, held_out: tuple[Path, Path]
) -> None:
    src, ref = (path.read_text().splitlines() for path in held_out)
    lines = [src[0], "", *src[1:]]  # the translation of an empty line is an empty line
    out = regard("translate", toy_run, stdin="\n".join(lines).encode() + b"\n").stdout.splitlines()
    assert len(out) == len(lines) and out[1] == ""
    del out[1]
    assert sum(h == r for h, r in zip(out, ref, strict=True)) >= 0.9 * len(ref)
    translations = library.load(toy_run).translate(src)
    assert [t.text for t in translations] == out


def test_translations_in_python(toy_run: Path) -> None:
    translator = library.load(toy_run)
    assert isinstance(translator, library.Translator)
    [t, other] = translator.translate(["a b c", "d e f g h"], beam=5, n_best=3, attention=True)
    assert (t.text, t.score, t.tokens) == (t.hypotheses[0].text, t.hypotheses[0].score, t.hypotheses[0].tokens)
    assert t.source_tokens == ("▁a", "▁b", "▁c") and len(t.hypotheses) == 3
    assert t.attention is not None and other.attention is not None
    assert t.attention.cross.shape == (2, 4, len(t.tokens) + 1, 4)
    assert other.attention.encoder.shape == (2, 4, 6, 6)
    assert t.attention.cross.sum(-1) == pytest.approx(1.0, abs=1e-5)
    assert t.alignment is not None and sorted(j for _, j in t.alignment) == list(range(len(t.tokens)))
    for candidate in (*t.hypotheses, *other.hypotheses):
        assert candidate.attention is not None and candidate.attention.target_tokens == (*candidate.tokens, "</s>")
    forced = translator.record("a b c", t.hypotheses[2].text)
    assert np.array_equal(forced.cross, t.hypotheses[2].attention.cross)
    assert translator.translate(["a b c"])[0].alignment is None
    assert translator.translate([]) == []
    with pytest.raises(library.UserError, match="list of texts"):
        translator.translate("a b c")
    with pytest.raises(library.UserError, match="did you mean 'beam'"):
        translator.translate(["a"], beem=3)


def test_decoding_options(toy_run: Path) -> None:
    def translate(*options: object) -> list[str]:
        done = regard("translate", toy_run, "--text", "a b c d", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    best = translate("--n-best", 3)
    assert len(best) == 3 and best[0].endswith("\td c b a")
    scores = [float(line.split("\t")[0]) for line in best]
    assert scores == sorted(scores, reverse=True)
    assert translate("--beam", 1) == ["d c b a"]
    assert translate("--prefix", "a a")[0].startswith("a a")
    assert len(translate("--max-len", 2)[0].split()) == 2
    assert len(translate("--min-len", 9)[0].split()) >= 9
    assert translate("--sample", "--seed", 4, "--top-k", 3) == translate("--sample", "--seed", 4, "--top-k", 3)
    assert translate("--ensemble", toy_run, "--beam", 5) == translate("--beam", 5)
    row = json.loads(translate("--json")[0])
    assert row["hypotheses"][0]["text"] == "d c b a" and row["source"] == "a b c d"


def test_any_bytes_can_be_translated(toy_run: Path) -> None:
    done = regard("translate", toy_run, "--beam", 1, stdin=b"a b\r\n\xff\xfe\n\x00\n" + "🙂 é\n".encode())
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
    translator = library.load(toy_run)
    assert isinstance(translator, library.Translator)
    [plain, unclean] = translator.translate(["a b c", "\ufeff a\u00a0b\u2028 c"])
    assert plain.text == unclean.text and plain.source_tokens == unclean.source_tokens, "cleaned like training text"
    assert len(translator.translate(["\ud800 a"])) == 1


LONG = b"a " * 2000


def test_a_line_that_is_too_long_is_left_empty_and_the_others_go_on(toy_run: Path) -> None:
    lines = b"a b c\n" + LONG + b"\nd e\n" + b"x" * 1_000_000 + b"\nf g\n"
    expected = regard("translate", toy_run, stdin=b"a b c\n\nd e\n\nf g\n").stdout
    for options in ([], ["--markup"]):
        done = regard("translate", toy_run, *options, stdin=lines, timeout=60)
        assert done.returncode == 2 and done.stdout == expected
        first, second = done.stderr.splitlines()
        assert first.startswith(
            "regard: line 2 has 2,000 tokens, more than the limit of 1,024 tokens; split it, or raise"
        )
        assert second.startswith("regard: line 4 has 1,000,000 characters") and "--max-source" in second
    rows = [json.loads(row) for row in regard("translate", toy_run, "--json", stdin=lines).stdout.splitlines()]
    assert [row.get("problem", "")[:16] for row in rows] == ["", "has 2,000 tokens", "", "has 1,000,000 ch", ""]


def test_the_limit_on_sources_is_an_option(toy_run: Path, error_line: Callable[..., str]) -> None:
    done = regard("translate", toy_run, "--max-source", 3, "--text", "a b c d", "--text", "a b c", "--beam", 1)
    assert done.stdout == "\nc b a\n" and done.returncode == 2 and "line 1 has 4 tokens" in done.stderr
    assert "--max-source" in error_line("translate", toy_run, "--max-source", 10**9, "--text", "a")


def test_bytes_that_are_no_text_are_reported_once(toy_run: Path) -> None:
    done = regard("translate", toy_run, "--beam", 1, stdin=b"a b\n\xff\xfe\n\x00\nb \xc3\n" + "é\n".encode())
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 5
    assert done.stderr.splitlines() == [
        "regard: standard input: 3 × a line with invalid UTF-8 or a NUL character, replaced by \ufffd",
        "regard: 1 × a word that never occurred in training: é",
    ]


def test_case_and_punctuation_come_back(toy_run: Path) -> None:
    texts = ("a b c d", "A B C D", "A b c d!", "A b c d !")
    done = regard("translate", toy_run, *(option for text in texts for option in ("--text", text)))
    assert done.stdout.splitlines() == ["d c b a", "D C B A", "D c b a!", "D c b a !"] and not done.stderr
    as_written = regard("translate", toy_run, "--as-written", "--text", "A b c d!").stdout
    assert as_written != "D c b a!\n"
    aligned = regard("translate", toy_run, "--alignment", "--text", "A B C D !").stdout.strip()
    assert aligned.startswith("D C B A ! ||| ") and aligned.endswith(" 4-4")
    marked = regard("translate", toy_run, "--markup", "--text", "A <b>B</b> C D <i>!</i>").stdout
    assert "<b>" in marked and marked.endswith("<i>!</i>\n")


def test_words_that_never_occurred_in_training_are_reported(toy_run: Path) -> None:
    done = regard("translate", toy_run, "--json", stdin=b"a zebra b\nA B\nyak zebra emu gnu owl elk\n")
    assert [json.loads(row)["unknown"] for row in done.stdout.splitlines()] == [
        ["zebra"],
        [],
        ["yak", "zebra", "emu", "gnu", "owl", "elk"],
    ]
    assert done.stderr == "regard: 7 × a word that never occurred in training: zebra, yak, emu, gnu, owl, …\n"


def test_errors_are_one_line(toy_run: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    damaged = tmp_path / "broken"
    shutil.copytree(toy_run, damaged, ignore=shutil.ignore_patterns("checkpoints"))
    (damaged / "model.safetensors").write_bytes(b"\xff" * 100)
    for arguments, message in (
        ([tmp_path], "no model found"),
        ([damaged, "--text", "a"], "safetensors"),
        ([toy_run, "--text", "a", "--beam", "0"], "Invalid value for '--beam': give at least 1"),
        ([toy_run, "--text", "a", "--beam", "wide"], "Invalid value for '--beam': give a whole number"),
        ([toy_run, "--text", "a", "--sample", "--temperature", "hot"], "'--temperature': give a number"),
        ([toy_run, "--text", "a", "--beam", "2", "--n-best", "4"], "beam of at least 4"),
        ([toy_run, "--text", "a", "--top-k", "4"], "--sample"),
        ([toy_run, "--text", "a", "--device", "cuda:99"], "no such device"),
        ([toy_run, "--text", "a", "--sample", "--temperature", "inf"], "temperature"),
    ):
        assert message in error_line("translate", *arguments), arguments


def test_each_line_is_split_into_sentences_and_stays_one_line(toy_run: Path) -> None:
    lines = ["a b c! D E F?  g h", "", "  a b", "A B C! \u2028 d e?\tf g", "1. a b! 2. C d!"]
    done = regard("translate", toy_run, stdin="\n".join(lines).encode() + b"\n")
    assert done.stdout.split("\n") == ["c b a! F E D?  h g", "", "  b a", "C B A!   e d?\tg f", "1. b a! 2. D c!", ""]
    whole = regard("translate", toy_run, "--no-split", "--text", lines[0]).stdout
    assert whole != done.stdout.split("\n")[0] + "\n" and len(whole.splitlines()) == 1
    row = json.loads(regard("translate", toy_run, "--json", "--alignment", "--text", lines[0]).stdout)
    assert row["hypotheses"][0]["text"] == "c b a! F E D?  h g" and len(row["source_tokens"]) == 8
    assert [6, 7] in row["hypotheses"][0]["alignment"]
    marked = regard("translate", toy_run, "--markup", "--text", "1. a <b>b c!</b> <i>D E f? <u>g</u></i> h").stdout
    assert marked.split() == ["1.", "<b>c", "b</b>", "a!", "<i>F", "e", "d</i>?", "h", "<i><u>g</u></i>"], marked


def test_files_can_be_translated(toy_run: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    expected = regard("translate", toy_run, stdin=b"a b c\n\nd e\n").stdout
    compressed = tmp_path / "lines.gz"
    compressed.write_bytes(gzip.compress(b"a b c\r\n\nd e"))
    assert regard("translate", toy_run, "--input", compressed).stdout == expected
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b c\tc b a\nd e\te d\n")
    assert regard("translate", toy_run, "--input", pairs).stdout == expected.replace("\n\n", "\n")
    assert "no such file" in error_line("translate", toy_run, "--input", tmp_path / "missing")
    assert "--input and --text" in error_line("translate", toy_run, "--input", pairs, "--text", "a")


def test_a_file_as_an_argument_is_refused_with_a_hint(toy_run: Path, error_line: Callable[..., str]) -> None:
    assert "write `--input test.tmx`" in error_line("translate", toy_run, "test.tmx")
    assert "No such option" in error_line("translate", toy_run, "--no-such-option")


def test_an_engine_gives_the_same_translations_and_is_named(
    toy_run: Path, held_out: tuple[Path, Path], tmp_path: Path, error_line: Callable[..., str]
) -> None:
    model = tmp_path / "model"
    shutil.copytree(toy_run, model)
    options = ("--input", held_out[0], "--beam", 1)
    plain, auto = (regard("translate", model, *options, *more) for more in ((), ("--engine", "auto")))
    assert plain.returncode == auto.returncode == 0 and plain.stdout == auto.stdout
    assert "engine: CTranslate2, float32" in auto.stderr and "engine" not in plain.stderr
    scored = regard("evaluate", model, *held_out, "--engine", "ctranslate2:int8")
    assert scored.returncode == 0 and "BLEU" in scored.stdout and "engine: CTranslate2, int8" in scored.stderr
    assert "choose torch" in error_line("translate", model, "--engine", "foo", "--text", "a")
