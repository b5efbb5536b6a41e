"""Greedy search with a draft model against greedy search without one, in the same run.

    python bench/speculative.py TEACHER STUDENT test.src [--sentences 200] [--batch 1,32] [--draft-tokens 2,4,6]
    python bench/speculative.py --layers 6-6,6-1 [--width 512 --vocab 8000 --tokens 24]

Checks that all outputs are identical, and prints how many tokens a pass of the teacher gives and how many times faster
decoding is. The two take turns, and the ratio is that of their median times over several rounds.

With --layers (encoder-decoder layers of teacher and student) the weights are random, and an output bias decides what is
generated: the student is always right in one row and always wrong in the next. These are the bounds for such sizes.
"""

import regard  # noqa: F401  before torch, because it limits how long torch's threads spin

# isort: split

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from regard import models
from regard.data.batch import Batch, collate_sources
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.inference import inference_copy
from regard.pipelines.load import load_translator
from regard.search import speculative
from regard.search.decode import DecodeConfig, decode
from regard.search.speculative import DraftedModel
from regard.text.vocab import SPECIALS

ROUNDS = 7
COLUMNS = ("pair", "batch", "draft tokens", "tokens per pass", "greedy", "with draft", "times faster", "identical")


def trained_pair(args: argparse.Namespace) -> tuple[DraftedModel, list[list[int]]]:
    """Return the models of two directories, and the sentences of a file as ids, longest last."""
    translator = load_translator(args.teacher, draft=args.student, device=args.device)
    drafted = translator._search_model(translator.decode_config)
    assert isinstance(drafted, DraftedModel)
    lines = args.sources.read_text(encoding="utf-8").splitlines()[: args.sentences]
    ids = translator.src_tokenizer.encode([translator.clean(translator.with_tag(line)) for line in lines])
    return drafted, sorted((row for row in ids if row), key=len)


def random_pair(args: argparse.Namespace, is_right: bool) -> DraftedModel:
    """Return two models of random weights, of which one always generates 7, and the other the same or 8."""
    members = []
    for layers, token in zip(args.layers.split(","), (7, 7 if is_right else 8), strict=True):
        n_encoder, n_decoder = map(int, layers.split("-"))
        options: dict[str, Any] = {"d_model": args.width, "d_ff": 4 * args.width, "output_bias": True}
        model = models.build({**options, "n_layers": n_encoder, "n_decoder_layers": n_decoder}, args.vocab)
        assert isinstance(model, EncoderDecoder) and model.output.bias is not None
        torch.nn.init.zeros_(model.output.bias)
        model.output.bias.data[token] = 1e4
        members.append(inference_copy(model.eval().to(args.device or "cpu")))
    return DraftedModel(*members)


def random_sources(args: argparse.Namespace) -> list[list[int]]:
    torch.manual_seed(1)
    return torch.randint(len(SPECIALS), args.vocab, (args.sentences, 20)).tolist()


def padded_batch(sources: list[list[int]]) -> Batch:
    """Return a batch of one of a few widths, as translators make them."""
    return collate_sources(sources, -(-(max(map(len, sources)) + 1) // 8) * 8)


def count_passes(drafted: DraftedModel, decode_all: Callable[[object], Any]) -> int:
    """Return how often the teacher reads tokens; captured steps would not be counted."""
    read = drafted.model.read_logits
    with (
        patch.object(drafted.model, "read_logits", side_effect=read) as counted,
        patch("regard.search.decode.captured_steps", lambda *_: nullcontext()),
    ):
        decode_all(drafted)
    return counted.call_count


def seconds(run: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(name: str, drafted: DraftedModel, batches: list[Batch], config: DecodeConfig) -> str:
    """Return a row of the table."""
    drafted = DraftedModel(drafted.model, drafted.draft)  # with captured steps of its own, whose number is limited

    def run(model: Any) -> list[tuple[int, ...]]:
        return [row[0].ids for batch in batches for row in decode(model, batch, config)]

    expected, decoded, size = run(drafted.model), run(drafted), batches[0].size
    n_same = sum(one == other for one, other in zip(expected, decoded, strict=True))
    times: dict[Any, list[float]] = {drafted.model: [], drafted: []}
    for _ in range(ROUNDS):
        for model, taken in times.items():
            taken.append(seconds(lambda model=model: run(model), batches[0].src.device))  # type: ignore[misc]
    plain, faster = (statistics.median(taken) for taken in times.values())
    n_tokens = sum(len(ids) + 1 for ids in expected)
    per_pass = f"{n_tokens / count_passes(drafted, run):.2f}" if size == 1 else ""
    cells = [name, str(size), str(config.draft_tokens), per_pass, f"{plain:.2f} s", f"{faster:.2f} s"]
    return f"| {' | '.join([*cells, f'{plain / faster:.2f}', f'{n_same} of {len(expected)}'])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher", type=Path, nargs="?")
    parser.add_argument("student", type=Path, nargs="?")
    parser.add_argument("sources", type=Path, nargs="?")
    parser.add_argument("--layers", help="encoder-decoder layers of teacher and student, instead of directories")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--batch", default="1,32", help="sentences that are decoded together")
    parser.add_argument("--draft-tokens", default="2,4,6")
    parser.add_argument("--device")
    args = parser.parse_args()
    speculative.MOST_ON_CPU = 10**6  # measure what is slower, too
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    if args.layers:
        lengths = {"min_len": args.tokens, "max_len": args.tokens}
        pairs = {
            f"{args.layers}, always {'right' if right else 'wrong'}": random_pair(args, right)
            for right in (True, False)
        }
        sources, config = random_sources(args), DecodeConfig(beam=1, **lengths)
    else:
        trained, sources = trained_pair(args)
        pairs, config = {f"{args.teacher.name}, {args.student.name}": trained}, DecodeConfig(beam=1)
    for name, drafted in pairs.items():
        device = next(drafted.model.parameters()).device
        for size in map(int, args.batch.split(",")):
            batches = [padded_batch(sources[i : i + size]).to(device) for i in range(0, len(sources), size)]
            for k in map(int, args.draft_tokens.split(",")):
                print(measure(name, drafted, batches, config.model_copy(update={"draft_tokens": k})), flush=True)


if __name__ == "__main__":
    main()
