"""The algebra of sums: reports fold into sums, sums merge into sums over more clients, and noise is put into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._schema.declare import shared_fields
from fedcert.errors import CannotCombine
from fedcert.report.compatibility import check_together, common_smoothing, joint
from fedcert.report.privacy import ALONE, AddedNoise
from fedcert.report.report import Report
from fedcert.report.request import Request
from fedcert.report.smoothing import Smoothing
from fedcert.report.sums.groups import effect_bound, group_bound
from fedcert.report.sums.moments import added, as_rows, merged_moments, moments_of
from fedcert.report.sums.values import ClassTotals, Sums
from fedcert.report.table.columns import Table


def sums_of(table: Table) -> Sums:
    """See `Sums.of`."""
    labels, entries = table.label_counts, table.procedure_counts
    # Clients without examples certified nothing: how they would have is of no interest.
    occurring = table.settings[labels.sum(axis=1) > 0]
    smoothings = [table.smoothings[index] for index in np.unique(occurring)] or list(table.smoothings)
    return Sums(
        model=table.model,
        request=table.request,
        smoothing=joint(smoothings),
        radii=table.radii,
        classes=table.classes,
        contributors=len(table),
        label_counts=tuple(labels.sum(axis=0).tolist()),
        by_class=_class_totals(table) if table.has_class_counts.any() else None,
        moments=moments_of(labels, entries, table.smoothing.is_population),
        design_effect=None if table.design_effects is None else tuple(table.design_effects.max(axis=0).tolist()),
        largest_group=None if table.largest_groups is None else int(table.largest_groups.max()),
        alike=len(smoothings) == 1,
        **counted(table.smoothing, entries.sum(axis=0).tolist()),
    )


def counted(smoothing: Smoothing, entries: Iterable[Any]) -> dict[str, Any]:
    """The field of sums, or of totals per class, that holds what the procedure counts."""
    return {"correct_counts" if smoothing.is_population else "certified_counts": tuple(entries)}


def merged_sums(first: Sums, second: Sums) -> Sums:
    """See `Sums.merged`."""
    both = (first, second)
    check_together(both)
    if first.private is not None and second.private is not None:
        noise = _joint_noise(first.private, second.private)
        exact = [replace(sums, noise=None, private=None, by_class=None, moments=None) for sums in both]
        like = merged_sums(*exact)
        return noisy_sums(like, noise, like.contributors, first.noise or "")
    if first.noise is not None or second.noise is not None:
        raise CannotCombine("sums with noise cannot be merged with others: one would tell of the other's noise")
    with_examples = [sums for sums in both if sums.examples] or list(both)  # as in `sums_of`
    common = with_examples[0].smoothing
    return Sums(
        **{**shared_fields(first), "smoothing": common_smoothing(with_examples)},
        request=first.request if first.request == second.request else None,
        contributors=first.contributors + second.contributors,
        label_counts=added(first.label_counts, second.label_counts),
        **counted(common, added(first.procedure_counts, second.procedure_counts)),
        by_class=_merged_totals(common, first.by_class, second.by_class),
        moments=merged_moments(first.moments, second.moments),
        design_effect=_larger_effects(both),
        largest_group=_larger_group(both),
        alike=all(sums.alike and sums.smoothing == common for sums in with_examples),
        fewest_holders=max(first.fewest_holders or 0, second.fewest_holders or 0) or None,
        most_examples=max(first.most_examples or 0, second.most_examples or 0) or None,
    )


def _larger_group(both: Sequence[Sums]) -> int | None:
    if not any((sums.design_effect, sums.largest_group) != (None, None) for sums in both):
        return None
    return max(group_bound(sums.examples, sums.design_effect, sums.largest_group) for sums in both)


def _larger_effects(both: Sequence[Sums]) -> tuple[float, ...] | None:
    """The larger design effect at each radius; where one side says nothing of groups, its examples are independent."""
    bounds = [effect_bound(sums.design_effect, sums.largest_group, len(sums.radii)) for sums in both]
    known = [effects for effects in bounds if effects is not None]
    return tuple(map(max, *known)) if len(known) > 1 else tuple(known[0]) if known else None


def _class_totals(table: Table) -> ClassTotals:
    disclosed = table.has_class_counts
    labels, entries = table.label_counts[disclosed], table.procedure_counts[disclosed]
    return ClassTotals(
        contributors=int(disclosed.sum()),
        label_counts=tuple(labels.sum(axis=0).tolist()),
        moments=moments_of(labels, entries, table.smoothing.is_population),
        **counted(table.smoothing, as_rows(table.class_rows.sum(axis=0, dtype=np.int64))),
    )


def _merged_totals(smoothing: Smoothing, first: ClassTotals | None, second: ClassTotals | None) -> ClassTotals | None:
    if first is None or second is None:
        return first or second
    return ClassTotals(
        contributors=first.contributors + second.contributors,
        label_counts=added(first.label_counts, second.label_counts),
        moments=merged_moments(first.moments, second.moments),
        **counted(smoothing, map(added, first.procedure_counts, second.procedure_counts)),
    )


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
        **counted(like.smoothing, (0,) * (like.smoothing.n + 1 if like.smoothing.is_population else len(like.radii))),
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
    labels, entries = cells.sum(axis=1), cells
    if not like.smoothing.is_population:
        labels, entries = counts_of_cells(cells)
    label_counts, by_class = tuple(labels.tolist()), counted(like.smoothing, as_rows(entries))
    return replace(
        like,
        contributors=contributors,
        label_counts=label_counts,
        **counted(like.smoothing, entries.sum(axis=0).tolist()),
        by_class=ClassTotals(contributors=contributors, label_counts=label_counts, **by_class),
        moments=None,
        noise=words,
        private=noise,
        spread=None,
        fewest_holders=None,
        most_examples=None,
        created=None,
    )


def _joint_noise(noise: AddedNoise, other: AddedNoise) -> AddedNoise:
    """The noise of different sites: each unit is at one of them, so the budget is that of the larger loss.

    Raises:
        CannotCombine: it was not added by each site by itself, or for different budgets.
    """
    if noise.budget.noise != ALONE or (noise.budget, noise.scale) != (other.budget, other.scale):
        raise CannotCombine("noisy sums can be merged only if each site added noise by itself, for the same budget")
    return replace(
        noise,
        rho=max(noise.rho, other.rho),
        variance=noise.variance + other.variance,
        sizes_variance=noise.sizes_variance + other.sizes_variance,
        cells=tuple(map(added, noise.cells, other.cells)),
        sizes=tuple(map(added, noise.sizes, other.sizes)),
        extra={},
    )
