"""A model's answers as labels, checked; and whatever a user's model raises, in one sentence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedcert._arrays import Integers
from fedcert.errors import FedcertError, ModelProblem

NAN_SCORES = "the model gave NaN scores under noise; look at its arithmetic (a log or a division?) and certify again"
_LONGEST_REASON = 400
"""Characters of what a model raised: enough for the sizes of a whole shape."""


def labels_of(answer: object, examples: int, classes: int | None) -> Integers:
    """Labels from a model's answer: scores (one row per example, one column per class) or labels.

    Exact ties between scores go to the class of the lowest index. A single column of whole numbers is labels;
    a single column of scores is refused: its largest entry would always be class 0.

    Raises:
        ModelProblem: the answer is neither, holds NaN, or names a class that is not there.
    """
    output = np.asarray(answer)
    if output.ndim == 2 and output.shape[1] == 1 and output.dtype.kind in "iu":
        output = output[:, 0]
    if output.dtype.kind not in "iuf" or output.ndim not in (1, 2) or len(output) != examples:
        raise ModelProblem(
            f"the model must answer {examples} examples with scores of shape ({examples}, classes) or labels of shape "
            f"({examples},), but gave {output.dtype} of shape {output.shape}; wrap it in a function that does"
        )
    if output.ndim == 2:
        check_width(output.shape[1], classes)
        if np.isnan(output).any():
            raise ModelProblem(NAN_SCORES)
        return np.asarray(output.argmax(axis=1), dtype=np.int64)
    with np.errstate(invalid="ignore"):
        labels: Integers = output.astype(np.int64)
    wrong = (labels != output) | (labels < 0) | (labels >= (np.inf if classes is None else classes))
    if wrong.any():
        if (labels != output).any():
            raise ModelProblem(
                "the model must answer with scores, one for each class, or with labels, whole numbers from 0, but gave "
                f"{output[labels != output][0]} for an example"
            )
        known = f"0 to {classes - 1}" if classes is not None else "whole numbers from 0"
        raise ModelProblem(
            f"the model must answer with labels from {known}, but gave {output[wrong][0]}; name all its classes"
        )
    return labels


def check_width(width: int, classes: int | None) -> None:
    """Check the number of a model's scores.

    Raises:
        ModelProblem: there is only one, or not as many as classes are named.
    """
    if width == 1:
        raise ModelProblem(
            "the model gives one score per example, whose largest is always class 0; "
            "give one score per class (two for yes and no), or labels"
        )
    if classes is not None and width != classes:
        raise ModelProblem(
            f"the model gives scores for {width} classes, but {classes} classes are named; "
            "name the classes in the order of the model's outputs"
        )


def guarded(call: Callable[[], object], shape: tuple[int, ...]) -> object:
    """Run a user's model, and turn whatever it raises into one sentence.

    Raises:
        ModelProblem: the model raised an error.
    """
    try:
        return call()
    except FedcertError:
        raise
    except (Exception, SystemExit) as error:  # a user's model may raise anything
        if type(error).__name__ in ("OutOfMemoryError", "AcceleratorError"):  # a device's: the sampler knows what to do
            raise
        # onnxruntime says on further lines which sizes it got and expected.
        words = " ".join(str(error).split())[:_LONGEST_REASON]
        raise ModelProblem(
            f"the model failed on a float32 batch of shape {shape}: {type(error).__name__}: {words or 'no message'}; "
            "if the data's shape does not fit the model's input, reorder or resize x"
        ) from error
