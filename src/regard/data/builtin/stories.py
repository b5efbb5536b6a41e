"""Little stories with their summaries, of the words and phrases of the built-in grammar.

A text has three to six sentences in the past tense.  One subject, the protagonist, has two to four of them; every
other sentence is about somebody else, each about another.  The summary is one sentence: what the protagonist did, in
the order of the text, without the circumstances (with whom, where, when):

    the king slept near the river . the green witch arrived yesterday . the green witch ate an apple in the garden .
    → the green witch arrived and ate an apple .

It is thus a function of the text, and to find it is to tell who the text is about, what belongs to that and what can
be left out.  What follows "to" is no circumstance: "went to the castle" stays whole.  No noun, adjective or verb
comes twice in a summary, so that decoding without repeated n-grams can write every one of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.data.builtin import lexicon as lex
from regard.data.builtin.grammar import VERBS, Phrase, Predicate, SentenceSampler, prepositional, verb_phrase
from regard.errors import UserError

N_SENTENCES = (3, 4, 5, 6)
"""Of a text"""
N_ACTIONS = (2, 3, 4)
"""Sentences about the protagonist; at least one sentence is about somebody else"""
STOP = "."

_ACTORS = frozenset({"person", "animal"})
_CLOSED = {*lex.DETERMINERS, "an", lex.TO.en}
_SINGULAR = {noun.english(plural=True): noun.en for noun in lex.NOUNS.values()}


@dataclass(frozen=True)
class Story:
    text: str
    summary: str


@dataclass(frozen=True)
class Action:
    """What somebody did, such as "ate an apple", and its circumstances, such as "in the garden"."""

    act: str
    circumstances: str


def generate_stories(sizes: Mapping[str, int], seed: int = 1) -> dict[str, list[Story]]:
    """Splits of so many stories each; no text and no summary is in two of them.  Small splits choose first."""
    if not sizes or min(sizes.values()) < 1:
        raise UserError("stories: give every split at least 1 story")
    teller, splits, taken = StorySampler(seed), dict[str, list[Story]](), set[str]()
    for split in sorted(sizes, key=lambda name: (sizes[name], name)):
        told: list[Story] = []
        while len(told) < sizes[split]:
            story = teller.story()
            if story.summary not in taken:
                told.append(story)
        splits[split] = told
        taken |= {story.summary for story in told}
    return {split: splits[split] for split in sizes}


def summarise(protagonist: str, acts: Sequence[str]) -> str:
    """("the cat", ["came", "ate an egg", "left"]) → "the cat came , ate an egg and left ." """
    *first, last = acts
    return f"{protagonist} {' , '.join(first)} and {last} {STOP}"


class StorySampler(SentenceSampler):
    """Draws stories."""

    def story(self) -> Story:
        n = self.pick(N_SENTENCES)
        n_deeds = self.pick([count for count in N_ACTIONS if count < n])
        (hero, protagonist), *others = self.cast(1 + n - n_deeds)
        name = _english(protagonist)
        deeds = self.deeds(hero, name, n_deeds)
        own = [(name, deed) for deed in deeds]
        theirs = [(_english(phrase), self.deed(noun, _english(phrase))) for noun, phrase in others]
        turns = sorted([True] * len(own) + [False] * len(theirs), key=lambda _: self.random())
        sentences = [(own if turn else theirs).pop(0) for turn in turns]
        words = [word for who, deed in sentences for word in (who, deed.act, deed.circumstances, STOP) if word]
        return Story(" ".join(words), summarise(name, [deed.act for deed in deeds]))

    def cast(self, count: int) -> list[tuple[lex.Noun, Phrase]]:
        """So many subjects, no two of the same noun."""
        chosen: dict[lex.Noun, Phrase] = {}
        while len(chosen) < count:
            noun, phrase = self.noun(_ACTORS, lex.DEFINITE)
            chosen.setdefault(noun, phrase)
        return list(chosen.items())

    def deeds(self, hero: lex.Noun, name: str, count: int) -> list[Action]:
        """So many deeds that repeat nothing of one another."""
        deeds: list[Action] = []
        while len(deeds) < count:
            deed = self.deed(hero, name)
            if not _repeats(name, *(each.act for each in deeds), deed.act):
                deeds.append(deed)
        return deeds

    def deed(self, hero: lex.Noun, name: str) -> Action:
        """One that repeats no word of its own or of the name of the one who does it: no cat sees a cat."""
        while True:
            verb = self.pick([verb for verb in VERBS if verb.subjects & hero.tags])
            rest = [self.noun(verb.objects)[1]] if verb.objects else []
            if verb.to:
                rest.append(prepositional(lex.TO, self.noun(verb.to, lex.DEFINITE)[1]))
            act = verb_phrase(Predicate(verb, past=True, rest=tuple(rest)), lex.MASCULINE)
            around = self.circumstances(verb, past=True, timed=self.chance(0.25))
            deed = Action(_english(act), " ".join(_english(phrase) for phrase in around))
            if not _repeats(name, deed.act, deed.circumstances):
                return deed


def _english(phrase: Phrase) -> str:
    return " ".join(word.text for word in phrase.en)


def _repeats(*parts: str) -> bool:
    """Whether a noun, in either number, or another word that is no determiner comes twice."""
    words = [_SINGULAR.get(word, word) for part in parts for word in part.split() if word not in _CLOSED]
    return len(set(words)) < len(words)
