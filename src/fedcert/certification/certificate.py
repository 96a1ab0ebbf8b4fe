"""An example from its image to what CERTIFY says of it: on its way, its state, and the table of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats, Images, Integers
from fedcert.certification.perturbation import Perturbation
from fedcert.certification.streams import ExampleKey, Phase, key_of

_NOT_SELECTED = -1
"""Where a class index would be: indices begin at 0."""


@dataclass(frozen=True)
class ExampleState:
    """How far CERTIFY is with an example, and, once done, its result.

    Attributes:
        index: its index in the client's data.
        selected: the class that selection chose; -1 before.
        drawn: estimation samples so far.
        successes: how many of them were predicted as that class.
        look: the next look.
        error_bound: the best bound so far on the probability of all other classes.
        samples: noisy samples drawn, selection included.
        correct: how many of the samples of selection, or of all with population certificates, were predicted right.
        key: the checksum of the key that names its noise, and so of the example itself.
        estimated: whether anything was bounded; False where selection chose a wrong class and that was the end.
        done: whether no more is needed.
    """

    index: int
    selected: int = _NOT_SELECTED
    drawn: int = 0
    successes: int = 0
    look: int = 0
    error_bound: float = 1.0
    samples: int = 0
    correct: int = 0
    key: int = 0
    estimated: bool = False
    done: bool = False

    @property
    def has_selection(self) -> bool:
        """Whether a class was selected."""
        return self.selected != _NOT_SELECTED


@dataclass
class InFlight:
    """An example on its way to a certificate, and the noisy samples that are to be drawn of it next.

    Attributes:
        image: the example.
        state: how far it is.
        key: what names its noise.
        label: its class, where that is known.
        phase: what the next samples are for.
        first: how many samples of that phase were drawn before; a multiple of the block.
        samples: how many are to be drawn next.
    """

    image: Images
    state: ExampleState
    key: ExampleKey
    label: int | None = None
    phase: Phase = Phase.SELECTION
    first: int = 0
    samples: int = 0


def in_flight(images: Images, indices: Iterable[int], phase: Phase, samples: int, first: int = 0) -> list[InFlight]:
    """Examples of which the same number of samples is to be drawn.

    Args:
        images: the examples, the first axis counts them.
        indices: in the client's data, which name their noise here.
        phase: what the samples are for.
        samples: how many of each.
        first: how many of that phase were drawn before.
    """
    return [
        InFlight(image, ExampleState(index), key_of(index), phase=phase, first=first, samples=samples)
        for image, index in zip(images, indices, strict=True)
    ]


@dataclass(frozen=True)
class CertificateTable:
    """What CERTIFY says of some examples, one entry each.

    Attributes:
        index: each example's index in the client's data, increasing.
        selected: the class that selection chose.
        radius: the certified radius; 0 where CERTIFY abstains. A certified radius is above 0.
        samples: noisy samples drawn.
        estimated: whether anything was bounded; the sequential procedure does not where selection is wrong.
        correct: how many of the n0 samples of selection were predicted right; None where that is not known.
    """

    index: Integers
    selected: Integers
    radius: Floats
    samples: Integers
    estimated: npt.NDArray[np.bool_]
    correct: Integers | None = None

    @classmethod
    def of(cls, states: Iterable[ExampleState], perturbation: Perturbation) -> CertificateTable:
        """The last step of CERTIFY: error bounds turned into radii."""
        ordered = sorted(states, key=lambda state: state.index)
        estimated = np.array([state.estimated for state in ordered], dtype=np.bool_)
        radius = perturbation.radius([state.error_bound for state in ordered])
        return cls(
            index=np.array([state.index for state in ordered], dtype=np.int64),
            selected=np.array([state.selected for state in ordered], dtype=np.int64),
            radius=np.where(estimated, radius, 0.0),
            samples=np.array([state.samples for state in ordered], dtype=np.int64),
            estimated=estimated,
            correct=np.array([state.correct for state in ordered], dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.index)

    @property
    def abstains(self) -> npt.NDArray[np.bool_]:
        """Where nothing is certified, not even at radius 0."""
        return self.radius <= 0

    def certified(self, labels: Integers, radii: Sequence[float]) -> npt.NDArray[np.bool_]:
        """Which examples are predicted right and certified to at least each radius; examples x radii."""
        right = (self.selected == labels) & ~self.abstains
        far_enough = self.radius[:, None] >= np.asarray(radii)[None, :]
        return np.asarray(right[:, None] & far_enough, dtype=np.bool_)

    def abstained(self, labels: Integers) -> int:
        """How many selections are right and could not be certified at all."""
        return int(((self.selected == labels) & self.abstains).sum())

    def counts(self, labels: Integers, classes: int, radii: Sequence[float], *, class_counts: bool) -> dict[str, Any]:
        """What a report counts, by its fields: examples of each class, and those that are right and certified.

        Args:
            labels: class of each example of the table.
            classes: how many classes there are.
            radii: increasing radii.
            class_counts: whether certified examples are counted by class too.
        """
        certified = np.zeros((classes, len(radii)), dtype=np.int64)
        np.add.at(certified, labels, self.certified(labels, radii).astype(np.int64))
        return {
            "label_counts": tuple(np.bincount(labels, minlength=classes).tolist()),
            "certified_counts": tuple(certified.sum(axis=0).tolist()),
            "class_certified_counts": tuple(map(tuple, certified.tolist())) if class_counts else None,
        }


@dataclass(frozen=True)
class CorrectTable:
    """How many noisy copies of some examples were predicted right, one entry each: population certificates.

    Attributes:
        index: each example's index in the client's data, increasing.
        correct: right answers among its noisy copies (K).
        samples: noisy copies of each.
    """

    index: Integers
    correct: Integers
    samples: Integers

    @classmethod
    def of(cls, states: Iterable[ExampleState]) -> CorrectTable:
        """From the states of examples that are done."""
        ordered = sorted(states, key=lambda state: state.index)
        columns = ([getattr(state, name) for state in ordered] for name in ("index", "correct", "samples"))
        return cls(*(np.array(column, dtype=np.int64) for column in columns))

    def __len__(self) -> int:
        return len(self.index)

    def counts(self, labels: Integers, classes: int, n: int, *, class_counts: bool) -> dict[str, Any]:
        """What a report counts, by its fields: examples of each class, and examples by right answers.

        Args:
            labels: class of each example of the table.
            classes: how many classes there are.
            n: noisy copies of each example.
            class_counts: whether they are counted by class too.
        """
        cells = np.zeros((classes, n + 1), dtype=np.int64)
        np.add.at(cells, (labels, self.correct), 1)
        return {
            "label_counts": tuple(cells.sum(axis=1).tolist()),
            "correct_counts": tuple(cells.sum(axis=0).tolist()),
            "class_correct_counts": tuple(map(tuple, cells.tolist())) if class_counts else None,
        }


ExampleTable = CertificateTable | CorrectTable
"""What a client keeps of its examples."""
