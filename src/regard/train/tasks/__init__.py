"""Tasks, by name: how files become batches, what a model is judged by, and what loads it again."""

from regard.errors import UserError
from regard.train.tasks.base import Task
from regard.train.tasks.caption import Captioning
from regard.train.tasks.classify import Classification
from regard.train.tasks.text import LanguageModelling, MaskedTokens
from regard.train.tasks.translate import Translating

TASKS: dict[str, Task] = {
    "translate": Translating(),
    "text": LanguageModelling(),
    "masked": MaskedTokens(),
    "classify": Classification(),
    "caption": Captioning(),
}


def task_named(name: str) -> Task:
    if name not in TASKS:
        raise UserError(f"task '{name}' is unknown; choose one of {', '.join(TASKS)}")
    return TASKS[name]
