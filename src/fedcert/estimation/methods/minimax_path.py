"""The minimax weights of any sign by following their path, exactly: the fast way that `minimax_solver` tries first.

In the notation of `minimax_solver`: for a multiplier κ, u maximises p(S)·u - (κ/2)·uᵀAu over low <= u <= low + 1. With
n = A1, N = Σn and v = κu = κ·low + w the constant drops out: B = A - nnᵀ/N and q = p(S) - n/N give the mismatch
d = q - Bw, and vᵀAv = wᵀBw + 1/N. Each class is at the upper limit (w = κ, d >= 0), at the lower one (w = 0, d <= 0),
or free (d = 0). While these sets stay the same, w is linear in κ. The path starts at κ = 0 with the weights by volume,
where every class is at a limit, and ends where vᵀAv = κ²z²; on the way classes change their sets one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats

_EVENTS_PER_CLASS = 4
"""Changes of sets after which the path is given up; in practice there are about as many as classes."""
_ROUNDING = 1e-9
"""Relative: changes this small are rounding. A class whose mismatch moves by less along the path, or which depends on
the free ones up to this, stays where it is."""
_FIT = 1e-9
"""Largest mismatch of weights that are to have none: above it the system is singular in double precision."""

_TIE_BREAK = 1e-9
"""Change of the target's shares, relative, so that classes do not change their sets all at once."""

FREE, LOWER, UPPER = 0, 1, 2
"""The sets: rows of events in this order."""


def path_direction(matrix: Floats, target: Floats, deviations: float) -> Floats | None:
    """Coefficients β, up to their scale, of the weights of least half-width; None where rounding gets in the way.

    Guarantee: none by itself; `minimax_solver` checks the half-width against its lower bound.

    Args:
        matrix: A = Σ l lᵀ/n, classes x classes.
        target: the target's class mix.
        deviations: z.
    """
    try:
        unbiased = _without_mismatch(matrix, target, deviations)
        return unbiased if unbiased is not None else _Path.of(matrix, target).followed(deviations)
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


@dataclass
class _Inverse:
    """The inverse of B over the free classes, updated as classes come and go.

    Attributes:
        matrix: B.
        free: the free classes, in the order of the rows.
        values: the inverse, in the upper left corner.
    """

    matrix: Floats
    values: Floats
    free: list[int] = field(default_factory=list)

    @property
    def _part(self) -> Floats:
        return self.values[: len(self.free), : len(self.free)]

    def add(self, position: int) -> bool:
        """Add a class by bordering; False, and nothing changes, where it depends on the others."""
        size, column = len(self.free), self.matrix[self.free, position]
        image = self._part @ column
        rest = float(self.matrix[position, position] - column @ image)
        if not rest > _ROUNDING * self.matrix[position, position]:
            return False
        self._part[...] += np.outer(image, image) / rest
        self.values[size, :size] = self.values[:size, size] = -image / rest
        self.values[size, size] = 1 / rest
        self.free.append(position)
        return True

    def remove(self, position: int) -> None:
        """Remove a class: its row goes to the end, and is eliminated."""
        place, last = self.free.index(position), len(self.free) - 1
        self.free[place], self.free[last] = self.free[last], self.free[place]
        part = self.values[: last + 1, : last + 1]
        part[[place, last]] = part[[last, place]]
        part[:, [place, last]] = part[:, [last, place]]
        part[:last, :last] -= np.outer(part[:last, last], part[last, :last]) / part[last, last]
        self.free.pop()

    def times(self, vectors: Floats) -> Floats:
        """The inverse times vectors, one per column."""
        return np.asarray(self._part @ vectors, dtype=np.float64)


