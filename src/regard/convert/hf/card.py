"""The model card of an exported folder, with the header that the Hugging Face Hub reads."""

import re
from typing import Any

import yaml

from regard.bundle import NO_LANGUAGES, Bundle
from regard.config import parse_yaml
from regard.convert.export_format import ExportOptions
from regard.convert.hf.shape import hf_class, is_encoder_decoder
from regard.convert.hf.tokenizer import first_source_id

_HEADER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)

_CODE = """```python
from transformers import {auto}, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("this-folder")
model = {auto}.from_pretrained("this-folder")
inputs = tokenizer([{text}], return_tensors="pt", padding=True)
outputs = model.generate(**inputs){cut}
print(tokenizer.batch_decode(outputs, skip_special_tokens=True))
```

"""

_TEXT_NOTE = """Without options, `generate` takes the most likely token each time; `do_sample=True, top_k=0` samples
from all tokens, as `regard generate` does. A text has at most {context} tokens, as in training.
"""

_BEAM_NOTE = """`generate` uses beam search with {beam} hypotheses; `num_beams=1` is greedy search, which gives the same
output as regard's. Beam search may differ: transformers divides the log-probability of a hypothesis Y by |Y|^{alpha},
regard by ((5 + |Y|) / 6)^{alpha}. Outputs end after `max_new_tokens` tokens; in regard the limit is twice the source
plus ten.
"""

_PROMPT_NOTE = """The model reads the source, `<sep>` and `<s>` (the tokenizer adds both) and continues with the target.
The last but one line of the code cuts off what it has read.
"""

_SEPARATE_NOTE = """Source and target have separate vocabularies, which are joined in this folder: tokens of the source
follow those of the target. The tokenizer encodes sources and decodes targets; it cannot encode targets for training.
"""


def model_card(bundle: Bundle, options: ExportOptions) -> str:
    """Return the content of README.md. Metrics and facts of the training come from the original's card."""
    facts = [line for line in bundle.card.splitlines() if line.startswith("|")]
    title = bundle.all_directions.title if bundle.task == "translate" else "Language model"
    header = yaml.safe_dump(_header(bundle, options), sort_keys=False, allow_unicode=True)
    training = "\n".join(["", "## Training", "", *facts, ""]) if facts else ""
    return f"""---
{header}---
# {title}

A model trained with regard, exported to transformers ({hf_class(bundle)}).

{usage(bundle)}{training}"""


def usage(bundle: Bundle) -> str:
    """Return how to use the exported model, as Markdown."""
    seq2seq, is_text = is_encoder_decoder(bundle), bundle.task == "text"
    code = _CODE.format(
        auto="AutoModelForSeq2SeqLM" if seq2seq else "AutoModelForCausalLM",
        text=repr(bundle.tagged_text([*bundle.examples, "The"][0])),
        cut="" if seq2seq or is_text else '[:, inputs["input_ids"].shape[1] :]',
    )
    if is_text:
        return code + _TEXT_NOTE.format(context=bundle.context)
    notes = _BEAM_NOTE.format(beam=bundle.decode.beam, alpha=bundle.decode.length_penalty)
    notes = notes if seq2seq else _PROMPT_NOTE + notes
    return code + notes + (_SEPARATE_NOTE if first_source_id(bundle.tokenizers) else "")


def _header(bundle: Bundle, options: ExportOptions) -> dict[str, Any]:
    """Return the fields that the Hub knows."""
    original, translates = _read_header(bundle.card), bundle.task == "translate"
    header = {
        "language": list(bundle.languages) if translates and bundle.languages != NO_LANGUAGES else None,
        "license": options.license or original.get("license"),
        "library_name": "transformers",
        "pipeline_tag": "translation" if translates else "text-generation",
        "tags": ["translation" if translates else "language-model", "regard"],
        "metrics": original.get("metrics"),
    }
    return {name: value for name, value in header.items() if value}


def _read_header(card: str) -> dict[str, Any]:
    """Return the YAML at the start of a card; empty if there is none."""
    match = _HEADER.match(card)
    try:
        header = parse_yaml(match[1], aliases=False) if match else {}
    except ValueError:
        header = {}
    return header if isinstance(header, dict) else {}
