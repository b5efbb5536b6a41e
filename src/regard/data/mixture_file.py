"""The YAML file of a mixture: our own format, or that of OpusTrainer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.config import read_yaml
from regard.data.mixture import CorpusConfig, Mixture, StageConfig
from regard.data.modifiers import parse_modifiers
from regard.data.pair_readers import is_pair_file
from regard.errors import UserError

_IGNORED = ("trainer", "num_fields", "version")
"""Options for OpusTrainer itself"""
_KEYS = ("corpora", "datasets", "temperature", "stages", "modifiers", "seed")


def read_mixture(path: Path) -> Mixture:
    """Read a mixture from a YAML file; the paths in it are relative to its folder."""
    try:
        return parse_mixture(read_yaml(path), path.parent, str(path))
    except RecursionError:
        raise UserError(f"{path}: a list contains itself by a reference") from None


def parse_mixture(tree: Mapping[str, Any], folder: Path, where: str) -> Mixture:
    """Return the mixture that the content of a YAML file describes; `where` is named in errors."""
    names = tree.get("stages") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{where}: stages must be a list of names; the stages themselves are keys of the file")
    if repeated := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise UserError(f"{where}: stage '{repeated}' is listed twice; give each stage another name")
    _check_keys(tree, names, where)
    ignored = [key for key in _IGNORED if key in tree]
    options = {key: tree[key] for key in ("temperature", "seed") if tree.get(key) is not None}
    options |= {
        "corpora": tuple(corpus.in_folder(folder) for corpus in _parse_corpora(tree, where)),
        "stages": tuple(_parse_stage(name, tree.get(name), where) for name in names),
        "modifiers": parse_modifiers(tree.get("modifiers"), where),
        "notes": (f"{where}: {' and '.join(ignored)} ignored, which only OpusTrainer uses",) if ignored else (),
    }
    return Mixture.parse(options, where)


def _check_keys(tree: Mapping[str, Any], stages: list[str], where: str) -> None:
    if ("corpora" in tree) == ("datasets" in tree):
        raise UserError(f"{where}: list the data under 'corpora', or as in OpusTrainer under 'datasets'")
    unknown = [key for key in tree if key not in (*_KEYS, *_IGNORED, *stages)]
    if unknown:
        raise UserError(f"{where}: unknown key '{unknown[0]}'; known keys: {', '.join(_KEYS)}, and the names in stages")


def _parse_corpora(tree: Mapping[str, Any], where: str) -> list[CorpusConfig]:
    if "corpora" in tree:
        entries = tree["corpora"]
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise UserError(f"{where}: corpora must be a list, with 'files' in each entry")
        return [CorpusConfig.parse(entry, f"{where}: corpus {i}") for i, entry in enumerate(entries, start=1)]
    datasets = tree["datasets"]
    if not isinstance(datasets, dict):
        raise UserError(f"{where}: datasets must be a mapping from names to files")
    return [_parse_dataset(str(name), files, where) for name, files in datasets.items()]


def _parse_dataset(name: str, files: Any, where: str) -> CorpusConfig:
    """Return a dataset of OpusTrainer, whose files are TSV unless their suffix says something else."""
    format_ = "tsv" if isinstance(files, str) and not is_pair_file(Path(files)) else "auto"
    return CorpusConfig.parse({"name": name, "files": files, "format": format_}, f"{where}: dataset {name}")


def _parse_stage(name: str, content: Any, where: str) -> StageConfig:
    """Return a stage from lines `corpus weight` and a line `until corpus passes`."""
    where = f"{where}: stage {name}"
    options = content if isinstance(content, dict) else {"mix": content}
    if unknown := [key for key in options if key not in ("mix", "modifiers")]:
        raise UserError(f"{where}: unknown key '{unknown[0]}'; known keys: mix, modifiers")
    lines = options.get("mix")
    if not isinstance(lines, list) or not lines:
        raise UserError(f"{where}: must be a list of lines such as 'clean 0.8' and 'until clean 2'")
    *mix, until = [str(line).split() for line in lines]
    if len(until) != 3 or until[0] != "until":
        raise UserError(f"{where}: the last line must be 'until CORPUS PASSES', for example 'until clean 2'")
    weights: dict[str, float] = {}
    for line in mix:
        if len(line) != 2 or not _is_number(line[1]):
            raise UserError(f"{where}: '{' '.join(line)}' is not a corpus and its weight, for example 'clean 0.8'")
        if line[0] in weights:
            raise UserError(f"{where}: corpus '{line[0]}' is listed twice")
        weights[line[0]] = float(line[1])
    if until[2] != "inf" and not until[2].isdecimal():
        raise UserError(f"{where}: 'until {until[1]} {until[2]}' must have a whole number of passes, or inf")
    stage: dict[str, Any] = {"name": name, "weights": weights, "until": until[1]}
    stage["passes"] = None if until[2] == "inf" else int(until[2])
    if "modifiers" in options:
        stage["modifiers"] = parse_modifiers(options["modifiers"], where)
    return StageConfig.parse(stage, where)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
