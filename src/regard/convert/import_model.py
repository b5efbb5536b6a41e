"""Import a model of another program into a model directory."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from regard import models
from regard.bundle import Bundle
from regard.bundle_files import CARD
from regard.convert.imports.bert import read_bert
from regard.convert.imports.imported_model import ImportedModel
from regard.convert.imports.language_model import read_gpt2, read_llama
from regard.convert.imports.marian import read_marian_npz
from regard.convert.imports.model_folder import JsonObject, ModelFolder
from regard.convert.imports.seq2seq import read_marian, read_pegasus
from regard.convert.imports.tensor_files import WeightReader
from regard.errors import UserError
from regard.files import check_new, new_folder
from regard.manifest import MANIFEST
from regard.memory import OutOfMemoryCaught
from regard.models.weights import SkipInitialisation, check_shapes, load_weights
from regard.text.direction import Direction, Directions
from regard.text.target_tag import is_tag
from regard.text.vocab import WORD_START

Reader = Callable[[ModelFolder, JsonObject, tuple[str, str] | None], ImportedModel]

_READERS: dict[str, Reader] = {
    "marian": read_marian,
    "pegasus": read_pegasus,
    "gpt2": read_gpt2,
    "bert": read_bert,
    **dict.fromkeys(("llama", "mistral", "qwen2"), read_llama),
}
"""`model_type` in config.json → how such a model is read"""

_MAX_CARD = 2**22

_EXAMPLES = {
    "translate": 'translate {} --text "…"',
    "text": 'generate {} --prompt "…"',
    "masked": 'attend {} "…"',
}
"""Task → how a model is used on the command line, without the name of the program"""


@dataclass(frozen=True)
class Import:
    """The result of an import."""

    path: Path
    title: str
    """What the model is called, e.g. Marian"""
    task: str
    languages: tuple[str, str]
    n_weights: int
    n_targets: int = 1
    """Target languages"""

    def describe(self) -> str:
        source, target = self.languages
        target = target if self.n_targets == 1 else f"{self.n_targets} languages (--to)"
        languages = f", {source} → {target}" if self.task == "translate" else ""
        return f"{self.title}, {self.n_weights:,} parameters{languages}"

    @property
    def example(self) -> str:
        """A command that uses the model"""
        return f"regard {_EXAMPLES[self.task].format(self.path)}{' --to …' if self.n_targets > 1 else ''}"


def import_model(folder: str | Path, out: str | Path, languages: tuple[str, str] | None = None) -> Import:
    """Write the model in `folder`, of another program, as a model directory to `out`, which must not exist.

    Nothing is left at `out` if the import fails.

    >>> _ = regard.export(translator_dir, new_dir / "transformers", "hf")
    >>> regard.import_model(new_dir / "transformers", new_dir / "again", ("en", "fr")).task
    'translate'
    """
    out = Path(out)
    check_new(out)
    source = ModelFolder(folder)
    imported = read_model(source, languages)
    bundle = _load(imported)
    with new_folder(out) as temporary:
        bundle.save(temporary, _card(source, imported))
    n_weights = sum(parameter.numel() for parameter in bundle.model.parameters())
    n_targets = len(bundle.all_directions.targets)
    return Import(out, imported.title, imported.task, bundle.languages, n_weights, n_targets)


def read_model(folder: ModelFolder, languages: tuple[str, str] | None = None) -> ImportedModel:
    """Read everything but the weights."""
    if not folder.has("config.json"):
        if folder.names("*.npz"):
            return read_marian_npz(folder, languages)
        raise UserError(f"{folder}: there is no config.json and no .npz file, so this is no model that can be imported")
    if folder.has(MANIFEST):
        raise UserError(f"{folder}: is a model directory of regard already; use it as it is")
    config = folder.config()
    kind = config.text("model_type")
    if kind not in _READERS:
        raise UserError(f"{config.where}: models of type {kind!r:.60} cannot be imported; {', '.join(_READERS)} can")
    return _READERS[kind](folder, config, languages)


def _load(imported: ImportedModel) -> Bundle:
    """Build the model and load its weights. Memory is not used before their names and shapes are known to fit."""
    where, tokenizers = imported.files.where, imported.tokenizers
    sizes = (tokenizers.tgt.size, None if tokenizers.joint else tokenizers.src.size)
    dry = WeightReader(imported.files, dry=True)
    shapes = {name: tuple(tensor.shape) for name, tensor in imported.weights(dry).items()}
    dry.check_all_used(imported.ignored)
    with torch.device("meta"), SkipInitialisation():
        check_shapes(models.build(imported.config, *sizes), shapes, where)
    with OutOfMemoryCaught() as too_large, SkipInitialisation():
        model = models.build(imported.config, *sizes)
        load_weights(model, imported.weights(WeightReader(imported.files)), where)
    if too_large:
        raise UserError(f"{where}: the model does not fit into memory")
    return Bundle(
        model.eval(),
        imported.config,
        tokenizers,
        imported.languages,
        imported.decode,
        imported.task,
        imported.context,
        directions=_directions(imported),
    )


def _directions(imported: ImportedModel) -> tuple[Direction, ...]:
    """Return the directions of a translator whose vocabulary has tags of several target languages."""
    tokens = imported.tokenizers.src.tokens(range(imported.tokenizers.src.size))
    tags = [token.removeprefix(WORD_START) for token in tokens if is_tag(token)]
    return Directions.from_tags(imported.languages, tags).several if imported.task == "translate" else ()


def _card(folder: ModelFolder, imported: ImportedModel) -> str:
    languages = f", {imported.languages[0]} → {imported.languages[1]}" if imported.task == "translate" else ""
    card = f"""# {folder.path.resolve().name.encode("utf-8", "replace").decode()}

A {imported.title} model{languages}, imported into regard. Its license and training data are those of the original.
"""
    if not folder.has(CARD):
        return card
    original = folder.read(CARD, limit=_MAX_CARD).decode("utf-8", "replace")
    return f"{card}\n## The original model card\n\n{original}"
