"""A synchronous grammar of English and French: sentence pairs with gold word alignments.

A phrase holds its words in both languages, each in the order of its own language, and every French
word carries the English words it renders.  Phrases combine by putting words side by side, so that the
alignment needs no index arithmetic before the finished sentence is numbered.  The first part composes
phrases from given parts, `SentenceSampler` chooses the parts at random, `corpus` makes the splits.

Where English says less than French: they, them, i, me, we and us are masculine, a relative clause
belongs to the noun right before it, and an adverb of frequency to the verb right behind it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from regard.data.builtin import lexicon as lex
from regard.errors import UserError

MAX_WORDS = 30  # of an English sentence
DIRECTIONS = ("en-fr", "fr-en")
ELIDED = ("le", "la", "je", "me", "ne", "de", "que")
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}

T = TypeVar("T")
Objects = Literal["none", "plain", "rich"]


@dataclass(frozen=True)
class AlignedPair:
    src: str
    tgt: str
    alignment: tuple[tuple[int, int], ...]  # sorted (source word, target word); words are text.split()

    def reversed(self) -> AlignedPair:
        return AlignedPair(self.tgt, self.src, tuple(sorted((j, i) for i, j in self.alignment)))


@dataclass(frozen=True, eq=False)
class EnglishWord:
    """An English word, compared by identity: the two "the" of a sentence are different words."""

    text: str


@dataclass(frozen=True, eq=False)
class FrenchWord:
    text: str
    of: tuple[EnglishWord, ...]  # the English words it renders


@dataclass(frozen=True)
class Phrase:
    en: tuple[EnglishWord, ...]
    fr: tuple[FrenchWord, ...]
    agreement: lex.Agreement = lex.MASCULINE

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.en + other.en, self.fr + other.fr, self.agreement)


EMPTY = Phrase((), ())


@dataclass(frozen=True)
class Predicate:
    """A verb with all that depends on it except its subject, with which it has yet to agree."""

    verb: lex.Verb
    past: bool = False
    negated: bool = False
    pronoun: lex.Pronoun | None = None  # the object, if it is a pronoun
    frequency: lex.Adverb | None = None
    rest: tuple[Phrase, ...] = ()  # what follows the verb in both languages


# ---- composition


def word(en: str, *fr: str) -> Phrase:
    source = EnglishWord(en)
    return Phrase((source,), tuple(FrenchWord(text, (source,)) for text in fr))


def subject_pronoun(pronoun: lex.Pronoun) -> Phrase:
    return replace(word(*pronoun.subject), agreement=pronoun.agreement)


def noun_phrase(determiner: str, noun: lex.Noun, plural: bool = False, *adjectives: lex.Inflected) -> Phrase:
    """The adjectives come in their English order; French puts most of them behind the noun."""
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


def prepositional(preposition: lex.Preposition, complement: Phrase) -> Phrase:
    return word(preposition.en, *preposition.fr) + complement


def coordinate(left: Phrase, right: Phrase) -> Phrase:
    feminine = left.agreement.feminine and right.agreement.feminine
    return replace(left + word("and", "et") + right, agreement=lex.Agreement(plural=True, feminine=feminine))


def negation(negated: bool) -> Phrase:
    return word("not", "ne", "pas") if negated else EMPTY


def verb_phrase(
    predicate: Predicate, subject: lex.Agreement, gap: lex.Agreement = lex.MASCULINE, inverted: bool = False
) -> Phrase:
    """`gap` is the object relativised before the verb; `inverted`: the question already has its "do"."""
    verb, past, pronoun = predicate.verb, predicate.past, predicate.pronoun
    present = lex.add_s(verb.en) if subject.third_singular else verb.en
    main = EnglishWord(verb.en if predicate.negated or inverted else verb.past if past else present)
    aux = (EnglishWord(subject.do(past)),) if predicate.negated and not inverted else ()
    no = negation(predicate.negated)
    clitic = word(*pronoun.object) if pronoun else EMPTY
    often = word(predicate.frequency.en, predicate.frequency.fr) if predicate.frequency else EMPTY
    if past:
        preceding = pronoun.agreement if pronoun else gap
        finite = FrenchWord(subject.form(lex.ETRE if verb.etre else lex.AVOIR), aux or (main,))
        ending: tuple[FrenchWord, ...] = (FrenchWord(verb.agreed(subject if verb.etre else preceding), (main,)),)
    else:
        finite = FrenchWord(subject.form(verb.present), (*aux, main))
        ending = ()
    english = (*aux, *no.en, *often.en, main, *clitic.en)
    french = (*no.fr[:1], *clitic.fr, finite, *no.fr[1:], *often.fr, *ending)
    return sum(predicate.rest, Phrase(english, french))


def copula(subject: Phrase, adjective: lex.Inflected, negated: bool = False) -> Phrase:
    be = word(subject.agreement.form(lex.BE), subject.agreement.form(lex.ETRE))
    no = negation(negated)
    verb = Phrase(be.en + no.en, no.fr[:1] + be.fr + no.fr[1:])
    return subject + verb + word(adjective.en, adjective.french(subject.agreement))


def statement(subject: Phrase, *predicates: Predicate) -> Phrase:
    """A clause; several predicates are joined by "and"."""
    first, *others = (verb_phrase(predicate, subject.agreement) for predicate in predicates)
    return sum((word("and", "et") + other for other in others), subject + first)


def question(subject: Phrase, predicate: Predicate, asked: tuple[str, str] | None = None) -> Phrase:
    aux = word(subject.agreement.do(predicate.past), "est-ce", "que")
    verb = verb_phrase(predicate, subject.agreement, inverted=True)
    return (word(*asked) if asked else EMPTY) + aux + subject + verb + word("?", "?")


def subject_relative(head: Phrase, person: bool, predicate: Predicate) -> Phrase:
    return head + word("who" if person else "that", "qui") + verb_phrase(predicate, head.agreement)


def object_relative(head: Phrase, subject: Phrase, predicate: Predicate) -> Phrase:
    verb = verb_phrase(predicate, subject.agreement, gap=head.agreement)
    return head + word("that", "que") + subject + verb


def elide(words: Sequence[FrenchWord]) -> list[FrenchWord]:
    """Merges "le homme" into "l'homme" and "de le" into "du"; the merged word renders what both did.

    From right to left, because an elided article does not contract: "de l'homme".
    """
    merged: list[FrenchWord] = []
    for left in reversed(words):
        right = merged[-1] if merged else FrenchWord("", ())
        text = CONTRACTED.get((left.text, right.text), "")
        if left.text in ELIDED and lex.starts_with_vowel(right.text):
            text = f"{left.text[:-1]}'{right.text}"
        if text:
            merged[-1] = FrenchWord(text, left.of + right.of)
        else:
            merged.append(left)
    return merged[::-1]


def render(sentence: Phrase) -> AlignedPair:
    position = {en: i for i, en in enumerate(sentence.en)}
    french = elide(sentence.fr)
    links = {(position[en], j) for j, fr in enumerate(french) for en in fr.of}
    english = " ".join(en.text for en in sentence.en)
    return AlignedPair(english, " ".join(fr.text for fr in french), tuple(sorted(links)))


# ---- sampling

VERBS = tuple(lex.VERBS.values())


class SentenceSampler:
    """Draws sentences.  `random.random` alone promises the same numbers in every version of Python."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def sentence(self) -> Phrase:
        if self.chance(0.12):
            return self.description()
        clause = self.clause
        return self.pick((clause, clause, clause, clause, self.question, self.two_clauses))()

    def clause(self, simple_subject: bool = False) -> Phrase:
        verb, past = self.pick(VERBS), self.chance(0.5)
        subject = self.subject(verb, simple_subject)
        last = self.predicate(verb, subject.agreement, past, objects="rich")
        others = [other for other in VERBS if other is not verb and verb.subjects <= other.subjects]
        if subject.agreement.first or not others or self.chance(0.8):
            return statement(subject, last)
        # only the last may be negated or end in a relative clause: those could reach over the "and"
        first = self.predicate(self.pick(others), subject.agreement, past, bare=True)
        return statement(subject, first, last)

    def two_clauses(self) -> Phrase:
        # "sees a and b and c arrived" has one reading as long as the second subject is not coordinated
        return self.clause() + word(*self.pick(lex.CONJUNCTIONS)) + self.clause(simple_subject=True)

    def question(self) -> Phrase:
        asked = self.pick((None, lex.WHERE, lex.WHEN, lex.WHY))
        verb = self.pick([verb for verb in VERBS if verb.place or asked is not lex.WHERE])
        subject, past = self.subject(verb), self.chance(0.5)
        bare = asked in (lex.WHERE, lex.WHEN)  # who asks for the circumstances does not tell them
        return question(subject, self.predicate(verb, subject.agreement, past, bare=bare), asked)

    def description(self) -> Phrase:
        # "nouveau" is hardly said after "être"
        adjective = self.pick([each for each in lex.ADJECTIVES.values() if each.en != "new"])
        if "person" in adjective.tags and self.chance(0.25):
            subject = subject_pronoun(self.pick(lex.PRONOUNS))
        else:
            noun, subject = self.noun(adjective.tags, lex.DEFINITE, bare=True)
            if "mass" not in noun.tags and self.chance(0.6):
                subject = self.relative(noun, subject)
        return copula(subject, adjective, negated=self.chance(0.25))

    def subject(self, verb: lex.Verb, simple: bool = False) -> Phrase:
        if "person" in verb.subjects and self.chance(0.4):
            return subject_pronoun(self.pick(lex.PRONOUNS))
        return self.noun(verb.subjects)[1] if simple else self.rich(verb.subjects)

    def predicate(
        self,
        verb: lex.Verb,
        subject: lex.Agreement,
        past: bool,
        objects: Objects = "plain",
        bare: bool = False,
    ) -> Predicate:
        """`bare`: neither negated nor with circumstances; `objects` "none": the object is a gap."""
        negated = not bare and self.chance(0.2)
        often = not bare and not negated and self.chance(0.12)
        pronoun, rest = None, []
        if verb.objects and objects != "none":
            if self.chance(0.25):
                pronoun = self.object_pronoun(verb, subject, past)
            elif objects == "rich" and not negated and not verb.to and self.chance(0.5):
                rest, bare = [self.rich(verb.objects, last=True)], True
            else:  # behind "pas", "un" and "des" would become "de"
                rest = [self.noun(verb.objects, lex.DEFINITE if negated else lex.ANY)[1]]
        if verb.to:
            rest.append(prepositional(lex.TO, self.noun(verb.to, lex.DEFINITE)[1]))
        if not bare:
            rest += self.circumstances(verb, past, timed=not often and self.chance(0.2))
        adverb = self.adverb(lex.FREQUENCY, past) if often else None
        return Predicate(verb, past, negated, pronoun, adverb, tuple(rest))

    def object_pronoun(self, verb: lex.Verb, subject: lex.Agreement, past: bool) -> lex.Pronoun:
        """Of things only them; nothing reflexive; neither him nor her where both would be "l'"."""
        *others, them = lex.PRONOUNS
        elided = not past and lex.starts_with_vowel(verb.present[0])
        allowed = [each for each in others if not (subject.first if each.agreement.first else elided)]
        return self.pick([*allowed, them]) if "person" in verb.objects else them

    def adverb(self, adverbs: Sequence[lex.Adverb], past: bool) -> lex.Adverb:
        return self.pick([adverb for adverb in adverbs if (adverb.past if past else adverb.present)])

    def circumstances(self, verb: lex.Verb, past: bool, timed: bool) -> list[Phrase]:
        phrases = []
        if "thing" not in verb.subjects and self.chance(0.1):  # things do nothing with others
            phrases.append(self.prepositional(lex.WITH))
        if verb.place and self.chance(0.4):
            phrases.append(self.prepositional(self.pick(lex.PLACES)))
        elif verb.place and self.chance(0.1):
            phrases.append(word(*lex.HERE))
        if timed:
            adverb = self.adverb(lex.TIME, past)
            phrases.append(word(adverb.en, adverb.fr))
        return phrases

    def prepositional(self, preposition: lex.Preposition) -> Phrase:
        return prepositional(preposition, self.noun(preposition.tags, lex.SPECIFIC)[1])

    def noun(self, tags: lex.Tags, determiners: Sequence[str] = lex.ANY, bare: bool = False) -> tuple[lex.Noun, Phrase]:
        """A noun and its phrase: a determiner and, unless `bare`, at most one adjective on either side."""
        noun = self.pick(lex.nouns_with(tags))
        mass = "mass" in noun.tags
        determiner = "the" if mass else self.pick(determiners)
        either = determiner in lex.EITHER_NUMBER and not mass
        plural = determiner in lex.PLURAL or (either and self.chance(0.35))
        chosen = []
        for before_noun, rate in ((True, 0.18), (False, 0.3)):
            fitting = lex.adjectives_of(noun, before_noun)
            if fitting and not bare and self.chance(rate):
                chosen.append(self.pick(fitting))
        return noun, noun_phrase(determiner, noun, plural, *chosen)

    def rich(self, tags: lex.Tags, last: bool = False) -> Phrase:
        """A noun phrase that may be coordinated or described; `last`: it ends the clause."""
        shape = self.random()
        if shape < 0.16:
            return self.described(tags)
        noun, phrase = self.noun(tags)
        if shape < 0.28:
            other, second = self.noun(tags)
            return phrase if other is noun else coordinate(phrase, second)
        return self.relative(noun, phrase, last) if shape < 0.58 else phrase

    def described(self, tags: lex.Tags) -> Phrase:
        noun, phrase = self.noun(tags, ("the", "the", "a", "some"))
        fitting = [each for each in (*lex.PLACES, lex.WITH, *lex.OF, *lex.OF) if each.heads & noun.tags]
        return phrase + self.prepositional(self.pick(fitting))

    def relative(self, noun: lex.Noun, head: Phrase, last: bool = False) -> Phrase:
        # objects weigh more: only there does the participle of most verbs show its gender
        acting = [(verb, True) for verb in VERBS if verb.subjects & noun.tags]
        undergoing = [(verb, False) for verb in VERBS if verb.objects & noun.tags]
        verb, acts = self.pick(acting + 3 * undergoing)
        if acts:
            objects: Objects = "rich" if last else "plain"
            predicate = self.predicate(verb, head.agreement, self.chance(0.5), objects)
            return subject_relative(head, "person" in noun.tags, predicate)
        subject = self.subject(verb, simple=True)
        predicate = self.predicate(verb, subject.agreement, self.chance(0.7), objects="none")
        return object_relative(head, subject, predicate)


