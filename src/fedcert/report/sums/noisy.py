"""Sums with noise in them."""

from __future__ import annotations

import operator
from dataclasses import replace

import numpy as np

from fedcert.errors import CannotCombine
from fedcert.report.privacy import ALONE, AddedNoise
from fedcert.report.sums.values import ClassTotals, Sums


def noisy_sums(like: Sums, noise: AddedNoise, contributors: int, words: str) -> Sums:
    """Sums that noisy cells tell of: the totals are the cells, put in order so that they are counts.

    Args:
        like: sums with the same settings.
        noise: the noise and the cells.
        contributors: how many sites are in them.
        words: the noise in words.
    """
    cells = np.rint(np.maximum(np.array(noise.cells, dtype=np.float64), 0) / noise.scale).astype(np.int64)
    labels = cells.sum(axis=1)
    certified = np.cumsum(cells[:, :0:-1], axis=1)[:, ::-1]
    totals = ClassTotals(
        contributors=contributors,
        label_counts=tuple(labels.tolist()),
        certified_counts=tuple(map(tuple, certified.tolist())),
    )
    return Sums(
        model=like.model, request=like.request, smoothing=like.smoothing, radii=like.radii, classes=like.classes,
        contributors=contributors, label_counts=tuple(labels.tolist()),
        certified_counts=tuple(certified.sum(axis=0).tolist()), by_class=totals, noise=words, private=noise,
        design_effect=like.design_effect, largest_group=like.largest_group, alike=like.alike, software=like.software,
    )  # fmt: skip


def merged_noise(first: Sums, second: Sums) -> Sums:
    """Noisy sums of different sites: each unit is at one of them, so the budget is that of the larger loss.

    Raises:
        CannotCombine: their noise was not added by each site by itself, or for different budgets.
    """
    one, other = first.private, second.private
    assert one is not None  # noqa: S101
    assert other is not None  # noqa: S101
    if one.budget.noise != ALONE or (one.budget, one.scale) != (other.budget, other.scale):
        raise CannotCombine("noisy sums can be merged only if each site added noise by itself, for the same budget")
    noise = AddedNoise(
        budget=one.budget, rho=max(one.rho, other.rho), variance=one.variance + other.variance, scale=one.scale,
        cells=tuple(tuple(map(operator.add, *rows)) for rows in zip(one.cells, other.cells, strict=True)),
    )  # fmt: skip
    exact = [replace(sums, noise=None, private=None, by_class=None, moments=None) for sums in (first, second)]
    like = exact[0].merged(exact[1])
    return noisy_sums(like, noise, like.contributors, first.noise or "")
