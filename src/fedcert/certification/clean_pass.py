"""One pass without noise: its accuracy is shown to the site, stays there, and reveals common mistakes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Integers
from fedcert.certification.certificate import CorrectTable, ExampleTable
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.samplers.protocol import Sampler
from fedcert.errors import preview

_MOST = 1000
"""Examples of the pass: the standard error of an accuracy is then at most 1.6 points."""
_FEWEST = 10
"""Examples below which an accuracy shows nothing."""
_MANY = 30
"""Examples from which on it is odd that all have one answer."""
_SHIFTED = 0.3
"""How much more often a label's neighbour is predicted than the label: more than confusions of neighbours explain."""
_SURE = 3.0
"""Standard errors of that difference: a model that guesses rarely looks shifted by chance."""
_SWAPPED = 0.6
"""Share of a class's examples that are predicted as one other class, which in turn is mostly predicted as this one."""
_SHOWN_CLASSES = 4
"""Classes that a sentence about mixed-up labels names."""
_COLLAPSED = 0.6
"""Share of an accuracy that the other keeps at least: models that are trained with noise keep nine tenths."""


@dataclass(frozen=True)
class CleanPass:
    """What a model predicts without noise.

    Attributes:
        predicted: class indices.
        labels: the true ones.
        classes: number of classes.
    """

    predicted: Integers
    labels: Integers
    classes: int

    @property
    def right(self) -> int:
        """Number of examples that are predicted right."""
        return int(np.sum(self.predicted == self.labels))

    @property
    def accuracy(self) -> float:
        """Share that is predicted right."""
        return self.shifted(0)

    def shifted(self, by: int) -> float:
        """Share of which the predicted class is the label and so many more, after the last the first again."""
        return float(np.mean(self.predicted == (self.labels + by) % self.classes))

    def __len__(self) -> int:
        return len(self.labels)


def accuracy_sentence(right: int, examples: int, of: int) -> str:
    """The accuracy without noise, for the site alone.

    Args:
        right: predictions that are right.
        examples: that were predicted.
        of: examples that there are.

    Examples:
        >>> accuracy_sentence(9, 10, 10)
        'Accuracy without noise: 90.0% of 10 examples (shown here only; it is not in the report).'
        >>> accuracy_sentence(900, 1000, 3000)
        'Accuracy without noise: 90.0% of 1,000 of the 3,000 examples (shown here only; it is not in the report).'
    """
    among = f" of the {of:,}" if of != examples else ""
    counted = f"{examples:,}{among} example{'s' if of != 1 else ''}"
    return f"Accuracy without noise: {right / examples:.1%} of {counted} (shown here only; it is not in the report)."


