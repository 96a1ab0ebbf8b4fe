"""Estimates that may stand side by side."""

from __future__ import annotations

from collections.abc import Sequence

from fedcert.errors import CallError
from fedcert.estimation.result import Estimate


def check_comparable(estimates: Sequence[Estimate]) -> None:
    """Check that estimates are about the same model, target and radii, smoothed alike.

    Raises:
        CallError: they are not.
    """
    first = estimates[0]
    for other in estimates[1:]:
        for name in ("model", "classes", "radii", "smoothing"):
            if getattr(other, name) != getattr(first, name):
                raise CallError(
                    f"estimates side by side must have the same {name}, but those by {first.method} and {other.method} "
                    "do not; show each by itself"
                )
        if other.target.distribution != first.target.distribution:
            raise CallError(
                f"estimates side by side must be for the same target, but those by {first.method} and {other.method} "
                f"are for {first.target.name!r} and {other.target.name!r}, which differ; show each by itself"
            )
