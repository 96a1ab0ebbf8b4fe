"""What a weighted sum of certified examples is made of: cells of examples with one class and one weight."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fedcert._arrays import Floats

MOST_ROWS = 256
"""Clients whose weights are kept as they are; of more, weights are spread over `_BINS` + 1 values."""
SAME_WEIGHT = 1e-12
"""Relative difference of weights that are the same but for rounding."""
_BINS = 64
"""Their bins: intervals are then 0.3% longer where the largest weight is five times the typical one."""


@dataclass(frozen=True)
class ClientRows:
    """Cells whose weight depends on the client alone.

    Attributes:
        weights: u of an example, one per row.
        examples: rows x classes.
        low, high: limits of u, one per smooth row; every weight of the row lies between them.
        squares: Σ n u² of the smooth rows, rows x classes.
        cubes: Σ n |u|³ of the smooth rows, one per row.
    """

    weights: Floats
    examples: Floats
    low: Floats
    high: Floats
    squares: Floats
    cubes: Floats


@dataclass(frozen=True)
class ClassRows:
    """Cells whose weight depends on the class.

    Attributes:
        weights: u of an example, rows x classes.
        examples: rows x classes.
        smooth: whether single examples are independent, one per row.
    """

    weights: Floats
    examples: Floats
    smooth: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Cells:
    """The cells of T = Σ u K, K the certified ones of n independent examples in each.

    Smooth cells are those over which the central limit theorem may be used: single examples that are independent.
    Groups of alike examples are cells of fewer, heavier ones, and not smooth.

    Attributes:
        target: p(S), the shares of the classes in θ = p(S)·L.
        clients: cells by client; None where there are none.
        classes: cells by class; None where there are none.
    """

    target: Floats
    clients: ClientRows | None = None
    classes: ClassRows | None = None

    @property
    def total_weight(self) -> float:
        """W = Σ u n: the value of T where every example is certified."""
        return float(sum(np.sum(weights * examples) for weights, examples in self._parts()))

    @property
    def sum_squares(self) -> float:
        """Σ n u²."""
        return float(sum(np.sum(weights**2 * examples) for weights, examples in self._parts()))

    @property
    def sum_sizes(self) -> float:
        """Σ n |u|."""
        return float(sum(np.sum(np.abs(weights) * examples) for weights, examples in self._parts()))

    @property
    def largest_weight(self) -> float:
        """The largest |u| of any example."""
        return max((float(np.abs(weights * (examples > 0)).max()) for weights, examples in self._parts()), default=0.0)

    @property
    def examples(self) -> float:
        """Σ n."""
        return float(sum(examples.sum() for _, examples in self._parts()))

    @property
    def excess(self) -> float:
        """The most that E T can be above θ, whatever L."""
        return float(np.maximum(self.means - self.target, 0.0).sum())

    @property
    def rows(self) -> int:
        """Rows of cells by client or by class, whichever are more."""
        return max((len(examples) for _, examples in self._parts()), default=1)

    @property
    def positive_weights(self) -> tuple[float, float, int] | None:
        """The least and the largest weight of examples that have any, and their number; None unless all are positive.

        None, too, where examples are not all independent.
        """
        parts = [(np.broadcast_to(weights, examples.shape), examples) for weights, examples in self._parts()]
        counted = [(weights != 0) & (examples > 0) for weights, examples in parts]
        values = np.concatenate([weights[some] for (weights, _), some in zip(parts, counted, strict=True)] or [[]])
        smooth = self.classes is None or bool(self.classes.smooth.all())
        grouped = self.clients is not None and len(self.clients.low) < len(self.clients.weights)
        if not len(values) or not smooth or grouped or not values.min() > 0:
            return None
        total = sum(float(examples[some].sum()) for (_, examples), some in zip(parts, counted, strict=True))
        return float(values.min()), float(values.max()), round(total)

    @property
    def means(self) -> Floats:
        """Σ u n over the cells of each class: E T = means·L."""
        parts = [(weights * examples).sum(axis=0) for weights, examples in self._parts()]
        return np.asarray(np.sum(parts, axis=0) if parts else np.zeros(len(self.target)), dtype=np.float64)

    def with_target_set(self, size: int) -> Cells:
        """The cells of T less the certified accuracy of a set of so many examples with the target's mix."""
        row = np.full((1, len(self.target)), -1 / size), self.target[None, :] * size
        if self.classes is None:
            return replace(self, classes=ClassRows(*row, np.array([True])))
        weights, examples = self.classes.weights, self.classes.examples
        return replace(
            self,
            classes=ClassRows(
                np.vstack([weights, row[0]]), np.vstack([examples, row[1]]), np.append(self.classes.smooth, True)
            ),
        )

    def _parts(self) -> list[tuple[Floats, Floats]]:
        parts = []
        if self.clients is not None:
            parts.append((self.clients.weights[:, None], self.clients.examples))
        if self.classes is not None:
            parts.append((self.classes.weights, self.classes.examples))
        return parts


