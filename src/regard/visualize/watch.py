"""Where a model looked, whichever it is."""

from regard.errors import UserError
from regard.models.record import AttentionRecord
from regard.pipelines.classifier import Classifier
from regard.pipelines.generator import Generator
from regard.pipelines.load import Pipeline
from regard.pipelines.translator import Translator
from regard.text.clean import clean


def watch(model: Pipeline, text: str, target: str | None = None) -> AttentionRecord:
    """The attention of a model to a text: while it says what it would say of it, or is made to say `target`."""
    match model:
        case Translator():
            return _of_pair(model, text, target)
        case Generator() | Classifier():
            if target is not None:
                raise UserError("a target acts on translators; leave it out")
            return model.attention(text)
    raise UserError("this model looks at pictures; give one")


def _of_pair(translator: Translator, text: str, target: str | None) -> AttentionRecord:
    if target is not None:
        [src], [tgt] = (
            translator.tokenizers.src.encode([clean(text)]),
            translator.tokenizers.tgt.encode([clean(target)]),
        )
        return translator.attention(src, tgt)
    [translation] = translator.translate([text], attention=True)
    if translation.attention is None:
        raise UserError("there is nothing to look at in an empty sentence")
    return translation.attention
