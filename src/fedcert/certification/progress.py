"""Progress of a certification."""

from __future__ import annotations

from pathlib import Path


class ProgressListener:
    """Progress callbacks; the base class ignores them."""

    def slower_by_request(self, asked: str, faster: str) -> None:
        """Before it starts: the request asks for a precision, and the model's device is much faster in another."""

    def forecast(self, samples: int, rate: float) -> None:
        """Before it starts: samples to draw, and samples per second that were measured."""

    def forecast_at_most(self, samples: int, rate: float, examples: int) -> None:
        """The same for the sequential procedure, which needs fewer: so many at most, for so many examples."""

    def finished(self, examples: int) -> None:
        """So many more examples are done."""

    def advance(self, samples: int) -> None:
        """So many more samples were drawn."""

    def resumed(self, examples: int) -> None:
        """An earlier run left a journal in which so many examples are done."""

    def keeping(self, journal: Path) -> None:
        """States of examples are being recorded in a journal."""

    def late(self, done: int, of: int) -> None:
        """The time budget is used up; so many examples were certified."""
