from typing import Any

import pytest

from regard.data.builtin import lexicon as lex
from regard.data.builtin.grammar import (
    AlignedPair,
    Phrase,
    Predicate,
    coordinate,
    copula,
    noun_phrase,
    object_relative,
    prepositional_phrase,
    question,
    render,
    statement,
    subject_pronoun,
    subject_relative,
    word,
)

ME, HIM, HER, US, THEM = lex.PRONOUNS
IN, ON, UNDER, NEAR = lex.PLACES
OFTEN = lex.FREQUENCY[0]
YESTERDAY = word("yesterday", "hier")


def np(text: str) -> Phrase:
    """Parse a noun phrase such as "the little green houses", or a pronoun."""
    pronouns = {pronoun.subject[0]: pronoun for pronoun in lex.PRONOUNS}
    if text in pronouns:
        return subject_pronoun(pronouns[text])
    determiner, *adjectives, noun = text.split()
    singular = noun if noun in lex.NOUNS else next(n.en for n in lex.NOUNS.values() if n.english(True) == noun)
    return noun_phrase(
        "a" if determiner == "an" else determiner,
        lex.NOUNS[singular],
        noun != singular,
        *(lex.ADJECTIVES[adjective] for adjective in adjectives),
    )


def pred(verb: str, *rest: Phrase, **features: Any) -> Predicate:
    return Predicate(lex.VERBS[verb], rest=rest, **features)


def says(subject: str, verb: str, *rest: Phrase, **features: Any) -> Phrase:
    return statement(np(subject), pred(verb, *rest, **features))


def asks(subject: str, verb: str, question_word: tuple[str, str] | None = None, **features: Any) -> Phrase:
    return question(np(subject), pred(verb, **features), question_word)


NOUN_PHRASES = {
    "the man": ("l'homme", "0-0 1-0"),
    "the grass": ("l'herbe", "0-0 1-0"),
    "the egg": ("l'œuf", "0-0 1-0"),
    "the owl": ("le hibou", "0-0 1-1"),
    "the horses": ("les chevaux", "0-0 1-1"),
    "an apple": ("une pomme", "0-0 1-1"),
    "an old cat": ("un vieux chat", "0-0 1-1 2-2"),
    "an old man": ("un vieil homme", "0-0 1-1 2-2"),
    "an old school": ("une vieille école", "0-0 1-1 2-2"),
    "a beautiful bird": ("un bel oiseau", "0-0 1-1 2-2"),
    "a beautiful owl": ("un beau hibou", "0-0 1-1 2-2"),
    "the beautiful birds": ("les beaux oiseaux", "0-0 1-1 2-2"),
    "a new hotel": ("un nouvel hôtel", "0-0 1-1 2-2"),
    "the new hats": ("les nouveaux chapeaux", "0-0 1-1 2-2"),
    "your new school": ("votre nouvelle école", "0-0 1-1 2-2"),
    "a good actress": ("une bonne actrice", "0-0 1-1 2-2"),
    "a white cow": ("une vache blanche", "0-0 1-2 2-1"),
    "these happy queens": ("ces reines heureuses", "0-0 1-2 2-1"),
    "a kind nurse": ("une infirmière gentille", "0-0 1-2 2-1"),
    "our expensive keys": ("nos clés chères", "0-0 1-2 2-1"),
    "ten fresh pears": ("dix poires fraîches", "0-0 1-2 2-1"),
    "eight fresh eggs": ("huit œufs frais", "0-0 1-2 2-1"),
    "the little green house": ("la petite maison verte", "0-0 1-1 2-3 3-2"),
    "some cats": ("des chats", "0-0 1-1"),
    "some green cats": ("des chats verts", "0-0 1-2 2-1"),
    "some old cats": ("de vieux chats", "0-0 1-1 2-2"),
    "some young black wolves": ("de jeunes loups noirs", "0-0 1-1 2-3 3-2"),
    "my witch": ("ma sorcière", "0-0 1-1"),
    "my school": ("mon école", "0-0 1-1"),
    "my old school": ("ma vieille école", "0-0 1-1 2-2"),
    "my knives": ("mes couteaux", "0-0 1-1"),
    "this man": ("cet homme", "0-0 1-1"),
    "this old man": ("ce vieil homme", "0-0 1-1 2-2"),
    "this owl": ("ce hibou", "0-0 1-1"),
    "this sword": ("cette épée", "0-0 1-1"),
}

