"""The list of models, /v1/models, for the page and for OpenAI's clients."""

from collections.abc import Sequence
from typing import Literal

from regard.pipelines.base import Pipeline
from regard.serve.registry import ServedModel
from regard.serve.schemas.base import ResponseBody
from regard.serve.schemas.v1_requests import SiteName

Architecture = Literal["rnn", "encdec", "decoder", "encoder", "caption"]
ModelTask = Literal["translator", "writer", "classifier", "captioner"]


class ImageInfo(ResponseBody):
    """The images that a captioner reads: pixels and regions per side."""

    size: int
    regions: int


class DecodeInfo(ResponseBody):
    """The model's own search settings"""

    beam: int
    length_penalty: float


class ModelInfo(ResponseBody):
    """What a client needs to know about a model before it sends requests."""

    id: str
    kind: Architecture
    task: ModelTask
    languages: list[str]
    """Of a translator with several directions, the pair of the first"""
    targets: list[str]
    """The target languages that `to` chooses among; empty if there is no choice"""
    parameters: int
    d_model: int
    vocab: int
    sites: dict[SiteName, tuple[int, int]]
    """[layers, heads] of each kind of attention that the model has"""
    picture: ImageInfo | None
    decode: DecodeInfo
    can_hide_tokens: bool
    """Whether source tokens can be hidden from the model with `mask_src`"""

    @classmethod
    def of(cls, served: ServedModel[Pipeline]) -> "ModelInfo":
        pipeline, image = served.pipeline, served.pipeline.image_size
        config = pipeline.decode_config
        return cls.model_validate(
            {
                "id": served.name,
                "kind": served.architecture,
                "task": "writer" if pipeline.noun == "generator" else pipeline.noun,
                "languages": list(served.languages),
                "targets": served.targets,
                "parameters": served.n_parameters,
                "d_model": pipeline.traced_model.d_model,
                "vocab": pipeline.tgt_tokenizer.size,
                "sites": {kind: (site.layers, site.heads) for kind, site in pipeline.attention_sites().items()},
                "picture": image and ImageInfo(size=image.pixels, regions=image.regions),
                "decode": DecodeInfo(beam=config.beam, length_penalty=config.length_penalty),
                "can_hide_tokens": pipeline.can_hide_tokens,
            }
        )


class OpenAIModel(ResponseBody):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["regard"] = "regard"


class ModelList(ResponseBody):
    """All models, as OpenAI's clients read them (`data`) and with what the page needs (`models`, `examples`)."""

    object: Literal["list"] = "list"
    data: list[OpenAIModel]
    models: list[ModelInfo]
    examples: dict[str, list[str]]
    """Texts to try each model with"""

    @classmethod
    def of(cls, models: Sequence[ServedModel[Pipeline]], created: int) -> "ModelList":
        return cls(
            data=[OpenAIModel(id=name, created=created) for served in models for name in served.names],
            models=[ModelInfo.of(served) for served in models],
            examples={served.name: list(served.examples) for served in models},
        )
