"""Which models can be exported to ONNX."""

from regard.bundle import Bundle
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.stack import StackDecoder, StackEncoder


def onnx_problem(bundle: Bundle) -> str | None:
    """Return why a model cannot be exported to ONNX; None: it can."""
    model = bundle.model
    if not isinstance(model, EncoderDecoder | DecoderOnly):
        return "ONNX export is for models that generate text: translators and language models"
    if not isinstance(model.decoder, StackDecoder) or not model.decoder.reads_at_once:
        return "its decoder is not a Transformer with softmax attention; ONNX export works for those"
    if isinstance(model, EncoderDecoder) and not isinstance(model.encoder, StackEncoder):
        return "its encoder is not a Transformer; ONNX export works for Transformers"
    return None