@dataclass
class _Path:
    """The problem with its constant removed, and where the path is.

    Attributes:
        labels: n.
        matrix: B.
        target: q.
        followed_target: q with ties broken, by which the path is followed; its end is solved for with q itself.
        sets: FREE, LOWER or UPPER, for each class.
        inverse: of B over the free classes.
        dependent: classes that cannot be free as well as those that are.
    """

    labels: Floats
    matrix: Floats
    target: Floats
    followed_target: Floats
    sets: npt.NDArray[np.int64]
    inverse: _Inverse
    dependent: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, matrix: Floats, target: Floats) -> _Path:
        """At its start."""
        labels = matrix.sum(axis=0)
        centred = matrix - np.outer(labels, labels) / labels.sum()
        wanted = target - labels / labels.sum()
        sets = np.where(wanted > 0, UPPER, LOWER)
        spread = np.cos(np.arange(1.0, len(wanted) + 1)) * labels / labels.max()
        followed = wanted + _TIE_BREAK * (spread - labels * (spread.sum() / labels.sum()))
        empty = _Inverse(centred, np.zeros(matrix.shape))
        return cls(labels, centred, wanted, followed, sets, empty, np.zeros(len(target), dtype=np.bool_))

    def followed(self, deviations: float) -> Floats | None:
        """Follow the path to its end; coefficients up to their scale."""
        kappa, last = 0.0, -1
        for _ in range(_EVENTS_PER_CLASS * len(self.target)):
            parts = self._segment(exact=False)
            at, change, position = self._next_event(parts, kappa, last)
            if self._end(parts, deviations, kappa) <= at:
                parts = self._segment(exact=True)
                end = self._end(parts, deviations, kappa)
                return self._coefficients(parts[0] + end * parts[1]) if np.isfinite(end) else None
            kappa, last = at, position
            if change != FREE:
                self.inverse.remove(position)
                self.dependent[:] = False
            elif not self.inverse.add(position):
                self.dependent[position] = True
                continue
            self.sets[position] = change
        return None

    def _segment(self, exact: bool) -> Floats:
        """w as constant and as factor of κ, in two rows; exact ones are solved for afresh."""
        parts = np.zeros((2, len(self.target)))
        upper, free = self.sets == UPPER, self.inverse.free
        parts[1, upper] = 1.0
        target = self.target if exact else self.followed_target
        right = np.column_stack([target[free], -self.matrix[np.ix_(free, upper)].sum(axis=1)])
        solved = np.linalg.solve(self.matrix[np.ix_(free, free)], right) if exact else self.inverse.times(right)
        parts[:, free] = solved.T
        return parts

    def _next_event(self, parts: Floats, kappa: float, last: int) -> tuple[float, int, int]:
        """κ at which a class changes its set first, that set, and the class."""
        constant, linear = parts
        image = self.matrix @ parts.T
        bound = (self.sets != FREE) & ~self.dependent & (np.abs(image[:, 1]) > _ROUNDING * np.diag(self.matrix))
        free = self.sets == FREE
        leaving = bound & np.where(self.sets == UPPER, image[:, 1] > 0, image[:, 1] < 0)
        events = np.full((3, len(linear)), np.inf)
        np.divide(self.followed_target - image[:, 0], image[:, 1], out=events[FREE], where=leaving)
        np.divide(-constant, linear, out=events[LOWER], where=free & (linear < 0))
        np.divide(-constant, linear - 1, out=events[UPPER], where=free & (linear > 1))
        events = np.maximum(events, kappa)
        if last >= 0 and events[:, last].min() <= kappa * (1 + _ROUNDING):
            events[:, last] = np.inf  # it has just changed, and would go straight back by rounding
        change, position = divmod(int(np.argmin(events)), len(linear))
        return float(events[change, position]), change, position

    def _end(self, parts: Floats, deviations: float, kappa: float) -> float:
        """κ at which wᵀBw + 1/N = κ²z²; infinity where that is not ahead."""
        products = parts @ self.matrix @ parts.T
        a, b = float(products[1, 1]) - deviations**2, 2 * float(products[0, 1])
        inside = b * b - 4 * a * (float(products[0, 0]) + 1 / float(self.labels.sum()))
        if a == 0 or inside < 0:
            return float("inf")
        roots = ((-b - np.sqrt(inside)) / (2 * a), (-b + np.sqrt(inside)) / (2 * a))
        return min((float(root) for root in roots if root >= kappa * (1 - _ROUNDING)), default=float("inf"))

    def _coefficients(self, direction: Floats) -> Floats:
        """v from w: the constant that makes the weights add up to 1."""
        return direction + (1 - float(self.labels @ direction)) / float(self.labels.sum())
