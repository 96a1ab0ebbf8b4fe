"""How a model was smoothed and certified: the settings that reports must share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from fedcert._schema.declare import defaulting, implied, optional, required
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

POPULATION = "population"
"""The procedure that certifies averages over examples, by counting right answers to a few noisy copies of each."""

DEFAULT_PROCEDURE = POPULATION
"""Of new work, where the noise allows it: it must be known what a change of the input does to probabilities."""

DEFAULT_SAMPLES = {"sequential": 10_000, "fixed": 1000, POPULATION: 32}
"""n of new work where it is not given: the most samples of an example, or all of them. 32 passes lose a tenth of a
point up to a radius of 1.6 sigma, and one point at 2 sigma."""

_IMPLIED_SAMPLES = {"sequential": 1000, "fixed": 1000, POPULATION: 32}
"""n of a file that does not say it."""

DEFAULT_VOTES = 11
"""Noisy copies that vote on an answer: half a point below the vote of 31 at radius 0, for a third of the passes."""

MOST_PASSES = 2_000
"""Of population certificates: their histogram has one count more. Two passes in three of CERTIFY's own n0 + n would
certify single examples as well."""

MOST_SAMPLES = 100_000_000
"""Of CERTIFY, for each example: a thousand times what is common, and minutes of work even for the smallest model."""

MOST_VOTES = 9_999
"""More than the samples of PREDICT, which decides single answers."""

_STEPS, _FARTHEST = 20, 2.0
"""Default radii: 20 steps. Those of population certificates end at 2 sigma, where 32 passes lose a point."""

LARGEST_LATTICE = 65_535
"""Steps of images of 16 bits."""

PROCEDURES = ("fixed", "sequential", POPULATION)
"""How samples are drawn. What a file does not say is the first."""

_FOREIGN = {
    ("tolerance", "fixed"): "with the fixed procedure, which never gives up",
    ("votes", "fixed"): "with the fixed procedure: it is about single examples, not about a vote",
    ("votes", "sequential"): "with the sequential procedure: it is about single examples, not about a vote",
    ("tolerance", POPULATION): "with the population procedure, which draws n samples of every example",
    ("n0", POPULATION): "with the population procedure, which selects no class (the sequential one does)",
    ("failure_probability", POPULATION): "with the population procedure: it says nothing of a single example that "
    "could fail (the sequential one does)",
}
"""Settings that a procedure does not have, and why."""

PRECISIONS = ("float32", "tf32", "bfloat16")
"""The arithmetics in which a classifier may run, the default of requests first."""


@dataclass(frozen=True)
class Odd(Whole):
    """An odd whole number."""

    @property
    def expected(self) -> str:
        """See `FieldType.expected`."""
        return f"an odd number from {self.least} to {self.most}"

    def validate(self, value: Any, field: str) -> int:
        """See `FieldType.validate`."""
        number = super().validate(value, field)
        if number % 2 == 0:
            raise self.error(value, field)
        return number

    def schema(self) -> dict[str, Any]:
        """See `FieldType.schema`."""
        return super().schema() | {"not": {"multipleOf": 2}}


@dataclass(frozen=True, kw_only=True)
class Smoothing(Record):
    """Settings of randomized smoothing, for CERTIFY or for population certificates.

    What a file does not say means the published procedure. Settings for new work come from `defaults`.

    Attributes:
        noise: the distribution of the perturbation, by its name in `NOISES`: "gaussian", or "uniform" on
            [-√3·sigma, √3·sigma].
        norm: the norm in which radii are measured, which follows from the noise: L2 for Gaussian, L1 for uniform noise.
        sigma: standard deviation of the noise, in the units of the model's input.
        n0: samples that select a class; None with the population procedure, which selects none.
        n: fresh samples that bound the selected class's probability; with the sequential procedure the most of them,
            with the population procedure the noisy passes of each example.
        failure_probability: the most that one certificate may be wrong with; None with the population procedure.
        procedure: how samples are drawn; "fixed" draws all n for each example, "sequential" no more than the radii
            need: both are CERTIFY. "population" counts how many of n noisy copies are predicted right.
        votes: population: how many fresh noisy copies the deployed classifier takes the vote of; None for CERTIFY.
        tolerance: sequential: about the most certified accuracy that giving up on examples may cost at any radius; None
            for the fixed procedure.
        precision: the arithmetic in which the classifier really ran: the certificate is about that one.
        lattice: m where all inputs are multiples of 1/m, and noise is rounded to these and drawn exactly: 255 for
            images of 8 bits; None where noise is added in floating point.

    Examples:
        >>> Smoothing(sigma=0.25, n=1000).largest_radius
        0.6158156536952023
        >>> Smoothing.defaults(0.25).procedure
        'population'
    """

    NOUN: ClassVar[str] = "smoothing settings"

    noise: str = defaulting(Enumerated(NOISES), "gaussian")
    norm: str = defaulting(Enumerated(NORMS), "l2")
    sigma: float = required(Number(above=0, most=1e12))
    n0: int | None = implied(Whole(least=1, most=MOST_SAMPLES))
    n: int = implied(Whole(least=1, most=MOST_SAMPLES))
    failure_probability: float | None = implied(Number(above=0, below=1))
    procedure: str = defaulting(Enumerated(PROCEDURES), "fixed")
    tolerance: float | None = optional(Number(least=0, below=1))
    precision: str = defaulting(Enumerated(PRECISIONS), "float32")
    lattice: int | None = optional(Whole(least=1, most=LARGEST_LATTICE), later=True)
    votes: int | None = optional(Odd(least=1, most=MOST_VOTES), later=True)

    def _check_consistency(self) -> None:
        """Check that noise and norm, noise and lattice, procedure and tolerance go together."""
        norm = NOISES[self.noise].norm
        if self.norm != norm:
            raise InvalidValue("norm", f"'{norm}', which {self.noise} noise certifies radii in", self.norm)
        if self.lattice is not None and not NOISES[self.noise].on_lattice:
            raise InvalidValue(
                "lattice", f"left out (null) with {self.noise} noise, which is not drawn on one", self.lattice
            )
        for name in self._foreign:
            if getattr(self, name) is not None:
                raise InvalidValue(name, f"left out (null) {_FOREIGN[name, self.procedure]}", getattr(self, name))
        for name, value in self._implied.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        if self.is_population and self.n > MOST_PASSES:
            raise InvalidValue("n", f"at most {MOST_PASSES} passes with the population procedure", self.n)

    @property
    def is_population(self) -> bool:
        """Whether averages over examples are certified, rather than single ones."""
        return self.procedure == POPULATION

    @property
    def _foreign(self) -> list[str]:
        """The settings that the procedure does not have."""
        return [name for name, procedure in _FOREIGN if procedure == self.procedure]

    @property
    def _implied(self) -> dict[str, Any]:
        """What settings mean that are left out."""
        samples = {"n": _IMPLIED_SAMPLES[self.procedure]}
        if self.is_population:
            return samples | {"votes": DEFAULT_VOTES}
        tolerance = {"tolerance": DEFAULT_TOLERANCE} if self.procedure == "sequential" else {}
        return samples | {"n0": 100, "failure_probability": 0.001} | tolerance  # as published (Cohen et al. 2019)

    @classmethod
    def defaults(cls, sigma: float, **given: Any) -> Smoothing:
        """Settings for new work: by default, population certificates with 32 passes of each example.

        CERTIFY's sequential procedure is the default for noises of which only the radius is known.

        Args:
            sigma: standard deviation of the noise.
            given: other settings by name; the norm follows from the noise.

        Examples:
            >>> Smoothing.defaults(0.25).n, Smoothing.defaults(0.25, procedure="sequential").n
            (32, 10000)
        """
        # Words that are not in the registries are left for the validation to refuse.
        noise = given.get("noise", "gaussian")
        known = NOISES.get(noise) if isinstance(noise, str) else None
        only_radius = known is not None and known.shift is None
        settings = {"procedure": "sequential" if only_radius else DEFAULT_PROCEDURE, **given}
        procedure = settings["procedure"]
        if isinstance(procedure, str) and procedure in DEFAULT_SAMPLES:
            settings.setdefault("n", DEFAULT_SAMPLES[procedure])
        if known is not None:
            settings.setdefault("norm", known.norm)
        return cls(sigma=sigma, **settings)

    def to_json(self) -> dict[str, Any]:
        """The settings; those that a procedure does not have are left out, so that digests of requests stay."""
        foreign = self._foreign
        return {key: value for key, value in super().to_json().items() if key not in foreign}

    @property
    def most_samples(self) -> int:
        """The most noisy samples of an example, selection included."""
        return self.n + (self.n0 or 0)

    @property
    def default_radii(self) -> tuple[float, ...]:
        """The radii at which new work counts where none are given.

        Examples:
            >>> Smoothing.defaults(0.25, procedure="population").default_radii[-2:]
            (0.475, 0.5)
            >>> Smoothing.defaults(0.25, procedure="sequential").default_radii[-2:]
            (0.741, 0.78)
        """
        largest = self.largest_radius
        if largest is None:
            length = self.sigma * _FARTHEST / _STEPS
        elif largest > 0:
            length = _rounded_down(largest / _STEPS)
        else:  # nothing can be certified, so any radii do
            return DEFAULT_RADII
        return tuple(round(length * step, 9) for step in range(_STEPS + 1))

    @property
    def largest_radius(self) -> float | None:
        """The largest radius that these settings can certify, all n samples agreeing; None for population certificates.

        They have no such radius: what n passes prove fades with the radius.

        With f the failure probability (of the last look, 40% of it, with the sequential procedure) it is the noise's
        radius at the error bound 1 - f^(1/n): sigma·Φ⁻¹(f^(1/n)) for Gaussian noise; 0 where not even radius 0 can be
        certified. Beyond it certified accuracy is 0 by construction.

        Examples:
            >>> round(Smoothing(sigma=1.0, n=1000, failure_probability=0.05).largest_radius, 2)
            2.75
            >>> round(Smoothing(sigma=1.0, n=100_000, failure_probability=0.001).largest_radius, 2)
            3.81
        """
        if self.failure_probability is None:
            return None
        share = LAST_SHARE if self.procedure == "sequential" else 1.0
        # 1 - f^(1/n) directly: f^(1/n) itself is too close to 1 to keep its digits.
        error_bound = -math.expm1((math.log(self.failure_probability) + math.log(share)) / self.n)
        return NOISES[self.noise].certified_radius(self.sigma, error_bound)


def _rounded_down(value: float) -> float:
    """A number above 0 to two significant digits, rounded down.

    Examples:
        >>> _rounded_down(0.03957), _rounded_down(12.34)
        (0.039, 12.0)
    """
    digits = 1 - math.floor(math.log10(value))
    return math.floor(value * 10.0**digits) / 10.0**digits
