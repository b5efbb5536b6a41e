"""What synthetic data give: BLEU with back-translation and with distillation, and the speed of the student.

    python bench/synthetic_data.py train.en train.de --valid val.en val.de --test test.en test.de \
        --pairs 3000 --tokenize none --out runs/synthetic

Back-translation: `--pairs` of the pairs are parallel data, and of the others only one side is used. Compared are the
parallel data alone, two rounds with the target side of the others, and two rounds with the target side of one half and
the source side of the other half. Distillation: a teacher of 6+6 layers on all pairs, its student of 6+1 layers, and
the same 6+1 layers trained on the pairs themselves. Translations per second of teacher and students are measured on
two CPU cores, in turns; compare the ratio. Settings for all trainings follow after `--set`.

Every step goes on where it was stopped: give the same command again. Choose settings by the validation column.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from regard.data.data_file import read_lines

ROUNDS = 2
TURNS = 5  # of the measurement of speed
LAYERS = ("--set", "model.n_layers=6")
STUDENT = (*LAYERS, "--set", "model.n_decoder_layers=1")


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    valid: float
    test: float | None
    speed: str = ""

    def __str__(self) -> str:
        test = "" if self.test is None else f"{self.test:6.2f}"
        return f"{self.valid:6.2f}  {test:>6}  {self.speed:>15}  {self.name}"


@dataclass(frozen=True)
class Bench:
    options: argparse.Namespace
    started: float

    def rows(self) -> Iterator[Row]:
        """Do everything that is not done; yield the results."""
        parts = Parts.write(self.options.files, self.options.pairs, self.options.out / "parts")
        if "backtranslation" in self.options.parts:
            for i, (name, texts) in enumerate(parts.texts().items()):
                yield from self._rounds(name, parts.pairs, [*texts, *([] if i else ["--baseline"])])
        if "distillation" in self.options.parts:
            yield from self._distillation()

    def _rounds(self, name: str, pairs: Sequence[Path], texts: Sequence[object]) -> Iterator[Row]:
        out = self.options.out / f"rounds-{name}"
        self._regard("rounds", *pairs, *texts, *self._training(out), "--rounds", ROUNDS)
        for row in (out / "rounds.tsv").read_text().splitlines()[1:]:
            number, direction, bleu, *_ = row.split("\t")
            if direction == "forward":
                folder = out / f"round-{number}" / direction
                what = "the pairs alone" if number == "0" else f"round {number}, {name}"
                yield Row(f"{self.options.pairs:,} pairs: {what}", float(bleu), self._test(folder))

    def _distillation(self) -> Iterator[Row]:
        out, files = self.options.out, self.options.files
        teacher, student, control = out / "teacher", out / "student", out / "control"
        self._regard("train", *files, *self._training(teacher), *LAYERS, "--resume")
        data = ("--data", *files)
        self._regard("distill", teacher, *data, *self._training(student, self.options.student_recipe))
        self._regard("train", *files, *self._training(control), *STUDENT, "--resume")
        speeds = relative_speeds([teacher, student, control], read_texts(self.options.test[0]))
        names = ("teacher, 6+6 layers", "student, 6+1 layers", "6+1 layers without a teacher")
        for name, folder, speed in zip(names, (teacher, student, control), speeds, strict=True):
            yield Row(name, valid_bleu(folder), self._test(folder), speed)

    def _training(self, out: Path, recipe: str = "") -> tuple[object, ...]:
        settings = [word for setting in ("valid.samples=0", *self.options.set) for word in ("--set", setting)]
        if self.options.tokenize != "13a":
            settings += ["--set", f"valid.tokenize={self.options.tokenize}"]
        return "--valid", *self.options.valid, "--recipe", recipe or self.options.recipe, "--out", out, *settings

    def _test(self, folder: Path) -> float:
        """Return the test BLEU of a model, which is stored beside it."""
        path = folder.with_name(f"{folder.name}-test.json")
        if not path.exists():
            options = ("--tokenize", self.options.tokenize, "--beam", 5, "--json")
            path.write_text(self._regard("evaluate", folder, *self.options.test, *options))
        return float(json.loads(path.read_text())["scores"]["BLEU"]["score"])

    def _regard(self, *arguments: object) -> str:
        """Run a command of regard; return what it prints. Ends the program if it fails or there is no time left."""
        left = self.options.seconds - (time.monotonic() - self.started)
        command = [sys.executable, "-m", "regard", *map(str, arguments)]
        print(f"{time.monotonic() - self.started:5.0f} s  regard {' '.join(map(str, arguments))}", flush=True)
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(command, capture_output=True, text=True, timeout=max(0.0, left))
            if done.returncode == 0:
                return done.stdout
            sys.exit(f"regard {arguments[0]} failed: {done.stderr[-500:]}")
        sys.exit("no time left; the same command continues")


@dataclass(frozen=True)
class Parts:
    """Parallel data, and the sides of the other pairs."""

    pairs: tuple[Path, Path]
    target: Path
    target_half: Path
    source_half: Path

    @classmethod
    def write(cls, files: Sequence[Path], n_pairs: int, folder: Path) -> "Parts":
        """Divide a corpus at random, but always in the same way."""
        folder.mkdir(parents=True, exist_ok=True)
        sides = [list(read_lines(path)) for path in files]
        codes = [path.name.removesuffix(".gz").rpartition(".")[2] for path in files]
        order = list(range(len(sides[0])))
        random.Random(14).shuffle(order)
        pairs, others = order[:n_pairs], order[n_pairs:]
        half = len(others) // 2

        def part(name: str, side: int, rows: Sequence[int]) -> Path:
            path = folder / f"{name}.{codes[side]}"
            path.write_bytes(b"".join(sides[side][row] + b"\n" for row in sorted(rows)))
            return path

        return cls(
            (part("pairs", 0, pairs), part("pairs", 1, pairs)),
            part("others", 1, others),
            part("half", 1, others[:half]),
            part("other-half", 0, others[half:]),
        )

    def texts(self) -> dict[str, tuple[object, ...]]:
        """Return the texts of one language, as options of `regard rounds`."""
        both = ("--mono-tgt", self.target_half, "--mono-src", self.source_half)
        return {"target-side": ("--mono-tgt", self.target), "both-sides": both}


def read_texts(path: Path) -> list[str]:
    return [line.decode() for line in read_lines(path)]


def valid_bleu(folder: Path) -> float:
    """Return the best validation BLEU of a run."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return max(row["bleu"] for row in rows if "bleu" in row)


