"""The noises that certificates are made with, as values: what reports, requests and schemas need to know of each.

How a noise is drawn is the client half's (`certification.perturbation`); this half needs neither numpy nor torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any


@dataclass(frozen=True)
class Shift:
    """What a change of the input can do to a probability at worst: all that population certificates need of a noise.

    Attributes:
        least: a probability of the noisy input, one minus it, and a radius in units of sigma -> the least probability
            of the same answer after any change up to that radius, and one minus it. Of arrays, by entry; both are given
            and returned, so that neither loses its digits next to 0.
        steepest: the most that the first result falls per unit of the radius.
    """

    least: Callable[[Any, Any, float], tuple[Any, Any]]
    steepest: float


@dataclass(frozen=True)
class Noise:
    """A distribution of random perturbations, and the radius that it certifies.

    Attributes:
        name: what settings call it.
        norm: the norm in which its radii are measured, such as "l2".
        radius: standard deviation and error bound (below one half) -> certified radius.
        description: one line about it.
        on_lattice: whether it can be rounded to a lattice and drawn exactly.
        shift: what changes of the input do to probabilities at worst; None where only the radius is known, and
            population certificates cannot be made.
    """

    name: str
    norm: str
    radius: Callable[[float, float], float]
    description: str
    on_lattice: bool = False
    shift: Shift | None = None

    def certified_radius(self, sigma: float, error_bound: float) -> float:
        """The radius within which the smoothed classifier keeps a class of probability at least 1 - error_bound.

        Where that is not above one half nothing is certified, which is radius 0: CERTIFY abstains. A certified radius
        is always above 0.

        Args:
            sigma: standard deviation of the noise.
            error_bound: upper confidence bound of the probability of all other classes together.
        """
        return max(0.0, self.radius(sigma, error_bound)) if error_bound < 0.5 else 0.0


def _gaussian_radius(sigma: float, error_bound: float) -> float:
    """Cohen et al. 2019, Theorem 1: sigma·Φ⁻¹(1 - error_bound)."""
    return -sigma * NormalDist().inv_cdf(error_bound) if error_bound > 0 else math.inf


def _uniform_radius(sigma: float, error_bound: float) -> float:
    """λ(1 - 2·error_bound), λ = √3·sigma: the overlap of two cubes moved apart falls at most by distance/(2λ)."""
    return math.sqrt(3) * sigma * (1 - 2 * error_bound)


def _gaussian_shift(probability: Any, complement: Any, ratio: float) -> tuple[Any, Any]:
    """Φ(Φ⁻¹(p) - r/sigma), by Neyman and Pearson's lemma (Cohen et al. 2019); exact for linear classifiers."""
    import numpy as np
    from scipy import special

    lower = np.asarray(probability) < 0.5
    z = np.where(lower, special.ndtri(probability), -special.ndtri(complement))
    return special.ndtr(z - ratio), special.ndtr(ratio - z)


def _uniform_shift(probability: Any, complement: Any, ratio: float) -> tuple[Any, Any]:
    """max(0, p - r/(2λ)), λ = √3·sigma: two cubes moved apart by r in L1 share all but r/(2λ) of their volume."""
    import numpy as np

    lost = ratio / (2 * math.sqrt(3))
    return np.maximum(np.asarray(probability) - lost, 0.0), np.minimum(np.asarray(complement) + lost, 1.0)


_OWN = (
    Noise(
        "gaussian", "l2", _gaussian_radius, "independent normal noise on every input coordinate", True,
        Shift(_gaussian_shift, 1 / math.sqrt(2 * math.pi)),
    ),
    Noise(
        "uniform", "l1", _uniform_radius, "independent uniform noise on [-√3·sigma, √3·sigma]", True,
        Shift(_uniform_shift, 1 / (2 * math.sqrt(3))),
    ),
)  # fmt: skip
NOISES = {noise.name: noise for noise in _OWN}
"""Every noise by its name, the default first; `certification.perturbation.register_perturbation` adds to it."""


class _Norms(Collection[str]):
    """The norms of all registered noises, each once: read from the registry whenever they are asked for."""

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(noise.norm for noise in NOISES.values()))

    def __contains__(self, norm: object) -> bool:
        return any(noise.norm == norm for noise in NOISES.values())

    def __len__(self) -> int:
        return len({noise.norm for noise in NOISES.values()})


NORMS: Collection[str] = _Norms()


def noise_choices(before_first: str = "", before_others: str = "") -> str:
    """The registered noises and their norms in one line of help.

    Examples:
        >>> noise_choices()
        'gaussian (L2), or uniform (L1)'
    """
    before = [before_first] + [before_others] * (len(NOISES) - 1)
    *others, last = (
        f"{noise.name} ({words}{noise.norm.upper()})" for noise, words in zip(NOISES.values(), before, strict=True)
    )
    return ", ".join([*others, f"or {last}"])
