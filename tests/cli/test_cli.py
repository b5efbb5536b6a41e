"""The verbs as a user types them, on a toy model that the command line trains itself."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import regard as library
from regard.data.builtin.toy_tasks import toy_pairs
from regard.models.record import AttentionRecord
from tests.cli.command import environment, failed_in_one_line, regard, toy_files, train_arguments
from tests.conftest import write_pairs


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that reverses letters, trained by the command line."""
    folder = tmp_path_factory.mktemp("toy")
    files = toy_files(folder)
    out = folder / "run"
    done = regard(*train_arguments(files, out, "train.steps=450", "valid.every=150", "train.average=last"))
    assert done.returncode == 0, done.stderr
    assert "target tokens/s" in done.stderr and "BLEU" in done.stderr
    assert str(out) in done.stdout
    return out


@pytest.fixture(scope="session")
def held_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("test")
    return write_pairs(folder, "test", toy_pairs("reverse", 60, seed=3, lengths=(2, 6), n_letters=8))


def test_the_directory_is_a_bundle_without_pickle(run: Path) -> None:
    names = {p.name for p in run.iterdir()}
    assert names >= {
        *("config.json", "model.safetensors", "tokenizer", "README.md", "config.yaml", "metrics.jsonl"),
        *("curves.png", "curves.svg", "checkpoints"),
    }
    assert not [p for p in run.rglob("*") if p.suffix in {".pt", ".pkl", ".bin", ".ckpt", ".tmp"}]
    card = (run / "README.md").read_text()
    assert "BLEU" in card and "nrefs:1" in card and "4,000" in card
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert {"loss", "lr", "tokens_per_second", "grad_norm"} <= rows[0].keys()
    assert {"valid_loss", "bleu", "chrf"} <= rows[-1].keys()
    assert rows[-1]["exact"] > 80, "each answer is held against its own reference"


def test_it_has_learnt_the_task_and_python_and_command_line_agree(run: Path, held_out: tuple[Path, Path]) -> None:
    src, ref = (path.read_text().splitlines() for path in held_out)
    lines = [src[0], "", *src[1:]]  # an empty line stays an empty line
    out = regard("translate", run, stdin="\n".join(lines).encode() + b"\n").stdout.splitlines()
    assert len(out) == len(lines) and out[1] == ""
    del out[1]
    assert sum(h == r for h, r in zip(out, ref, strict=True)) >= 0.9 * len(ref)
    translations = library.load(run).translate(src)
    assert [t.text for t in translations] == out


def test_python_surface(run: Path) -> None:
    translator = library.load(run)
    [t, other] = translator.translate(["a b c", "d e f g h"], beam=5, n_best=3, attention=True)
    assert (t.text, t.score, t.tokens) == (t.hypotheses[0].text, t.hypotheses[0].score, t.hypotheses[0].tokens)
    assert t.source_tokens == ("▁a", "▁b", "▁c") and len(t.hypotheses) == 3
    assert t.attention is not None and other.attention is not None
    assert t.attention.cross.shape == (2, 4, len(t.tokens) + 1, 4)
    assert other.attention.encoder.shape == (2, 4, 6, 6)
    assert t.attention.cross.sum(-1) == pytest.approx(1.0, abs=1e-5)
    assert t.alignment is not None and sorted(j for _, j in t.alignment) == list(range(len(t.tokens)))
    for each in (*t.hypotheses, *other.hypotheses):
        assert each.attention is not None and each.attention.target_tokens == (*each.tokens, "</s>")
    source, target = translator.tokenizers.src.encode(["a b c", t.hypotheses[2].text])
    forced = translator.attention(source, target)
    assert np.array_equal(forced.cross, t.hypotheses[2].attention.cross)
    assert translator.translate(["a b c"])[0].alignment is None
    assert translator.translate([]) == []
    with pytest.raises(library.UserError, match="list of texts"):
        translator.translate("a b c")
    with pytest.raises(library.UserError, match="did you mean 'beam'"):
        translator.translate(["a"], beem=3)


def test_decoding_options(run: Path) -> None:
    def translate(*options: object) -> list[str]:
        done = regard("translate", run, "--text", "a b c d", *options)
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
    assert translate("--ensemble", run, "--beam", 5) == translate("--beam", 5)
    row = json.loads(translate("--json")[0])
    assert row["hypotheses"][0]["text"] == "d c b a" and row["source"] == "a b c d"


def test_translate_survives_any_bytes(run: Path) -> None:
    done = regard("translate", run, "--beam", 1, stdin=b"a b\r\n\xff\xfe\n\x00\n" + "🙂 é\n".encode())
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
    translator = library.load(run)
    [plain, dressed] = translator.translate(["a b c", "\ufeff a\u00a0b\u2028 c"])
    assert plain.text == dressed.text and plain.source_tokens == dressed.source_tokens, "cleaned as training text is"
    assert len(translator.translate(["\ud800 a"])) == 1


