"""Request bodies of the page's own API, /v1/…"""

from typing import Annotated, Literal

from annotated_types import Le, Lt, MaxLen
from pydantic import Field

from regard.serve.schemas.base import LanguageCode, LimitedBy, LimitedLength, LimitedText, ModelName, RequestBody

TokenId = Annotated[int, Field(ge=0, lt=2**31)]
TokenIds = Annotated[list[TokenId], LimitedBy("tokens", MaxLen)]
SmallIndex = Annotated[int, Field(ge=0, lt=1_000)]
BeamWidth = Annotated[int, LimitedBy("beam", Le), Field(ge=1)]
LimitedTerm = Annotated[str, LimitedBy("term_chars", MaxLen)]
HiddenPositions = Annotated[list[SmallIndex], LimitedBy("tokens", MaxLen)]
HeadName = Annotated[str, Field(pattern=r"^(encoder|decoder|cross)\.[0-9]{1,3}\.[0-9]{1,3}$")]
HeadNames = Annotated[list[HeadName], Field(max_length=256)]
PixelString = Annotated[str, LimitedBy("body", MaxLen), Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$")]
TabName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,64}$")]
TraceId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{16,64}$")]
SiteName = Literal["encoder", "decoder", "cross"]
SEARCH_SETTINGS = {"beam", "max_len", "length_penalty", "n_best"}
"""Fields of requests that are options of DecodeConfig"""


class TokenizeRequest(RequestBody):
    model: ModelName | None = None
    text: LimitedText


class SentencesRequest(RequestBody):
    model: ModelName | None = None
    text: LimitedText
    to: LanguageCode | None = None
    """Target language, for a model with several"""


class DecodeRequest(RequestBody):
    """Settings of a search; those that are left out are the model's own."""

    model: ModelName | None = None
    text: LimitedText
    to: LanguageCode | None = None
    """Target language, for a model with several"""
    beam: BeamWidth | None = None
    max_len: LimitedLength | None = None
    length_penalty: Annotated[float, Field(ge=0.0, le=5.0)] | None = None


class TermRequest(RequestBody):
    """A term of a glossary."""

    source: LimitedTerm
    target: LimitedTerm
    """Several accepted targets are separated by |"""


class TranslateRequest(DecodeRequest):
    n_best: BeamWidth | None = None
    prefix: LimitedText = ""
    as_written: bool = False
    """Whether to leave case and punctuation that the model has not seen in training as they are"""
    glossary: Annotated[list[TermRequest], LimitedBy("terms", MaxLen)] = Field([])
    """How to translate terms of the text"""
    stream: bool = False


class PatchSiteRequest(RequestBody):
    """Where activations are replaced: in the output of a layer or, with `head`, of one head."""

    kind: SiteName
    """encoder or decoder; for a head also cross"""
    layer: SmallIndex
    head: SmallIndex | None = None
    position: Annotated[int, LimitedBy("tokens", Le), Field(ge=0)] | None = None
    """null: at all positions that both inputs have"""


class PatchRequest(RequestBody):
    """Another input, whose activations take the place of the model's own."""

    text: LimitedText = ""
    pixels: PixelString | None = None
    sites: Annotated[list[PatchSiteRequest], Field(max_length=256)] = Field([])
    """Empty: the outputs of all layers"""


class InspectRequest(RequestBody):
    """The input of a model, and changes to what the model sees."""

    model: ModelName | None = None
    text: LimitedText = ""
    to: LanguageCode | None = None
    """Target language, for a translator with several"""
    pixels: PixelString | None = None
    """For a captioner: base64 of the image's bytes, row by row, each pixel as red, green and blue"""
    prefix: TokenIds = Field([])
    """Ids that the output starts with"""
    mask_src: HiddenPositions = Field([])
    """Positions of source tokens that are hidden from the model"""
    ablate: HeadNames = Field([])
    """Heads that are switched off, as kind.layer.head"""
    patch: PatchRequest | None = None
    """Activations to replace"""


class TraceRequest(InspectRequest, DecodeRequest):
    text: LimitedText = ""
    source: LimitedText | None = None
    """The sentence as it was written, if `text` is how a translator reads it; see /v1/sentences"""
    target: TokenIds | None = None
    """Ids whose generation is traced; without them, the model searches for its own output"""
    hypothesis: Annotated[int, LimitedBy("beam", Lt), Field(ge=0)] = 0
    """Which hypothesis or sample to trace"""
    samples: BeamWidth | None = None
    """Sample so many outputs instead of searching for the most likely one"""
    temperature: Annotated[float, Field(ge=0.001, le=100.0)] = 1.0
    """Of sampling, as the next three"""
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    k: Annotated[int, Field(ge=1, le=50)] = 8
    """How many of the most likely tokens to return at each position"""
    stream: bool = False
    """Whether to send the output while it is decoded"""
    baseline: TraceId | None = None
    """A trace of the same model: the response says how likely its tokens are now"""
    tab: TabName = ""
    """A random name of the browser's tab: each tab keeps its own latest traces"""


class NextTokensRequest(InspectRequest):
    k: int = Field(10, ge=1, le=50)
    temperature: float = Field(1.0, ge=0.001, le=100.0)
    top_k: int = Field(0, ge=0, le=1_000_000)
    top_p: float = Field(1.0, gt=0.0, le=1.0)


class ExplainRequest(RequestBody):
    trace: TraceId
    site: SiteName
    layer: SmallIndex
    head: SmallIndex
    query: SmallIndex
