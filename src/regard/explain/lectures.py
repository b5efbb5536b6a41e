"""The five lectures: their subjects in order, with the topic, lab and commands that show each of them."""

from dataclasses import dataclass

from regard.errors import UserError

SENTENCE = "the green witch arrived"
_GRAMMAR = "regard data grammar data/grammar"
_LANGUAGES = (
    _GRAMMAR,
    r"sed 's/$/\ten/' data/grammar/valid.en > data/languages.tsv",
    r"sed 's/$/\tfr/' data/grammar/valid.fr >> data/languages.tsv",
)
"""Sentences with their language as label"""
_CLASSIFIER = "regard train data/languages.tsv --recipe classifier --set train.steps=200"
_ATTEND = f'regard attend runs/demo-en-fr "{SENTENCE}" --words'


@dataclass(frozen=True)
class Subject:
    """One subject of a lecture, and what to run for it."""

    title: str
    rows: tuple[str, ...]
    """Numbers of the rows of the lectures"""
    topic: str | None = None
    """A name in topics.TOPICS"""
    lab: str | None = None
    """A name in labs.LABS"""
    more: tuple[str, ...] = ()
    """Other commands"""

    @property
    def commands(self) -> tuple[str, ...]:
        """All commands to run, those of topic and lab first"""
        explain = (f"regard explain {self.topic}",) if self.topic else ()
        lab = (f"regard lab {self.lab}",) if self.lab else ()
        return (*explain, *lab, *self.more)


