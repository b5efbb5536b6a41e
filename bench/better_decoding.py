"""Quality of the ways of decoding: BLEU, chrF and seconds of each on one test set.

    python bench/better_decoding.py MODEL [MODEL2 MODEL3] --test test.src test.ref [--reverse REVERSE] [--draft STUDENT]
        [--beam 5] [--rerank-beam 20] [--mbr 32] [--weight 0.5] [--length 0] [--coverage 0.2] [--tokenize 13a]

The first model decodes alone, and all of them as an ensemble. Reranking needs a reverse model, whose weights
bench/tune_rerank.py finds on validation data.
"""

import regard  # noqa: F401  before torch, because it limits how long torch's threads spin

# isort: split

import argparse
import time
from pathlib import Path
from typing import Any

from regard.evaluate.metrics import score_texts
from regard.evaluate.test_set import TestSet, read_test_set
from regard.pipelines.load import load_translator
from regard.pipelines.translator import Translator

Way = tuple[str, Translator, dict[str, Any]]
"""A name, what translates, and the options"""


def ways(args: argparse.Namespace) -> list[Way]:
    """Return the ways of decoding that the given models allow."""
    first = load_translator(args.models[0], device=args.device)
    beam: dict[str, Any] = {"beam": args.beam}
    listed: list[Way] = [("greedy", first, {"beam": 1})]
    if args.draft:
        drafted = load_translator(args.models[0], draft=args.draft, device=args.device)
        listed.append(("greedy with a draft", drafted, {"beam": 1}))
    listed.append((f"beam {args.beam}", first, beam))
    listed.append((f"beam {args.beam}, coverage {args.coverage}", first, {**beam, "coverage": args.coverage}))
    if args.reverse:
        options = {"beam": args.rerank_beam, "rerank_weight": args.weight, "rerank_length": args.length}
        reranked = load_translator(args.models[0], rerank=args.reverse, device=args.device)
        listed.append((f"beam {args.rerank_beam}", first, {"beam": args.rerank_beam}))
        listed.append((f"beam {args.rerank_beam}, reranked (w {args.weight}, v {args.length})", reranked, options))
    listed.append((f"mbr {args.mbr}", first, {"mbr": args.mbr}))
    if len(args.models) > 1:
        ensemble, n = load_translator(*args.models, device=args.device), len(args.models)
        listed += [(f"ensemble of {n}, beam {args.beam}", ensemble, beam)]
        listed += [(f"ensemble of {n}, mbr {args.mbr}", ensemble, {"mbr": args.mbr})]
        if args.reverse:
            both = load_translator(*args.models, rerank=args.reverse, device=args.device)
            listed.append((f"ensemble of {n}, beam {args.rerank_beam}, reranked", both, options))
    return listed


def row(name: str, translator: Translator, options: dict[str, Any], test: TestSet, tokenize: str) -> str:
    start = time.perf_counter()
    texts = [t.text for t in translator.stream(test.sources, skip_long=True, as_written=True, **options)]
    taken = time.perf_counter() - start
    scores = score_texts(texts, test.references, tokenize)
    return f"| {name} | {scores.bleu:.2f} | {scores.chrf:.2f} | {taken:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--test", type=Path, nargs=2, required=True)
    parser.add_argument("--reverse", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rerank-beam", type=int, default=20)
    parser.add_argument("--mbr", type=int, default=32)
    parser.add_argument("--weight", type=float, default=0.5)
    parser.add_argument("--length", type=float, default=0.0)
    parser.add_argument("--coverage", type=float, default=0.2)
    parser.add_argument("--tokenize", default="13a")
    parser.add_argument("--sentences", type=int, help="only the first N of the test set")
    parser.add_argument("--device")
    args = parser.parse_args()
    test = read_test_set(*args.test)
    test = TestSet(test.sources[: args.sentences], test.references[: args.sentences])
    print("| decoding | BLEU | chrF2 | seconds |\n|---|---|---|---|")
    for way in ways(args):
        print(row(*way, test, args.tokenize), flush=True)


if __name__ == "__main__":
    main()
