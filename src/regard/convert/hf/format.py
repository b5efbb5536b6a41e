"""Export to Hugging Face: a folder that AutoTokenizer and AutoModelForSeq2SeqLM or AutoModelForCausalLM load."""

from pathlib import Path
from typing import ClassVar

import torch
from safetensors.torch import save

from regard.bundle import Bundle
from regard.convert.export_format import ExportOptions, Quantization
from regard.convert.hf.card import model_card, usage
from regard.convert.hf.causal import causal_config, causal_tensors
from regard.convert.hf.generation import generation_config, prompt_template
from regard.convert.hf.model import TransformersModel
from regard.convert.hf.seq2seq import seq2seq_config, seq2seq_tensors
from regard.convert.hf.shape import is_encoder_decoder, shape_problem
from regard.convert.hf.tokenizer import tokenizer_problem, write_tokenizer

_DTYPES: dict[Quantization, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


class HfFormat:
    """Hugging Face transformers."""

    name: ClassVar[str] = "hf"
    title: ClassVar[str] = "Hugging Face transformers"
    is_file: ClassVar[bool] = False
    quantizations: ClassVar[tuple[Quantization, ...]] = tuple(_DTYPES)
    has_shortlist: ClassVar[bool] = False

    def problem(self, bundle: Bundle, options: ExportOptions) -> str | None:
        return shape_problem(bundle) or tokenizer_problem(bundle.tokenizers)

    def write(self, bundle: Bundle, folder: Path, options: ExportOptions) -> None:
        seq2seq = is_encoder_decoder(bundle)
        config = seq2seq_config(bundle) if seq2seq else causal_config(bundle)
        tensors = seq2seq_tensors(bundle) if seq2seq else causal_tensors(bundle)
        quantization = options.quantization or self.quantizations[0]
        config.dtype, dtype = quantization, _DTYPES[quantization]
        n_positions = config.max_position_embeddings
        n_positions = min(n_positions, bundle.context) if bundle.task == "text" else n_positions
        config.save_pretrained(folder)
        generation_config(bundle, n_positions).save_pretrained(folder)
        # A copy each, because safetensors stores no tensor that shares memory with another.
        copies = {name: tensor.detach().to("cpu", dtype, copy=True).contiguous() for name, tensor in tensors.items()}
        (folder / "model.safetensors").write_bytes(save(copies, metadata={"format": "pt"}))
        write_tokenizer(
            bundle.tokenizers,
            prompt_template(bundle),
            folder,
            cleaned=bundle.task != "text",
            max_len=n_positions,
            pad_left=not seq2seq,
        )
        bundle.tokenizers.save(folder / "tokenizer")  # for regard import
        (folder / "README.md").write_text(model_card(bundle, options), encoding="utf-8")

    def open(self, folder: Path, bundle: Bundle) -> TransformersModel:
        return TransformersModel(folder, bundle)

    def usage(self, bundle: Bundle) -> str:
        return usage(bundle)