# ---- corpus


def green_witch() -> AlignedPair:
    """The sentence every corpus keeps for its test split."""
    witch = noun_phrase("the", lex.NOUNS["witch"], False, lex.ADJECTIVES["green"])
    return render(statement(witch, Predicate(lex.VERBS["arrive"], past=True)))


def distinct_pairs(sampler: SentenceSampler, count: int, excluded: AlignedPair) -> list[AlignedPair]:
    """Pairs of which no two share a side, so that the corpus is a function in both directions."""
    english, french = {excluded.src}, {excluded.tgt}
    pairs: list[AlignedPair] = []
    while len(pairs) < count:
        sentence = sampler.sentence()
        pair = render(sentence)
        if len(sentence.en) <= MAX_WORDS and pair.src not in english and pair.tgt not in french:
            english.add(pair.src)
            french.add(pair.tgt)
            pairs.append(pair)
    # short sentences run out early; in random order each split gets its share of them
    return sorted(pairs, key=lambda _: sampler.random())


def generate_corpus(
    n_train: int = 24_000, n_valid: int = 500, n_test: int = 1_000, *, direction: str = "en-fr", seed: int = 1
) -> dict[str, list[AlignedPair]]:
    """Disjoint splits without duplicates; "the green witch arrived" is the first test sentence."""
    if direction not in DIRECTIONS:
        raise UserError(f"direction must be 'en-fr' or 'fr-en', not {direction!r}")
    if min(n_train, n_valid, n_test) < 0:
        raise UserError(f"the splits cannot have {n_train}, {n_valid} and {n_test} pairs")
    witch = green_witch()
    test_end = max(n_test, 1)  # the sentence is kept out of the others even when nobody wants a test split
    valid_end = test_end + n_valid
    pairs = [witch, *distinct_pairs(SentenceSampler(seed), valid_end + n_train - 1, witch)]
    if direction == "fr-en":
        pairs = [pair.reversed() for pair in pairs]
    return {"train": pairs[valid_end:], "valid": pairs[test_end:valid_end], "test": pairs[:n_test]}
