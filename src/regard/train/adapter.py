"""An adapter as a small folder: what a run with LoRA has trained, to be merged into its parent again."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from regard.bundle import Bundle, read_config, read_json
from regard.bundle_files import read_files, write_files
from regard.config import Config
from regard.errors import UserError
from regard.files import check_new, new_folder
from regard.manifest import DamagedFile, read_regular
from regard.models import Model
from regard.models.adapters import LoraConfig, add_adapters, merge_adapters
from regard.models.freeze import freeze
from regard.models.weights import replace_weights, trained_weights
from regard.train.parent import Parent
from regard.train.train_config import TrainConfig

FOLDER = "adapter"
"""Name of the folder in the folder of a run"""
_WEIGHTS, _OPTIONS = "adapter.safetensors", "adapter.json"


class AdapterConfig(Config):
    """The content of adapter.json."""

    lora: LoraConfig
    freeze: tuple[str, ...] = ()
    parent: str
    """Name of the model that it belongs to"""
    parent_sha256: str
    """Checksum of that model's weights"""

    @classmethod
    def of(cls, config: TrainConfig, parent: Parent) -> "AdapterConfig":
        return cls(lora=config.lora, freeze=config.freeze, parent=parent.name, parent_sha256=parent.sha256)


def save_adapter(
    folder: Path, weights: Mapping[str, Tensor], small_files: Mapping[str, bytes], config: AdapterConfig
) -> None:
    """Write the weights of adapters, and the files that the bundle of the run has besides weights and tokenizers."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in weights.items()}
    files = {
        _WEIGHTS: save(tensors, metadata={"format": "pt"}),
        _OPTIONS: (config.model_dump_json(indent=2) + "\n").encode(),
    }
    write_files(folder, {**files, **small_files})


def merge_adapter(parent: Path, adapter: Path, out: Path) -> None:
    """Write the model directory of a run with LoRA again, from its parent and its adapter."""
    check_new(out)
    folder = adapter / FOLDER if (adapter / FOLDER).is_dir() else adapter
    files = read_files(folder)
    if _OPTIONS not in files or _WEIGHTS not in files:
        raise UserError(f"{adapter}: no adapter found; give the folder that training with train.lora wrote")
    options = AdapterConfig.parse(read_json(files[_OPTIONS], folder), where=str(files[_OPTIONS]))
    start = Bundle.load(parent)
    origin = Parent.of(parent, start)
    if origin.sha256 != options.parent_sha256:
        raise UserError(f"{parent}: not the model that the adapter was trained for, which was named {options.parent}")
    _add_trained(start.model, options, files[_WEIGHTS])
    merge_adapters(start.model)
    config, _ = read_config(folder, files)
    bundle = Bundle.of(start.model, start.tokenizers, config, start.model_config, files)
    bundle = replace(bundle, words=origin.all_words(bundle.words, bundle.languages))
    with new_folder(out) as unfinished:
        bundle.save(unfinished, bundle.card)


def _add_trained(model: Model, options: AdapterConfig, path: Path) -> None:
    """Add the adapters that are stored in a file to a model."""
    freeze(model, options.freeze)
    add_adapters(model, options.lora)
    try:
        replace_weights(trained_weights(model), load(read_regular(path)), str(path))
    except SafetensorError as error:
        raise DamagedFile(f"{path}: not a complete safetensors file ({error})") from None
