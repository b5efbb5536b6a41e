"""regard: train your own translator, and see why it says what it says.

The public names are loaded on first use, so that `import regard` and `regard --help` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.threads import limit_spinning

if TYPE_CHECKING:
    from regard import models
    from regard.convert.export import export
    from regard.convert.import_model import import_model
    from regard.data.builtin.datasets import DatasetOptions, write_dataset
    from regard.data.glossary import Glossary
    from regard.documents.translate import translate_document
    from regard.explain.topics import explain_topic
    from regard.labs import run_lab
    from regard.models.patch import PatchSite
    from regard.models.record import AttentionRecord
    from regard.nn.attention import attend
    from regard.pipelines.captioner import Captioner
    from regard.pipelines.classifier import Classifier
    from regard.pipelines.generator import Generator
    from regard.pipelines.load import load
    from regard.pipelines.translator import Translator
    from regard.pipelines.what_if import Patch
    from regard.train.recipe import load_recipe
    from regard.train.train_model import train_model
    from regard.visualize.picture import draw_attention

limit_spinning()

__version__ = "0.1.0"
__all__ = [
    "AttentionRecord",
    "Captioner",
    "Classifier",
    "DatasetOptions",
    "Generator",
    "Glossary",
    "Patch",
    "PatchSite",
    "Translator",
    "UserError",
    "__version__",
    "attend",
    "draw_attention",
    "explain_topic",
    "export",
    "import_model",
    "load",
    "load_recipe",
    "models",
    "run_lab",
    "train_model",
    "translate_document",
    "write_dataset",
]

_MODULES = {
    "load": "regard.pipelines.load",
    "export": "regard.convert.export",
    "Glossary": "regard.data.glossary",
    "import_model": "regard.convert.import_model",
    "Translator": "regard.pipelines.translator",
    "Generator": "regard.pipelines.generator",
    "Classifier": "regard.pipelines.classifier",
    "Captioner": "regard.pipelines.captioner",
    "AttentionRecord": "regard.models.record",
    "Patch": "regard.pipelines.what_if",
    "PatchSite": "regard.models.patch",
    "attend": "regard.nn.attention",
    "DatasetOptions": "regard.data.builtin.datasets",
    "write_dataset": "regard.data.builtin.datasets",
    "load_recipe": "regard.train.recipe",
    "train_model": "regard.train.train_model",
    "translate_document": "regard.documents.translate",
    "draw_attention": "regard.visualize.picture",
    "explain_topic": "regard.explain.topics",
    "run_lab": "regard.labs",
}


def __getattr__(name: str) -> Any:
    if name == "models":
        return import_module("regard.models")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
