"""Export to CTranslate2, an engine for fast translation on CPUs and GPUs."""

from pathlib import Path
from typing import ClassVar, get_args

from regard.bundle import Bundle
from regard.convert.ctranslate2.model import CTranslate2Model, write_ctranslate2
from regard.convert.ctranslate2.problem import ctranslate2_problem
from regard.convert.ctranslate2.shortlist import write_shortlist
from regard.convert.ctranslate2.spec import vocabulary
from regard.convert.ctranslate2.usage import usage
from regard.convert.export_check import encode_inputs
from regard.convert.export_format import ExportOptions, Quantization
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder

_MAX_LEN = 256  # tokens of a translation that a shortlist is made from


class CTranslate2Format:
    """A CTranslate2 model folder, with our tokenizers beside it."""

    name: ClassVar[str] = "ctranslate2"
    title: ClassVar[str] = "CTranslate2"
    is_file: ClassVar[bool] = False
    quantizations: ClassVar[tuple[Quantization, ...]] = get_args(Quantization)
    has_shortlist: ClassVar[bool] = True

    def problem(self, bundle: Bundle, options: ExportOptions) -> str | None:
        return ctranslate2_problem(bundle) or shortlist_problem(bundle, options)

    def write(self, bundle: Bundle, folder: Path, options: ExportOptions) -> str | None:
        write_ctranslate2(bundle, folder, options.quantization or self.quantizations[0])
        bundle.tokenizers.save(folder / "tokenizer")
        return add_shortlist(bundle, folder, options)

    def open(self, folder: Path, bundle: Bundle) -> CTranslate2Model:
        return CTranslate2Model(folder, bundle)

    def usage(self, bundle: Bundle) -> str:
        return usage(bundle)


def shortlist_problem(bundle: Bundle, options: ExportOptions) -> str | None:
    """Return why the requested shortlist cannot be made; None: it can, or none was requested."""
    if not options.shortlist:
        return None
    if isinstance(bundle.model, DecoderOnly):
        return "a shortlist needs a model with an encoder; leave out --shortlist"
    if not options.shortlist_texts:
        return "--shortlist needs --shortlist-from FILE: texts that the model translates to make the shortlist"
    tokens = [token for side in (bundle.tokenizers.src, bundle.tokenizers.tgt) for token in vocabulary(side)]
    if any(character in token for token in tokens for character in " \t\n\r"):
        return "the file of a shortlist cannot hold tokens with white space, which this tokenizer has"
    return None


def add_shortlist(bundle: Bundle, folder: Path, options: ExportOptions) -> str | None:
    """Write the requested shortlist into a CTranslate2 folder; return what its README says about it."""
    if not options.shortlist:
        return None
    assert isinstance(bundle.model, EncoderDecoder)
    names = vocabulary(bundle.tokenizers.src)
    sources = [[names[i] for i in ids] for ids in encode_inputs(bundle, options.shortlist_texts, "shortlist")]
    max_len = min(_MAX_LEN, (bundle.model.max_len or _MAX_LEN + 1) - 1)
    return write_shortlist(folder, sources, options.shortlist, max_len, bundle.tokenizers.joint)
