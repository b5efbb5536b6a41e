"""Export a model directory to another format, and check that the exported model gives the same output."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from regard.bundle import Bundle
from regard.convert.export_check import ExportCheck, compare, encode_inputs, sample_inputs
from regard.convert.export_format import CheckUnavailable, ExportFormat, ExportOptions
from regard.errors import UserError
from regard.files import new_folder

_FORMATS: dict[str, tuple[str, str]] = {
    "onnx": ("regard.convert.onnx_format", "OnnxFormat"),
    "web": ("regard.convert.web_format", "WebFormat"),
    "ctranslate2": ("regard.convert.ctranslate2_format", "CTranslate2Format"),
    "hf": ("regard.convert.hf_format", "HfFormat"),
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
    folder: str | Path,
    out: str | Path,
    to: str,
    *,
    check: Sequence[str] | bool = True,
    **options: object,
) -> Export:
    """Write the model in `folder` to `out`, in the format `to`. `options` are those of ExportOptions.

    Both models then translate (or continue) the texts `check`, by default a built-in sample, and are compared; the
    result is written into the README. False: no check. Nothing is left at `out` if the export fails.
    """
    chosen, out = export_format(to), Path(out)
    parsed = ExportOptions.parse(dict(options), where="export")
    if out.exists():
        raise UserError(f"{out}: exists already; name another path, or delete it first")
    if not out.absolute().parent.is_dir():
        raise UserError(f"{out}: there is no folder {out.absolute().parent}")
    bundle = Bundle.load(folder)
    if problem := chosen.problem(bundle, parsed):
        raise UserError(f"{folder}: cannot export to {to}: {problem}")
    with new_folder(out) as temporary:
        chosen.write(bundle, temporary, parsed)
        checked, verdict = None, "not compared with the original"
        if check is not False:
            inputs = sample_inputs(bundle) if check is True else encode_inputs(bundle, check)
            try:
                checked = compare(bundle, chosen.open(temporary, bundle), inputs)
                verdict = checked.describe()
            except CheckUnavailable as reason:
                verdict += f": {reason}"
        _finish_readme(temporary / "README.md", _readme(bundle, chosen), verdict)
    return Export(out, sum(path.stat().st_size for path in out.rglob("*") if path.is_file()), checked, verdict)


def _finish_readme(path: Path, default: str, verdict: str) -> None:
    """Add the result of the check to the README, which a format may have written itself."""
    text = path.read_text(encoding="utf-8") if path.exists() else default
    path.write_text(f"{text}\nCheck: {verdict}.\n", encoding="utf-8")


def _readme(bundle: Bundle, chosen: ExportFormat) -> str:
    return f"""# {" → ".join(bundle.languages)}

A model of regard, exported to {chosen.title}.

{chosen.usage(bundle)}"""
