"""The minimax weights of any sign by following their path, exactly: the fast way that `minimax_solver` tries first.

In the notation of `minimax_solver`: for a multiplier κ, u maximises p(S)·u - (κ/2)·uᵀAu over low <= u <= low + 1. Each
class is at the upper limit, at the lower one, or free. While these sets stay the same, v = κu and κ·low are linear in
κ: free classes have no mismatch, (Av) = p(S), and the mismatches add up to 0. Between sets the path is continuous. It
starts at κ = 0 with the weights by volume, where every class is at a limit, and ends where vᵀAv = κ²z², which falls
along the path from above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats

_EVENTS_PER_CLASS = 8
"""Changes of sets after which the path is given up; in practice there are fewer than one and a half per class."""
_ROUNDING = 1e-12
"""Relative to κ: an event so little before the present one is the present one."""
_FIT = 1e-9
"""Largest mismatch of weights that are to have none: above it the system is singular in double precision."""

Mask = npt.NDArray[np.bool_]


class _Event(NamedTuple):
    kappa: float
    change: str
    position: int


@dataclass(frozen=True)
class _Segment:
    """A part of the path with the same sets: v = constant + κ·linear, κ·low = low[0] + κ·low[1]."""

    upper: Mask
    lower: Mask
    constant: Floats
    linear: Floats
    low: Floats

    @classmethod
    def of(cls, matrix: Floats, target: Floats, upper: Mask, lower: Mask) -> _Segment:
        """Solve for the free classes and the lower limit, symmetrically.

        Raises:
            LinAlgError: the free classes do not determine the weights.
        """
        free = np.flatnonzero(~(upper | lower))
        bound = np.where(upper | lower, 1.0, 0.0)
        at_bound, at_upper = matrix @ bound, matrix[:, upper].sum(axis=1)
        size = len(free)
        system = np.empty((size + 1, size + 1))
        system[:size, :size] = matrix[np.ix_(free, free)]
        system[:size, size] = system[size, :size] = at_bound[free]
        system[size, size] = bound @ at_bound
        right = np.empty((size + 1, 2))
        right[:size, 0], right[size, 0] = target[free], bound @ target
        right[:size, 1], right[size, 1] = -at_upper[free], -(bound @ at_upper)
        solution = np.linalg.solve(system, right)
        parts = bound[:, None] * solution[size]
        parts[free] = solution[:size]
        parts[upper, 1] += 1.0
        return cls(upper, lower, parts[:, 0], parts[:, 1], solution[size])

    def end(self, matrix: Floats, deviations: float, kappa: float) -> float:
        """κ at which vᵀAv = κ²z²; infinity where that is not ahead."""
        image = matrix @ self.linear
        a = float(self.linear @ image) - deviations**2
        b, c = 2 * float(self.constant @ image), float(self.constant @ matrix @ self.constant)
        inside = b * b - 4 * a * c
        if a == 0 or inside < 0:
            return np.inf
        roots = ((-b - np.sqrt(inside)) / (2 * a), (-b + np.sqrt(inside)) / (2 * a))
        return min((root for root in roots if root >= kappa * (1 - _ROUNDING)), default=np.inf)

    def next_event(self, matrix: Floats, target: Floats, kappa: float, last: _Event | None) -> _Event:
        """Which class changes its set first: one at a limit whose mismatch vanishes, or a free one at a limit."""
        free = ~(self.upper | self.lower)
        image = matrix @ self.linear
        rising = self.linear - self.low[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            released = np.where((self.upper & (image > 0)) | (self.lower & (image < 0)), 1.0, np.nan)
            events = {
                "free": released * (target - matrix @ self.constant) / image,
                "lower": np.where(free & (rising < 0), (self.low[0] - self.constant) / rising, np.nan),
                "upper": np.where(free & (rising > 1), (self.low[0] - self.constant) / (rising - 1), np.nan),
            }
        earliest = _Event(np.inf, "none", -1)
        for change, at in events.items():
            ahead = np.where(np.isnan(at), np.inf, np.maximum(at, kappa))
            if last is not None and ahead[last.position] <= kappa * (1 + _FIT):
                ahead[last.position] = np.inf  # it has just changed, and would go straight back by rounding
            position = int(np.argmin(ahead))
            if ahead[position] < earliest.kappa:
                earliest = _Event(float(ahead[position]), change, position)
        return earliest


def path_direction(matrix: Floats, target: Floats, deviations: float) -> Floats | None:
    """Coefficients β, up to their scale, of the weights of least half-length; None where rounding gets in the way.

    Guarantee: none by itself; `minimax_solver` checks the half-length against its lower bound.

    Args:
        matrix: A = Σ l lᵀ/n, classes x classes.
        target: the target's class mix.
        deviations: z.
    """
    try:
        unbiased = _without_mismatch(matrix, target, deviations)
        return unbiased if unbiased is not None else _followed(matrix, target, deviations)
    except np.linalg.LinAlgError:
        return None


def _without_mismatch(matrix: Floats, target: Floats, deviations: float) -> Floats | None:
    """The end of the path where no class is at a limit: the best weights have no mismatch at all."""
    try:
        direction = np.asarray(np.linalg.solve(matrix, target), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    image = matrix @ direction
    fits = np.abs(image - target).max() < _FIT
    within = np.ptp(direction) * deviations <= np.sqrt(max(float(direction @ image), 0.0))
    return direction if fits and within else None


def _followed(matrix: Floats, target: Floats, deviations: float) -> Floats | None:
    labels = matrix.sum(axis=0)
    upper = target > labels / labels.sum()
    lower = ~upper
    kappa, last = 0.0, None
    for _ in range(_EVENTS_PER_CLASS * len(target)):
        if not upper.any() or not lower.any():
            return None
        segment = _Segment.of(matrix, target, upper, lower)
        event = segment.next_event(matrix, target, kappa, last)
        end = segment.end(matrix, deviations, kappa)
        if end <= event.kappa:
            return segment.constant + end * segment.linear if np.isfinite(end) else None
        kappa, last = event.kappa, event
        upper, lower = upper.copy(), lower.copy()
        upper[event.position] = event.change == "upper"
        lower[event.position] = event.change == "lower"
    return None
