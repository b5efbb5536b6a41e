"""Random sentences of the bilingual grammar."""

import random
from collections.abc import Sequence
from typing import Literal, TypeVar

from regard.data.builtin import lexicon as lex
from regard.data.builtin.grammar import (
    Phrase,
    Predicate,
    coordinate,
    copula,
    noun_phrase,
    object_relative,
    prepositional_phrase,
    question,
    statement,
    subject_pronoun,
    subject_relative,
    word,
)

VERBS = tuple(lex.VERBS.values())

T = TypeVar("T")
ObjectKind = Literal["none", "simple", "complex"]


class SentenceSampler:
    """Draws random sentences.

    It uses only `random.random`, which is guaranteed to give the same numbers in every version of Python.
    """

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
        last = self.predicate(verb, subject.agreement, past, objects="complex")
        others = [other for other in VERBS if other is not verb and verb.subjects <= other.subjects]
        if subject.agreement.first or not others or self.chance(0.8):
            return statement(subject, last)
        # only the last predicate may be negated or end in a relative clause: their scope could include the "and"
        first = self.predicate(self.pick(others), subject.agreement, past, bare=True)
        return statement(subject, first, last)

    def two_clauses(self) -> Phrase:
        # "sees a and b and c arrived" has only one reading if the second subject is not coordinated
        return self.clause() + word(*self.pick(lex.CONJUNCTIONS)) + self.clause(simple_subject=True)

    def question(self) -> Phrase:
        question_word = self.pick((None, lex.WHERE, lex.WHEN, lex.WHY))
        verb = self.pick([verb for verb in VERBS if verb.place or question_word is not lex.WHERE])
        subject, past = self.subject(verb), self.chance(0.5)
        bare = question_word in (lex.WHERE, lex.WHEN)  # a question about the circumstances does not state them
        return question(subject, self.predicate(verb, subject.agreement, past, bare=bare), question_word)

    def description(self) -> Phrase:
        # "nouveau" is rarely used after "être"
        adjective = self.pick([each for each in lex.ADJECTIVES.values() if each.en != "new"])
        if "person" in adjective.tags and self.chance(0.25):
            subject = subject_pronoun(self.pick(lex.PRONOUNS))
        else:
            noun, subject = self.noun(adjective.tags, lex.DEFINITE, bare=True)
            if "mass" not in noun.tags and self.chance(0.6):
                subject = self.relative_clause(noun, subject)
        return copula(subject, adjective, negated=self.chance(0.25))

    def subject(self, verb: lex.Verb, simple: bool = False) -> Phrase:
        if "person" in verb.subjects and self.chance(0.4):
            return subject_pronoun(self.pick(lex.PRONOUNS))
        return self.noun(verb.subjects)[1] if simple else self.complex_noun_phrase(verb.subjects)

    def predicate(
        self,
        verb: lex.Verb,
        subject: lex.Agreement,
        past: bool,
        objects: ObjectKind = "simple",
        bare: bool = False,
    ) -> Predicate:
        """Draw the dependents of a verb.

        With `bare` it is neither negated nor has circumstances.  With `objects` "none" it gets no object, because the
        noun before the relative clause is its object.
        """
        negated = not bare and self.chance(0.2)
        often = not bare and not negated and self.chance(0.12)
        pronoun, rest = None, []
        if verb.objects and objects != "none":
            if self.chance(0.25):
                pronoun = self.object_pronoun(verb, subject, past)
            elif objects == "complex" and not negated and not verb.to and self.chance(0.5):
                rest, bare = [self.complex_noun_phrase(verb.objects, last=True)], True
            else:  # after "pas", "un" and "des" would become "de"
                rest = [self.noun(verb.objects, lex.DEFINITE if negated else lex.ANY)[1]]
        if verb.to:
            rest.append(prepositional_phrase(lex.TO, self.noun(verb.to, lex.DEFINITE)[1]))
        if not bare:
            rest += self.circumstances(verb, past, with_time=not often and self.chance(0.2))
        adverb = self.adverb(lex.FREQUENCY, past) if often else None
        return Predicate(verb, past, negated, pronoun, adverb, tuple(rest))

    def object_pronoun(self, verb: lex.Verb, subject: lex.Agreement, past: bool) -> lex.Pronoun:
        """Draw a pronoun: only "them" for things, nothing reflexive, no "him" or "her" where both would be "l'"."""
        *others, them = lex.PRONOUNS
        elided = not past and lex.starts_with_vowel(verb.present[0])
        allowed = [each for each in others if not (subject.first if each.agreement.first else elided)]
        return self.pick([*allowed, them]) if "person" in verb.objects else them

    def adverb(self, adverbs: Sequence[lex.Adverb], past: bool) -> lex.Adverb:
        return self.pick([adverb for adverb in adverbs if (adverb.past if past else adverb.present)])

    def circumstances(self, verb: lex.Verb, past: bool, with_time: bool) -> list[Phrase]:
        phrases = []
        if "thing" not in verb.subjects and self.chance(0.1):  # things do not act with others
            phrases.append(self.prepositional_phrase(lex.WITH))
        if verb.place and self.chance(0.4):
            phrases.append(self.prepositional_phrase(self.pick(lex.PLACES)))
        elif verb.place and self.chance(0.1):
            phrases.append(word(*lex.HERE))
        if with_time:
            adverb = self.adverb(lex.TIME, past)
            phrases.append(word(adverb.en, adverb.fr))
        return phrases

    def prepositional_phrase(self, preposition: lex.Preposition) -> Phrase:
        return prepositional_phrase(preposition, self.noun(preposition.tags, lex.SPECIFIC)[1])

    def noun(self, tags: lex.Tags, determiners: Sequence[str] = lex.ANY, bare: bool = False) -> tuple[lex.Noun, Phrase]:
        """Draw a noun and its phrase: a determiner and, unless `bare`, at most one adjective on either side."""
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

    def complex_noun_phrase(self, tags: lex.Tags, last: bool = False) -> Phrase:
        """Draw a noun phrase that may be coordinated or have a modifier; with `last` it ends the clause."""
        shape = self.random()
        if shape < 0.16:
            return self.noun_with_preposition(tags)
        noun, phrase = self.noun(tags)
        if shape < 0.28:
            other, second = self.noun(tags)
            return phrase if other is noun else coordinate(phrase, second)
        return self.relative_clause(noun, phrase, last) if shape < 0.58 else phrase

    def noun_with_preposition(self, tags: lex.Tags) -> Phrase:
        noun, phrase = self.noun(tags, ("the", "the", "a", "some"))
        fitting = [each for each in (*lex.PLACES, lex.WITH, *lex.OF, *lex.OF) if each.heads & noun.tags]
        return phrase + self.prepositional_phrase(self.pick(fitting))

    def relative_clause(self, noun: lex.Noun, head: Phrase, last: bool = False) -> Phrase:
        # object relatives get more weight: only they show the gender of most verbs' participles
        acting = [(verb, True) for verb in VERBS if verb.subjects & noun.tags]
        undergoing = [(verb, False) for verb in VERBS if verb.objects & noun.tags]
        verb, acts = self.pick(acting + 3 * undergoing)
        if acts:
            objects: ObjectKind = "complex" if last else "simple"
            predicate = self.predicate(verb, head.agreement, self.chance(0.5), objects)
            return subject_relative(head, "person" in noun.tags, predicate)
        subject = self.subject(verb, simple=True)
        predicate = self.predicate(verb, subject.agreement, self.chance(0.7), objects="none")
        return object_relative(head, subject, predicate)
