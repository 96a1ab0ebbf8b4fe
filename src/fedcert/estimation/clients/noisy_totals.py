"""Counts per class with noise for privacy in them: which classes are held, and their counts made consistent.

Of each class there are three independent measurements: its size, released to choose and weigh classes (m); its size
again (b); and disjoint cells, of which those above a radius add up to its certified examples (k) and the others to its
uncertified ones (u). The first one is not used for anything else. The other two say the same of the class's size,
k + u = b but for noise, so that each of the three is moved by its share of the difference: that is generalised least
squares, and what comes out is unbiased, adds up, and has less noise than what went in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert.report.privacy import AddedNoise

_CLEAR = 4.0
"""A class counts as held if its noisy size is so many standard deviations of the noise: by chance alone that happens
once in 30,000 classes."""


@dataclass(frozen=True)
class NoisyTotals:
    """Noisy counts of the classes, after the adjustment; the noise is the same in every class.

    Attributes:
        sizes: the sizes that choose and weigh, independent of all other counts here; 0 where a class is not held.
        labels: examples of each class.
        certified: certified ones, classes x radii.
        sizes_variance: of the noise in `sizes`.
        labels_variance: of the noise in `labels`.
        certified_variance: of the noise in `certified`, at each radius.
        covariance: of these two, at each radius.
    """

    sizes: Floats
    labels: Floats
    certified: Floats
    sizes_variance: float
    labels_variance: float
    certified_variance: Floats
    covariance: Floats

    @classmethod
    def of(cls, noise: AddedNoise, scores: Floats | None = None) -> NoisyTotals:
        """The totals of what was released.

        Args:
            noise: the noise and the counts.
            scores: of the cells, radii x cells; where None, cells above a radius are certified at it.
        """
        cells = np.array(noise.cells, dtype=np.float64) / noise.scale
        choosing, counting = np.array(noise.sizes, dtype=np.float64) / noise.scale
        all_cells = cells.shape[1] * noise.variance
        whole = all_cells + noise.sizes_variance
        adjusted = cells - (noise.variance / whole) * (cells.sum(axis=1) - counting)[:, None]
        if scores is None:  # a cell counts at its radius and all smaller ones
            scores = np.triu(np.ones((cells.shape[1] - 1, cells.shape[1])), 1)
        first, second = noise.variance * scores.sum(axis=1), noise.variance * (scores**2).sum(axis=1)
        return cls(
            np.where(choosing > _CLEAR * np.sqrt(noise.sizes_variance), choosing, 0.0), adjusted.sum(axis=1),
            adjusted @ scores.T, noise.sizes_variance, noise.sizes_variance * all_cells / whole,
            second - first**2 / whole, first * noise.sizes_variance / whole,
        )  # fmt: skip

    def noise_variance(self, accuracy: Floats | float) -> Floats:
        """Of the noise in k - L n at each radius, for an accuracy L."""
        noise = self.certified_variance - 2 * accuracy * self.covariance + accuracy**2 * self.labels_variance
        return np.asarray(noise, dtype=np.float64)

    def among(self, classes: npt.NDArray[np.bool_], radii: slice) -> NoisyTotals:
        """The totals of some classes at some radii."""
        return replace(
            self, sizes=self.sizes[classes], labels=self.labels[classes], certified=self.certified[classes, radii],
            certified_variance=self.certified_variance[radii], covariance=self.covariance[radii],
        )  # fmt: skip

    @property
    def uncertified(self) -> NoisyTotals:
        """The same, with certified and uncertified examples exchanged."""
        return replace(
            self, certified=self.labels[:, None] - self.certified, certified_variance=self.noise_variance(1.0),
            covariance=self.labels_variance - self.covariance,
        )  # fmt: skip
