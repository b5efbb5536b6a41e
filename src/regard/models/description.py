"""What a model consists of: its stacks, their layers, the parts of each layer in order, and how many numbers they have.

The web page draws a model from this.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

StackName = Literal["encoder", "decoder"]
Axis = Literal["source", "read", "sequence", "text"]


class Described(BaseModel):
    model_config = ConfigDict(
        frozen=True, json_schema_serialization_defaults_required=True, use_attribute_docstrings=True
    )


class NormDescription(Described):
    kind: Literal["layer", "rms"]
    eps: float
    parameters: int


class PartDescription(Described):
    """What every part of a layer has."""

    name: str
    """Unique in its layer: self, cross, feedforward, …; the stages of the part have names that begin with it"""
    norm: NormDescription | None
    norm_place: Literal["pre", "post"] | None
    """pre: x + f(norm(x)), post: norm(x + f(x))"""
    residual: bool
    """Whether the output of the part is added to its input"""
    parameters: int
    """Including those of its norm"""


class AttentionPart(PartDescription):
    kind: Literal["attention"] = "attention"
    site: Literal["encoder", "decoder", "cross"]
    """The kind of attention, as traces and `ablate` name it"""
    reads: Literal["self", "encoder"]
    """Where keys and values come from"""
    form: Literal["softmax", "linear", "recurrent"]
    """linear: without the softmax; recurrent: of an RNN decoder, one head over the encoder's states"""
    causal: bool
    heads: int
    kv_heads: int
    d_head: int
    """Width of queries and keys in each head"""
    d_value: int
    score: str
    normalise: str
    score_bias: str
    """What is added to the scores: none, alibi or gaussian"""
    rotary: bool
    """Whether queries and keys are rotated by their positions"""
    local: Literal["none", "monotonic", "predictive"] = "none"
    bias: bool


class FeedForwardPart(PartDescription):
    kind: Literal["feed-forward"] = "feed-forward"
    gated: bool
    """W_2 (SiLU(W_g x) ⊙ W_1 x) instead of W_2 φ(W_1 x)"""
    activation: str
    d_hidden: int
    bias: bool


class RecurrentPart(PartDescription):
    kind: Literal["recurrent"] = "recurrent"
    cell: Literal["rnn", "gru", "lstm"]
    d_state: int
    """Width of the state; with two directions, of each"""
    bidirectional: bool


class StateSpacePart(PartDescription):
    kind: Literal["state-space"] = "state-space"
    d_inner: int
    d_state: int
    """States of each of the d_inner channels"""
    width: int
    """Positions that the convolution covers"""
    bidirectional: bool


class WindowPart(PartDescription):
    kind: Literal["window"] = "window"
    window: int
    """Tokens that it sees: its own and those before it"""


Part = Annotated[
    AttentionPart | FeedForwardPart | RecurrentPart | StateSpacePart | WindowPart, Field(discriminator="kind")
]


class LayerDescription(Described):
    block: str
    """The name of the block, such as decoder.0, under which a trace shows its arithmetic"""
    parts: list[Part]
    parameters: int


class ImageDescription(Described):
    size: int
    patch: int
    regions: int
    """Per side"""
    stem: Literal["patches", "convolutions"]


class EmbeddingDescription(Described):
    block: str
    vocabulary: int
    """0 for an image encoder"""
    d_model: int
    scale: float
    """Factor of the token vectors"""
    positions: Literal["sinusoidal", "learned", "rotary", "alibi", "none"]
    join: Literal["add", "concatenate", "none"]
    """How token and position vectors are combined"""
    max_len: int | None
    norm: NormDescription | None
    image: ImageDescription | None
    parameters: int


class StackDescription(Described):
    name: StackName
    kind: Literal["transformer", "feedforward", "ssm", "rnn", "image"]
    rows: Axis
    """What its positions are: source tokens or regions, the tokens that the decoder reads, or (sequence) both"""
    reads: StackName | None
    """The stack whose output it attends to, or (RNN without attention) starts from"""
    causal: bool
    d_model: int
    embedding: EmbeddingDescription
    layers: list[LayerDescription]
    norm: NormDescription | None
    """After the last layer; its block is NAME.norm"""
    parameters: int


class OutputDescription(Described):
    block: Literal["output"] = "output"
    predicts: Literal["tokens", "labels"]
    rows: Axis
    """text: one prediction for the whole text"""
    pooling: Literal["none", "mean", "last-state", "attention"]
    """How the vectors of a text become one, for labels"""
    d_in: int
    """Width of what the decoder (or encoder) hands over"""
    readout: bool
    """Whether a linear map to the width of the embeddings comes first"""
    transform: bool
    """Whether norm(φ(W h + b)) comes first, as in BERT"""
    size: int
    """Tokens or labels"""
    tied: bool
    """Whether the output matrix is the embedding table"""
    bias: bool
    parameters: int
    """Without those of a tied table"""


class ModelDescription(Described):
    architecture: Literal["encoder-decoder", "decoder-only", "encoder-only"]
    stacks: list[StackDescription]
    output: OutputDescription
    blocks: list[str]
    """All blocks in the order in which the model computes them"""
    shared_embedding: bool
    """Whether encoder and decoder use one embedding table"""
    parameters: int
    """All, each counted once"""
