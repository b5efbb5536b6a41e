"""Imported models: the same logits and greedy output as in transformers, and all that our own models can do."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

import regard
from regard.bundle import Bundle
from regard.convert.export_format import ExportOptions
from regard.convert.hf.format import HfFormat
from regard.convert.id_map import IdMap
from regard.convert.import_model import import_model, read_model
from regard.convert.imports.model_folder import ModelFolder
from regard.data.batch import Batch, forced_batch
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnly
from regard.pipelines.load import load_translator
from regard.search.decode import DecodeConfig, decode
from regard.text.clean import clean
from regard.text.pretokenizers import KNOWN_PATTERNS
from regard.text.vocab import BOS, EOS, MASK
from tests.convert.foreign_models import (
    STRANGE,
    TARGETS,
    TEXTS,
    byte_level,
    metaspace,
    write_bert,
    write_gpt2,
    write_llama,
    write_marian,
    write_marian_npz,
)
from tests.convert.shapes import SHAPES, bundle_of
from tests.serve.conftest import make_client

LLAMA_3, QWEN_2 = (next(p for p, name in KNOWN_PATTERNS.items() if name == wanted) for wanted in ("llama-3", "qwen-2"))
OPTIONS = ExportOptions()
MARIAN_LAYOUTS = ("shared", "separate", "multilingual")


@dataclass(frozen=True)
class Pair:
    """A model of transformers, and the same in regard."""

    theirs: Any
    folder: Path
    out: Path

    @property
    def bundle(self) -> Bundle:
        return Bundle.load(self.out)

    @property
    def id_map(self) -> IdMap:
        """The map of the ids of the output"""
        weights: Any = read_model(ModelFolder(self.folder)).weights
        return weights.maps[-1] if hasattr(weights, "maps") else weights.id_map


WRITERS: dict[str, Callable[[Path], Any]] = {
    **{f"marian {layout}": (lambda folder, layout=layout: write_marian(folder, layout)) for layout in MARIAN_LAYOUTS},
    "marian unequal": lambda folder: write_marian(
        folder, tie_word_embeddings=False, decoder_ffn_dim=40, scale_embedding=False, activation_function="gelu"
    ),
    "npz": write_marian_npz,
    "gpt-2": write_gpt2,
    "llama 2": lambda folder: write_llama(folder, metaspace(), tie_word_embeddings=False, rms_norm_eps=1e-3),
    "llama 3": lambda folder: write_llama(
        folder,
        byte_level(LLAMA_3),
        shards=True,
        tie_word_embeddings=True,
        head_dim=6,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    ),
    "smollm": lambda folder: write_llama(folder, byte_level(digits=True), tie_word_embeddings=True),
    "qwen 2": lambda folder: write_llama(folder, byte_level(QWEN_2, nfc=True), "Qwen2", use_sliding_window=False),
    "bert": lambda folder: write_bert(folder),
    "bert cased": lambda folder: write_bert(folder, lowercase=False, as_text=True, old_names=True),
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    """Return the pair of a kind, made on first use."""
    made: dict[str, Pair] = {}

    def get(kind: str) -> Pair:
        if kind not in made:
            root = tmp_path_factory.mktemp("imported")
            theirs = WRITERS[kind](root / "theirs")
            import_model(root / "theirs", root / "ours")
            made[kind] = Pair(theirs, root / "theirs", root / "ours")
        return made[kind]

    return get


@torch.no_grad()
def greedy(bundle: Bundle, source: list[int] | None, prefix: list[int], n: int) -> list[int]:
    """Our greedy output of at most n tokens, without EOS"""
    config = DecodeConfig(beam=1, max_len=len(prefix) + n, precision="fp32")
    [[hypothesis]] = decode(bundle.model, forced_batch([source] if source else None, [[]]), config, [prefix])
    return list(hypothesis.ids)


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind.startswith("marian")])
def test_a_marian_model_computes_the_same(kind: str, imported: Callable[[str], Pair]) -> None:
    from transformers import MarianTokenizer

    pair = imported(kind)
    bundle, config = pair.bundle, pair.theirs.config
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers recommends sacremoses
        tokenizer = MarianTokenizer.from_pretrained(pair.folder)
    tag = ">>deu<< " if "multilingual" in kind else ""
    sources = [tag + text for text in TEXTS]
    theirs = tokenizer(sources, padding=True, return_tensors="pt")
    ours = bundle.tokenizers.src.encode(sources)
    targets = bundle.tokenizers.tgt.encode(TARGETS)
    their_targets = tokenizer(text_target=list(TARGETS)).input_ids
    id_map = pair.id_map
    assert [[id_map.outputs[i] for i in ids] for ids in targets] == [ids[:-1] for ids in their_targets]
    for i, (source, target, row) in enumerate(zip(ours, targets, their_targets, strict=True)):
        decoder_ids = torch.tensor([[config.decoder_start_token_id, *row[:-1]]])
        inputs = {name: tensor[i : i + 1] for name, tensor in theirs.items()}
        with torch.no_grad():
            logits = pair.theirs(**inputs, decoder_input_ids=decoder_ids).logits[0]
            check_logits(bundle.model(forced_batch([source], [target]))[0], logits, id_map)
        generated = pair.theirs.generate(**inputs, num_beams=1, do_sample=False, max_new_tokens=15)[0, 1:].tolist()
        assert [id_map.outputs[i] for i in greedy(bundle, source, [], 14)] == [i for i in generated if i != 0]


def test_a_marian_model_with_tags_has_several_target_languages(imported: Callable[[str], Pair]) -> None:
    kind = next(kind for kind in WRITERS if "multilingual" in kind)
    translator = load_translator(imported(kind).out, device="cpu")
    assert sorted(translator.directions.targets) == ["de", "fr"]
    text = f"{TEXTS[0]}. {TEXTS[1]}."
    [by_option] = translator.translate([text], to="de", split=True, attention=True)
    [by_tag] = translator.translate([f">>deu<< {text}"], split=True, attention=True)
    assert by_option.text == by_tag.text and by_option.alignment == by_tag.alignment and len(by_tag.sentences) == 2
    with pytest.raises(UserError, match="translates to de, fr"):
        translator.translate([text])
    others = (imported(other).out for other in WRITERS if other.startswith("marian") and other != kind)
    assert not any(Bundle.load(folder).directions for folder in others)


@pytest.mark.parametrize("kind", ["gpt-2", "llama 2", "llama 3", "smollm", "qwen 2"])
def test_a_language_model_computes_the_same(kind: str, imported: Callable[[str], Pair]) -> None:
    pair = imported(kind)
    bundle, config, id_map = pair.bundle, pair.theirs.config, pair.id_map
    theirs, ours = Tokenizer.from_file(str(pair.folder / "tokenizer.json")), bundle.tokenizers.src
    for text in (*TEXTS, *STRANGE):
        [ids] = ours.encode([text])
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert [id_map.inputs[i] for i in ids] == expected, text
        assert ours.decode(ids) == theirs.decode(expected, skip_special_tokens=False), text
    never = [config.bos_token_id] if config.bos_token_id != config.eos_token_id else None
    for ids in ours.encode(TEXTS):
        prompt = torch.tensor([[id_map.inputs[i] for i in (BOS, *ids)]])
        with torch.no_grad():
            check_logits(bundle.model(forced_batch(None, [ids]))[0], pair.theirs(prompt).logits[0], id_map)
        options = {"max_new_tokens": 15, "do_sample": False, "suppress_tokens": never, "pad_token_id": 0}
        generated = pair.theirs.generate(prompt, **options)[0, 1:].tolist()
        expected = generated[:-1] if generated[-1] == config.eos_token_id else generated
        assert [id_map.inputs[i] for i in greedy(bundle, None, ids, 15)] == expected


def test_a_file_of_marian_itself_computes_the_same(imported: Callable[[str], Pair]) -> None:
    pair = imported("npz")
    bundle, id_map, pad = pair.bundle, pair.id_map, pair.theirs.config.pad_token_id
    for text, target in zip(TEXTS, TARGETS, strict=True):
        [source], [forced] = bundle.tokenizers.src.encode([text]), bundle.tokenizers.tgt.encode([target])
        inputs = torch.tensor([[*(id_map.inputs[i] for i in source), 0]])
        with torch.no_grad():
            start = torch.tensor([[pad, *(id_map.inputs[i] for i in forced)]])
            logits = pair.theirs(inputs, decoder_input_ids=start).logits[0]
            check_logits(bundle.model(forced_batch([source], [forced]))[0], logits[:, [*range(pad)]], id_map)
        generated = pair.theirs.generate(inputs, num_beams=1, do_sample=False, max_new_tokens=15)[0, 1:].tolist()
        assert [id_map.outputs[i] for i in greedy(bundle, source, [], 14)] == [i for i in generated if i != 0]


@pytest.mark.parametrize("kind", ["bert", "bert cased"])
def test_a_bert_model_computes_the_same(kind: str, imported: Callable[[str], Pair]) -> None:
    pair = imported(kind)
    bundle, id_map, (model, tokenizer) = pair.bundle, pair.id_map, pair.theirs
    start = tokenizer.token_to_id("[CLS]")
    for text in (*TEXTS, *STRANGE, "Ærø ÉTÉ x" + 120 * "y"):
        [ids] = bundle.tokenizers.src.encode([clean(text)])
        expected = tokenizer.encode(clean(text)).ids
        assert [id_map.inputs[i] for i in ids] == ([start, *expected] if expected else []), text
        if len(ids) < 3:
            continue
        masked = [*ids[:2], MASK, *ids[3:], EOS]
        with torch.no_grad():
            theirs = model(torch.tensor([[id_map.inputs[i] for i in masked]])).logits[0]
            batch = Batch(torch.tensor([masked]), torch.empty(1, 0, dtype=torch.int64), torch.tensor([masked]))
            check_logits(bundle.model(batch)[0], theirs, id_map)


def check_logits(ours: torch.Tensor, theirs: torch.Tensor, id_map: IdMap) -> None:
    """Compare all logits, and that no other token has any probability."""
    known = [i for i, their_id in enumerate(id_map.outputs) if their_id >= 0]
    assert sorted(id_map.outputs[i] for i in known) == list(range(id_map.size))
    tolerance = 1e-5 * max(1.0, float(theirs.abs().max()))
    assert (ours[:, known] - theirs[:, [id_map.outputs[i] for i in known]]).abs().max() < tolerance
    assert ours.logsumexp(-1).sub(theirs.logsumexp(-1)).abs().max() < tolerance


@pytest.mark.parametrize("kind", [*(f"marian {layout}" for layout in MARIAN_LAYOUTS), "gpt-2", "llama 3", "bert"])
def test_an_imported_model_can_be_inspected_served_and_trained(
    kind: str, imported: Callable[[str], Pair], tmp_path: Path
) -> None:
    pair = imported(kind)
    pipeline = regard.load(pair.out)
    sources = [f">>deu<< {text}" if kind == "marian multilingual" else text for text in TEXTS]
    record = pipeline.record(sources[0])
    assert max(weights.size for weights in (record.encoder, record.decoder, record.cross) if weights is not None) > 0
    with make_client({"it": pair.out}) as client:
        # The server traces models that generate something.
        path = "/v1/trace" if pipeline.generates else "/v1/tokenize"
        response = client.post(path, json={"model": "it", "text": sources[1]})
        assert response.status_code == 200, response.text
    options = {"train.init": str(pair.out), "train.steps": 3, "valid.every": 3, "batch.tokens": 128, "train.warmup": 1}
    match pipeline:
        case regard.Translator():
            assert pipeline.translate([sources[0]], attention=True)[0].alignment is not None
            files, recipe = write_lines(tmp_path, TEXTS, TARGETS), "auto"
            options["train.init_tokenizer"] = "keep"
        case regard.Generator():
            assert pipeline.generate(TEXTS[0], max_new_tokens=3).startswith(TEXTS[0])
            files, recipe = write_lines(tmp_path, TEXTS), "gpt-cpu"
            options["batch.context"] = 32
        case regard.Classifier():
            assert pipeline.embed([TEXTS[0]]).shape == (1, 16)
            files, recipe = write_lines(tmp_path, TEXTS), "bert"
            options["batch.context"] = 32
    trained = regard.train_model(files, tmp_path / "run", recipe, options=options, device="cpu")
    sites = [(name, site.layers, site.heads) for name, site in pipeline.attention_sites().items()]
    assert [(name, site.layers, site.heads) for name, site in trained.attention_sites().items()] == sites
    after = Bundle.load(tmp_path / "run").model
    before = pair.bundle.model
    assert {n: p.shape for n, p in after.named_parameters()} == {n: p.shape for n, p in before.named_parameters()}
    assert any(not torch.equal(p, dict(before.named_parameters())[n]) for n, p in after.named_parameters())


def write_lines(folder: Path, *sides: tuple[str, ...]) -> list[Path]:
    """Write the sides of a corpus, in which every line occurs in many variants."""
    paths = [folder / f"train.{language}" for language in ("en", "fr")[: len(sides)]]
    for path, lines in zip(paths, sides, strict=True):
        path.write_text("".join(f"{line} {n}\n" for n in range(20) for line in lines), encoding="utf-8")
    return paths


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if not HfFormat().problem(bundle_of(shape), OPTIONS)])
def test_what_we_export_to_transformers_comes_back(shape: str, tmp_path: Path) -> None:
    bundle = bundle_of(shape)
    (tmp_path / "hf").mkdir()
    HfFormat().write(bundle, tmp_path / "hf", OPTIONS)
    import_model(tmp_path / "hf", tmp_path / "ours")
    back = Bundle.load(tmp_path / "ours")
    assert back.tokenizers.fingerprint == bundle.tokenizers.fingerprint
    sources = None if isinstance(bundle.model, DecoderOnly) else [[7, 8, 9, 10], [6, 11]]
    batch = forced_batch(sources, [[12, 13, 14], [15, 16]])
    with torch.no_grad():
        assert (back.model(batch) - bundle.model(batch)).abs().max() < 1e-5
    if bundle.task == "translate" and sources:
        assert back.languages == bundle.languages
        assert back.decode.model_copy(update={"max_source": 50}) == bundle.decode
