"""Short stories with summaries, made of the words and phrases of the built-in grammar.

A text has three to six sentences in the past tense.  Two to four of them have the same subject, the protagonist; each
of the others has a different subject.  The summary is one sentence: the actions of the protagonist in the order of the
text, without their circumstances (with whom, where, when):

    the king slept near the river . the green witch arrived yesterday . the green witch ate an apple in the garden .
    → the green witch arrived and ate an apple .

The summary is thus a function of the text.  To produce it, a model must find out who the text is about, which
sentences are about that subject, and what to leave out.  A phrase with "to" is not a circumstance: "went to the
castle" is kept whole.  No noun, adjective or verb occurs twice in a summary, so that decoding that forbids repeated
n-grams can produce every summary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.data.builtin import lexicon as lex
from regard.data.builtin.grammar import Phrase, Predicate, prepositional_phrase, verb_phrase
from regard.data.builtin.sentence_sampler import VERBS, SentenceSampler
from regard.errors import UserError

N_SENTENCES = (3, 4, 5, 6)
"""Possible numbers of sentences in a text."""
N_ACTIONS = (2, 3, 4)
"""Possible numbers of sentences about the protagonist; at least one sentence is about somebody else."""
FULL_STOP = "."

_ANIMATE = frozenset({"person", "animal"})
_MAY_REPEAT = {*lex.DETERMINERS, "an", lex.TO.en}
_SINGULAR = {noun.english(plural=True): noun.en for noun in lex.NOUNS.values()}


@dataclass(frozen=True)
class Story:
    text: str
    summary: str


@dataclass(frozen=True)
class Action:
    """An action such as "ate an apple", and its circumstances, such as "in the garden"."""

    text: str
    circumstances: str


def generate_stories(sizes: Mapping[str, int], seed: int = 1) -> dict[str, list[Story]]:
    """Return sizes[split] stories per split; no text and no summary is in two splits.

    The smallest split is drawn first, so that large splits cannot use up the choices of small ones.
    """
    if not sizes or min(sizes.values()) < 1:
        raise UserError("stories: give every split at least 1 story")
    sampler, splits, used_summaries = StorySampler(seed), dict[str, list[Story]](), set[str]()
    for split in sorted(sizes, key=lambda name: (sizes[name], name)):
        stories: list[Story] = []
        while len(stories) < sizes[split]:
            story = sampler.story()
            if story.summary not in used_summaries:
                stories.append(story)
        splits[split] = stories
        used_summaries |= {story.summary for story in stories}
    return {split: splits[split] for split in sizes}


def summarise(protagonist: str, actions: Sequence[str]) -> str:
    """("the cat", ["came", "ate an egg", "left"]) → "the cat came , ate an egg and left ." """
    *first, last = actions
    return f"{protagonist} {' , '.join(first)} and {last} {FULL_STOP}"


class StorySampler(SentenceSampler):
    """Draws random stories."""

    def story(self) -> Story:
        n = self.pick(N_SENTENCES)
        n_actions = self.pick([count for count in N_ACTIONS if count < n])
        (noun, phrase), *others = self.characters(1 + n - n_actions)
        protagonist = _english(phrase)
        actions = self.actions(noun, protagonist, n_actions)
        about_protagonist = [(protagonist, action) for action in actions]
        about_others = [(_english(phrase), self.action(noun, _english(phrase))) for noun, phrase in others]
        turns = sorted([True] * len(about_protagonist) + [False] * len(about_others), key=lambda _: self.random())
        sentences = [(about_protagonist if turn else about_others).pop(0) for turn in turns]
        parts = [
            part
            for subject, action in sentences
            for part in (subject, action.text, action.circumstances, FULL_STOP)
            if part
        ]
        return Story(" ".join(parts), summarise(protagonist, [action.text for action in actions]))

    def characters(self, count: int) -> list[tuple[lex.Noun, Phrase]]:
        """Draw `count` subjects with different nouns."""
        chosen: dict[lex.Noun, Phrase] = {}
        while len(chosen) < count:
            noun, phrase = self.noun(_ANIMATE, lex.DEFINITE)
            chosen.setdefault(noun, phrase)
        return list(chosen.items())

    def actions(self, noun: lex.Noun, subject: str, count: int) -> list[Action]:
        """Draw `count` actions that repeat no word of each other or of their subject."""
        actions: list[Action] = []
        while len(actions) < count:
            action = self.action(noun, subject)
            if not _repeats_word(subject, *(each.text for each in actions), action.text):
                actions.append(action)
        return actions

    def action(self, noun: lex.Noun, subject: str) -> Action:
        """Draw an action that repeats no word, its subject included: no cat sees a cat."""
        while True:
            verb = self.pick([verb for verb in VERBS if verb.subjects & noun.tags])
            rest = [self.noun(verb.objects)[1]] if verb.objects else []
            if verb.to:
                rest.append(prepositional_phrase(lex.TO, self.noun(verb.to, lex.DEFINITE)[1]))
            phrase = verb_phrase(Predicate(verb, past=True, rest=tuple(rest)), lex.MASCULINE)
            circumstances = self.circumstances(verb, past=True, with_time=self.chance(0.25))
            action = Action(_english(phrase), " ".join(_english(phrase) for phrase in circumstances))
            if not _repeats_word(subject, action.text, action.circumstances):
                return action


def _english(phrase: Phrase) -> str:
    return " ".join(word.text for word in phrase.en)


def _repeats_word(*parts: str) -> bool:
    """Whether a word occurs twice; nouns count in either number, determiners and "to" do not count."""
    words = [_SINGULAR.get(word, word) for part in parts for word in part.split() if word not in _MAY_REPEAT]
    return len(set(words)) < len(words)
