"""The tokenizers that an export of regard to transformers has put beside its model."""

from regard.convert.id_map import IdMap
from regard.convert.imports.model_folder import ModelFolder
from regard.errors import UserError
from regard.text.tokenizer import TokenizerPair

_NAMES = [f"tokenizer/{side}{suffix}" for side in ("joint", "src", "tgt") for suffix in (".spm", ".json")]


def own_tokenizers(folder: ModelFolder) -> TokenizerPair | None:
    """Return the tokenizers in the folder `tokenizer`; None if the model does not come from regard."""
    files = {name: folder.read(name) for name in _NAMES if folder.has(name)}
    return TokenizerPair.from_files(files, folder.path / "tokenizer") if files else None


def own_id_maps(tokenizers: TokenizerPair, sizes: list[int], where: str) -> list[IdMap]:
    """Return the map of both sides, or of each, to embedding tables of these sizes.

    Tokens of a separate source vocabulary have a table of their own, or follow those of the target in one table.
    """
    src, tgt = tokenizers.src.size, tokenizers.tgt.size
    if tokenizers.joint and sizes == [tgt]:
        return [IdMap.part(tgt, range(tgt))]
    if sizes == [src, tgt]:
        return [IdMap.part(src, range(src)), IdMap.part(tgt, range(tgt))]
    if sizes == [tgt + src]:
        return [IdMap.part(tgt + src, range(tgt, tgt + src)), IdMap.part(tgt + src, range(tgt))]
    raise UserError(f"{where}: the sizes of the vocabulary are not those of the tokenizers in the folder tokenizer")
