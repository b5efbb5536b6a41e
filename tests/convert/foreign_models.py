"""Small models of other programs with random weights, in folders as those programs write them."""

import io
import json
import re
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
import yaml
from safetensors.torch import load_file, save_file

NOISE = 0.3
"""Standard deviation of what is added to the weights of small models; in wide ones, attention would be extreme"""
TEXTS = (
    "the green witch arrived at the house",
    "a small dog runs through the garden and sleeps",
    "did the old cat see the bird in the tree ?",
    "she walked home , slowly and happily",
    "translation is hard; nobody knows why it works",
)
TARGETS = (
    "la sorcière verte est arrivée à la maison",
    "un petit chien court dans le jardin et dort",
    "le vieux chat a-t-il vu l'oiseau dans l'arbre ?",
    "elle est rentrée à pied , lentement et heureuse",
    "traduire est difficile; personne ne sait pourquoi cela marche",
)


def shake(model: Any, noise: float, seed: int = 0) -> Any:
    """Change all weights and buffers of a model at random, biases and norms included."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.requires_grad or "embed_positions" not in name:  # sinusoids stay
                tensor.add_(noise * torch.randn(tensor.shape, generator=generator))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.add_(torch.randn(model.final_logits_bias.shape, generator=generator))
    return model.eval()


def sentencepiece_model(texts: tuple[str, ...], kind: str = "unigram") -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 20),
        model_writer=model,
        model_type=kind,
        vocab_size=80,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def pieces(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]


def vocabulary(*tokens: list[str], pad_first: bool = False) -> dict[str, int]:
    """A vocabulary as OPUS-MT has it: </s> first, <pad> last (or third, as separate vocabularies have it)"""
    ordinary = sorted({token for part in tokens for token in part})
    ordered = ["</s>", "<unk>", "<pad>", *ordinary] if pad_first else ["</s>", "<unk>", *ordinary, "<pad>"]
    return {token: i for i, token in enumerate(ordered)}


def write_marian(folder: Path, layout: str = "shared", noise: float = NOISE, **options: Any) -> Any:
    """Write a Marian model. Layouts: shared, separate (vocabularies), multilingual (with language tags)."""
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir()
    source, target = sentencepiece_model(TEXTS), sentencepiece_model(TARGETS)
    tags = [">>fra<<", ">>deu<<"] if layout == "multilingual" else []
    vocabularies = [vocabulary(pieces(source), pieces(target), tags)]
    if layout == "separate":
        vocabularies = [vocabulary(pieces(model), pad_first=True) for model in (source, target)]
    for name, content in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
        (folder / name).write_text(json.dumps(content))
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    settings = {"source_lang": "en", "target_lang": "fr", "separate_vocabs": layout == "separate"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    pad = vocabularies[-1]["<pad>"]
    defaults = {
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "max_position_embeddings": 64,
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "scale_embedding": True,
        "activation_function": "swish",
        "share_encoder_decoder_embeddings": layout != "separate",
    }
    sizes = {"vocab_size": len(vocabularies[0]), "decoder_vocab_size": len(vocabularies[-1])}
    config = MarianConfig(**{**sizes, **defaults, **options})
    model = shake(MarianMTModel(config), noise)
    model.generation_config.bad_words_ids = [[pad]]
    model.generation_config.num_beams = 4
    model.save_pretrained(folder)
    return model


STRANGE = (
    "It's THEY'LL  two   spaces\n\nlines\t tab 3 12345 3.14%",
    "café naïve Ω 日本語 😀 … —x_y",
    "ΟΔΟΣ ΣΑΣ x\u0378 a\u200bb",
    " leading and trailing ",
    "a<|im_start|>b <|im_start|> c",
    "",
)
"""Texts that show how a tokenizer splits them"""


def byte_level(pattern: str | None = None, digits: bool = False, nfc: bool = False) -> Any:
    """A tokenizer over bytes: GPT-2's, or with another pattern that of Llama 3 or Qwen 2"""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(ignore_merges=pattern is not None))
    steps = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if pattern:
        steps.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    tokenizer.pre_tokenizer = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(text, special=True) for text in ("<|endoftext|>", "<|im_start|>")]
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*TEXTS, *STRANGE], trainer)
    return tokenizer


