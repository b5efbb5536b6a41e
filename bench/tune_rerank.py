"""The weights of reranking by a reverse model that give the highest BLEU, to be found on validation data.

    python bench/tune_rerank.py MODEL REVERSE valid.src valid.ref [--beam 20] [--tokenize 13a]

The beams are searched and scored once; then all pairs of weights are tried. Prints the table and, last, the options for
`regard translate`. Never give a test set: its score would then say nothing about other texts.
"""

import regard  # noqa: F401  before torch, because it limits how long torch's threads spin

# isort: split

import argparse
from collections.abc import Sequence
from pathlib import Path

from regard.evaluate.metrics import score_texts
from regard.evaluate.test_set import read_test_set
from regard.pipelines.load import load_translator
from regard.pipelines.reranker import ReverseScores
from regard.pipelines.translation import Candidate
from regard.pipelines.translation_config import TranslationConfig
from regard.search.protocols import Hypothesis

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
LENGTHS = (-0.1, -0.05, 0.0, 0.05, 0.1)


def best_text(candidates: Sequence[Candidate], scores: ReverseScores, config: TranslationConfig) -> str:
    """Return the text of the candidate that ranks first with these options."""
    hypotheses = [Hypothesis(each.ids, each.score, each.log_prob) for each in candidates]
    texts = {each.ids: each.text for each in candidates}
    return texts[scores.rerank(hypotheses, config)[0].ids]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("reverse", type=Path)
    parser.add_argument("sources", type=Path)
    parser.add_argument("references", type=Path)
    parser.add_argument("--beam", type=int, default=20)
    parser.add_argument("--tokenize", default="13a")
    parser.add_argument("--device")
    args = parser.parse_args()
    valid = read_test_set(args.sources, args.references)
    translator = load_translator(args.model, rerank=args.reverse, device=args.device)
    reranker, translator.reranker = translator.reranker, None
    assert reranker is not None
    options = {"beam": args.beam, "n_best": args.beam}
    translations = list(translator.stream(valid.sources, skip_long=True, as_written=True, **options))
    texts = [[candidate.text for candidate in translation.hypotheses] for translation in translations]
    tags = {i: translator.directions.read_tag(source)[0] for i, source in enumerate(valid.sources)}
    languages = reranker.languages(translator.directions, tags)
    scores = reranker.reverse_scores(valid.sources, texts, list(languages.values()))

    def best_texts(weight: float, length: float) -> list[str]:
        alpha = translator.decode_config.length_penalty
        config = TranslationConfig(rerank_weight=weight, rerank_length=length, length_penalty=alpha)
        pairs = zip(translations, scores, strict=True)
        return [each.text if of is None else best_text(each.hypotheses, of, config) for each, of in pairs]

    bleu = {
        (w, v): score_texts(best_texts(w, v), valid.references, args.tokenize).bleu for w in WEIGHTS for v in LENGTHS
    }
    print("| weight | " + " | ".join(f"length {v}" for v in LENGTHS) + " |\n|---|" + "---|" * len(LENGTHS))
    for w in WEIGHTS:
        print(f"| {w} | " + " | ".join(f"{bleu[w, v]:.2f}" for v in LENGTHS) + " |")
    w, v = max(bleu, key=lambda pair: bleu[pair])
    print(f"--beam {args.beam} --rerank-weight {w} --rerank-length {v}")


if __name__ == "__main__":
    main()
