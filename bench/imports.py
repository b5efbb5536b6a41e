"""Compare imported models with transformers at their real sizes: largest difference of a logit, greedy output, time.

The weights are random, with the initialisation of transformers and a little noise: python bench/imports.py
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.convert import foreign_models as foreign

from regard.bundle import Bundle
from regard.convert.id_map import IdMap
from regard.convert.import_model import import_model, read_model
from regard.convert.imports.model_folder import ModelFolder
from regard.data.batch import Batch, forced_batch
from regard.search.decode import DecodeConfig, decode
from regard.text.vocab import BOS, EOS, MASK

NOISE = 0.01
_TOKENS = 20  # that greedy search generates
_OPUS = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048}
_HEADS = {"encoder_attention_heads": 8, "decoder_attention_heads": 8, "max_position_embeddings": 512}
_SMOLLM = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9}
_BERT = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}

WRITERS: dict[str, Callable[[Path], Any]] = {
    "OPUS-MT": lambda folder: foreign.write_marian(folder, noise=NOISE, vocab_size=58_101, **_OPUS, **_HEADS),
    "GPT-2": lambda folder: foreign.write_gpt2(
        folder, NOISE, vocab_size=50_257, n_positions=1024, n_embd=768, n_layer=12, n_head=12
    ),
    "SmolLM-135M": lambda folder: foreign.write_llama(
        folder,
        foreign.byte_level(digits=True),
        noise=NOISE,
        **_SMOLLM,
        num_key_value_heads=3,
        vocab_size=49_152,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
    ),
    "BERT": lambda folder: foreign.write_bert(
        folder, noise=NOISE, vocab_size=30_522, max_position_embeddings=512, **_BERT
    )[0],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help=f"some of {', '.join(WRITERS)}; default: all")
    for name in parser.parse_args().models or WRITERS:
        with tempfile.TemporaryDirectory() as folder:
            print(compare(name, Path(folder)), flush=True)


def compare(name: str, folder: Path) -> str:
    """Return a line of the table."""
    torch.manual_seed(0)
    theirs = WRITERS[name](folder / "theirs")
    start = time.perf_counter()
    result = import_model(folder / "theirs", folder / "ours")
    seconds = time.perf_counter() - start
    bundle = Bundle.load(folder / "ours")
    weights: Any = read_model(ModelFolder(folder / "theirs")).weights
    id_map = weights.maps[-1] if hasattr(weights, "maps") else weights.id_map
    measure = {"translate": _translator, "text": _language_model, "masked": _encoder}[bundle.task]
    pairs = [measure(bundle, theirs, id_map, i) for i in range(len(foreign.TEXTS))]
    largest = max(difference for difference, _ in pairs)
    same = [equal for _, equal in pairs if equal is not None]
    greedy = f"greedy output equal {sum(same)} of {len(same)}" if same else "no greedy search"
    return f"{name:12} {result.n_weights:12,} weights  |Δ logit| ≤ {largest:.1e}  {greedy}  imported in {seconds:.1f} s"


@torch.no_grad()
def _translator(bundle: Bundle, theirs: Any, id_map: IdMap, i: int) -> tuple[float, bool | None]:
    [source] = bundle.tokenizers.src.encode([foreign.TEXTS[i]])
    [target] = bundle.tokenizers.tgt.encode([foreign.TARGETS[i]])
    inputs = torch.tensor([[id_map.inputs[token] for token in (*source, EOS)]])
    decoder_inputs = torch.tensor([[id_map.inputs[token] for token in (BOS, *target)]])
    logits = theirs(inputs, decoder_input_ids=decoder_inputs).logits[0]
    generated = theirs.generate(inputs, num_beams=1, max_new_tokens=_TOKENS + 1)[0, 1:].tolist()
    equal = _greedy(bundle, id_map, source, []) == [token for token in generated if token != id_map.inputs[EOS]]
    return _largest(bundle.model(forced_batch([source], [target]))[0], logits, id_map), equal


@torch.no_grad()
def _language_model(bundle: Bundle, theirs: Any, id_map: IdMap, i: int) -> tuple[float, bool | None]:
    [ids] = bundle.tokenizers.src.encode([foreign.TEXTS[i]])
    prompt = torch.tensor([[id_map.inputs[token] for token in (BOS, *ids)]])
    generated = theirs.generate(prompt, do_sample=False, max_new_tokens=_TOKENS, pad_token_id=0)[0, 1:].tolist()
    equal = _greedy(bundle, id_map, [], ids) == [token for token in generated if token != id_map.inputs[EOS]]
    return _largest(bundle.model(forced_batch(None, [ids]))[0], theirs(prompt).logits[0], id_map), equal


@torch.no_grad()
def _encoder(bundle: Bundle, theirs: Any, id_map: IdMap, i: int) -> tuple[float, bool | None]:
    [ids] = bundle.tokenizers.src.encode([foreign.TEXTS[i]])
    masked = torch.tensor([[*ids[:2], MASK, *ids[3:], EOS]])
    logits = theirs(torch.tensor([[id_map.inputs[token] for token in masked[0].tolist()]])).logits[0]
    return _largest(bundle.model(Batch(masked, masked[:, :0], masked))[0], logits, id_map), None


def _greedy(bundle: Bundle, id_map: IdMap, source: list[int], prefix: list[int]) -> list[int]:
    """Our greedy output as their ids"""
    config = DecodeConfig(beam=1, max_len=len(prefix) + _TOKENS, precision="fp32")
    model: Any = bundle.model
    [[hypothesis]] = decode(model, forced_batch([source] if source else None, [[]]), config, [prefix])
    return [id_map.inputs[token] for token in hypothesis.ids]


def _largest(ours: torch.Tensor, theirs: torch.Tensor, id_map: IdMap) -> float:
    known = [i for i, their_id in enumerate(id_map.outputs) if their_id >= 0]
    return float((ours[:, known] - theirs[:, [id_map.outputs[i] for i in known]]).abs().max())


if __name__ == "__main__":
    main()