def metaspace() -> Any:
    """A tokenizer as Llama 2 has it: BPE over characters, unknown ones as bytes"""
    from tokenizers import Tokenizer, decoders, models, normalizers, trainers

    words = [f"▁{word}" for text in TEXTS for word in text.split()]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(words, trainer)
    tree = json.loads(tokenizer.to_str())
    tree["added_tokens"] = tree["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(tree))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def write_gpt2(folder: Path, noise: float = NOISE, **options: Any) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    folder.mkdir()
    tokenizer = byte_level()
    tokenizer.save(str(folder / "tokenizer.json"))
    defaults = {
        "vocab_size": tokenizer.get_vocab_size() + 3,  # some rows without a token
        "n_positions": 64,
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 4,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    model = shake(GPT2LMHeadModel(GPT2Config(**{**defaults, **options})), noise)
    model.save_pretrained(folder)
    return model


def write_llama(
    folder: Path, tokenizer: Any, kind: str = "Llama", shards: bool = False, noise: float = NOISE, **options: Any
) -> Any:
    import transformers

    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = {"bos_token_id": tokenizer.token_to_id("<s>") or 0, "eos_token_id": tokenizer.token_to_id("</s>") or 0}
    defaults = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "vocab_size": tokenizer.get_vocab_size(),
    }
    config = getattr(transformers, f"{kind}Config")(**{**defaults, **ids, **options})
    model = shake(getattr(transformers, f"{kind}ForCausalLM")(config), noise)
    model.save_pretrained(folder, **({"max_shard_size": "20KB"} if shards else {}))
    return model


def write_bert(
    folder: Path,
    lowercase: bool = True,
    as_text: bool = False,
    old_names: bool = False,
    noise: float = NOISE,
    **options: Any,
) -> Any:
    """Write a BERT model; `as_text` with vocab.txt instead of tokenizer.json, `old_names` with gamma and beta."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertForMaskedLM

    folder.mkdir()
    tokenizer = BertWordPieceTokenizer(lowercase=lowercase)
    tokenizer.train_from_iterator([*TEXTS, *STRANGE], vocab_size=120, min_frequency=1, show_progress=False)
    if as_text:
        tokenizer.save_model(str(folder))
        (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lowercase}))
    else:
        tokenizer.save(str(folder / "tokenizer.json"))
    defaults = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": tokenizer.get_vocab_size(),
        "max_position_embeddings": 64,
    }
    model = BertForMaskedLM(BertConfig(**{**defaults, **options}))
    shake(model, noise).save_pretrained(folder)
    if old_names:
        path = folder / "model.safetensors"
        names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        tensors = load_file(path)
        save_file({reduce(lambda n, pair: n.replace(*pair), names.items(), k): v for k, v in tensors.items()}, path)
    return model, tokenizer


def write_marian_npz(folder: Path, layout: str = "shared") -> Any:
    """Write a model as Marian does; returns the same in transformers, whose padding token has no weights."""
    model = write_marian(folder, layout)
    names = {
        "self_attn.": "self_",
        "encoder_attn.": "context_",
        "self_attn_layer_norm.": "self_Wo_ln_",
        "encoder_attn_layer_norm.": "context_Wo_ln_",
        "final_layer_norm.": "ffn_ffn_ln_",
        "fc": "ffn_",
    }
    pad, arrays = model.config.pad_token_id, {}
    rows = [i for i in range(model.config.decoder_vocab_size) if i != pad]
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    with torch.no_grad():
        model.get_input_embeddings().weight[pad] = 0.0
        model.final_logits_bias[:, pad] = -1e9
    for name, tensor in model.model.named_parameters():
        side, _, rest = name.partition(".layers.")
        number, _, part = rest.partition(".")
        if not rest or "embed" in name:
            continue
        ours = next(new + part.removeprefix(old) for old, new in names.items() if part.startswith(old))
        kind = "W" if tensor.dim() == 2 else "b"
        for old, new in (("q", "q"), ("k", "k"), ("v", "v"), ("out", "o")):
            ours = re.sub(rf"{old}_proj\.(weight|bias)$", f"{kind}{new}", ours)
        ours = re.sub(r"ffn_(\d)\.\w+$", rf"ffn_{kind}\1", ours)
        ours = ours.replace("ln_weight", "ln_scale")
        array = tensor.detach().numpy()
        arrays[f"{side}_l{int(number) + 1}_{ours}"] = array.T if kind == "W" else array[None]
    arrays["Wemb"] = model.model.shared.weight.detach()[rows].numpy()
    arrays["decoder_ff_logit_out_b"] = model.final_logits_bias[:, rows].numpy()
    config = model.config
    options = {
        "type": "transformer",
        "dim-emb": config.d_model,
        "enc-depth": 2,
        "dec-depth": 1,
        "transformer-heads": 4,
        "transformer-dim-ffn": 24,
        "transformer-ffn-activation": "swish",
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "tied-embeddings-all": True,
        "transformer-decoder-autoreg": "self-attention",
    }
    arrays["special:model.yml"] = np.frombuffer(yaml.safe_dump(options).encode() + b"\0", dtype=np.int8)
    np.savez(folder / "model.npz", **arrays)
    ids = json.loads((folder / "vocab.json").read_text())
    lines = [f"{json.dumps(token, ensure_ascii=False)}: {i}\n" for token, i in ids.items() if i != pad]
    (folder / "opus.spm32k.vocab.yml").write_text("".join(lines), encoding="utf-8")
    for name in ("config.json", "model.safetensors", "vocab.json", "generation_config.json"):
        (folder / name).unlink()
    return model
