"""Export a model directory to another format, and check that the exported model gives the same output."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from regard.bundle import Bundle
from regard.convert.export_check import ExportCheck, compare, encode_inputs, sample_inputs
from regard.convert.export_format import CheckUnavailable, ExportFormat, ExportOptions
from regard.errors import UserError
from regard.files import check_new, new_file, new_folder

_FORMATS: dict[str, tuple[str, str]] = {
    "ctranslate2": ("regard.convert.ctranslate2.format", "CTranslate2Format"),
    "argos": ("regard.convert.argos.format", "ArgosFormat"),
    "hf": ("regard.convert.hf.format", "HfFormat"),
    "onnx": ("regard.convert.onnx.format", "OnnxFormat"),
    "web": ("regard.convert.web.format", "WebFormat"),
}
"""Name → module and class"""


@dataclass(frozen=True)
class Export:
    """The result of an export."""

    path: Path
    n_bytes: int
    checked: ExportCheck | None
    """None: the two models were not compared"""
    verdict: str
    """The result of the check in words"""


def format_names() -> list[str]:
    return list(_FORMATS)


def export_format(name: str) -> ExportFormat:
    """Return the format of that name; its libraries are loaded now."""
    if name not in _FORMATS:
        raise UserError(f"export format '{name}' is unknown; choose one of {', '.join(_FORMATS)}")
    module, class_name = _FORMATS[name]
    try:
        loaded: ExportFormat = getattr(import_module(module), class_name)()
    except ModuleNotFoundError as error:
        raise UserError(f"export to {name} needs {error.name}; run: pip install 'regard[export]'") from None
    return loaded


def export(
    model: str | Path,
    out: str | Path,
    to: str,
    *,
    check: Sequence[str] | bool = True,
    **options: object,
) -> Export:
    """Write the model directory `model` to `out`, in the format `to`. `options` are those of ExportOptions.

    Both models then translate (or continue) the texts `check`, by default a built-in sample, and are compared; the
    result is written into the README. False: no check. Nothing is left at `out` if the export fails.

    >>> result = regard.export(translator_dir, new_dir / "ct2", "ctranslate2", quantization="float32")
    >>> len(result.checked.differences)
    0
    """
    chosen, out = export_format(to), Path(out)
    parsed = ExportOptions.parse(dict(options), where="export")
    check_new(out)
    bundle = Bundle.load(model)
    if problem := _options_problem(chosen, parsed) or chosen.problem(bundle, parsed):
        raise UserError(f"{model}: cannot export to {to}: {problem}")
    if chosen.is_file:
        with TemporaryDirectory() as temporary, new_file(out) as file:
            folder = Path(temporary, out.stem)
            folder.mkdir()
            checked, verdict = _fill(folder, bundle, chosen, parsed, check)
            _zip(folder, file)
    else:
        with new_folder(out) as folder:
            checked, verdict = _fill(folder, bundle, chosen, parsed, check)
    files = [out] if chosen.is_file else [path for path in out.rglob("*") if path.is_file()]
    return Export(out, sum(path.stat().st_size for path in files), checked, verdict)


def _options_problem(chosen: ExportFormat, options: ExportOptions) -> str | None:
    """Return which of the options the format lacks; None: it has all"""
    if options.quantization not in (None, *chosen.quantizations):
        return f"it has no {options.quantization}; use {' or '.join(chosen.quantizations)}"
    if options.shortlist and not chosen.has_shortlist:
        return "it has no shortlist; leave out --shortlist, or export to ctranslate2"
    return None


def _fill(
    folder: Path, bundle: Bundle, chosen: ExportFormat, options: ExportOptions, check: Sequence[str] | bool
) -> tuple[ExportCheck | None, str]:
    """Write the model into an empty folder and compare it with the original; return the result, and in words.

    The README, which a format may write itself, ends with the result.
    """
    note = chosen.write(bundle, folder, options)
    checked, verdict = None, "not compared with the original"
    if check is not False:
        inputs = sample_inputs(bundle) if check is True else encode_inputs(bundle, check, "check")
        try:
            checked = compare(bundle, chosen.open(folder, bundle), inputs)
            verdict = checked.describe()
        except CheckUnavailable as reason:
            verdict += f": {reason}"
    path = folder / "README.md"
    text = path.read_text(encoding="utf-8") if path.exists() else _readme(bundle, chosen, options.license, note)
    differences = f"\n{checked.table()}\n" if checked and checked.differences else ""
    path.write_text(f"{text.rstrip()}\n\nCheck: {verdict}.\n{differences}", encoding="utf-8")
    return checked, verdict


def _readme(bundle: Bundle, chosen: ExportFormat, license_name: str | None, note: str | None) -> str:
    parts = [
        f"# {bundle.all_directions.title}" if bundle.task == "translate" else "# Model",
        f"A model of regard, exported to {chosen.title}.",
        chosen.usage(bundle).strip(),
        *([note] if note else []),
        *([f"License: {license_name}"] if license_name else []),
    ]
    return "\n\n".join(parts)


def _zip(folder: Path, file: BinaryIO) -> None:
    """Write a zip archive whose only entry at the top is the folder."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder.parent))