def test_evaluate_prints_what_sacrebleu_prints(run: Path, held_out: tuple[Path, Path], tmp_path: Path) -> None:
    src, ref = held_out
    output = tmp_path / "hyp"
    for extra in ([], ["--tokenize", "none", "--lowercase"]):
        ours = json.loads(regard("evaluate", run, src, ref, "--json", "--output", output, *extra).stdout)
        flags = ["--tokenize", "none", "-lc"] if extra else []
        command = [sys.executable, "-m", "sacrebleu", ref, "-i", output, "-m", "bleu", "chrf", "ter", "-w", "6", *flags]
        theirs = subprocess.run(map(str, command), capture_output=True, text=True, env=environment(), check=True)
        for mine, other in zip(ours["scores"].items(), json.loads(theirs.stdout), strict=True):
            assert mine[0] == other["name"]
            assert mine[1]["score"] == pytest.approx(other["score"], abs=1e-6)
            assert mine[1]["signature"] == other["signature"]
    assert sum(row["sentences"] for row in ours["bleu_by_source_length"]) == 60
    text = regard("evaluate", run, src, ref).stdout
    assert "BLEU" in text and "nrefs:1|case:mixed" in text and "1–10" in text


def test_evaluate_against_a_baseline(run: Path, held_out: tuple[Path, Path], tmp_path: Path) -> None:
    worse = tmp_path / "worse"
    first = regard("average", run, "--last", 1, "--out", worse)
    assert first.returncode == 0, first.stderr
    shutil.copytree(run / "checkpoints", worse / "checkpoints")
    done = regard("evaluate", run, *held_out, "--baseline", worse, "--json")
    rows = json.loads(done.stdout)["paired_bootstrap"]
    assert [row["metric"] for row in rows] == ["BLEU", "chrF2", "TER"]
    assert all(0 <= row["p_value"] <= 1 for row in rows)
    twins = json.loads(regard("evaluate", run, *held_out, "--baseline", run, "--json").stdout)["paired_bootstrap"]
    assert [row["p_value"] for row in twins] == [1.0, 1.0, 1.0], "a model does not differ from itself"


def test_average(run: Path, tmp_path: Path) -> None:
    done = regard("average", run, "--best", 2, "--out", tmp_path / "mean")
    assert done.returncode == 0 and "mean of the checkpoints at steps" in done.stdout
    card = (tmp_path / "mean" / "README.md").read_text()
    assert "| weights | the mean" in card and "kept:" not in card and "BLEU" not in card
    assert regard("translate", tmp_path / "mean", "--text", "a b", "--beam", 1).returncode == 0
    assert "ask for fewer" in failed_in_one_line(regard("average", run, "--last", 50, "--out", tmp_path / "x"))
    assert "--last K or --best K" in failed_in_one_line(regard("average", run))


def test_tsv_jsonl_and_held_out_validation_train_too(tmp_path: Path) -> None:
    pairs = toy_pairs("copy", 200, lengths=(2, 4), n_letters=4)
    tsv, jsonl = tmp_path / "a.tsv", tmp_path / "b.jsonl"
    tsv.write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    jsonl.write_text("".join(json.dumps({"translation": {"xx": s, "yy": t}}) + "\n" for s, t in pairs))
    settings = [
        "--recipe",
        "tiny",
        "--set",
        "train.steps=2",
        "--set",
        "tokenizer.kind=char",
        "--set",
        "model.d_model=8",
    ]
    settings += ["--set", "train.tensorboard=true", "--set", "tokenizer.joint=false", "--set", "train.log_every=1"]
    for files in ([tsv, "--valid", tsv], [jsonl], [tsv, "--valid", jsonl, "--languages", "xx-yy"]):
        out = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        done = regard("train", *files, "--out", out, *settings)
        assert done.returncode == 0, done.stderr
        assert ("held out" in done.stderr) == ("--valid" not in files)
        assert any((out / "tensorboard").glob("events*"))


