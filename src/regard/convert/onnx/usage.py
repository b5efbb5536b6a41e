"""The part of an ONNX folder's README that shows how to run the model without regard."""

import json

from regard.bundle import Bundle
from regard.convert.onnx.max_positions import max_positions
from regard.models.encoder_decoder import EncoderDecoder
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import SentencePieceTokenizer

_CALLS = {
    True: """`encoder.onnx` reads the source tokens, ending in EOS, and returns what the decoder attends to: `source`.
`decoder.onnx` reads the next tokens of the output, the first of which is BOS, and `cache`: what it has kept of earlier
ones, nothing at first. It returns `logits` after each token and `new_cache`.""",
    False: """`decoder.onnx` reads the next tokens and `cache`: what it has kept of earlier ones, nothing at first. It
returns `logits` after each token and `new_cache`. The first token is BOS; a translator reads the source and SEP before.
All rows of a batch must have the same number of tokens.""",
}
"""By whether there is an encoder"""

_MORE = """
Names and shapes of all inputs, the ids of the special tokens and the most tokens that a graph can read
(`max_positions`) are in `config.json`. Texts are on one line, with single spaces."""

_TRANSLATE = """```python
import json
import numpy as np, onnxruntime, sentencepiece

config = json.load(open("config.json"))
bos, eos = config["special_ids"]["bos"], config["special_ids"]["eos"]
src = sentencepiece.SentencePieceProcessor(model_file="tokenizer/{src}")
tgt = sentencepiece.SentencePieceProcessor(model_file="tokenizer/{tgt}")
encoder = onnxruntime.InferenceSession("encoder.onnx")
decoder = onnxruntime.InferenceSession("decoder.onnx")


def translate(text, max_len={max_len}):
    ids = np.array([src.encode(text) + [eos]])
    inputs = {{"source_mask": np.ones_like(ids)}}
    inputs["source"] = encoder.run(["source"], {{"input_ids": ids, **inputs}})[0]
    n_layers, _, _, width = config["empty_cache"]
    cache, token, output = np.zeros((n_layers, 1, 0, width), np.float32), bos, []
    while len(output) < max_len:
        logits, cache = decoder.run(None, {{"input_ids": np.array([[token]]), "cache": cache, **inputs}})
        logits[..., config["never_generated"]] = -np.inf
        token = int(logits[0, -1].argmax())
        if token == eos:
            break
        output.append(token)
    return tgt.decode(output)


print(translate({example}))
```
"""

_CONTINUE = """```python
import json
import numpy as np, onnxruntime, sentencepiece

config = json.load(open("config.json"))
bos, eos = config["special_ids"]["bos"], config["special_ids"]["eos"]
tokenizer = sentencepiece.SentencePieceProcessor(model_file="tokenizer/{tgt}")
decoder = onnxruntime.InferenceSession("decoder.onnx")


def complete(text, max_len={max_len}):
    output = tokenizer.encode(text)
    n_layers, _, _, width = config["empty_cache"]
    cache, unread = np.zeros((n_layers, 1, 0, width), np.float32), [bos, *output]
    while len(output) < max_len:
        logits, cache = decoder.run(None, {{"input_ids": np.array([unread]), "cache": cache}})
        logits[..., config["never_generated"]] = -np.inf
        token = int(logits[0, -1].argmax())
        if token == eos:
            break
        output.append(token)
        unread = [token]
    return tokenizer.decode(output)


print(complete({example}))
```
"""


def usage(bundle: Bundle) -> str:
    """Return how to call the graphs, with a complete program where SentencePiece can read the tokenizer."""
    has_encoder = isinstance(bundle.model, EncoderDecoder)
    names = list(bundle.tokenizers.files())
    parts = [_CALLS[has_encoder] + _MORE]
    if isinstance(bundle.tokenizers.tgt, SentencePieceTokenizer) and (has_encoder or bundle.task == "text"):
        example = json.dumps(bundle.tagged_text([*bundle.examples, "a text"][0]), ensure_ascii=False)
        program, most = (_TRANSLATE, 200) if has_encoder else (_CONTINUE, 100)
        limit = max_positions(bundle)["decoder"]  # BOS takes one
        most = most if limit is None else min(most, limit - 1)
        parts += [
            "With `pip install onnxruntime sentencepiece`:",
            program.format(src=names[0], tgt=names[-1], example=example, max_len=most),
        ]
    elif isinstance(bundle.tokenizers.tgt, ListTokenizer):
        parts.append("`tokenizer/` has the list of symbols; the first has the id after those of the special tokens.\n")
    else:
        parts.append("`tokenizer/` has the tokenizer as regard reads it; `.spm` files are SentencePiece models.\n")
    return "\n\n".join(parts)
