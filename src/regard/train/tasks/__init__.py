"""The training tasks by name."""

from regard.errors import UserError
from regard.train.tasks.base import Task
from regard.train.tasks.captioning import CaptionTask
from regard.train.tasks.classification import ClassificationTask
from regard.train.tasks.language_model import LanguageModelTask, MaskedTokenTask
from regard.train.tasks.translation import TranslationTask

TASKS: dict[str, type[Task]] = {
    "translate": TranslationTask,
    "text": LanguageModelTask,
    "masked": MaskedTokenTask,
    "classify": ClassificationTask,
    "caption": CaptionTask,
}


def get_task(name: str) -> type[Task]:
    """Return the class of the task called `name`."""
    if name not in TASKS:
        raise UserError(f"task '{name}' is unknown; choose one of {', '.join(TASKS)}")
    return TASKS[name]
