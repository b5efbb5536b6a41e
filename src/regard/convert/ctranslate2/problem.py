"""Which of our models CTranslate2 can run. This needs no CTranslate2."""

from regard.bundle import Bundle
from regard.models import ModelConfig
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig, TransformerConfig
from regard.models.stack import StackConfig

_RUNS = "CTranslate2 runs Transformers with softmax attention that translate or generate text"
_SCORES = ("scaled-dot", "dot")


def ctranslate2_problem(bundle: Bundle) -> str | None:
    """Return why CTranslate2 cannot run the model, and what it can run; None: it can."""
    if bundle.task not in ("translate", "text"):
        return f"this is a model for the task {bundle.task}; {_RUNS}"
    sides = _stacks(bundle.model_config)
    for side, stack in sides.items():
        if not isinstance(stack, StackConfig) or stack.kind != "transformer":
            return f"the {side} is of kind {getattr(stack, 'kind', '?')}; {_RUNS}"
        if problem := _stack_problem(stack, with_encoder="encoder" in sides):
            return f"the {side} has {problem}"
    if len({(stack.norm_kind, stack.norm_eps) for stack in sides.values() if isinstance(stack, StackConfig)}) > 1:
        return "encoder and decoder have different norms; in CTranslate2 norm_kind and norm_eps are the same in both"
    return None


def _stacks(config: ModelConfig) -> dict[str, object]:
    """Return the options of the encoder, if there is one, and of the decoder."""
    match config:
        case TransformerConfig() | EncoderDecoderConfig():
            split = config.as_encoder_decoder()
            return {"encoder": split.encoder, "decoder": split.decoder}
        case DecoderOnlyConfig():
            return {"decoder": config.decoder}
    return {"encoder": config.encoder}


def _stack_problem(stack: StackConfig, with_encoder: bool) -> str | None:
    if stack.attention != "softmax":
        return f"attention={stack.attention}; CTranslate2 has softmax attention only"
    if stack.score not in _SCORES:
        return f"score={stack.score}; CTranslate2 has the scores {' and '.join(_SCORES)} only"
    if stack.normalise != "softmax":
        return f"normalise={stack.normalise}; CTranslate2 has the softmax only"
    if stack.positions == "rotary" and stack.rope_scaling is not None:
        return "rope_scaling; CTranslate2 has rotary positions without our scaling only"
    if stack.positions == "alibi" and with_encoder:
        return (
            "positions=alibi, which CTranslate2 has for decoder-only models only; "
            "translators need sinusoidal, learned, rotary or no positions"
        )
    return None