def clean_pass(sampler: Sampler, data: LocalData, lattice: int | None, classes: int) -> CleanPass | None:
    """Predict examples without noise, some spread evenly over the data where there are many; None without examples."""
    if not len(data):
        return None
    predicted, index = [], []
    for indices, images in data.pieces_on(lattice, -(-len(data) // _MOST)):
        predicted.append(sampler.labels(images))
        index.extend(indices)
    return CleanPass(np.concatenate(predicted), data.labels[index], classes)


def noisy_accuracy(certificates: ExampleTable, labels: Integers) -> float | None:
    """Share of right predictions under noise; None where nothing was certified.

    Args:
        certificates: of examples.
        labels: of all of the client's examples.
    """
    if not len(certificates):
        return None
    if isinstance(certificates, CorrectTable):
        return float(certificates.correct.sum() / max(int(certificates.samples.sum()), 1))
    return float(np.mean(certificates.selected == labels[certificates.index]))


def warnings_before(clean: CleanPass, classes: Sequence[str]) -> Iterator[str]:
    """What an accuracy without noise points to, in a sentence each, before hours of work.

    Args:
        clean: the pass.
        classes: their names.
    """
    if len(clean) < _FEWEST:
        return
    shift = max((1, -1), key=clean.shifted)
    chance = 1 / clean.classes
    moved = _moved_classes(clean)
    if len(moved) > 2 and not _all_shifted(moved, clean.classes):
        pairs = "; ".join(
            f"{preview(classes[answer])} for most labelled {preview(classes[label])}"
            for label, answer in list(moved.items())[:_SHOWN_CLASSES]
        )
        more = f"; {len(moved) - _SHOWN_CLASSES} more" if len(moved) > _SHOWN_CLASSES else ""
        yield (
            f"labels look mixed up: without noise the model predicts {clean.accuracy:.0%} of the labels here, but "
            f"{pairs}{more}; check y and the order of --classes"
        )
        return
    much = clean.shifted(shift) - clean.accuracy >= max(_SHIFTED, _SURE * _deviation(clean, shift))
    if much and _most_classes_shifted(clean, shift):
        how = "swapped" if clean.classes == 2 else "shifted by one"
        other = "the other class" if clean.classes == 2 else f"the class {'after' if shift > 0 else 'before'} it"
        yield (
            f"labels look {how}: without noise the model predicts {clean.accuracy:.0%} of the labels here, but "
            f"{other} for {clean.shifted(shift):.0%}; check that y counts classes from 0, in the order of --classes"
        )
        return
    if clean.accuracy <= chance:
        yield (
            f"without noise the model predicts {clean.accuracy:.1%} of {len(clean)} examples right, no more than "
            f"chance ({chance:.1%}); check the weights, the order of the classes, and how the data is normalised"
        )
    elif len(clean) >= _MANY and len(np.unique(clean.predicted)) == 1 < len(np.unique(clean.labels)):
        only = preview(classes[int(clean.predicted[0])])
        yield (
            f"without noise the model answers {only} for all {len(clean)} examples, which have "
            f"{len(np.unique(clean.labels))} classes; check the weights, and how the data is scaled"
        )
    if clean.classes > 2 and (pair := _swapped_classes(clean)) is not None:
        first, second = (preview(classes[label]) for label in pair)
        yield (
            f"labels {first} and {second} look swapped: without noise the model predicts {second} for most examples "
            f"labelled {first}, and {first} for most labelled {second}; check y and the order of --classes"
        )


def _moved_classes(clean: CleanPass) -> dict[int, int]:
    """Which other class most examples of a class are predicted as; empty where two classes have the same answer.

    A model that always gives one answer, or confuses classes with one that is frequent, has no such assignment.
    """
    confusion, sizes = _confusion(clean)
    known = np.flatnonzero((sizes >= _FEWEST) & (confusion.max(axis=1) > _SWAPPED * sizes))
    answers = confusion.argmax(axis=1)
    if len(set(answers[known].tolist())) < len(known):
        return {}
    return {int(label): int(answers[label]) for label in known if answers[label] != label}


def _all_shifted(moved: Mapping[int, int], classes: int) -> bool:
    """Whether all labels are off by one, in the same direction."""
    steps = {(answer - label) % classes for label, answer in moved.items()}
    return len(steps) == 1 and steps <= {1, classes - 1}


def _confusion(clean: CleanPass) -> tuple[Integers, Integers]:
    """How many examples of each label are predicted as each class, and the labels' numbers of examples."""
    confusion = np.zeros((clean.classes, clean.classes), dtype=np.int64)
    np.add.at(confusion, (clean.labels, clean.predicted), 1)
    return confusion, confusion.sum(axis=1)


def _most_classes_shifted(clean: CleanPass, shift: int) -> bool:
    """Whether of each of most classes more examples are predicted as the neighbour than right.

    A model that always gives one answer, or confuses one pair of classes, shifts no more than one or two of them.
    """
    moved = [
        np.mean(clean.predicted[own] == (label + shift) % clean.classes) > np.mean(clean.predicted[own] == label)
        for label, own in ((label, clean.labels == label) for label in np.unique(clean.labels))
    ]
    return sum(moved) > len(moved) / 2 and (sum(moved) > 1 or clean.classes == 2)


def _swapped_classes(clean: CleanPass) -> tuple[int, int] | None:
    """Two classes each of which is predicted for most examples of the other; None where no two are."""
    confusion, sizes = _confusion(clean)
    answers = confusion.argmax(axis=1)
    for label in np.flatnonzero((sizes >= _FEWEST) & (confusion.max(axis=1) > _SWAPPED * sizes)):
        other = answers[label]
        if other != label and sizes[other] and confusion[other, label] > sizes[other] / 2:
            return int(label), int(other)
    return None


def _deviation(clean: CleanPass, shift: int) -> float:
    """The standard error of the difference between the shares of shifted and of right predictions."""
    shifted, right = clean.shifted(shift), clean.accuracy
    return math.sqrt((shifted + right - (shifted - right) ** 2) / len(clean))


def warnings_after(clean: CleanPass, noisy: float | None) -> Iterator[str]:
    """What accuracies with and without noise point to, in a sentence each."""
    if noisy is None or len(clean) < _FEWEST:
        return
    both = f"accuracy is {clean.accuracy:.1%} without noise and {noisy:.1%} with it"
    if noisy < _COLLAPSED * clean.accuracy:
        yield f"{both}: the model was hardly trained with noise; train it with this sigma, or take a smaller one"
    elif clean.accuracy < _COLLAPSED * noisy:
        yield (
            f"{both}: the model is far worse without noise, as a small one that was trained on noisy inputs alone may "
            "be; otherwise check that the data is what it was trained on"
        )
