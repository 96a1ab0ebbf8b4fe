"""CERTIFY: from counts of noisy predictions to a certified radius (paper, III-B2; Cohen et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcert.certification.bounds import miss_bound
from fedcert.certification.noise import Gaussian, Phase
from fedcert.certification.sampler import Counts, Images, Sampler, Spent, nobody
from fedcert.report import Smoothing


@dataclass(frozen=True)
class Certificates:
    """What CERTIFY says of some examples, one entry each.

    Attributes:
        selected: the class that selection chose.
        radius: the certified radius; 0 where CERTIFY abstains. A certified radius is above 0.
        samples: noisy samples spent.
    """

    selected: npt.NDArray[np.int64]
    radius: npt.NDArray[np.float64]
    samples: npt.NDArray[np.int64]

    @property
    def abstains(self) -> npt.NDArray[np.bool_]:
        """Where nothing is certified, not even at radius 0."""
        return self.radius <= 0

    def certified(self, labels: npt.NDArray[np.int64], radii: Sequence[float]) -> npt.NDArray[np.bool_]:
        """Which examples are predicted right and certified to at least each radius; examples x radii."""
        right = (self.selected == labels) & ~self.abstains
        reached = self.radius[:, None] >= np.asarray(radii)[None, :]
        return np.asarray(right[:, None] & reached, dtype=np.bool_)


def fixed(
    sampler: Sampler,
    images: Images,
    indices: Sequence[int],
    smoothing: Smoothing,
    spent: Spent = nobody,
) -> Certificates:
    """CERTIFY with a fixed number of samples.

    Selects the most frequent of n0 noisy predictions (ties go to the lowest index), draws n fresh ones,
    and bounds the selected class's probability from below.

    Guarantee: for each example, with probability at least 1 - failure_probability over the noise, either
    CERTIFY abstains or the smoothed classifier predicts `selected` everywhere within `radius` of the
    example, strictly. This holds for any model and any selection, because estimation uses fresh noise.

    Args:
        sampler: counts the model's noisy predictions.
        images: examples.
        indices: their indices in the client's data.
        smoothing: n0, n, failure probability and sigma.
        spent: told how many samples were drawn, as they are.
    """
    selection = sampler.counts(images, indices, Phase.SELECTION, smoothing.n0, spent)
    estimation = sampler.counts(images, indices, Phase.ESTIMATION, smoothing.n, spent)
    return certificates_of(selection, estimation, smoothing)


def certificates_of(selection: Counts, estimation: Counts, smoothing: Smoothing) -> Certificates:
    """Certificates from the two sets of counts, each examples x classes."""
    selected = selection.argmax(axis=1)
    successes = estimation[np.arange(len(selected)), selected]
    miss = miss_bound(successes, smoothing.n, smoothing.failure_probability)
    samples = np.full(len(selected), smoothing.n0 + smoothing.n, dtype=np.int64)
    return Certificates(selected, Gaussian(smoothing.sigma).radius(miss), samples)
