"""The part of a CTranslate2 folder's README that says what is in it and how to use it."""

import json

from regard.bundle import Bundle
from regard.models.decoder_only import DecoderOnly
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import ByteTokenizer, SentencePieceTokenizer, Tokenizer

_TRANSLATE = """```python
import ctranslate2
import sentencepiece

source = sentencepiece.SentencePieceProcessor(model_file="tokenizer/{src}")
target = sentencepiece.SentencePieceProcessor(model_file="tokenizer/{tgt}")
translator = ctranslate2.Translator(".", device="cpu")
tokens = source.encode({example}, out_type=str)
[result] = translator.translate_batch([tokens], beam_size={beam})
print(target.decode(result.hypotheses[0]))
```
"""

_GENERATE = """```python
import ctranslate2
import sentencepiece

tokenizer = sentencepiece.SentencePieceProcessor(model_file="tokenizer/{tgt}")
generator = ctranslate2.Generator(".", device="cpu")
tokens = {prompt}
[result] = generator.generate_batch([tokens], max_length=100, include_prompt_in_result=False)
print(tokenizer.decode(result.sequences_ids[0]))
```
"""

_ENCODE = "tokenizer.encode({example}, out_type=str)"


def usage(bundle: Bundle) -> str:
    """Return the files, the vocabulary, the alignment and a program."""
    return "\n\n".join([_program(bundle), _vocabulary(bundle), *_alignment(bundle)])


def _program(bundle: Bundle) -> str:
    if not all(isinstance(t, SentencePieceTokenizer) for t in (bundle.tokenizers.src, bundle.tokenizers.tgt)):
        return "Run it with `pip install ctranslate2`. It reads tokens, which are described below."
    names = list(bundle.tokenizers.files())
    example = json.dumps(bundle.tagged_text([*bundle.examples, "a text"][0]), ensure_ascii=False)
    prompt = _ENCODE.format(example=example)
    if bundle.task == "text":
        program = _GENERATE.format(tgt=names[-1], prompt=f'["<s>", *{prompt}]')
    elif isinstance(bundle.model, DecoderOnly):
        program = _GENERATE.format(tgt=names[-1], prompt=f'[*{prompt}, "<sep>", "<s>"]')
    else:
        program = _TRANSLATE.format(src=names[0], tgt=names[-1], example=example, beam=bundle.decode.beam)
    return (
        f"With `pip install ctranslate2 sentencepiece`, in this folder:\n\n{program}\n"
        "regard itself also cleans texts, and fits case and punctuation to those of the training data; this program "
        "does not."
    )


def _vocabulary(bundle: Bundle) -> str:
    sides = {"shared": bundle.tokenizers.src}
    if not bundle.tokenizers.joint:
        sides = {"source": bundle.tokenizers.src, "target": bundle.tokenizers.tgt}
    if isinstance(bundle.model, DecoderOnly):
        lists = ["`vocabulary.json`"]
    else:
        lists = [f"`{side}_vocabulary.json`" for side in sides]
    kinds = [f"{side}: {_tokens(tokenizer)}" for side, tokenizer in sides.items()]
    return (
        f"**Vocabulary.** {' and '.join(lists)}: the place of a token in the list, counted from 0, is its id in regard "
        "too. Special tokens come first: 0 `<pad>`, 1 `<unk>`, 2 `<s>`, 3 `</s>`, 4 `<sep>`, 5 `<mask>`. `<pad>`, "
        "`<s>`, `<sep>` and `<mask>` are never generated: their logits have a bias of −10,000. How texts are "
        f"split into tokens: {'; '.join(kinds)}. `tokenizer/` holds regard's own files."
    )


def _tokens(tokenizer: Tokenizer) -> str:
    match tokenizer:
        case SentencePieceTokenizer():
            return "pieces of the SentencePiece model"
        case ByteTokenizer():
            return "bytes of UTF-8, those that are not printable ASCII written as `<0xE9>`"
        case ListTokenizer(kind="word"):
            return "words between spaces, each with `▁` before it"
        case ListTokenizer():
            return "characters"
    return "as regard's own tokenizer does"


def _alignment(bundle: Bundle) -> list[str]:
    """Return what `return_attention` gives; a decoder-only model gives none."""
    if isinstance(bundle.model, DecoderOnly):
        return []
    layer, head = bundle.alignment.layer, bundle.alignment.head
    if layer is None:
        return [
            "**Alignment.** With `return_attention=True` the weights are those of the last layer, "
            f"{'the mean of all heads' if head is None else f'head {head}'}. regard takes the mean of all layers, "
            "which CTranslate2 cannot; `regard align --choose` finds the best layer and head."
        ]
    which = "the mean of all heads" if head is None else f"head {head}"
    return [
        f"**Alignment.** With `return_attention=True` the weights are those that regard aligns with: layer {layer}, "
        f"{which}, counted from 0."
    ]
