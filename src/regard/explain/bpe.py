"""Byte-pair encoding: the merges that were learned, and how they build up a word (P9)."""

from functools import cache

from regard.data.builtin.grammar_corpus import generate_corpus, green_witch
from regard.errors import UserError
from regard.explain.explanation import Explanation, Step, step, table
from regard.explain.model_input import ModelInput
from regard.text.bpe_segmenter import BpeSegmenter
from regard.text.clean import clean
from regard.text.tokenizer import SentencePieceTokenizer, TokenizerConfig

_N_SENTENCES, _VOCAB_SIZE = 300, 160
_N_MERGES_SHOWN = 10
_MAX_WORDS_SHOWN = 12


def explain_bpe() -> Explanation:
    tokenizer, text = _train_tokenizer()
    sentence = green_witch().src
    pieces = tokenizer.tokens(tokenizer.encode([sentence])[0])
    return Explanation(
        "Byte-pair encoding, learned from the built-in sentences",
        (
            _merge_step(
                tokenizer,
                f"The first merges that were learned from {_N_SENTENCES} sentence pairs; each joins a frequent pair.",
                text,
            ),
            *_word_steps(tokenizer, sentence.split()),
        ),
        f"“{sentence}” becomes {' '.join(pieces)}: frequent words are one piece, rare ones several.",
        (f"This vocabulary has only {tokenizer.size} pieces, so that merges can be seen; a model's has thousands.",),
    )


def explain_bpe_on_model(model_input: ModelInput) -> Explanation:
    ids, tokenizer = model_input.input_ids, model_input.pipeline.src_tokenizer
    if not isinstance(tokenizer, SentencePieceTokenizer):
        raise UserError("the tokenizer of this model is not BPE of SentencePiece, whose merges this topic shows")
    words = clean(model_input.text or "").split()
    segmenter = BpeSegmenter(tokenizer)
    if any(segmenter.segment(word) != _encode_word(tokenizer, word) for word in words):
        raise UserError("the tokenizer of this model has no merges: it is of kind unigram")
    shown = list(dict.fromkeys(words))[:_MAX_WORDS_SHOWN]
    n_hidden = len(set(words)) - len(shown)
    return Explanation(
        f"Byte-pair encoding by the model's tokenizer: {model_input.short_text}",
        (
            _merge_step(tokenizer, f"The first merges; the vocabulary has {tokenizer.size:,} pieces."),
            *_word_steps(tokenizer, shown),
        ),
        f"“{model_input.short_text}” becomes {' '.join(tokenizer.tokens(ids))}: {len(words)} words, {len(ids)} pieces.",
        (f"{n_hidden} more words are not shown.",) if n_hidden else (),
    )


@cache
def _train_tokenizer() -> tuple[SentencePieceTokenizer, str]:
    """Train a small tokenizer; return it and its training text."""
    pairs = generate_corpus(_N_SENTENCES, 0, 1)["train"]
    texts = [side for pair in pairs for side in (pair.src, pair.tgt)]
    config = TokenizerConfig(kind="bpe", vocab_size=_VOCAB_SIZE, byte_fallback=False)
    return SentencePieceTokenizer.train(texts, config), "".join(f" {text}" for text in texts)


def _merge_step(tokenizer: SentencePieceTokenizer, description: str, text: str | None = None) -> Step:
    """Show the first merges in the order in which they were learned; with `text`, how often each piece occurs in it."""
    merged = [piece for piece in tokenizer.piece_scores() if _is_merged(piece)][:_N_MERGES_SHOWN]
    numbers = [str(i) for i in range(1, len(merged) + 1)]
    if text is None:
        return step(description, table("merge", ("piece",), [(piece,) for piece in merged], numbers))
    counts = [(piece, text.count(piece.replace("▁", " "))) for piece in merged]
    return step(description, table("merge", ("piece", "occurs"), counts, numbers))


def _word_steps(tokenizer: SentencePieceTokenizer, words: list[str]) -> list[Step]:
    """Show for each word its pieces after each merge."""
    steps, segmenter = [], BpeSegmenter(tokenizer)
    for word in words:
        stages = [" ".join(pieces) for pieces in segmenter.stages(word)]
        numbers = [str(i) for i in range(len(stages))]
        cells = table(f"{word}, merge by merge", ("pieces",), [(pieces,) for pieces in stages], numbers)
        text = f"“{word}”: starting from characters, the merges are applied in the order in which they were learned."
        steps.append(step(text, cells))
    return steps


def _encode_word(tokenizer: SentencePieceTokenizer, word: str) -> list[int]:
    """Return the ids of a word after a space."""
    return tokenizer.encode([f" {word}" if tokenizer.lossless else word])[0]


def _is_merged(piece: str) -> bool:
    """Whether a piece was merged from others, and is neither a character nor a byte"""
    return len(piece) > 1 and not (piece.startswith("<0x") and piece.endswith(">"))