@dataclass(frozen=True)
class Lecture:
    name: str
    title: str
    subjects: tuple[Subject, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of the topics to explain, in order, each once"""
        return tuple(dict.fromkeys(subject.topic for subject in self.subjects if subject.topic))


def _demo(recipe: str) -> str:
    """The command that trains this recipe on the built-in corpus"""
    return f"regard demo --recipe {recipe}"


def _on_demo(topic: str, recipe: str | None = None, options: str = "") -> str:
    """The command that explains a topic on the model of `regard demo`"""
    folder = f"runs/demo-{recipe}-en-fr" if recipe else "runs/demo-en-fr"
    return f'regard explain {topic} --model {folder} --text "{SENTENCE}"{options}'


def _train(recipe: str, *settings: str, out: str) -> tuple[str, str]:
    """The commands that train a variant of a recipe on the built-in corpus"""
    options = "".join(f" --set {setting}" for setting in settings)
    return _GRAMMAR, f"regard train data/grammar/train.en data/grammar/train.fr --recipe {recipe}{options} --out {out}"


_SIMPLE_RNN = _train("rnn", "model.encoder.cell=rnn", "model.decoder.cell=rnn", out="runs/simple-rnn")

_HSE = (
    Subject(
        "RNN encoder-decoder: one vector for the whole source",
        ("S1",),
        more=(_demo("rnn"), _on_demo("seq2seq-step", "rnn")),
    ),
    Subject(
        "The context vector as data: a vector for each sentence",
        ("P23",),
        more=(f'regard embed runs/demo-rnn-en-fr --text "{SENTENCE}"',),
    ),
    Subject("Why one vector fails for long sentences", ("Q7",), lab="bottleneck"),
    Subject("One step of the translator: from encoder states to −log p", ("P20",), "seq2seq-step"),
    Subject("Query, key and value: a look-up table and attention", ("P16", "P17"), "lookup"),
    Subject("What queries, keys and values are for", ("Q3",), lab="qkv"),
    Subject("Self-attention by hand", ("S8", "W5"), "attention"),
    Subject("Why the dot product is scaled", ("Q5",), lab="scaling"),
    Subject("Masked self-attention", ("S9",), "masking"),
    Subject("Multi-head attention, and the widths of heads", ("S10", "P22", "Q4"), "heads", "heads"),
    Subject("Why a head has a reduced width", ("Q6",), lab="width"),
    Subject("Cross-attention", ("S11",), more=(_on_demo("attention", options=" --kind cross"),)),
    Subject("Positions: sines and cosines, or learned", ("P1", "P2", "W7"), "positions"),
    Subject("Why a Transformer needs positions", ("Q2",), lab="positions"),
    Subject("The Transformer block: LayerNorm, residuals, feed-forward", ("P19", "P4", "P8", "S12"), "block"),
    Subject("Teacher forcing and cross-entropy", ("P5",), "nll"),
    Subject("Adam with warm-up", ("P6",), "warmup"),
    Subject("Label smoothing", ("P7",), "smoothing"),
    Subject("Byte-pair encoding", ("P9",), "bpe"),
    Subject("Averaging checkpoints", ("P10",), more=("regard average runs/demo-en-fr --last 3 --out runs/averaged",)),
    Subject("Greedy search, and a better sequence that it misses", ("P11", "W8"), "greedy"),
    Subject("Beam search", ("P12",), "beam"),
    Subject("The attention map", ("P13", "P15", "W10"), "translation", more=("regard demo", _ATTEND)),
    Subject("Decoder-only Transformers", ("S13",), more=(_demo("concat"),)),
)

_PURDUE = (
    Subject(
        "Translation with an attention map",
        ("P13", "P15", "W10"),
        "translation",
        more=("regard demo --direction fr-en",),
    ),
    Subject("RNN encoder-decoder, with simple RNN cells", ("S1", "P21"), more=(_demo("rnn"), *_SIMPLE_RNN)),
    Subject("Why one vector fails for long sentences", ("Q7",), lab="bottleneck"),
    Subject(
        "Attention by location: q = [h ; x], α = softmax(W q + b)",
        ("S2",),
        "seq2seq-step",
        more=(_demo("rnn-location"), _on_demo("seq2seq-step", "rnn-location")),
    ),
    Subject("The general equation: a soft look-up of values by keys", ("S6", "P16"), "lookup"),
    Subject("Self-attention with queries, keys and values", ("S8",), "attention"),
    Subject("Self-attention as a quadratic form", ("P24",), "quadratic-form"),
    Subject("Permuted inputs give permuted outputs", ("P3", "W9", "W13"), "equivariance"),
    Subject("Positions as sines and cosines", ("P1", "Q2"), "positions", "positions"),
    Subject("Offsets: positions as rotations", ("P25",), "offsets"),
    Subject("Masked self-attention", ("S9",), "masking"),
    Subject("Multi-head attention, and the widths of heads", ("S10", "P22", "Q4"), "heads", "heads"),
    Subject("Cross-attention", ("S11",), more=(_on_demo("attention", options=" --kind cross"),)),
    Subject("Decoder-only Transformers", ("S13",), more=(_demo("concat"),)),
    Subject("Time and memory by length", ("P14",), more=("regard bench scaling --out runs/scaling",)),
    Subject("State-space models", ("S16",), more=(_demo("ssm"),)),
    Subject(
        "Beyond translation: captions of images",
        ("S17",),
        more=(
            "regard data shapes data/shapes",
            "regard train data/shapes/train.tsv --recipe caption --out runs/caption",
        ),
    ),
)

_HUFS = (
    Subject("The dot product", ("W1",), "dot"),
    Subject("Cosine similarity of five words", ("W2",), "cosine"),
    Subject("Geometry: projection, cosine, scaled dot product", ("W11",), "geometry"),
    Subject("New embeddings from similarities", ("W3", "W4", "S7", "Q1"), "mixing", "core"),
    Subject("Linear maps change similarities: keys, queries, values", ("W12", "Q3"), "linear-maps", "qkv"),
    Subject("Scaled dot-product attention", ("S8",), "attention"),
    Subject("Why the dot product is scaled", ("Q5",), lab="scaling"),
    Subject("Multi-head attention", ("S10", "Q4"), "heads", "heads"),
    Subject(
        "Self-attention and source-target attention",
        ("S11",),
        more=(_on_demo("attention", options=" --kind encoder"), _on_demo("attention", options=" --kind cross")),
    ),
    Subject("The Transformer block", ("P19", "S12"), "block"),
    Subject("Masked self-attention", ("S9",), "masking"),
    Subject("Decoder-only Transformers: the next token", ("S13", "P5"), "nll", more=(_demo("concat"),)),
    Subject("The key-value cache", ("S18",), "cache"),
)

_USC = (
    Subject(
        "RNN language models",
        ("S19",),
        more=(
            _GRAMMAR,
            "regard train data/grammar/train.en --recipe rnn-lm --out runs/rnn-lm",
            'regard generate runs/rnn-lm --prompt "the green"',
        ),
    ),
    Subject("Encoder-decoder with a fixed context", ("S1",), more=(_demo("rnn"), _on_demo("seq2seq-step", "rnn"))),
    Subject("The information bottleneck", ("Q7",), lab="bottleneck"),
    Subject(
        "Dot-product attention, step by step",
        ("S3", "P20"),
        "seq2seq-step",
        more=(_demo("rnn-dot"), _on_demo("seq2seq-step", "rnn-dot")),
    ),
    Subject("Negative log-likelihood, teacher forced", ("P5", "P20"), "nll"),
    Subject("Multiplicative (bilinear) attention", ("S4",), more=(_demo("rnn-bilinear"),)),
    Subject(
        "Linear attention: no softmax",
        ("S5",),
        more=(_demo("linear"), *_train("rnn-dot", "model.decoder.normalise=none", out="runs/no-softmax")),
    ),
    Subject("Attention in general: queries, keys, values", ("S6", "P16"), "lookup"),
    Subject(
        "A summary of any number of vectors: attention pooling",
        ("P27",),
        "pooling",
        more=(
            *_LANGUAGES,
            f"{_CLASSIFIER} --set model.pooling=attention --out runs/pooling",
            f'regard explain pooling --model runs/pooling --text "{SENTENCE}"',
        ),
    ),
    Subject("A short cut for gradients", ("P18",), lab="gradients"),
    Subject("Alignment for free", ("P13", "W10"), "translation", more=("regard demo", _ATTEND)),
    Subject("Self-attention with queries, keys and values", ("S8",), "attention"),
    Subject("Self-attention as a quadratic form", ("P24",), "quadratic-form"),
    Subject("Positions: sines and cosines, or learned", ("P1", "P2", "Q2"), "positions", "positions"),
    Subject("Learned positions at the far end see few examples", ("P26",), lab="far-positions"),
    Subject("Feed-forward layers after attention", ("P4", "P19"), "block"),
    Subject("Masked self-attention", ("S9",), "masking"),
    Subject("Multi-head attention", ("S10", "Q4"), "heads", "heads"),
    Subject("Why the dot product is scaled", ("Q5",), lab="scaling"),
    Subject(
        "Transformers as encoders",
        ("S14",),
        more=(*_LANGUAGES, f"{_CLASSIFIER} --out runs/classifier"),
    ),
    Subject("Encoders and decoders of any kind", ("S15",), more=(_demo("rnn-transformer"), _demo("feedforward"))),
)

_AUCKLAND = (
    Subject(
        "RNNs read one word after the other",
        ("P21", "P14"),
        more=(*_SIMPLE_RNN, "regard bench scaling --out runs/scaling"),
    ),
    Subject("Similarity attention: softmax(XXᵀ)X", ("S7", "Q1"), "mixing", "core"),
    Subject("Self-attention by hand", ("W5", "S8"), "attention"),
    Subject("What queries, keys and values are for", ("Q3",), lab="qkv"),
    Subject("The shapes of all matrices, with words as columns", ("W6", "S8", "P22"), "shapes"),
    Subject("Why the dot product is scaled", ("Q5",), lab="scaling"),
    Subject("Multi-head attention", ("S10", "Q4"), "heads", "heads"),
    Subject("Why a head has a reduced width", ("Q6",), lab="width"),
    Subject("Positions of “I love you”", ("W7", "P1", "Q2"), "positions", "positions"),
    Subject("The Transformer block", ("P19", "S12"), "block"),
)

LECTURES = (
    Lecture("hse", "Temirkhanov, HSE, 2024", _HSE),
    Lecture("purdue", "Inouye, Purdue", _PURDUE),
    Lecture("hufs", "Kim, HUFS", _HUFS),
    Lecture("usc", "Swayamdipta, USC CSCI 544, 2024", _USC),
    Lecture("auckland", "Wang, Auckland, 2024", _AUCKLAND),
)


def find_lecture(name: str) -> Lecture:
    for lecture in LECTURES:
        if name.lower() == lecture.name:
            return lecture
    raise UserError(f"lecture '{name}' is unknown; choose one of {', '.join(lecture.name for lecture in LECTURES)}")


def list_subjects(lecture: Lecture) -> str:
    """Return the subjects of a lecture in order, each with its rows and, in lines below, its commands."""
    lines = [lecture.title]
    for number, subject in enumerate(lecture.subjects, start=1):
        lines += ["", f"{number:2}. {subject.title} ({', '.join(subject.rows)})"]
        lines += [f"      {command}" for command in subject.commands]
    return "\n".join(lines)
