"""How an exported model is prompted and searches: the input's special tokens and generation_config.json."""

from collections.abc import Sequence

from transformers import GenerationConfig

from regard.bundle import Bundle
from regard.convert.hf.shape import is_encoder_decoder
from regard.convert.hf.suppressed import suppressed_ids
from regard.convert.hf.tokenizer import first_source_id
from regard.text.vocab import BOS, EOS, NEVER_GENERATED, PAD, SEP, SPECIALS

_NEW_TOKENS = 256
"""Longest output unless the bundle has a limit; there is no option for our limit, twice the source plus ten"""


def prompt_template(bundle: Bundle) -> str:
    """Return which special tokens surround the text "$A" that the model reads."""
    if bundle.task == "text":
        return f"{SPECIALS[BOS]} $A"
    return f"$A {SPECIALS[EOS]}" if is_encoder_decoder(bundle) else f"$A {SPECIALS[SEP]} {SPECIALS[BOS]}"


def prompt_ids(bundle: Bundle, source: Sequence[int], prefix: Sequence[int]) -> list[int]:
    """Return the ids that the model reads before it generates, as the exported tokenizer encodes them."""
    if bundle.task == "text":
        return [BOS, *prefix]
    first = first_source_id(bundle.tokenizers)
    return [*(first + i for i in source), first + EOS] if is_encoder_decoder(bundle) else [*source, SEP, BOS, *prefix]


def generation_config(bundle: Bundle, n_positions: int) -> GenerationConfig:
    """Return the bundle's search options in their form."""
    decode, seq2seq = bundle.decode, is_encoder_decoder(bundle)
    room = n_positions if seq2seq else n_positions // 2  # the prompt takes positions of a decoder-only model
    beam = 1 if bundle.task == "text" else decode.beam
    config = GenerationConfig(
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
        suppress_tokens=sorted({*NEVER_GENERATED, *suppressed_ids(bundle)}),
        max_new_tokens=min(room, (decode.max_len or _NEW_TOKENS) + 1),  # EOS counts
        num_beams=beam,
        do_sample=False,
    )
    if beam > 1:
        config.length_penalty = decode.length_penalty
    if seq2seq:
        config.decoder_start_token_id = BOS
        config.forced_eos_token_id = EOS
    # A translation of our Translator is never empty.
    if min_len := max(decode.min_len, 0 if bundle.task == "text" else 1):
        config.min_new_tokens = min_len
    if decode.no_repeat_ngram and (seq2seq or bundle.task == "text"):  # theirs would count the source
        config.no_repeat_ngram_size = decode.no_repeat_ngram
    return config
