"""A synchronous grammar of English and French that generates sentence pairs with gold word alignments.

A phrase has its words in both languages, in the order of each language, and every French word refers to the English
words that it translates.  Phrases are combined by concatenation, so that the alignment needs no index arithmetic until
the finished sentence is numbered.  This module composes phrases from given parts; `sentence_sampler` chooses the parts
at random and `grammar_corpus` makes the splits.

Where English is less specific than French: they, them, i, me, we and us are masculine, a relative clause belongs to
the noun directly before it, and an adverb of frequency to the verb directly after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.data.builtin import lexicon as lex

ELIDED = ("le", "la", "je", "me", "ne", "de", "que")
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}


@dataclass(frozen=True)
class AlignedPair:
    """A sentence pair with its word alignment."""

    src: str
    tgt: str
    alignment: tuple[tuple[int, int], ...]
    """Sorted (source index, target index) in src.split() and tgt.split()."""

    def reversed(self) -> AlignedPair:
        return AlignedPair(self.tgt, self.src, tuple(sorted((j, i) for i, j in self.alignment)))


@dataclass(frozen=True, eq=False)
class EnglishWord:
    """An English word. Compared by identity, because the two "the" of a sentence are different words."""

    text: str


@dataclass(frozen=True, eq=False)
class FrenchWord:
    """A French word. Compared by identity."""

    text: str
    sources: tuple[EnglishWord, ...]  # the English words that it translates


@dataclass(frozen=True)
class Phrase:
    """A phrase in both languages; `agreement` is the number and gender of its head."""

    en: tuple[EnglishWord, ...]
    fr: tuple[FrenchWord, ...]
    agreement: lex.Agreement = lex.MASCULINE

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.en + other.en, self.fr + other.fr, self.agreement)


EMPTY = Phrase((), ())


@dataclass(frozen=True)
class Predicate:
    """A verb with its dependents except the subject; it is inflected once the subject is known."""

    verb: lex.Verb
    past: bool = False
    negated: bool = False
    pronoun: lex.Pronoun | None = None  # the object if it is a pronoun
    frequency: lex.Adverb | None = None
    rest: tuple[Phrase, ...] = ()  # what follows the verb in both languages


def word(en: str, *fr: str) -> Phrase:
    """Return one English word with its translation of one or more French words."""
    source = EnglishWord(en)
    return Phrase((source,), tuple(FrenchWord(text, (source,)) for text in fr))


def subject_pronoun(pronoun: lex.Pronoun) -> Phrase:
    return replace(word(*pronoun.subject), agreement=pronoun.agreement)


def noun_phrase(determiner: str, noun: lex.Noun, plural: bool = False, *adjectives: lex.Inflected) -> Phrase:
    """Return a noun phrase; adjectives are given in English order, and French puts most of them after the noun."""
    agreement = lex.Agreement(plural=plural, feminine=noun.feminine)
    head = word(noun.english(plural), noun.french(plural))
    en, fr = head.en, head.fr
    for adjective in reversed(adjectives):
        added = word(adjective.en, adjective.french(agreement, fr[0].text))
        en = added.en + en
        fr = added.fr + fr if adjective.before_noun else fr + added.fr
    article = lex.DETERMINERS[determiner].french(agreement, fr[0].text)
    if determiner == "some" and fr[0] is not head.fr[0]:
        article = "de"  # instead of "des" before an adjective
    if determiner == "a" and en[0].text.startswith(tuple("aeiou")):
        determiner = "an"
    first = word(determiner, article)
    return Phrase(first.en + en, first.fr + fr, agreement)


def prepositional_phrase(preposition: lex.Preposition, complement: Phrase) -> Phrase:
    return word(preposition.en, *preposition.fr) + complement


def coordinate(left: Phrase, right: Phrase) -> Phrase:
    """Join two noun phrases by "and"; the result is plural, and feminine only if both are."""
    feminine = left.agreement.feminine and right.agreement.feminine
    return replace(left + word("and", "et") + right, agreement=lex.Agreement(plural=True, feminine=feminine))


def negation(negated: bool) -> Phrase:
    return word("not", "ne", "pas") if negated else EMPTY


def verb_phrase(
    predicate: Predicate, subject: lex.Agreement, gap: lex.Agreement = lex.MASCULINE, inverted: bool = False
) -> Phrase:
    """Return the verb, inflected for its subject, with all of its dependents.

    `gap` is the agreement of an object that precedes the verb in a relative clause.  With `inverted` the question
    already contains the form of "do".
    """
    verb, past, pronoun = predicate.verb, predicate.past, predicate.pronoun
    present = lex.add_s(verb.en) if subject.third_singular else verb.en
    main = EnglishWord(verb.en if predicate.negated or inverted else verb.past if past else present)
    aux = (EnglishWord(subject.do(past)),) if predicate.negated and not inverted else ()
    negative = negation(predicate.negated)
    clitic = word(*pronoun.object) if pronoun else EMPTY
    adverb = word(predicate.frequency.en, predicate.frequency.fr) if predicate.frequency else EMPTY
    if past:
        preceding = pronoun.agreement if pronoun else gap
        finite = FrenchWord(subject.form(lex.ETRE if verb.etre else lex.AVOIR), aux or (main,))
        ending: tuple[FrenchWord, ...] = (FrenchWord(verb.agreed(subject if verb.etre else preceding), (main,)),)
    else:
        finite = FrenchWord(subject.form(verb.present), (*aux, main))
        ending = ()
    english = (*aux, *negative.en, *adverb.en, main, *clitic.en)
    french = (*negative.fr[:1], *clitic.fr, finite, *negative.fr[1:], *adverb.fr, *ending)
    return sum(predicate.rest, Phrase(english, french))


def copula(subject: Phrase, adjective: lex.Inflected, negated: bool = False) -> Phrase:
    be = word(subject.agreement.form(lex.BE), subject.agreement.form(lex.ETRE))
    negative = negation(negated)
    verb = Phrase(be.en + negative.en, negative.fr[:1] + be.fr + negative.fr[1:])
    return subject + verb + word(adjective.en, adjective.french(subject.agreement))


def statement(subject: Phrase, *predicates: Predicate) -> Phrase:
    """Return a clause; several predicates are joined by "and"."""
    first, *others = (verb_phrase(predicate, subject.agreement) for predicate in predicates)
    return sum((word("and", "et") + other for other in others), subject + first)


def question(subject: Phrase, predicate: Predicate, question_word: tuple[str, str] | None = None) -> Phrase:
    aux = word(subject.agreement.do(predicate.past), "est-ce", "que")
    verb = verb_phrase(predicate, subject.agreement, inverted=True)
    return (word(*question_word) if question_word else EMPTY) + aux + subject + verb + word("?", "?")


def subject_relative(head: Phrase, person: bool, predicate: Predicate) -> Phrase:
    return head + word("who" if person else "that", "qui") + verb_phrase(predicate, head.agreement)


def object_relative(head: Phrase, subject: Phrase, predicate: Predicate) -> Phrase:
    verb = verb_phrase(predicate, subject.agreement, gap=head.agreement)
    return head + word("that", "que") + subject + verb


def elide(words: Sequence[FrenchWord]) -> list[FrenchWord]:
    """Merge "le homme" into "l'homme" and "de le" into "du"; the merged word has the sources of both words.

    This runs from right to left, because an elided article does not contract: "de l'homme".
    """
    merged: list[FrenchWord] = []
    for left in reversed(words):
        right = merged[-1] if merged else FrenchWord("", ())
        text = CONTRACTED.get((left.text, right.text), "")
        if left.text in ELIDED and lex.starts_with_vowel(right.text):
            text = f"{left.text[:-1]}'{right.text}"
        if text:
            merged[-1] = FrenchWord(text, left.sources + right.sources)
        else:
            merged.append(left)
    return merged[::-1]


def render(sentence: Phrase) -> AlignedPair:
    """Return the text of a sentence in both languages and the word alignment."""
    position = {en: i for i, en in enumerate(sentence.en)}
    french = elide(sentence.fr)
    links = {(position[en], j) for j, fr in enumerate(french) for en in fr.sources}
    english = " ".join(en.text for en in sentence.en)
    return AlignedPair(english, " ".join(fr.text for fr in french), tuple(sorted(links)))
