"""Imported models: the same logits and greedy output as in transformers, and all that our own models can do."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.bundle import Bundle
from regard.convert.import_model import import_model
from regard.data.batch import forced_batch
from regard.search.decode import DecodeConfig, decode
from regard.text.vocab import EOS
from tests.convert.foreign_models import TARGETS, TEXTS, write_marian
from tests.serve.conftest import make_client

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


WRITERS: dict[str, Callable[[Path], Any]] = {
    **{f"marian {layout}": (lambda folder, layout=layout: write_marian(folder, layout)) for layout in MARIAN_LAYOUTS},
    "marian unequal": lambda folder: write_marian(
        folder, tie_word_embeddings=False, decoder_ffn_dim=40, scale_embedding=False, activation_function="gelu"
    ),
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
    to_theirs = ids_by_token(
        bundle.tokenizers.tgt, tokenizer.target_encoder if "separate" in kind else tokenizer.encoder
    )
    assert [[*map(to_theirs.get, ids)] for ids in targets] == [ids[:-1] for ids in their_targets]
    with torch.no_grad():
        for i, (source, target, row) in enumerate(zip(ours, targets, their_targets, strict=True)):
            mine = bundle.model(forced_batch([source], [target]))[0]
            decoder_ids = torch.tensor([[config.decoder_start_token_id, *row[:-1]]])
            inputs = {name: tensor[i : i + 1] for name, tensor in theirs.items()}
            logits = pair.theirs(**inputs, decoder_input_ids=decoder_ids).logits[0]
            known = [j for j in range(bundle.tokenizers.tgt.size) if to_theirs.get(j) is not None]
            assert (mine[:, known] - logits[:, [to_theirs[j] for j in known]]).abs().max() < 1e-5
            assert mine.logsumexp(-1).sub(logits.logsumexp(-1)).abs().max() < 1e-5, "nor has another token any weight"
            generated = pair.theirs.generate(**inputs, num_beams=1, do_sample=False, max_new_tokens=15)[0, 1:].tolist()
            assert [to_theirs[j] for j in greedy(bundle, source, [], 14)] == [j for j in generated if j != 0]


def ids_by_token(tokenizer: Any, theirs: dict[str, int]) -> dict[int, int]:
    """Our ids → theirs, of all tokens that have the same name, and of EOS"""
    tokens = tokenizer.tokens(range(tokenizer.size))
    return {EOS: theirs["</s>"], **{i: theirs[token] for i, token in enumerate(tokens) if i > 5 and token in theirs}}


@pytest.mark.parametrize("kind", WRITERS)
def test_an_imported_model_can_be_inspected_served_and_trained(
    kind: str, imported: Callable[[str], Pair], tmp_path: Path
) -> None:
    pair = imported(kind)
    pipeline = regard.load(pair.out)
    record = pipeline.record(TEXTS[0])
    with make_client({"it": pair.out}) as client:
        response = client.post("/v1/trace", json={"model": "it", "text": TEXTS[1]})
        assert response.status_code == 200, response.text
    options = {"train.init": str(pair.out), "train.steps": 3, "valid.every": 3, "batch.tokens": 128, "train.warmup": 1}
    text = tmp_path / "train.txt"
    if isinstance(pipeline, regard.Translator):
        assert pipeline.translate([TEXTS[0]], attention=True)[0].alignment is not None
        files = write_lines(tmp_path, TEXTS, TARGETS)
        trained = regard.train_model(files, tmp_path / "run", "tiny", options=options, device="cpu")
        assert trained.record(TEXTS[0]).cross.shape[:2] == record.cross.shape[:2]
    after = Bundle.load(tmp_path / "run").model
    before = pair.bundle.model
    assert {n: p.shape for n, p in after.named_parameters()} == {n: p.shape for n, p in before.named_parameters()}
    assert any(not torch.equal(p, dict(before.named_parameters())[n]) for n, p in after.named_parameters())
    assert text is not None


def write_lines(folder: Path, *sides: tuple[str, ...]) -> list[Path]:
    """Write the sides of a corpus, in which every line occurs in many variants."""
    paths = [folder / f"train.{language}" for language in ("en", "fr")[: len(sides)]]
    for path, lines in zip(paths, sides, strict=True):
        path.write_text("".join(f"{line} {n}\n" for n in range(20) for line in lines), encoding="utf-8")
    return paths
