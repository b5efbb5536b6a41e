"""Requests, each with its bounds: a number, list or text outside them is refused before anything is done."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.serve.limits import Limits

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
_MOST = Limits()
Text = Annotated[str, Field(max_length=_MOST.chars)]
Id = Annotated[int, Field(ge=0, lt=2**31)]
Ids = Annotated[list[Id], Field(max_length=_MOST.tokens)]
Site = Annotated[str, Field(pattern=r"^(encoder|decoder|cross)\.[0-9]{1,3}\.[0-9]{1,3}$")]
Kind = Literal["encoder", "decoder", "cross"]
Small = Annotated[int, Field(ge=0, lt=1_000)]


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Tokenize(Request):
    model: Name | None = None
    text: Text


class Decoding(Request):
    """What all searches are asked with."""

    model: Name | None = None
    text: Text
    beam: int | None = Field(None, ge=1, le=_MOST.beam)
    max_len: int | None = Field(None, ge=1, le=_MOST.tokens)
    length_penalty: float | None = Field(None, ge=0.0, le=5.0)


class Translate(Decoding):
    n_best: int | None = Field(None, ge=1, le=_MOST.beam)
    prefix: Text = ""
    stream: bool = False


Hidden = Annotated[list[Small], Field(max_length=_MOST.tokens)]
Off = Annotated[list[Site], Field(max_length=256)]


Pixels = Annotated[str, Field(max_length=_MOST.body, pattern=r"^[A-Za-z0-9+/]*={0,2}$")]
"""Base64 of a picture's bytes, as `Question` has them"""


class Trace(Decoding):
    text: Text = ""
    pixels: Pixels | None = None
    prefix: Ids = []
    mask_src: Hidden = []
    ablate: Off = []
    target: Ids | None = None
    hypothesis: int = Field(0, ge=0, lt=_MOST.beam)


class Next(Request):
    model: Name | None = None
    text: Text = ""
    pixels: Pixels | None = None
    prefix: Ids = []
    mask_src: Hidden = []
    ablate: Off = []
    k: int = Field(10, ge=1, le=50)
    temperature: float = Field(1.0, ge=0.001, le=100.0)
    top_k: int = Field(0, ge=0, le=1_000_000)
    top_p: float = Field(1.0, gt=0.0, le=1.0)


class Explain(Request):
    trace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{16,64}$")]
    site: Kind
    layer: Small
    head: Small
    query: Small
