"""Our model as a CTranslate2 model, to compare speeds: the same weights in both engines."""

import tempfile
from pathlib import Path
from typing import Any

from regard import models
from regard.bundle import NO_LANGUAGES, Bundle
from regard.search.decode import DecodeConfig
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import SPECIALS


def ctranslate2_translator(model: models.Model, config: models.ModelConfig, vocab: int, threads: int) -> Any:
    """Return a ctranslate2.Translator with the weights of a Transformer; the token of id 7 is `t7`."""
    import ctranslate2

    from regard.convert.ctranslate2.model import write_ctranslate2

    tokenizer = ListTokenizer("label", [f"t{i}" for i in range(len(SPECIALS), vocab)])
    bundle = Bundle(model, config, TokenizerPair(tokenizer, tokenizer), NO_LANGUAGES, DecodeConfig())
    with tempfile.TemporaryDirectory() as folder:
        write_ctranslate2(bundle, Path(folder))
        return ctranslate2.Translator(folder, device="cpu", compute_type="float32", intra_threads=threads)
