"""Sums with noise in them."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert.errors import CannotCombine
from fedcert.report.privacy import ALONE, AddedNoise
from fedcert.report.report import Report
from fedcert.report.request import Request
from fedcert.report.sums.values import ClassTotals, Sums


def empty_sums(like: Report | Request, contributors: int, **known: Any) -> Sums:
    """Sums without examples.

    Args:
        like: of which they have the model, the settings, the radii and the classes.
        contributors: how many sites are in them.
        known: further fields of `Sums`.
    """
    return Sums(
        model=like.model,
        request=like.digest if isinstance(like, Request) else like.request,
        smoothing=like.smoothing,
        radii=like.radii,
        classes=like.classes,
        contributors=contributors,
        label_counts=(0,) * len(like.classes),
        certified_counts=(0,) * len(like.radii),
        **known,
    )


def counts_of_cells(cells: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Label counts and certified counts of disjoint cells.

    Args:
        cells: one row per class; in it examples that are not certified even at the first radius, then those certified
            at each radius and not at the next.

    Returns:
        Examples per class, and certified ones, classes x radii.

    Examples:
        >>> labels, certified = counts_of_cells(np.array([[1, 2, 3]]))
        >>> labels.tolist(), certified.tolist()
        ([6], [[5, 3]])
    """
    return cells.sum(axis=1), np.cumsum(cells[:, :0:-1], axis=1)[:, ::-1]


def noisy_sums(like: Sums, noise: AddedNoise, contributors: int, words: str) -> Sums:
    """The sums that follow from noisy cells, of which negative ones count as 0.

    Args:
        like: sums with the same settings.
        noise: the noise and the cells.
        contributors: how many sites are in them.
        words: the noise in words.
    """
    cells = np.rint(np.maximum(np.array(noise.cells, dtype=np.float64), 0) / noise.scale).astype(np.int64)
    labels, certified = counts_of_cells(cells)
    totals = ClassTotals(
        contributors=contributors,
        label_counts=tuple(labels.tolist()),
        certified_counts=tuple(map(tuple, certified.tolist())),
    )
    return replace(
        like,
        contributors=contributors,
        label_counts=totals.label_counts,
        certified_counts=tuple(certified.sum(axis=0).tolist()),
        by_class=totals,
        moments=None,
        noise=words,
        private=noise,
        spread=None,
        fewest_holders=None,
        created=None,
    )


def merged_noise(first: Sums, second: Sums) -> Sums:
    """Noisy sums of different sites: each unit is at one of them, so the budget is that of the larger loss.

    Raises:
        CannotCombine: their noise was not added by each site by itself, or for different budgets.
    """
    noise, other = first.private, second.private
    assert noise is not None  # noqa: S101
    assert other is not None  # noqa: S101
    if noise.budget.noise != ALONE or (noise.budget, noise.scale) != (other.budget, other.scale):
        raise CannotCombine("noisy sums can be merged only if each site added noise by itself, for the same budget")
    joint_noise = replace(
        noise,
        rho=max(noise.rho, other.rho),
        variance=noise.variance + other.variance,
        cells=tuple(tuple(map(operator.add, *rows)) for rows in zip(noise.cells, other.cells, strict=True)),
        extra={},
    )
    exact = [replace(sums, noise=None, private=None, by_class=None, moments=None) for sums in (first, second)]
    like = exact[0].merged(exact[1])
    return noisy_sums(like, joint_noise, like.contributors, first.noise or "")
