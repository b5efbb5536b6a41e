"""Export to CTranslate2, an engine for fast translation on CPUs and GPUs."""

from pathlib import Path
from typing import ClassVar

from regard.bundle import Bundle
from regard.convert.ctranslate2_model import CTranslate2Model, write_ctranslate2
from regard.convert.ctranslate2_problem import ctranslate2_problem
from regard.convert.export_format import ExportedModel, ExportOptions


class CTranslate2Format:
    """A CTranslate2 model folder."""

    name: ClassVar[str] = "ctranslate2"
    title: ClassVar[str] = "CTranslate2"
    is_file: ClassVar[bool] = False

    def problem(self, bundle: Bundle, options: ExportOptions) -> str | None:
        return ctranslate2_problem(bundle)

    def write(self, bundle: Bundle, folder: Path, options: ExportOptions) -> None:
        write_ctranslate2(bundle, folder, options.quantization or "float32")

    def open(self, folder: Path, bundle: Bundle) -> ExportedModel:
        return CTranslate2Model(folder, bundle)

    def usage(self, bundle: Bundle) -> str:
        return ""
