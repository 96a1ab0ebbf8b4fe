"""Progress of a certification."""

from __future__ import annotations

import warnings
from pathlib import Path

from fedcert.errors import FedcertWarning


class ProgressListener:
    """Progress callbacks of `certify`: make a subclass with those that you want; the base class ignores them.

    Examples:
        >>> import numpy as np, fedcert
        >>> class Counter(fedcert.ProgressListener):
        ...     done = 0
        ...     def finished(self, examples):
        ...         self.done += examples
        >>> counter = Counter()
        >>> x = np.random.default_rng(0).random((20, 4))
        >>> _ = fedcert.certify(lambda batch: (batch[:, 0] > 0.5).astype(int), x, (x[:, 0] > 0.5).astype(int),
        ...                     sigma=0.25, client="site-07", model_id="threshold", progress=counter)
        >>> counter.done
        20
    """

    def slower_by_request(self, asked: str, faster: str) -> None:
        """Before it starts: the request asks for a precision, and the model's device is much faster in another."""

    def without_noise(self, right: int, examples: int, of: int) -> None:
        """Before it starts: so many predictions without noise are right, of so many examples, out of all of them."""

    def forecast(self, samples: int, rate: float) -> None:
        """Before it starts: samples to draw, and samples per second that were measured."""

    def forecast_at_most(self, samples: int, rate: float, examples: int) -> None:
        """The same for the sequential procedure, which needs fewer: so many at most, for so many examples."""

    def finished(self, examples: int) -> None:
        """So many more examples are done."""

    def advance(self, samples: int) -> None:
        """So many more samples were drawn."""

    def forecast_typical(self, least: float, most: float) -> None:
        """Once the first examples are done: about how many seconds are left, from so many to so many."""

    def resumed(self, examples: int) -> None:
        """An earlier run left a journal in which so many examples are done."""

    def keeping(self, journal: Path) -> None:
        """States of examples are being recorded in a journal."""

    def warn(self, sentence: str) -> None:
        """Something about the data or the model looks like a mistake."""
        warnings.warn(sentence, FedcertWarning, stacklevel=2)

    def late(self, done: int, of: int, waiting: int) -> None:
        """The time budget is used up; the report is about so many examples.

        Args:
            done: examples that the report is about.
            of: all of them.
            waiting: others that are done, but come after one that is not, in the order in which reports take them.
        """


def approximately(seconds: float) -> str:
    """A forecast in words.

    Examples:
        >>> approximately(0.3), approximately(42)
        ('less than a second', 'about 42 s')
    """
    return duration(seconds) if seconds < 1 else f"about {duration(seconds)}"


def duration(seconds: float) -> str:
    """A time that a person can plan with.

    Examples:
        >>> duration(0.3), duration(42), duration(400), duration(9000)
        ('less than a second', '42 s', '7 min', '2.5 h')
    """
    if seconds < 1:
        return "less than a second"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