def relative_speeds(folders: Sequence[Path], texts: Sequence[str]) -> list[str]:
    """Return how many times as fast each model translates as the first one, with beams of 1 and 5 on two cores."""
    import torch

    import regard

    torch.set_num_threads(2)
    translators = [regard.load(folder, device="cpu") for folder in folders]
    columns = []
    for beam in (1, 5):
        times: list[list[float]] = [[] for _ in folders]
        for turn in range(TURNS + 1):
            for translator, own in zip(translators, times, strict=True):
                start = time.perf_counter()
                translator.translate(texts, beam=beam)  # type: ignore[union-attr, call-arg]
                if turn:  # the first warms up
                    own.append(time.perf_counter() - start)
        columns.append([statistics.median(times[0]) / statistics.median(own) for own in times])
    return [f"{greedy:.2f} × {searched:.2f} ×" for greedy, searched in zip(*columns, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=2, type=Path)
    parser.add_argument("--valid", nargs=2, type=Path, required=True)
    parser.add_argument("--test", nargs=2, type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=3000, help="pairs that are parallel data for back-translation")
    parser.add_argument("--recipe", default="auto")
    parser.add_argument("--student-recipe", default="student")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--tokenize", default="13a")
    parser.add_argument("--parts", nargs="+", default=["backtranslation", "distillation"])
    parser.add_argument("--seconds", type=float, default=1e6, help="stop after this time")
    parser.add_argument("--out", type=Path, default=Path("runs/synthetic"))
    bench = Bench(parser.parse_args(), time.monotonic())
    rows = list(bench.rows())
    print(" valid    test  speed beam 1, 5  what")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
