"""The tokenizers of imported Marian models as the files that transformers' own MarianTokenizer reads."""

import json
from pathlib import Path

from regard.convert.imports.marian_vocabulary import SOURCE_MODEL, TARGET_MODEL
from regard.text.marian_tokenizer import MarianTokenizer
from regard.text.tokenizer import TokenizerPair


def is_marian(tokenizers: TokenizerPair) -> bool:
    return isinstance(tokenizers.src, MarianTokenizer) and isinstance(tokenizers.tgt, MarianTokenizer)


def write_marian_tokenizer(tokenizers: TokenizerPair, folder: Path, max_len: int) -> None:
    """Write the SentencePiece models and the vocabulary, or both vocabularies if they are separate."""
    src, tgt = tokenizers.src, tokenizers.tgt
    assert isinstance(src, MarianTokenizer) and isinstance(tgt, MarianTokenizer)
    (folder / SOURCE_MODEL).write_bytes(src.model)
    (folder / TARGET_MODEL).write_bytes(tgt.model)
    config = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": src.language,
        "target_lang": tgt.language,
        "separate_vocabs": not tokenizers.joint,
        "model_max_length": max_len,
    }
    files = {"tokenizer_config.json": config, "vocab.json": _ids(src)}
    if not tokenizers.joint:
        files["target_vocab.json"] = _ids(tgt)
    for name, content in files.items():
        text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
        (folder / name).write_text(text, encoding="utf-8")


def _ids(tokenizer: MarianTokenizer) -> dict[str, int]:
    """Return symbol → id; if an ordinary symbol is written like a special one, the special one counts."""
    symbols = tokenizer.tokens(range(tokenizer.size))
    return {symbol: i for i, symbol in reversed(list(enumerate(symbols)))}
