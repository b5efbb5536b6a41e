"""Special tokens of an imported language model that the original does not have: they are never generated."""

from regard.bundle import Bundle
from regard.convert.id_map import NEVER
from regard.models.decoder_only import DecoderOnly
from regard.text.vocab import EOS, SPECIALS


def suppressed_ids(bundle: Bundle) -> list[int]:
    """Return the special tokens whose logits the output layer's bias lowers so far that their probability is 0.

    Only decoder-only models have such tokens: the classes of the others keep the bias.
    """
    if not isinstance(bundle.model, DecoderOnly) or bundle.model.output.bias is None:
        return []
    return [i for i in range(len(SPECIALS)) if i != EOS and bundle.model.output.bias[i] < NEVER / 2]
