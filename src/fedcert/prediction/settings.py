"""How a smoothed classifier answers: its noise, which must be that of the certificate, and its rule."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedcert._schema.declare import Checked, optional
from fedcert._schema.field_types import Number, Whole
from fedcert.errors import CallError, InvalidValue
from fedcert.report import Smoothing
from fedcert.report.fields import CLASSES
from fedcert.report.noises import NOISES
from fedcert.report.smoothing import DEFAULT_VOTES, MOST_VOTES, Odd

DEFAULT_TEST_SAMPLES = 1_000
"""Of PREDICT: at level 0.001 it then answers where the first of two classes has 553 of them."""


@dataclass(frozen=True, kw_only=True)
class PredictionSettings(Checked):
    """What a smoothed classifier does with an input.

    Attributes:
        sigma: standard deviation of the noise.
        votes: noisy copies, of which the most frequent label is the answer; odd. 11 where None, without `abstain`.
        abstain: the level of PREDICT's test; None for a vote.
        n: noisy samples of PREDICT; 1,000 where None.
        noise: its name; "gaussian" where None.
        lattice: m, whose multiples of 1/m the noisy inputs lie on; 0 for no lattice, None for the inputs' own.
        precision: the model's arithmetic; None for its device's default.
        classes: class names in the order of the model's outputs; None where the model's own number of them will do.
        batch_size: samples per call of the model, each call filled up to so many; None for as many as fit, unfilled.

    Raises:
        CallError: settings that exclude one another.
        InvalidValue: one breaks its rule.
    """

    sigma: float
    votes: int | None = optional(Odd(least=1, most=MOST_VOTES))
    abstain: float | None = optional(Number(above=0, below=1))
    n: int | None = optional(Whole(least=1))
    noise: str | None = None
    lattice: int | None = None
    precision: str | None = None
    classes: tuple[str, ...] | None = optional(CLASSES)
    batch_size: int | None = optional(Whole(least=1))

    def __post_init__(self) -> None:
        if self.votes is not None and self.abstain is not None:
            raise CallError(
                "votes and abstain exclude one another: give votes (--votes) for an answer to every input, or abstain "
                "(--abstain) for PREDICT, which may give none"
            )
        if self.n is not None and self.abstain is None:
            raise CallError("n (--n) goes with abstain (--abstain); votes (--votes) say how many copies a vote is over")
        super().__post_init__()
        self.smoothing(None, "float32")  # checks what both have
        if self.abstain is not None and self.abstain < 2.0 ** (1 - self.samples):  # the p-value if all samples agree
            fewest = math.ceil(1 - math.log2(self.abstain))
            raise InvalidValue("n", f"at least {fewest} for a test at level {self.abstain:g}", self.samples)

    @property
    def samples(self) -> int:
        """Noisy samples of one answer."""
        return (self.votes or DEFAULT_VOTES) if self.abstain is None else (self.n or DEFAULT_TEST_SAMPLES)

    @property
    def class_count(self) -> int | None:
        """How many classes are named; None where none are."""
        return None if self.classes is None else len(self.classes)

    def smoothing(self, natural_lattice: int | None, default_precision: str) -> Smoothing:
        """The noise, lattice and precision for some inputs and a model; what else it has is CERTIFY's.

        Args:
            natural_lattice: the inputs' own lattice, which holds where none was asked for and the noise has one.
            default_precision: the model's, where none was asked for.

        Raises:
            InvalidValue: one breaks its rule.
        """
        noise = "gaussian" if self.noise is None else self.noise
        lattice = self.lattice or None
        if self.lattice is None and noise in NOISES and NOISES[noise].on_lattice:
            lattice = natural_lattice
        precision = default_precision if self.precision is None else self.precision
        return Smoothing.defaults(self.sigma, noise=noise, lattice=lattice, precision=precision)
