"""A whole lecture worked through: every subject with its commands and, where there is a topic, its explanation."""

from collections.abc import Iterator
from dataclasses import dataclass

from regard.errors import UserError
from regard.explain.explanation import Explanation
from regard.explain.lectures import Lecture, Subject
from regard.explain.model_input import ModelInput
from regard.explain.topics import find_topic


@dataclass(frozen=True)
class WorkedSubject:
    number: int
    subject: Subject
    explanation: Explanation | None = None
    """None: the subject has no topic, its topic was explained before, or it cannot be shown on the model"""
    note: str = ""
    """Why there is no explanation, if there is a topic"""

    @property
    def heading(self) -> str:
        """`3. Beam search (P12)`"""
        return f"{self.number}. {self.subject.title} ({', '.join(self.subject.rows)})"


def work_through(lecture: Lecture, model_input: ModelInput | None = None) -> Iterator[WorkedSubject]:
    """Explain the topics of a lecture in order, with the lecture's numbers or with a model.

    A topic that does not apply to the model is left out, with the reason as a note.
    """
    explained: set[str] = set()
    for number, subject in enumerate(lecture.subjects, start=1):
        if subject.topic is None:
            yield WorkedSubject(number, subject)
        elif subject.topic in explained:
            yield WorkedSubject(number, subject, note=f"`{subject.topic}` is explained above.")
        else:
            explained.add(subject.topic)
            yield _explain(number, subject, subject.topic, model_input)


def _explain(number: int, subject: Subject, topic: str, model_input: ModelInput | None) -> WorkedSubject:
    if model_input is None:
        return WorkedSubject(number, subject, find_topic(topic).explain_lecture())
    try:
        return WorkedSubject(number, subject, find_topic(topic).explain_model(model_input))
    except UserError as error:
        return WorkedSubject(number, subject, note=f"`{topic}`: {error}")
