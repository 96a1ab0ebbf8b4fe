"""How a model was smoothed and certified: the settings that reports must share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import ClassVar

from fedcert.report.kinds import Number, OneOf, Whole
from fedcert.report.value import Value, rule

DEFAULT_RADII = tuple(round(0.05 * step, 9) for step in range(21))
"""0, 0.05, …, 1: the radii of the paper's evaluation."""


@dataclass(frozen=True, kw_only=True)
class Smoothing(Value):
    """Settings of randomized smoothing (CERTIFY).

    Attributes:
        noise: the distribution that is added to the input.
        norm: the norm in which radii are measured.
        sigma: standard deviation of the noise, in the units of the model's input.
        n0: samples that select a class.
        n: fresh samples that bound the selected class's probability.
        failure_probability: the most that one certificate may be wrong with.
        procedure: how the samples are spent; "fixed" draws all n for each example.
        precision: the arithmetic in which the classifier really ran: the certificate is about that one.
    """

    NOUN: ClassVar[str] = "smoothing settings"

    noise: str = field(default="gaussian", metadata=rule(OneOf(("gaussian",))))
    norm: str = field(default="l2", metadata=rule(OneOf(("l2",))))
    sigma: float = field(metadata=rule(Number(above=0, most=1e12)))
    n0: int = field(default=100, metadata=rule(Whole(least=1)))
    n: int = field(default=1000, metadata=rule(Whole(least=1)))
    failure_probability: float = field(default=0.001, metadata=rule(Number(above=0, below=1)))
    procedure: str = field(default="fixed", metadata=rule(OneOf(("fixed",))))
    precision: str = field(default="float32", metadata=rule(OneOf(("float32",))))

    @property
    def largest_radius(self) -> float:
        """The largest radius that these settings can certify, all n samples agreeing.

        It is sigma·Φ⁻¹(f^(1/n)) with f the failure probability; 0 where not even radius 0 is within
        reach. Beyond it certified accuracy is 0 by construction.

        Examples:
            >>> round(Smoothing(sigma=1.0, n=1000, failure_probability=0.05).largest_radius, 2)
            2.75
            >>> round(Smoothing(sigma=1.0, n=100_000, failure_probability=0.001).largest_radius, 2)
            3.81
        """
        # 1 - f^(1/n) directly: f^(1/n) itself is too close to 1 to keep its digits.
        miss = -math.expm1(math.log(self.failure_probability) / self.n)
        return max(0.0, -self.sigma * NormalDist().inv_cdf(miss)) if miss < 1 else 0.0
