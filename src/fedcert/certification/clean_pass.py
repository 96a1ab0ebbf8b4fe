"""One pass without noise: its accuracy is shown to the site, stays there, and reveals common mistakes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Integers
from fedcert.certification.certificate import CorrectTable, ExampleTable
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.samplers.protocol import Sampler

_MOST = 1000
"""Examples of the pass: the standard error of an accuracy is then at most 1.6 points."""
_FEWEST = 10
"""Examples below which an accuracy shows nothing."""
_SHIFTED = 0.3
"""How much more often a label's neighbour is predicted than the label: more than confusions of neighbours explain."""
_SURE = 3.0
"""Standard errors of that difference: a model that guesses rarely looks shifted by chance."""
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
    def accuracy(self) -> float:
        """Share that is predicted right."""
        return self.shifted(0)

    def shifted(self, by: int) -> float:
        """Share of which the predicted class is the label and so many more, after the last the first again."""
        return float(np.mean(self.predicted == (self.labels + by) % self.classes))

    def __len__(self) -> int:
        return len(self.labels)


def accuracy_sentence(clean: CleanPass) -> str:
    """The accuracy without noise, for the site alone."""
    examples = f"{len(clean):,} example{'s' if len(clean) != 1 else ''}"
    return f"Accuracy without noise: {clean.accuracy:.1%} of {examples} (shown here only; it is not in the report)."


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


def warnings_before(clean: CleanPass) -> Iterator[str]:
    """What an accuracy without noise points to, in a sentence each, before hours of work."""
    if len(clean) < _FEWEST:
        return
    shift = max((1, -1), key=clean.shifted)
    chance = 1 / clean.classes
    if clean.shifted(shift) - clean.accuracy >= max(_SHIFTED, _SURE * _deviation(clean, shift)):
        how = "swapped" if clean.classes == 2 else "shifted by one"
        other = "the other class" if clean.classes == 2 else f"the class {'after' if shift > 0 else 'before'} it"
        yield (
            f"labels look {how}: without noise the model predicts {clean.accuracy:.0%} of the labels here, but "
            f"{other} for {clean.shifted(shift):.0%}; check that y counts classes from 0, in the order of --classes"
        )
    elif clean.accuracy <= chance:
        yield (
            f"without noise the model predicts {clean.accuracy:.1%} of {len(clean)} examples right, no more than "
            f"chance ({chance:.1%}); check the weights, the order of the classes, and how the data is normalised"
        )


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
        yield f"{both}: the model fails without noise; check that the data is what the model was trained on"
