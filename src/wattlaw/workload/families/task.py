"""The task that a model is trained for, and the head that it gets for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from wattlaw.errors import ConfigError, FileError, UnknownNameError

if TYPE_CHECKING:
    from wattlaw.units import Quantity
    from wattlaw.workload.families.fields import Fields

TaskName = Literal["lm", "mlm", "pretraining", "classification", "token_classification", "question_answering", "none"]
TASKS: tuple[TaskName, ...] = get_args(TaskName)

#: Endings of the class names in a configuration's ``architectures``, the longest first where one ends in another.
ENDINGS: tuple[tuple[str, TaskName], ...] = (
    ("ForCausalLM", "lm"),
    ("LMHeadModel", "lm"),
    ("ForConditionalGeneration", "lm"),
    ("ForMaskedLM", "mlm"),
    ("ForPreTraining", "pretraining"),
    ("ForSequenceClassification", "classification"),
    ("ForTokenClassification", "token_classification"),
    ("ForQuestionAnswering", "question_answering"),
    ("Model", "none"),
)

#: Of a configuration that names no labels, in Hugging Face transformers.
DEFAULT_NUM_LABELS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the head is for.

    Attributes:
        name: one of ``TASKS``.
        num_labels: classes, where the task has them.
    """

    name: TaskName
    num_labels: int = DEFAULT_NUM_LABELS

    def among(self, family: str, allowed: tuple[TaskName, ...]) -> Task:
        """Return the task, or refuse one that the family has no head for."""
        if self.name not in allowed:
            raise ConfigError(f"{family} has no head for this task", given=self.name, allowed=", ".join(allowed)).at(
                "head"
            )
        return self


def task_of(fields: Fields, *, head: str | None, num_labels: int | None) -> Task:
    """Tell the task of a configuration.

    Args:
        fields: the configuration; its ``architectures`` names the class of the model.
        head: overrides it where given.
        num_labels: overrides the configuration's labels where given.

    Returns:
        the task.

    Raises:
        FileError: neither the configuration nor ``head`` tells the task.
        UnknownNameError: ``head`` is not a known task.
    """
    return Task(
        name=_named(head) if head is not None else _from_class(fields),
        num_labels=_labels(fields) if num_labels is None else num_labels,
    )


def named_task(head: str, *, num_labels: int | None) -> Task:
    """Build the task of this name."""
    return Task(name=_named(head), num_labels=DEFAULT_NUM_LABELS if num_labels is None else num_labels)


def decoder_head(task: Task, *, tied_head: Quantity) -> dict[str, Any]:
    """Tell what an ``Architecture`` says of its head, of a decoder: in transformers all families have the same classes.

    The class for sequences scores every token and then picks the last; it has no bias. That for questions finds the two
    ends of the answer, whatever labels there are.
    """
    labelled = task.name not in ("lm", "none")
    return {
        "head": "classification" if labelled else task.name,
        "num_labels": 2 if task.name == "question_answering" else task.num_labels if labelled else 0,
        "head_bias": 1 if task.name in ("token_classification", "question_answering") else 0,
        "tied_head": tied_head if task.name == "lm" else 0,
    }


def _named(head: str) -> TaskName:
    for task in TASKS:
        if task == head:
            return task
    raise UnknownNameError.among("head", str(head), TASKS)


def _from_class(fields: Fields) -> TaskName:
    classes = fields.texts("architectures")
    if not classes:
        raise FileError(
            "the field is missing, so the head is unknown", hint="head = lm, mlm, classification or none"
        ).at("architectures")
    for ending, task in ENDINGS:
        if classes[0].endswith(ending) and not classes[0].endswith("DoubleHeadsModel"):
            return task
    raise FileError(
        "the class is not known",
        given=classes[0],
        allowed=", ".join(f"...{ending}" for ending, _ in ENDINGS),
        hint="head = lm, mlm, classification or none",
    ).at("architectures")


def _labels(fields: Fields) -> int:
    labels = fields.mapping.get("id2label")
    if labels is None:
        return fields.count("num_labels", default=DEFAULT_NUM_LABELS)
    if not isinstance(labels, dict) or not labels:
        raise FileError("the field is not a table of labels", given=repr(labels)).at("id2label")
    return len(labels)
