"""regard: train your own translator, and see why it says what it says.

The public names are loaded on first use, so that `import regard` and `regard --help` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import UserError

if TYPE_CHECKING:
    from regard import models
    from regard.models.record import AttentionRecord
    from regard.nn.attention import attend
    from regard.pipelines.captioner import Captioner
    from regard.pipelines.classifier import Classifier
    from regard.pipelines.generator import Generator
    from regard.pipelines.load import load
    from regard.pipelines.translator import Translator

__version__ = "0.1.0"
__all__ = [
    "AttentionRecord",
    "Captioner",
    "Classifier",
    "Generator",
    "Translator",
    "UserError",
    "__version__",
    "attend",
    "load",
    "models",
]

_MODULES = {
    "load": "regard.pipelines.load",
    "Translator": "regard.pipelines.translator",
    "Generator": "regard.pipelines.generator",
    "Classifier": "regard.pipelines.classifier",
    "Captioner": "regard.pipelines.captioner",
    "AttentionRecord": "regard.models.record",
    "attend": "regard.nn.attention",
}


def __getattr__(name: str) -> Any:
    if name == "models":
        return import_module("regard.models")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
