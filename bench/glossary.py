"""What glossaries do to the translations of a test set: share of terms that are honoured, BLEU and time.

    python -m bench.glossary DIR test.src test.ref --alignments test.links
    python -m bench.glossary DIR test.src test.ref --terms terms.tsv

With alignments (`regard align DIR test.src test.ref > test.links`), up to 200 terms are made from the references:
source words that are not among the 200 most frequent, each with the word that is aligned with it most often or, with
`--forms all`, with all words that are aligned with it. Only sentences with a term count; the table has them without a
glossary and in the modes hard and, if the model was trained for it, soft. A term is honoured if it is in the
translation as often as in the source.
"""

import argparse
import time
from collections import Counter, defaultdict
from pathlib import Path

import regard
from regard.data.glossary import Glossary, count_terms
from regard.data.term_annotator import aligned_spans
from regard.data.word_alignments import read_alignments
from regard.evaluate.metrics import score_texts
from regard.pipelines.translator import Translator
from regard.text.units import split_units

_MAX_TERMS = 200
_N_FREQUENT = 200


def terms_from_references(sources: list[str], references: list[str], alignments: Path, n_forms: int | None) -> Glossary:
    """Return a glossary of words and up to `n_forms` words that the references use for them, most frequent first."""
    counts = Counter(word for source in sources for word in split_units(source))
    frequent = {word for word, _ in counts.most_common(_N_FREQUENT)}
    targets: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for source, reference, links in zip(sources, references, read_alignments(alignments, len(sources)), strict=True):
        src, tgt = split_units(source), split_units(reference)
        for span in aligned_spans(links.possible, len(src), len(tgt), 1):
            word, target = src[span.src_first], tgt[span.tgt_first]
            if word not in frequent and word.isalpha() and target.isalpha():
                targets[word][target] += 1
    ranked = sorted(targets, key=lambda word: (-counts[word], word))[:_MAX_TERMS]
    return Glossary.of({word: " | ".join(form for form, _ in targets[word].most_common(n_forms)) for word in ranked})


def measure(
    translator: Translator,
    name: str,
    sources: list[str],
    references: list[str],
    glossary: Glossary,
    options: dict[str, object],
) -> None:
    """Print a row of the table."""
    translator.translate(sources[:2], **options)  # type: ignore[arg-type]
    start = time.perf_counter()
    translations = [translation.text for translation in translator.translate(sources, **options)]  # type: ignore[arg-type]
    seconds = time.perf_counter() - start
    n_met = n_terms = 0
    for source, translation in zip(sources, translations, strict=True):
        for term, n in count_terms(glossary.find(source)).items():
            n_terms += n
            n_met += min(n, term.count_in(translation))
    score = score_texts(translations, references, "none").bleu
    print(f"| {name} | {n_met / n_terms:.1%} | {score:.1f} | {1000 * seconds / len(sources):.1f} ms |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("folder", "src", "ref"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--alignments", type=Path)
    parser.add_argument("--terms", type=Path)
    parser.add_argument("--forms", choices=("one", "all"), default="one")
    parser.add_argument("--beam", type=int, default=5)
    arguments = parser.parse_args()
    sources, references = (path.read_text(encoding="utf-8").splitlines() for path in (arguments.src, arguments.ref))
    if arguments.terms:
        glossary = Glossary.read(arguments.terms)
    else:
        n_forms = 1 if arguments.forms == "one" else None
        glossary = terms_from_references(sources, references, arguments.alignments, n_forms)
    rows = [i for i, source in enumerate(sources) if glossary.find(source)]
    sources, references = [sources[i] for i in rows], [references[i] for i in rows]
    translator = regard.load(arguments.folder)
    assert isinstance(translator, Translator)
    n_found = sum(len(glossary.find(source)) for source in sources)
    print(f"{len(glossary.terms)} terms, {len(sources)} sentences with {n_found} of them")
    print("| glossary | honoured | BLEU | time per sentence |")
    print("|---|---|---|---|")
    beam = {"beam": arguments.beam}
    measure(translator, "none", sources, references, glossary, beam)
    for mode in ("hard", "soft") if translator.reads_terms else ("hard",):
        options = {**beam, "glossary": glossary, "glossary_mode": mode}
        measure(translator, mode, sources, references, glossary, options)


if __name__ == "__main__":
    main()
