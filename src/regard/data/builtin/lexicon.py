"""Lexicon of the English-French grammar: nouns, adjectives, verbs and the closed word classes.

Every English lemma has exactly one French lemma and vice versa, and every English form shows its number and tense, so
that the words determine the translation.  Tags are selectional classes: a verb lists the tags that its subject and
objects may have, an adjective those of its nouns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

Tags = frozenset[str]

ENGLISH_PLURALS = {"man": "men", "woman": "women", "child": "children", "wolf": "wolves", "knife": "knives"}
FRENCH_PLURALS = {"hibou": "hiboux", "cheval": "chevaux"}
ASPIRATE = ("hibou", "hiboux", "huit")  # no elision before these; every other h is mute


@dataclass(frozen=True)
class Agreement:
    """Person, number and gender."""

    first: bool = False  # first person; otherwise third
    plural: bool = False
    feminine: bool = False

    @property
    def third_singular(self) -> bool:
        return not (self.first or self.plural)

    def form(self, forms: Sequence[str]) -> str:
        """Choose from the forms for i, he, we, they."""
        return forms[2 * self.plural + (not self.first)]

    def do(self, past: bool) -> str:
        return "did" if past else "does" if self.third_singular else "do"


MASCULINE = Agreement()


@dataclass(frozen=True)
class Noun:
    en: str
    fr: str
    feminine: bool
    tags: Tags

    def english(self, plural: bool) -> str:
        return ENGLISH_PLURALS.get(self.en, add_s(self.en)) if plural else self.en

    def french(self, plural: bool) -> str:
        return FRENCH_PLURALS.get(self.fr, french_plural(self.fr)) if plural else self.fr


@dataclass(frozen=True)
class Inflected:
    """A determiner or an adjective. French forms: m sg, f sg, m pl, f pl, then m sg and f sg before a vowel."""

    en: str
    forms: tuple[str, str, str, str, str, str]
    tags: Tags = frozenset()
    before_noun: bool = False

    def french(self, agreement: Agreement, following: str = "") -> str:
        if agreement.plural:
            return self.forms[2 + agreement.feminine]
        return self.forms[agreement.feminine + (4 if starts_with_vowel(following) else 0)]


@dataclass(frozen=True)
class Pronoun:
    subject: tuple[str, str]
    object: tuple[str, str]
    agreement: Agreement


@dataclass(frozen=True)
class Verb:
    en: str
    past: str
    present: tuple[str, ...]  # je, il, nous, ils
    participle: str
    etre: bool  # whether the past tense is formed with être instead of avoir
    place: bool  # whether a place is natural with it
    subjects: Tags
    objects: Tags
    to: Tags  # tags of the noun of an obligatory phrase with "to", if any

    def agreed(self, agreement: Agreement) -> str:
        """Return the participle, which agrees with the subject or with a preceding object."""
        return self.participle + "e" * agreement.feminine + "s" * agreement.plural


@dataclass(frozen=True)
class Preposition:
    en: str
    fr: tuple[str, ...]
    heads: Tags  # tags of the nouns that it may modify
    tags: Tags  # tags of the noun that follows it


@dataclass(frozen=True)
class Adverb:
    en: str
    fr: str
    present: bool  # whether it can be used in the present tense
    past: bool  # whether it can be used in the past tense


def starts_with_vowel(word: str) -> bool:
    return word.startswith(tuple("aâeéèêhiîoôœu")) and word not in ASPIRATE


def add_s(word: str) -> str:
    """Return the plural of an English noun, or the third person singular of a verb."""
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("ch", "s", "x", "o")) else "s")


def french_plural(word: str) -> str:
    if word.endswith(("s", "x")):
        return word
    return word + ("x" if word.endswith("eau") else "s")


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def _nouns(tags: str, nouns: str) -> list[Noun]:
    triples = [noun.split() for noun in nouns.split(",")]
    return [Noun(en, fr, gender == "f", frozenset(tags.split())) for en, fr, gender in triples]


def _adjective(position: str, words: str, tags: str) -> Inflected:
    en, m, f, *vowel = words.split()
    forms = (m, f, french_plural(m), french_plural(f), vowel[0] if vowel else m, f)
    return Inflected(en, forms, frozenset(tags.split()), position == "before")


def _determiner(words: str) -> Inflected:
    en, m, f, plural, *vowel = words.split()
    m_vowel, f_vowel = vowel or (m, f)
    return Inflected(en, (m, f, plural, plural, m_vowel, f_vowel))


def _verb(english: str, french: str, frame: str, *options: str) -> Verb:
    en, past = english.split()
    forms = french.split()
    if len(forms) == 1:  # the infinitive of a regular verb
        stem = forms[0].removesuffix("er")
        soft = stem + "e" if stem.endswith("g") else stem  # mangeons, nageons
        forms = [stem + "e", stem + "e", soft + "ons", stem + "ent", stem + "é"]
    *present, participle = forms
    subjects, objects, to = (frozenset(part.split()) for part in frame.split("/"))
    return Verb(en, past, tuple(present), participle, "être" in options, "place" in options, subjects, objects, to)


NOUNS = {
    noun.en: noun
    for row in _rows("""
    person         | man homme m, woman femme f, girl fille f, boy garçon m, child enfant m, witch sorcière f
    person         | king roi m, queen reine f, friend ami m, nurse infirmière f, doctor médecin m
    person         | student étudiant m, actress actrice f, farmer fermier m
    animal         | cat chat m, dog chien m, bird oiseau m, horse cheval m, cow vache f, owl hibou m
    animal         | wolf loup m, goat chèvre f, donkey âne m
    food           | apple pomme f, cake gâteau m, egg œuf m, pear poire f, carrot carotte f, onion oignon m
    food           | tomato tomate f, cherry cerise f
    thing          | letter lettre f, key clé f, flower fleur f, hat chapeau m, knife couteau m, sword épée f
    thing          | picture image f
    thing opens    | book livre m, box boîte f
    part opens     | door porte f, window fenêtre f
    thing surface  | chair chaise f
    thing surface cover        | table table f
    place building inside goal | house maison f, school école f, church église f, hotel hôtel m
    place building inside goal | castle château m
    place inside goal          | garden jardin m
    place inside               | forest forêt f, city ville f
    place goal                 | river rivière f
    place surface              | island île f, mountain montagne f
    place surface cover        | bridge pont m
    place cover                | tree arbre m
    mass inside surface        | grass herbe f
    """)
    for noun in _nouns(*row)
}

# Of the colours, people have only those of fairy tales.
ADJECTIVES = {
    row[1].split()[0]: _adjective(*row)
    for row in _rows("""
    before | little petit petite             | person animal food thing part place
    before | big grand grande                | person animal food thing part place
    before | beautiful beau belle bel        | person animal food thing part place
    before | old vieux vieille vieil         | person animal thing part place
    before | young jeune jeune               | person animal
    before | new nouveau nouvelle nouvel     | person animal thing part building
    before | good bon bonne                  | person animal food
    after  | green vert verte                | person animal food thing part place mass
    after  | blue bleu bleue                 | person animal thing part place
    after  | white blanc blanche             | animal food thing part place
    after  | black noir noire                | animal food thing part place
    after  | red rouge rouge                 | animal food thing part place
    after  | yellow jaune jaune              | animal food thing part mass
    after  | strange étrange étrange         | person animal food thing part place
    after  | happy heureux heureuse          | person animal
    after  | sad triste triste               | person animal
    after  | tired fatigué fatiguée          | person animal
    after  | clever intelligent intelligente | person animal
    after  | kind gentil gentille            | person animal
    after  | rich riche riche                | person
    after  | famous célèbre célèbre          | person place
    after  | heavy lourd lourde              | thing part
    after  | expensive cher chère            | thing food
    after  | fresh frais fraîche             | food
    """)
}

# English and its past | French | tags of subjects / objects / nouns after "to" | options
# French: the infinitive of a regular verb, or the forms for je, il, nous, ils and the participle
VERBS = {
    row[0].split()[0]: _verb(*row)
    for row in _rows("""
    arrive arrived | arriver                                    | person animal / / | être
    leave left     | pars part partons partent parti            | person animal / / | être
    enter entered  | entrer                                     | person animal / / | être
    come came      | viens vient venons viennent venu           | person animal / / | être
    go went        | vais va allons vont allé                   | person animal / / goal | être
    stay stayed    | rester                                     | person animal / / | être | place
    fall fell      | tomber                                     | person animal food thing / / | être | place
    sleep slept    | dors dort dormons dorment dormi            | person animal / / | place
    run ran        | cours court courons courent couru          | person animal / / | place
    walk walked    | marcher                                    | person animal / / | place
    swim swam      | nager                                      | person animal / /
    laugh laughed  | ris rit rions rient ri                     | person / / | place
    sing sang      | chanter                                    | person / / | place
    dance danced   | danser                                     | person / / | place
    work worked    | travailler                                 | person / / | place
    cry cried      | pleurer                                    | person / / | place
    speak spoke    | parler                                     | person / / person
    see saw        | vois voit voyons voient vu| person animal / person animal food thing part place / | place
    watch watched  | regarder                                   | person animal / person animal place /
    hear heard     | entends entend entendons entendent entendu | person animal / person animal /
    find found     | trouver                                    | person / person animal food thing / | place
    love loved     | aimer                                      | person / person animal place /
    help helped    | aider                                      | person / person animal /
    thank thanked  | remercier                                  | person / person /
    eat ate        | manger                                     | person animal / food / | place
    buy bought     | achète achète achetons achètent acheté     | person / animal food thing building /
    sell sold      | vends vend vendons vendent vendu           | person / animal food thing building /
    lose lost      | perds perd perdons perdent perdu           | person / thing / | place
    hide hid       | cacher                                     | person / food thing / | place
    open opened    | ouvre ouvre ouvrons ouvrent ouvert         | person / opens /
    close closed   | fermer                                     | person / opens /
    give gave      | donner                                     | person / animal food thing / person
    show showed    | montrer                                    | person / animal food thing place / person
    """)
}

# Forms for i, he, we, they; je, il, nous, ils.
BE = ("am", "is", "are", "are")
ETRE = ("suis", "est", "sommes", "sont")
AVOIR = ("ai", "a", "avons", "ont")

PRONOUNS = (
    Pronoun(("i", "je"), ("me", "me"), Agreement(first=True)),
    Pronoun(("he", "il"), ("him", "le"), MASCULINE),
    Pronoun(("she", "elle"), ("her", "la"), Agreement(feminine=True)),
    Pronoun(("we", "nous"), ("us", "nous"), Agreement(first=True, plural=True)),
    Pronoun(("they", "ils"), ("them", "les"), Agreement(plural=True)),
)

NUMBERS = {"two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six", "seven": "sept"}
NUMBERS |= {"eight": "huit", "nine": "neuf", "ten": "dix"}
DETERMINERS = {
    row[0].split()[0]: _determiner(*row)
    for row in _rows("""
    the le la les
    my mon ma mes mon mon
    our notre notre nos
    your votre votre vos
    this ce cette ces cet cette
    these ce cette ces cet cette
    a un une des
    some un une des
    """)
} | {en: Inflected(en, (fr,) * 6) for en, fr in NUMBERS.items()}

# Determiners to draw from; frequent ones are repeated.
DEFINITE = ("the",) * 6 + ("my", "our", "your", "this", "these")
SPECIFIC = (*DEFINITE, "a", "a", "a")  # "près de deux" would mean "almost two", and "de des" does not exist
ANY = (*SPECIFIC, "some", "some", "some") * 4 + tuple(NUMBERS)
PLURAL = ("these", "some", *NUMBERS)
EITHER_NUMBER = ("the", "my", "our", "your")

_ANIMATE = frozenset({"person", "animal"})
_MOVABLE = _ANIMATE | {"food", "thing"}
PLACES = (
    Preposition("in", ("dans",), _MOVABLE, frozenset({"inside"})),
    Preposition("on", ("sur",), _MOVABLE, frozenset({"surface"})),
    Preposition("under", ("sous",), _MOVABLE, frozenset({"cover"})),
    Preposition("near", ("près", "de"), _MOVABLE | {"place"}, _ANIMATE | {"place", "part"}),
)
WITH = Preposition("with", ("avec",), _ANIMATE, _ANIMATE)
TO = Preposition("to", ("à",), frozenset(), frozenset())  # the verb determines the noun
OF = (
    Preposition("of", ("de",), frozenset({"part"}), frozenset({"building"})),
    Preposition("of", ("de",), frozenset({"thing", "animal"}), frozenset({"person"})),
)

# In English, adverbs of frequency precede the verb; those of time end the clause.
FREQUENCY = (
    Adverb("often", "souvent", present=True, past=True),
    Adverb("sometimes", "parfois", present=True, past=True),
    Adverb("always", "toujours", present=True, past=False),  # "est toujours parti" would mean "is still gone"
)
TIME = (
    Adverb("today", "aujourd'hui", present=True, past=True),
    Adverb("now", "maintenant", present=True, past=False),
    Adverb("yesterday", "hier", present=False, past=True),
)
HERE = ("here", "ici")
WHERE, WHEN, WHY = ("where", "où"), ("when", "quand"), ("why", "pourquoi")
CONJUNCTIONS = (("and", "et"), ("but", "mais"), ("because", "parce", "que"))


@cache
def nouns_with(tags: Tags) -> tuple[Noun, ...]:
    return tuple(noun for noun in NOUNS.values() if noun.tags & tags)


@cache
def adjectives_of(noun: Noun, before_noun: bool) -> tuple[Inflected, ...]:
    candidates = ADJECTIVES.values()
    return tuple(each for each in candidates if each.before_noun is before_noun and each.tags & noun.tags)
