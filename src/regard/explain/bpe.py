"""Byte-pair encoding: which merges were learnt, and how they put a word together (P9)."""

from functools import cache

from regard.data.builtin.grammar_corpus import generate_corpus, green_witch
from regard.errors import UserError
from regard.explain.explanation import Explanation, Step, listing, step
from regard.explain.model_input import ModelInput
from regard.text.bpe_dropout import BpeDropout
from regard.text.clean import clean
from regard.text.tokenizer import SentencePieceTokenizer, TokenizerConfig

_SENTENCES, _VOCABULARY = 300, 160
_FIRST = 10


def bpe() -> Explanation:
    tokenizer, text = _learnt()
    sentence = green_witch().src
    pieces = tokenizer.tokens(tokenizer.encode([sentence])[0])
    return Explanation(
        "Byte-pair encoding, learnt from the built-in sentences",
        (
            _merges(
                tokenizer,
                f"Learnt from {_SENTENCES} sentence pairs: the first merges, each of a pair that occurs often.",
                text,
            ),
            *_replayed(tokenizer, sentence.split()),
        ),
        f"“{sentence}” is {' '.join(pieces)}: frequent words are one piece, rare ones several.",
        (f"A vocabulary of {tokenizer.size} pieces leaves something to see; that of a model has thousands.",),
    )


def bpe_of_own(own: ModelInput) -> Explanation:
    tokenizer = own.pipeline.src_tokenizer
    own.input_ids  # noqa: B018  # a missing text is said first
    if not isinstance(tokenizer, SentencePieceTokenizer):
        raise UserError("the tokenizer of this model has no merges: it takes whole words, characters or bytes")
    words = clean(own.text or "").split()
    bpe_ = BpeDropout(tokenizer, p=0.0)
    if any(bpe_.segment(word, lambda: True) != _encoded(tokenizer, word) for word in words):
        raise UserError("the tokenizer of this model has no merges to replay; it is of the kind unigram")
    shown = list(dict.fromkeys(words))[:12]
    return Explanation(
        f"Byte-pair encoding by the model's tokenizer: {own.quoted_text}",
        (
            _merges(tokenizer, f"The first merges of {tokenizer.size:,} pieces."),
            *_replayed(tokenizer, shown),
        ),
        f"“{own.quoted_text}” is {' '.join(tokenizer.tokens(own.input_ids))}: "
        f"{len(words)} words, {len(own.input_ids)} pieces.",
        () if len(shown) == len(set(words)) else (f"{len(set(words)) - len(shown)} more words are not shown.",),
    )


@cache
def _learnt() -> tuple[SentencePieceTokenizer, str]:
    pairs = generate_corpus(_SENTENCES, 0, 1)["train"]
    texts = [side for pair in pairs for side in (pair.src, pair.tgt)]
    config = TokenizerConfig(kind="bpe", vocab_size=_VOCABULARY, byte_fallback=False)
    return SentencePieceTokenizer.train(texts, config), "".join(f" {text}" for text in texts)


def _merges(tokenizer: SentencePieceTokenizer, says: str, text: str | None = None) -> Step:
    """The first merges in the order of learning; with the text, how often each pair occurs in it"""
    learnt = [piece for piece in tokenizer.merge_scores() if _is_merge(piece)][:_FIRST]
    counts = (
        [(piece, text.count(piece.replace("▁", " "))) for piece in learnt] if text else [(piece,) for piece in learnt]
    )
    columns = ("piece", "occurs") if text else ("piece",)
    return step(says, None, listing("merge", columns, counts, [str(i) for i in range(1, len(learnt) + 1)]))


def _replayed(tokenizer: SentencePieceTokenizer, words: list[str]) -> list[Step]:
    steps, bpe_ = [], BpeDropout(tokenizer, p=0.0)
    for word in words:
        path = [" ".join(pieces) for pieces in bpe_.stages(word)]
        table = listing(
            f"{word}, merge by merge", ("pieces",), [(pieces,) for pieces in path], [str(i) for i in range(len(path))]
        )
        steps.append(step(f"“{word}”: from its characters, the merge that was learnt first comes first.", None, table))
    return steps


def _encoded(tokenizer: SentencePieceTokenizer, word: str) -> list[int]:
    """A word as it stands behind a space"""
    return tokenizer.encode([f" {word}" if tokenizer.lossless else word])[0]


def _is_merge(piece: str) -> bool:
    return len(piece) > 1 and not (piece.startswith("<0x") and piece.endswith(">"))
