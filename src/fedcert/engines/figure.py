"""A run's figure, where matplotlib is installed."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path

from fedcert._files.shared import SharedFolder
from fedcert.errors import FedcertError, FedcertWarning
from fedcert.estimation.result import Estimate
from fedcert.show.figures import plot
from fedcert.show.figures.style import drawn_as


def draw_estimate(estimate: Estimate, run: str | Path | None) -> Estimate:
    """Draw an estimate into its run's folder, if it has one and matplotlib is installed; returns the estimate."""
    if run is not None and find_spec("matplotlib") is not None:
        try:
            SharedFolder(Path(run)).write(Path(run) / "estimate.png", drawn_as(plot(estimate), "png"))
        except (FedcertError, OSError) as error:  # the numbers are kept all the same
            warnings.warn(f"there is no picture: {error}", FedcertWarning, stacklevel=2)
    return estimate