def client_rows(
    weights: Floats, examples: Floats, groups: Floats | None = None, whole: npt.NDArray[np.bool_] | None = None
) -> ClientRows:
    """Cells of clients whose examples weigh u each.

    A group of m alike examples weighs at most m u: by Hölder's inequality its cumulant function is at most that of one
    example of weight m u for each class, taken n/m times.

    Args:
        weights: u, one per client.
        examples: clients x classes.
        groups: the size of each client's largest group; None where all examples are independent.
        whole: which clients count in full; None where all do. Fewer examples of the same weight stand for a client
            that screening reduced: their cumulant function is larger, but so is their variance.
    """
    heavy, few, smooth = weights, examples, np.ones(len(weights), dtype=np.bool_)  # a million clients are not copied
    if groups is not None:
        heavy, few, smooth = weights * groups, examples / groups[:, None], groups == 1
    if whole is not None:
        smooth = smooth & whole
    if smooth.all() and np.ptp(weights) <= SAME_WEIGHT * np.abs(weights).max():  # one row says the same
        weights, smooth = weights[:1], smooth[:1]
        examples = few = examples.sum(axis=0, keepdims=True)
        heavy = weights
    if len(weights) > MOST_ROWS:
        return _binned(heavy, few, smooth)
    alone, counts = weights[smooth], examples[smooth]
    return ClientRows(heavy, few, alone, alone, counts * (alone**2)[:, None], counts.sum(axis=1) * np.abs(alone) ** 3)


def _binned(weights: Floats, examples: Floats, smooth: npt.NDArray[np.bool_]) -> ClientRows:
    """Each weight spread over the two values beside it, so that its mean stays: the cumulant function only grows."""
    values = np.linspace(weights.min(), weights.max(), _BINS + 1)
    width = values[1] - values[0]
    if not width > 0:
        values, width = np.array([weights[0], weights[0]]), 1.0
    bins = np.clip(((weights - values[0]) / width).astype(np.int64), 0, len(values) - 2)
    above = np.clip((weights - values[bins]) / width, 0.0, 1.0)
    count = len(values) - 1
    alone = np.where(smooth, weights, 0.0)
    # What each client adds to its two values and to the squares of its bin: one product sums over all of them.
    rows = np.stack([bins, bins + 1, count + 1 + bins], axis=1)
    shares = np.stack([1 - above, above, alone**2], axis=1)
    starts = np.arange(0, shares.size + 1, 3)
    adding = sparse.csc_array((shares.ravel(), rows.ravel(), starts), shape=(2 * count + 1, len(weights)))
    nodes, squares = np.split(adding @ examples, [count + 1])
    cubes = np.bincount(bins, examples.sum(axis=1) * np.abs(alone) ** 3, minlength=count).astype(np.float64)
    return ClientRows(values, np.maximum(nodes, 0.0), values[:-1], values[1:], squares, cubes)
