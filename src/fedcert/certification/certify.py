"""CERTIFY: from noisy predictions to certified radii (paper, III-B2; Cohen et al. 2019), for examples in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcert.certification.perturbation import block_size
from fedcert.certification.samplers.protocol import Images, OnSamples, Sampler, ignore
from fedcert.certification.scheduler import Certificate, CertificationScheduler, SamplingPolicy
from fedcert.report import Smoothing


@dataclass(frozen=True)
class CertificateTable:
    """What CERTIFY says of some examples, one entry each.

    Attributes:
        selected: the class that selection chose.
        radius: the certified radius; 0 where CERTIFY abstains. A certified radius is above 0.
        samples: noisy samples spent.
        estimated: whether anything was bounded; the sequential procedure does not where selection is wrong.
    """

    selected: npt.NDArray[np.int64]
    radius: npt.NDArray[np.float64]
    samples: npt.NDArray[np.int64]
    estimated: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, outcomes: Iterable[Certificate]) -> CertificateTable:
        """From what became of some examples, in the order of their indices."""
        ordered = sorted(outcomes, key=lambda outcome: outcome.index)
        return cls(
            np.array([outcome.selected for outcome in ordered], dtype=np.int64),
            np.array([outcome.radius for outcome in ordered], dtype=np.float64),
            np.array([outcome.samples for outcome in ordered], dtype=np.int64),
            np.array([outcome.estimated for outcome in ordered], dtype=np.bool_),
        )

    @property
    def abstains(self) -> npt.NDArray[np.bool_]:
        """Where nothing is certified, not even at radius 0."""
        return self.radius <= 0

    def certified(self, labels: npt.NDArray[np.int64], radii: Sequence[float]) -> npt.NDArray[np.bool_]:
        """Which examples are predicted right and certified to at least each radius; examples x radii."""
        right = (self.selected == labels) & ~self.abstains
        reached = self.radius[:, None] >= np.asarray(radii)[None, :]
        return np.asarray(right[:, None] & reached, dtype=np.bool_)


def certificates(
    sampler: Sampler,
    images: Images,
    labels: npt.NDArray[np.int64],
    smoothing: Smoothing,
    radii: Sequence[float],
    spent: OnSamples = ignore,
) -> CertificateTable:
    """CERTIFY on examples in memory, by the procedure of the settings.

    Selection takes the most frequent of n0 noisy predictions (ties go to the lowest index); fresh samples then bound
    its probability from below: n of them, or as many as the radii need (sequential).

    Guarantee: for each example, with probability at least 1 - failure_probability over the noise, either
    CERTIFY abstains or the smoothed classifier predicts `selected` everywhere within `radius` of the
    example, strictly. This holds for any model and any selection, because estimation uses fresh noise; and for any way
    to stop, because the bounds of all looks hold at once.

    Args:
        sampler: counts the model's noisy predictions.
        images: examples; their positions name their noise.
        labels: class index of each; only the sequential procedure looks at them, to leave wrong ones alone.
        smoothing: the settings.
        radii: increasing radii that the sequential procedure aims at.
        spent: told how many samples were drawn, as they are.
    """
    campaign = CertificationScheduler(
        sampler, SamplingPolicy.of(smoothing, radii, block_size(images.shape[1:])), 1e6, spent=spent
    )
    outcomes: list[Certificate] = []
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        while not campaign.has_room:
            outcomes.extend(campaign.advance())
        campaign.admit(index, image, int(label))
    while campaign.busy:
        outcomes.extend(campaign.advance())
    return CertificateTable.of(outcomes)
