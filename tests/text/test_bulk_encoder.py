import pytest

from regard.text import bulk_encoder
from regard.text.bulk_encoder import BulkEncoder
from regard.text.tokenizer import TokenizerConfig, train_tokenizer

TEXT = ["the green witch arrived", "la sorcière verte est arrivée", "the cat sees the witch", "le chat voit"] * 20
ODD = ["", " ", "naïve 日本語 🙂", " the  witch ", "a\u00a0b\tc", "<s> <0x41> ⁇ ▅", "witch" * 50, "a▁b", "▁ ▁▁witch"]


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "bpe"},
        {"kind": "bpe", "byte_fallback": False},
        {"kind": "bpe", "lossless": True},
        {"kind": "unigram"},
        {"kind": "char"},
        {"kind": "word"},
        {"kind": "bytes"},
    ],
    ids=str,
)
def test_texts_are_encoded_as_by_the_tokenizer(options: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_encoder, "_MAX_WORDS", 10)
    tokenizer = train_tokenizer(TEXT, TokenizerConfig.parse({"vocab_size": 320, **options}))
    encode = BulkEncoder(tokenizer)
    for texts in (TEXT, [*TEXT[:4], *ODD[:7]], TEXT[:1], ODD, ["", ""], TEXT):
        assert encode(texts).lists() == tokenizer.encode(texts)
    assert len(encode([]).lengths) == 0