SENTENCES = [
    # short sentences, and the past with être and avoir
    (says("he", "sleep"), "he sleeps", "il dort", "0-0 1-1"),
    (says("i", "love", np("the cows")), "i love the cows", "j'aime les vaches", "0-0 1-0 2-1 3-2"),
    (says("i", "arrive", past=True), "i arrived", "je suis arrivé", "0-0 1-1 1-2"),
    (says("we", "swim"), "we swim", "nous nageons", "0-0 1-1"),
    (says("the women", "leave", past=True), "the women left", "les femmes sont parties", "0-0 1-1 2-2 2-3"),
    (says("they", "fall", past=True), "they fell", "ils sont tombés", "0-0 1-1 1-2"),
    (
        says("she", "find", np("an egg"), past=True),
        "she found an egg",
        "elle a trouvé un œuf",
        "0-0 1-1 1-2 2-3 3-4",
    ),
    # negation
    (
        says("the cat", "sleep", negated=True),
        "the cat does not sleep",
        "le chat ne dort pas",
        "0-0 1-1 2-3 3-2 3-4 4-3",
    ),
    (
        says("the witch", "arrive", past=True, negated=True),
        "the witch did not arrive",
        "la sorcière n'est pas arrivée",
        "0-0 1-1 2-2 3-2 3-3 4-4",
    ),
    (says("i", "arrive", negated=True), "i do not arrive", "je n'arrive pas", "0-0 1-1 2-1 2-2 3-1"),
    # object pronouns
    (says("she", "see", pronoun=HIM), "she sees him", "elle le voit", "0-0 1-2 2-1"),
    (says("he", "love", pronoun=ME), "he loves me", "il m'aime", "0-0 1-1 2-1"),
    (says("she", "see", pronoun=HER, past=True), "she saw her", "elle l'a vue", "0-0 1-1 1-2 2-1"),
    (says("he", "see", pronoun=THEM, past=True), "he saw them", "il les a vus", "0-0 1-2 1-3 2-1"),
    (says("they", "help", pronoun=US, past=True), "they helped us", "ils nous ont aidés", "0-0 1-2 1-3 2-1"),
    (
        says("he", "see", pronoun=HER, past=True, negated=True),
        "he did not see her",
        "il ne l'a pas vue",
        "0-0 1-2 2-1 2-3 3-4 4-2",
    ),
    # contractions and prepositions
    (
        says("he", "sleep", prepositional_phrase(NEAR, np("the bridge"))),
        "he sleeps near the bridge",
        "il dort près du pont",
        "0-0 1-1 2-2 2-3 3-3 4-4",
    ),
    (
        says("he", "sleep", prepositional_phrase(NEAR, np("the trees"))),
        "he sleeps near the trees",
        "il dort près des arbres",
        "0-0 1-1 2-2 2-3 3-3 4-4",
    ),
    (
        says("he", "sleep", prepositional_phrase(NEAR, np("the tree"))),
        "he sleeps near the tree",
        "il dort près de l'arbre",
        "0-0 1-1 2-2 2-3 3-4 4-4",
    ),
    (
        says("he", "sleep", prepositional_phrase(NEAR, np("an owl"))),
        "he sleeps near an owl",
        "il dort près d'un hibou",
        "0-0 1-1 2-2 2-3 3-3 4-4",
    ),
    (
        says("she", "go", prepositional_phrase(lex.TO, np("the castle")), past=True),
        "she went to the castle",
        "elle est allée au château",
        "0-0 1-1 1-2 2-3 3-3 4-4",
    ),
    (
        says("she", "speak", prepositional_phrase(lex.TO, np("the kings"))),
        "she speaks to the kings",
        "elle parle aux rois",
        "0-0 1-1 2-2 3-2 4-3",
    ),
    (
        says("she", "go", prepositional_phrase(lex.TO, np("the school"))),
        "she goes to the school",
        "elle va à l'école",
        "0-0 1-1 2-2 3-3 4-3",
    ),
    (
        says("we", "close", np("the door") + prepositional_phrase(lex.OF[0], np("the hotel"))),
        "we close the door of the hotel",
        "nous fermons la porte de l'hôtel",
        "0-0 1-1 2-2 3-3 4-4 5-5 6-5",
    ),
    (
        says("we", "give", np("the key"), prepositional_phrase(lex.TO, np("the boy"))),
        "we give the key to the boy",
        "nous donnons la clé au garçon",
        "0-0 1-1 2-2 3-3 4-4 5-4 6-5",
    ),
    (
        says("he", "sing", prepositional_phrase(IN, np("the garden")), prepositional_phrase(lex.WITH, np("a bird"))),
        "he sings in the garden with a bird",
        "il chante dans le jardin avec un oiseau",
        "0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7",
    ),
    (
        says("the egg", "fall", prepositional_phrase(ON, np("the grass")), past=True),
        "the egg fell on the grass",
        "l'œuf est tombé sur l'herbe",
        "0-0 1-0 2-1 2-2 3-3 4-4 5-4",
    ),
    (
        says("i", "stay", prepositional_phrase(UNDER, np("our table"))),
        "i stay under our table",
        "je reste sous notre table",
        "0-0 1-1 2-2 3-3 4-4",
    ),
    # questions
    (
        asks("the cat", "sleep"),
        "does the cat sleep ?",
        "est-ce que le chat dort ?",
        "0-0 0-1 1-2 2-3 3-4 4-5",
    ),
    (
        asks("she", "arrive", past=True),
        "did she arrive ?",
        "est-ce qu'elle est arrivée ?",
        "0-0 0-1 1-1 2-2 2-3 3-4",
    ),
    (
        asks("the cat", "sleep", lex.WHERE),
        "where does the cat sleep ?",
        "où est-ce que le chat dort ?",
        "0-0 1-1 1-2 2-3 3-4 4-5 5-6",
    ),
    (
        asks("they", "leave", lex.WHEN),
        "when do they leave ?",
        "quand est-ce qu'ils partent ?",
        "0-0 1-1 1-2 2-2 3-3 4-4",
    ),
    (
        asks("i", "cry", lex.WHY, negated=True),
        "why do i not cry ?",
        "pourquoi est-ce que je ne pleure pas ?",
        "0-0 1-1 1-2 2-3 3-4 3-6 4-5 5-7",
    ),
    # relative clauses
    (
        subject_relative(np("the woman"), True, pred("sleep")),
        "the woman who sleeps",
        "la femme qui dort",
        "0-0 1-1 2-2 3-3",
    ),
    (
        subject_relative(np("the green apples"), False, pred("fall", past=True)),
        "the green apples that fell",
        "les pommes vertes qui sont tombées",
        "0-0 1-2 2-1 3-3 4-4 4-5",
    ),
    (
        object_relative(np("the cat"), np("the girl"), pred("see")),
        "the cat that the girl sees",
        "le chat que la fille voit",
        "0-0 1-1 2-2 3-3 4-4 5-5",
    ),
    (
        object_relative(np("the apple"), np("the girl"), pred("eat", past=True)),
        "the apple that the girl ate",
        "la pomme que la fille a mangée",
        "0-0 1-1 2-2 3-3 4-4 5-5 5-6",
    ),
    (
        object_relative(np("the doors"), np("he"), pred("open", past=True, negated=True)),
        "the doors that he did not open",
        "les portes qu'il n'a pas ouvertes",
        "0-0 1-1 2-2 3-2 4-3 5-3 5-4 6-5",
    ),
    (
        object_relative(np("the apple"), np("eight owls"), pred("see")),
        "the apple that eight owls see",
        "la pomme que huit hiboux voient",
        "0-0 1-1 2-2 3-3 4-4 5-5",
    ),
    # coordination, adverbs and predicative adjectives
    (
        statement(coordinate(np("the girl"), np("the witch")), pred("arrive", past=True)),
        "the girl and the witch arrived",
        "la fille et la sorcière sont arrivées",
        "0-0 1-1 2-2 3-3 4-4 5-5 5-6",
    ),
    (
        statement(coordinate(np("the girl"), np("the cat")), pred("arrive", past=True)),
        "the girl and the cat arrived",
        "la fille et le chat sont arrivés",
        "0-0 1-1 2-2 3-3 4-4 5-5 5-6",
    ),
    (
        statement(np("she"), pred("see", pronoun=HER, past=True), pred("leave", YESTERDAY, past=True)),
        "she saw her and left yesterday",
        "elle l'a vue et est partie hier",
        "0-0 1-1 1-2 2-1 3-3 4-4 4-5 5-6",
    ),
    (
        says("he", "sleep") + word("because", "parce", "que") + says("she", "sing"),
        "he sleeps because she sings",
        "il dort parce qu'elle chante",
        "0-0 1-1 2-2 2-3 3-3 4-4",
    ),
    (
        says("she", "see", pronoun=HIM, frequency=OFTEN),
        "she often sees him",
        "elle le voit souvent",
        "0-0 1-3 2-2 3-1",
    ),
    (
        says("she", "eat", np("the cake"), frequency=OFTEN, past=True),
        "she often ate the cake",
        "elle a souvent mangé le gâteau",
        "0-0 1-2 2-1 2-3 3-4 4-5",
    ),
    (
        copula(np("the queens"), lex.ADJECTIVES["happy"]),
        "the queens are happy",
        "les reines sont heureuses",
        "0-0 1-1 2-2 3-3",
    ),
    (
        copula(np("he"), lex.ADJECTIVES["old"], negated=True),
        "he is not old",
        "il n'est pas vieux",
        "0-0 1-1 2-1 2-2 3-3",
    ),
]


def aligned(src: str, tgt: str, links: str) -> AlignedPair:
    pairs = [link.split("-") for link in links.split()]
    return AlignedPair(src, tgt, tuple((int(i), int(j)) for i, j in pairs))


@pytest.mark.parametrize(("english", "french", "links"), [(en, *rest) for en, rest in NOUN_PHRASES.items()])
def test_noun_phrase(english: str, french: str, links: str) -> None:
    assert render(np(english)) == aligned(english, french, links)


@pytest.mark.parametrize(("phrase", "english", "french", "links"), SENTENCES, ids=lambda value: str(value)[:40])
def test_sentence(phrase: Phrase, english: str, french: str, links: str) -> None:
    assert render(phrase) == aligned(english, french, links)
