"""Train, validation and test splits of the bilingual grammar."""

from regard.data.builtin import lexicon as lex
from regard.data.builtin.grammar import AlignedPair, Predicate, noun_phrase, render, statement
from regard.data.builtin.sentence_sampler import SentenceSampler
from regard.errors import UserError

MAX_WORDS = 30  # per English sentence
DIRECTIONS = ("en-fr", "fr-en")


def green_witch() -> AlignedPair:
    """Return "the green witch arrived", which every corpus has in its test split only."""
    witch = noun_phrase("the", lex.NOUNS["witch"], False, lex.ADJECTIVES["green"])
    return render(statement(witch, Predicate(lex.VERBS["arrive"], past=True)))


def distinct_pairs(sampler: SentenceSampler, count: int, excluded: AlignedPair) -> list[AlignedPair]:
    """Draw `count` pairs, none of which share a sentence, so that the corpus is a function in both directions."""
    english, french = {excluded.src}, {excluded.tgt}
    pairs: list[AlignedPair] = []
    while len(pairs) < count:
        sentence = sampler.sentence()
        pair = render(sentence)
        if len(sentence.en) <= MAX_WORDS and pair.src not in english and pair.tgt not in french:
            english.add(pair.src)
            french.add(pair.tgt)
            pairs.append(pair)
    # new short sentences become rare towards the end, so shuffle: each split then gets its share of them
    return sorted(pairs, key=lambda _: sampler.random())


def generate_corpus(
    n_train: int = 24_000, n_valid: int = 500, n_test: int = 1_000, *, direction: str = "en-fr", seed: int = 1
) -> dict[str, list[AlignedPair]]:
    """Return disjoint splits without duplicates; "the green witch arrived" is the first test sentence."""
    if direction not in DIRECTIONS:
        raise UserError(f"direction must be 'en-fr' or 'fr-en', not {direction!r}")
    if min(n_train, n_valid, n_test) < 0:
        raise UserError(f"the splits cannot have {n_train}, {n_valid} and {n_test} pairs; give numbers from 0 up")
    witch = green_witch()
    test_end = max(n_test, 1)  # the sentence is kept out of the other splits even without a test split
    valid_end = test_end + n_valid
    pairs = [witch, *distinct_pairs(SentenceSampler(seed), valid_end + n_train - 1, witch)]
    if direction == "fr-en":
        pairs = [pair.reversed() for pair in pairs]
    return {"train": pairs[valid_end:], "valid": pairs[test_end:valid_end], "test": pairs[:n_test]}
