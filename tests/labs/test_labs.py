from pathlib import Path

import pytest
import torch

from regard.labs import LABS
from regard.labs.report import LabRun, save_lab_report
from tests.cli.command import failed_in_one_line, regard


@pytest.mark.parametrize("name", LABS)
def test_every_lab_writes_a_report_and_leaves_random_numbers_unchanged(name: str, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    result = LABS[name].run(1, quick=True)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(len(row) == len(result.table.header()) for row in result.table.formatted_rows())
    assert result.question == LABS[name].question and result.question.endswith("?")
    assert len(result.answer) == 3 and all(sentence.endswith(".") for sentence in result.answer)
    paths = save_lab_report(LabRun(name, result, f"regard lab {name}", 1.0), tmp_path / "new")
    assert [path.name for path in paths] == [f"{name}.md", f"{name}.png", f"{name}.svg"]
    assert [path.read_bytes()[:4] for path in paths[1:]] == [b"\x89PNG", b"<?xm"]
    page = paths[0].read_text()
    assert f"({name}.png)" in page and all(part in page for part in (result.setup, *result.answer))


@pytest.mark.parametrize("name", ["core", "qkv", "scaling", "bottleneck"])
def test_the_seed_determines_the_result(name: str) -> None:
    results = []
    for global_seed in (0, 1):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(global_seed)  # must not matter
            results.append(LABS[name].run(3, quick=True))
    assert results[0] == results[1]
    if name == "qkv":
        assert LABS[name].run(4, quick=True) != results[0]


def test_the_command_lists_and_runs_labs_and_refuses_unknown_ones(tmp_path: Path) -> None:
    listing = regard("lab").stdout
    assert all(name in listing and lab.question in listing for name, lab in LABS.items())
    for name in ("scaling", "qkv"):
        done = regard("lab", name, "--quick", "--seed", 2, "--out", tmp_path / "labs")
        assert done.returncode == 0, done.stderr
        assert LABS[name].question in done.stdout and f"{name}.png" in done.stdout
        page = (tmp_path / "labs" / f"{name}.md").read_text()
        assert f"regard lab {name} --seed 2 --quick" in page
    assert "core, positions" in failed_in_one_line(regard("lab", "nonsense", "--out", tmp_path / "none"))
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("")
    assert "file" in failed_in_one_line(regard("lab", "core", "--out", tmp_path / "file"))


def test_docs_have_a_page_with_a_plot_for_every_lab() -> None:
    folder = Path(__file__).parents[2] / "docs" / "labs"
    index = (folder / "README.md").read_text()
    for name, lab in LABS.items():
        assert f"[{lab.question}]({name}.md)" in index
        page = (folder / f"{name}.md").read_text()
        assert f"regard lab {name} --seed 1\n" in page and (folder / f"{name}.png").is_file()