def test_mistakes_give_one_line_and_exit_code_2(run: Path, tmp_path: Path) -> None:
    files = toy_files(tmp_path, n=50)
    short = tmp_path / "short"
    short.write_text("a\n")
    empty = tmp_path / "empty"
    empty.write_text("")
    out = tmp_path / "out"
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "README.md").write_text("mine")
    broken = tmp_path / "broken"
    shutil.copytree(run, broken, ignore=shutil.ignore_patterns("checkpoints"))
    (broken / "model.safetensors").write_bytes(b"\xff" * 100)
    cases = [
        (["train", files[0], short, "--out", out], "50 lines but"),
        (["train", files[0], "--out", out], "two line-aligned files"),
        (["train", files[0], tmp_path / "none", "--out", out], "no such file"),
        (["train", empty, empty, "--out", out], "no usable pair"),
        (["train", *files[:2], "--out", out, "--recipe", "bse"], "base"),
        (["train", *files[:2], "--out", out, "--set", "train.lrr=1"], "did you mean 'lr'"),
        (["train", *files[:2], "--out", out, "--set", "train.lr"], "key=value"),
        (["train", *files[:2], "--out", out, "--set", "train.steps=many"], "train.steps"),
        (["train", *files[:2], "--out", out, "--set", "model.n_heads=3"], "must divide"),
        (["train", *files[:2], "--out", out, "--set", "tokenizer.vocab_size=17"], "vocab_size"),
        (["train", *files[:2], "--out", out, "--config", short], "mapping"),
        (["train", *files[:2], "--out", run], "holds a run already"),
        (["train", *files[:2], "--out", short / "x"], "cannot be made a folder"),
        (["translate", tmp_path], "no model there"),
        (["translate", broken, "--text", "a"], "safetensors"),
        (["translate", run, "--text", "a", "--beam", "0"], "beam"),
        (["translate", run, "--text", "a", "--beam", "2", "--n-best", "4"], "beam of at least 4"),
        (["translate", run, "--text", "a", "--top-k", "4"], "--sample"),
        (["translate", run, "--text", "a", "--device", "cuda:99"], "no such device"),
        (["evaluate", run, short, files[0]], "1 lines but"),
        (["evaluate", run, empty, empty], "empty"),
        (["evaluate", run, short, short, "--tokenize", "14a"], "13a"),
        (["evaluate", run, short, short, "--output", tmp_path / "no" / "file"], "no folder"),
        (["train", *files[:2], "--out", foreign], "not of a run"),
        (["train", *files[:2], "--out", out, "--set", "valid.every=0"], "valid.every"),
        (["train", *files[:2], "--out", out, "--set", "valid.tokenize=x"], "valid.tokenize"),
        (["train", *files[:2], "--out", out, "--set", "train.betas=[2, 3]"], "train.betas"),
        (["train", *files[:2], "--out", out, "--set", "model.kind=[a]"], "model.kind"),
        (
            ["train", *files[:2], "--out", out, "--set", "model.positions=learned", "--set", "model.max_len=20"],
            "max_len",
        ),
        (["translate", run, "--text", "a", "--sample", "--temperature", "inf"], "temperature"),
        (["demo", "--direction", "en-de"], "fr-en"),
        (["frobnicate"], "frobnicate"),
        (["translate"], "DIR"),
    ]
    for arguments, message in cases:
        assert message in failed_in_one_line(regard(*arguments)), arguments
    assert not (out / "model.safetensors").exists() and not (out / "checkpoints").exists()


def test_help_is_quick_and_lists_the_verbs() -> None:
    done = regard("--help", timeout=10)
    for verb in ("demo", "train", "translate", "evaluate", "average"):
        assert verb in done.stdout
    loaded = "import sys, regard.cli; print([m for m in ('torch', 'matplotlib', 'sacrebleu') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True).stdout.strip() == "[]"
    assert regard("--version").stdout.startswith("regard ")


def test_attend_as_picture_data_and_in_the_terminal(run: Path, tmp_path: Path) -> None:
    for name in ("map.png", "map.svg", "map.json", "map.safetensors"):
        done = regard("attend", run, "a b c d", "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["d c b a", str(tmp_path / name)]
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    record = AttentionRecord.from_json((tmp_path / "map.json").read_text())
    assert record.cross.shape == (2, 4, 5, 5)
    again = AttentionRecord.from_safetensors((tmp_path / "map.safetensors").read_bytes())
    assert np.allclose(again.cross, record.cross, atol=1e-6)
    shown = regard("attend", run, "a b c d", "--layer", 1, "--head", 2, "--kind", "encoder", "--words").stdout
    assert shown.splitlines()[1].split() == ["a", "b", "c", "d"] and len(shown.splitlines()) == 2 + 4
    for arguments, words in (
        (("", "--layer", 0), "empty sentence"),
        (("a b", "--layer", 7), "no layer 7; this model has 0 to 1"),
        (("a b", "--head", 4), "no head 4"),
        (("a b", "--kind", "self"), "encoder, decoder, cross"),
        (("a b", "--out", tmp_path / "map.gif"), ".png"),
        (("a b", "--out", tmp_path / "none" / "map.png"), "folder that exists"),
    ):
        assert words in failed_in_one_line(regard("attend", run, *arguments))
