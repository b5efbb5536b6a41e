"""How long the tables of positions of an exported model are; ours have no end."""

from regard.bundle import Bundle
from regard.models.encoder_decoder import EncoderDecoder

_FEWEST = 1024
_MAX_TABLE = 2**21  # numbers in a table, at most


def position_count(bundle: Bundle) -> int:
    """Return the number of positions that the longest output of our search needs, if the table is not too large.

    A decoder-only model reads the source before its output; a language model reads at most its context.
    """
    decode = bundle.decode
    n = (2 * decode.max_source + 12 if decode.max_len is None else decode.max_len) + 2
    if bundle.task == "text":
        n = bundle.context + 2
    elif not isinstance(bundle.model, EncoderDecoder):
        n += decode.max_source
    return min(max(n, decode.max_source + 1, _FEWEST), _MAX_TABLE // bundle.model.d_model)
