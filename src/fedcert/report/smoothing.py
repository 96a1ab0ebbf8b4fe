"""How a model was smoothed and certified: the settings that reports must share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from fedcert._schema.declare import defaulting, optional, required
from fedcert._schema.field_types import Enumerated, Number, Whole
from fedcert._schema.record import Record
from fedcert.errors import InvalidValue
from fedcert.report.noises import NOISES, NORMS

DEFAULT_RADII = tuple(round(0.05 * step, 9) for step in range(21))
"""0, 0.05, …, 1: the radii of the paper's evaluation."""

LAST_SHARE = 0.4
"""Of the failure probability, what the sequential procedure keeps for its last look; the rest pays for stopping early.
With so much, radius 1 can be certified with sigma = √0.1 and n = 10,000 (docs/benchmarks.md). Part of the format: a
report's largest radius follows from it."""

DEFAULT_TOLERANCE = 0.005
"""Half a point of certified accuracy, which is the standard error of an accuracy of one half of 10,000 examples."""

DEFAULT_SAMPLES = {"sequential": 10_000, "fixed": 1000}
"""n where it is not given: the most samples of an example, or all of them, as in the published procedure."""

LARGEST_LATTICE = 65_535
"""Steps of images of 16 bits."""

PRECISIONS = ("float32", "tf32", "bfloat16")
"""The arithmetics in which a classifier may run, the default of requests first."""


@dataclass(frozen=True, kw_only=True)
class Smoothing(Record):
    """Settings of randomized smoothing (CERTIFY).

    What a file does not say means the published procedure. Settings for new work come from `defaults`.

    Attributes:
        noise: the distribution of the perturbation, by its name in `NOISES`: "gaussian", or "uniform" on
            [-√3·sigma, √3·sigma].
        norm: the norm in which radii are measured, which follows from the noise: L2 for Gaussian, L1 for uniform noise.
        sigma: standard deviation of the noise, in the units of the model's input.
        n0: samples that select a class.
        n: fresh samples that bound the selected class's probability; with the sequential procedure the most of them.
        failure_probability: the most that one certificate may be wrong with.
        procedure: how samples are drawn; "fixed" draws all n for each example, "sequential" no more than the radii
            need.
        tolerance: sequential: about the most certified accuracy that giving up on examples may cost at any radius; None
            for the fixed procedure.
        precision: the arithmetic in which the classifier really ran: the certificate is about that one.
        lattice: m where all inputs are multiples of 1/m, and noise is rounded to these and drawn exactly: 255 for
            images of 8 bits; None where noise is added in floating point.

    Examples:
        >>> Smoothing(sigma=0.25, n=1000).largest_radius
        0.6158156536952023
        >>> Smoothing.defaults(0.25).procedure
        'sequential'
    """

    NOUN: ClassVar[str] = "smoothing settings"

    noise: str = defaulting(Enumerated(NOISES), "gaussian")
    norm: str = defaulting(Enumerated(NORMS), "l2")
    sigma: float = required(Number(above=0, most=1e12))
    n0: int = defaulting(Whole(least=1), 100)
    n: int = defaulting(Whole(least=1), 1000)
    failure_probability: float = defaulting(Number(above=0, below=1), 0.001)
    procedure: str = defaulting(Enumerated(("fixed", "sequential")), "fixed")
    tolerance: float | None = optional(Number(least=0, below=1))
    precision: str = defaulting(Enumerated(PRECISIONS), "float32")
    lattice: int | None = optional(Whole(least=1, most=LARGEST_LATTICE), later=True)

    def check_consistency(self) -> None:
        """Check that noise and norm, noise and lattice, procedure and tolerance go together."""
        norm = NOISES[self.noise].norm
        if self.norm != norm:
            raise InvalidValue("norm", f"'{norm}', which {self.noise} noise certifies radii in", self.norm)
        if self.lattice is not None and not NOISES[self.noise].on_lattice:
            raise InvalidValue(
                "lattice", f"left out (null) with {self.noise} noise, which is not drawn on one", self.lattice
            )
        if self.procedure == "fixed" and self.tolerance is not None:
            rule = "left out (null) with the fixed procedure, which never gives up"
            raise InvalidValue("tolerance", rule, self.tolerance)
        if self.procedure == "sequential" and self.tolerance is None:
            object.__setattr__(self, "tolerance", DEFAULT_TOLERANCE)

    @classmethod
    def defaults(cls, sigma: float, **given: Any) -> Smoothing:
        """Settings for new work: by default, the sequential procedure with at most 10,000 samples.

        Args:
            sigma: standard deviation of the noise.
            given: other settings by name; the norm follows from the noise.

        Examples:
            >>> Smoothing.defaults(0.25).n, Smoothing.defaults(0.25, procedure="fixed").n
            (10000, 1000)
        """
        settings = {"procedure": "sequential", **given}
        # Words that are not in the registries are left for the validation to refuse.
        procedure, noise = settings["procedure"], settings.get("noise")
        if isinstance(procedure, str) and procedure in DEFAULT_SAMPLES:
            settings.setdefault("n", DEFAULT_SAMPLES[procedure])
        if isinstance(noise, str) and noise in NOISES:
            settings.setdefault("norm", NOISES[noise].norm)
        return cls(sigma=sigma, **settings)

    def to_json(self) -> dict[str, Any]:
        """The settings; those that a procedure does not have are left out, so that digests of requests stay."""
        return {key: value for key, value in super().to_json().items() if key != "tolerance" or value is not None}

    @property
    def largest_radius(self) -> float:
        """The largest radius that these settings can certify, all n samples agreeing.

        With f the failure probability (of the last look, 40% of it, with the sequential procedure) it is the noise's
        radius at the error bound 1 - f^(1/n): sigma·Φ⁻¹(f^(1/n)) for Gaussian noise; 0 where not even radius 0 can be
        certified. Beyond it certified accuracy is 0 by construction.

        Examples:
            >>> round(Smoothing(sigma=1.0, n=1000, failure_probability=0.05).largest_radius, 2)
            2.75
            >>> round(Smoothing(sigma=1.0, n=100_000, failure_probability=0.001).largest_radius, 2)
            3.81
        """
        share = LAST_SHARE if self.procedure == "sequential" else 1.0
        # 1 - f^(1/n) directly: f^(1/n) itself is too close to 1 to keep its digits.
        error_bound = -math.expm1((math.log(self.failure_probability) + math.log(share)) / self.n)
        return NOISES[self.noise].certified_radius(self.sigma, error_bound)
