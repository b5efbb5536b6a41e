"""Response bodies that show how a model computes: its description, the stages of a block, the logit lens, heads."""

from collections.abc import Mapping, Sequence

from regard.models.description import ModelDescription
from regard.models.lens import LensRow
from regard.models.stages.stage import BlockRecord, Op, Setting
from regard.serve.schemas.base import ResponseBody
from regard.serve.schemas.tokens import TokenInfo
from regard.serve.schemas.v1_requests import SiteName
from regard.text.tokenizer import Tokenizer


class DescriptionResponse(ModelDescription):
    """What a model consists of, for a drawing of it."""

    model: str


class StageInfo(ResponseBody):
    """One operation: its output has the stage's name."""

    name: str
    part: str
    """The part of the layer, as the description names it"""
    op: Op
    inputs: list[str]
    """Names of values, which are earlier stages (a recurrence also refers to later ones)"""
    weights: list[str]
    """Names of values that belong to the model"""
    settings: dict[str, Setting]


class ValueInfo(ResponseBody):
    shape: list[int]
    axes: list[str]
    """What each axis counts: source, read, sequence, head, width, hidden, gate, vocabulary, …"""


class StagesResponse(ResponseBody):
    """What a block computes, in order."""

    block: str
    rows: str
    """What its positions are: source, read, sequence (source, then read) or text"""
    stages: list[StageInfo]
    values: dict[str, ValueInfo]
    """All values that `/values` can return"""

    @classmethod
    def of(cls, record: BlockRecord) -> "StagesResponse":
        return cls(
            block=record.block,
            rows=record.rows,
            stages=[
                StageInfo(
                    name=stage.name,
                    part=stage.part,
                    op=stage.op,
                    inputs=list(stage.inputs),
                    weights=list(stage.weights),
                    settings=dict(stage.settings),
                )
                for stage in record.stages
            ],
            values={
                name: ValueInfo(shape=list(value.tensor.shape), axes=list(value.axes))
                for name, value in record.values.items()
            },
        )


class LensTokenInfo(ResponseBody):
    token: TokenInfo
    p: float


class LensCellInfo(ResponseBody):
    top: list[LensTokenInfo]
    p: float | None
    """Of the token that was generated at this position; null if there is none"""
    rank: int | None
    """Of that token, 1 = the most likely"""


class LensRowInfo(ResponseBody):
    """Predictions after one part of the model, one per position."""

    block: str
    part: str
    """Empty: before the first part"""
    cells: list[LensCellInfo]


class LensResponse(ResponseBody):
    """What the model would predict after each part; the last row is its prediction."""

    rows: list[LensRowInfo]

    @classmethod
    def of(cls, tokenizer: Tokenizer, rows: Sequence[LensRow]) -> "LensResponse":
        names: dict[int, TokenInfo] = {}

        def info(token: int) -> TokenInfo:
            if token not in names:
                names[token] = TokenInfo.single(tokenizer, token)
            return names[token]

        def cells(row: LensRow) -> list[LensCellInfo]:
            columns = (row.top_ids, row.top_probs, row.probs, row.ranks)
            return [
                LensCellInfo(
                    top=[LensTokenInfo(token=info(i), p=p) for i, p in zip(ids, probs, strict=True)],
                    p=own if rank else None,
                    rank=rank or None,
                )
                for ids, probs, own, rank in zip(*(column.tolist() for column in columns), strict=True)
            ]

        return cls(rows=[LensRowInfo(block=row.block, part=row.part, cells=cells(row)) for row in rows])


class HeadEffectInfo(ResponseBody):
    site: SiteName
    layer: int
    head: int
    delta: float
    """log p of the traced output without this head, minus log p with all heads"""


class HeadEffectsResponse(ResponseBody):
    """The effect of switching each head off, the largest loss first."""

    log_prob: float
    """Of the traced output, with all heads"""
    heads: list[HeadEffectInfo]

    @classmethod
    def of(cls, log_prob: float, deltas: Mapping[tuple[str, int, int], float]) -> "HeadEffectsResponse":
        ranked = sorted(deltas.items(), key=lambda item: item[1])
        return cls(
            log_prob=log_prob,
            heads=[
                HeadEffectInfo.model_validate({"site": site, "layer": layer, "head": head, "delta": delta})
                for (site, layer, head), delta in ranked
            ],
        )
