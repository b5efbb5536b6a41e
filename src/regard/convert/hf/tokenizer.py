"""The tokenizer of a model as files that `AutoTokenizer` of transformers loads."""

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, normalizers, processors
from tokenizers import Tokenizer as HfTokenizer

from regard.convert.hf.marian_tokenizer import is_marian, write_marian_tokenizer
from regard.convert.hf.tokenizer_forms import UNKNOWN, TokenizerForm, clean_steps, form_of
from regard.convert.normalisation import changes_characters
from regard.text.clean import has_surrogate
from regard.text.tokenizer import Tokenizer, TokenizerPair
from regard.text.vocab import EOS, SPECIALS, UNK

_TARGET = "\ufdd0"
"""First character of the target's tokens where the vocabularies are separate; it occurs in no text"""
_NAMES = ("pad_token", "unk_token", "bos_token", "eos_token", "sep_token", "mask_token")
"""What transformers calls the special tokens"""


def first_source_id(tokenizers: TokenizerPair) -> int:
    """Return the id of the source's first token. Tokens of a separate source vocabulary follow those of the target.

    Only MarianTokenizer of transformers can hold two vocabularies.
    """
    return 0 if tokenizers.joint or is_marian(tokenizers) else tokenizers.tgt.size


def tokenizer_problem(tokenizers: TokenizerPair) -> str | None:
    """Return why the tokenizers cannot be written, or None."""
    if is_marian(tokenizers):
        return None
    for tokenizer in (tokenizers.src, tokenizers.tgt):
        if form_of(tokenizer) is None:
            return f"the tokenizers library of transformers has no form of its tokenizer ({type(tokenizer).__name__})"
        if changes_characters(tokenizer):
            return "the tokenizers library of transformers lacks the normalisation of its SentencePiece model"
    own, others = _tokens(tokenizers)
    seen: set[str] = set()
    for token in (*others, *own):
        if token in seen or has_surrogate(token):
            return f"the token {token!r:.40} of its vocabulary is not a distinct text of Unicode characters"
        seen.add(token)
    return None


def write_tokenizer(
    tokenizers: TokenizerPair, template: str, folder: Path, *, cleaned: bool, max_len: int, pad_left: bool
) -> None:
    """Write tokenizer.json and tokenizer_config.json, or the files of an imported Marian tokenizer.

    `template` says which special tokens surround the text "$A"; `cleaned`: whether the text is cleaned first.
    """
    if is_marian(tokenizers):
        write_marian_tokenizer(tokenizers, folder, max_len)
        return
    make_tokenizer(tokenizers, template, cleaned).save(str(folder / "tokenizer.json"))
    hidden = _hidden(_form(tokenizers.tgt))
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{name: token for name, token in zip(_NAMES, SPECIALS, strict=True) if token in hidden},
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # a text that contains "</s>" contains these characters, not the end
        "padding_side": "left" if pad_left else "right",
        "model_max_length": max_len,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def make_tokenizer(tokenizers: TokenizerPair, template: str, cleaned: bool) -> HfTokenizer:
    """Return the tokenizer of the `tokenizers` library that encodes sources and decodes targets."""
    src, tgt = _form(tokenizers.src), _form(tokenizers.tgt)
    own, others = _tokens(tokenizers)
    made = HfTokenizer(src.model(own, others))
    separate = [normalizers.Replace(_TARGET, UNKNOWN)] if others else []
    cleaning = clean_steps() if cleaned else []
    made.normalizer = normalizers.Sequence([*separate, *cleaning, *src.normalizers(own, cleaned)])
    if split := src.pre_tokenizer(own):
        made.pre_tokenizer = split
    made.decoder = decoders.Sequence([*([decoders.Replace(_TARGET, "")] if others else []), *tgt.decoders()])
    special = [*_hidden(tgt), *(own[: len(SPECIALS)] if others else [])]
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    made.add_tokens(src.added(cleaned))
    template = template.replace(SPECIALS[EOS], own[EOS])
    ids = {token: made.token_to_id(token) for token in template.split() if token != "$A"}
    made.post_processor = processors.TemplateProcessing(single=template, special_tokens=list(ids.items()))
    return made


def _tokens(tokenizers: TokenizerPair) -> tuple[list[str], list[str]]:
    """Return the tokens of the source and, if the vocabularies are separate, those of the target, renamed."""
    own = _form(tokenizers.src).tokens
    if tokenizers.joint:
        return own, []
    n = len(SPECIALS)
    source = [f"<source-{token.strip('<>')}>" for token in SPECIALS]
    return [*source, *own[n:]], [*SPECIALS, *(_TARGET + token for token in _form(tokenizers.tgt).tokens[n:])]


def _form(tokenizer: Tokenizer) -> TokenizerForm:
    form = form_of(tokenizer)
    assert form is not None
    return form


def _hidden(form: TokenizerForm) -> list[str]:
    """Return the special tokens that are left out when text is decoded."""
    return [token for i, token in enumerate(SPECIALS) if i != UNK or not form.shows_unknown]
