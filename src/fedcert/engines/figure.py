"""A run's figure, where matplotlib is installed."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path

from fedcert.errors import FedcertError, FedcertWarning
from fedcert.estimation.result import Estimate
from fedcert.show.figures import plot


def draw_estimate(estimate: Estimate, run: str | Path | None) -> Estimate:
    """Draw an estimate into its run's folder, if it has one and matplotlib is installed; returns the estimate."""
    if run is not None and find_spec("matplotlib") is not None:
        try:
            plot(estimate, Path(run) / "estimate.png")
        except (FedcertError, OSError) as error:  # the numbers are kept all the same
            warnings.warn(f"there is no picture: {error}", FedcertWarning, stacklevel=2)
    return estimate
