"""What population certificates prove on a set of examples by itself, for comparison with estimates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert.population.tables import designs_for
from fedcert.report import Smoothing


def proven_accuracy(
    correct_counts: Sequence[int] | npt.NDArray[np.integer], smoothing: Smoothing, radii: Sequence[float]
) -> Floats:
    """The mean of the lower scores over some examples, at each radius; 0 where it is negative.

    Guarantee: before it is cut at 0, its expectation over the noise is no larger than the accuracy of the vote on these
    examples, whatever changes them within the radius. An estimate from examples of the same population has the same
    expectation: this is the truth that it is compared with.

    Args:
        correct_counts: how many examples had 0, 1, …, n right answers.
        smoothing: settings of population certificates.
        radii: radii in the units of the inputs.

    Examples:
        >>> settings = Smoothing(sigma=0.5, procedure="population", n=16)
        >>> proven_accuracy([50, *[0] * 15, 50], settings, [0.0]).round(3).tolist()
        [0.5]
    """
    counts = np.asarray(correct_counts, dtype=np.float64)
    assert smoothing.votes is not None  # noqa: S101 (population certificates have votes)
    ratios = [radius / smoothing.sigma for radius in radii]
    designs = designs_for(smoothing.noise, smoothing.n, smoothing.votes, ratios)
    return np.clip(np.array([design.lower for design in designs]) @ counts / max(counts.sum(), 1.0), 0.0, 1.0)
