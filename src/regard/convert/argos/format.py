"""Export to an `.argosmodel` package, which Argos Translate installs and LibreTranslate serves."""

import json
from pathlib import Path
from typing import ClassVar, get_args

from regard.bundle import NO_LANGUAGES, Bundle
from regard.convert.argos.splitter import argos_splitter
from regard.convert.ctranslate2.model import CTranslate2Model, write_ctranslate2
from regard.convert.ctranslate2.problem import ctranslate2_problem
from regard.convert.export_format import ExportOptions, Quantization
from regard.models.encoder_decoder import EncoderDecoder
from regard.text.language_names import language_name
from regard.text.tokenizer import SentencePieceTokenizer

_VERSION = "1.0"
_ARGOS_VERSION = "1.11.0"  # earlier ones know no MiniSBD

_USAGE = """[Argos Translate](https://github.com/argosopentech/argos-translate), version {argos} or later, installs it:

```python
import argostranslate.package
import argostranslate.translate

argostranslate.package.install_from_path("{name}.argosmodel")
print(argostranslate.translate.translate("{example}", "{src}", "{tgt}"))
```

[LibreTranslate](https://github.com/LibreTranslate/LibreTranslate) serves every installed package:

```console
$ libretranslate --load-only {src},{tgt}
$ curl -d q="{example}" -d source={src} -d target={tgt} http://localhost:5000/translate
```

Argos splits a text into sentences itself. This package brings a splitter that works by rules, `minisbd/rules.onnx`;
nothing is downloaded. Argos searches with a beam of 4 and a length penalty of its own, and writes a space for every `_`
in the output. regard also cleans texts, and fits case and punctuation to those of the training data; Argos does not.

`model/` is a CTranslate2 folder: a token's place in `shared_vocabulary.json`, counted from 0, is its id in regard and
in `sentencepiece.model` too."""


class ArgosFormat:
    """A zip archive of a CTranslate2 model, a SentencePiece model and a sentence splitter."""

    name: ClassVar[str] = "argos"
    title: ClassVar[str] = "Argos Translate"
    is_file: ClassVar[bool] = True
    quantizations: ClassVar[tuple[Quantization, ...]] = ("int8", *(q for q in get_args(Quantization) if q != "int8"))
    has_shortlist: ClassVar[bool] = False

    def problem(self, bundle: Bundle, options: ExportOptions) -> str | None:
        if problem := ctranslate2_problem(bundle):
            return problem
        if not isinstance(bundle.model, EncoderDecoder):
            return "Argos Translate runs translators with an encoder and a decoder"
        if not isinstance(bundle.tokenizers.src, SentencePieceTokenizer) or not bundle.tokenizers.joint:
            return (
                "Argos Translate needs one SentencePiece tokenizer for both languages (tokenizer.kind=bpe or unigram, "
                "tokenizer.joint=true); ctranslate2 works with every tokenizer"
            )
        if len(bundle.all_directions.targets) > 1:
            return "a package of Argos Translate has one target language; ctranslate2, hf and onnx work with tags"
        if any(unknown in bundle.languages for unknown in NO_LANGUAGES):
            return "Argos Translate needs language codes, which this model has none of; train with --languages en-fr"
        return None

    def write(self, bundle: Bundle, folder: Path, options: ExportOptions) -> None:
        (folder / "model").mkdir()
        write_ctranslate2(bundle, folder / "model", options.quantization or self.quantizations[0])
        (folder / "sentencepiece.model").write_bytes(bundle.tokenizers.src.to_bytes())
        (folder / "minisbd").mkdir()
        (folder / "minisbd" / "rules.onnx").write_bytes(argos_splitter())
        src, tgt = bundle.languages
        metadata = {
            "type": "translate",
            "package_version": _VERSION,
            "argos_version": _ARGOS_VERSION,
            "from_code": src,
            "from_name": language_name(src),
            "to_code": tgt,
            "to_name": language_name(tgt),
            **({"license": options.license} if options.license else {}),
        }
        (folder / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")

    def open(self, folder: Path, bundle: Bundle) -> CTranslate2Model:
        return CTranslate2Model(folder / "model", bundle)

    def usage(self, bundle: Bundle) -> str:
        src, tgt = bundle.languages
        example = (bundle.examples[0] if bundle.examples else "a text").replace('"', "'")
        name = f"translate-{src}_{tgt}-{_VERSION.replace('.', '_')}"
        return _USAGE.format(argos=_ARGOS_VERSION, name=name, example=example, src=src, tgt=tgt)
