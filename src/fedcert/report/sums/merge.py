"""The algebra of sums: reports fold into sums, and sums merge into sums over more clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcert.errors import CannotCombine
from fedcert.report.compatibility import check_together, common_smoothing, joint
from fedcert.report.sums.groups import effect_bound, group_bound
from fedcert.report.sums.moments import added, as_rows, merged_moments, moments_of
from fedcert.report.sums.noisy import merged_noise
from fedcert.report.sums.values import ClassTotals, Sums
from fedcert.report.table.columns import Table


def sums_of(table: Table) -> Sums:
    """See `Sums.of`."""
    labels, certified = table.label_counts, table.certified_counts
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
        certified_counts=tuple(certified.sum(axis=0).tolist()),
        by_class=_class_totals(table) if table.has_class_counts.any() else None,
        moments=moments_of(labels, certified),
        design_effect=None if table.design_effects is None else tuple(table.design_effects.max(axis=0).tolist()),
        largest_group=None if table.largest_groups is None else int(table.largest_groups.max()),
        alike=len(smoothings) == 1,
    )


def merged_sums(first: Sums, second: Sums) -> Sums:
    """See `Sums.merged`."""
    both = (first, second)
    check_together(both)
    if first.private is not None and second.private is not None:
        return merged_noise(first, second)
    if first.noise is not None or second.noise is not None:
        raise CannotCombine("sums with noise cannot be merged with others: one would tell of the other's noise")
    with_examples = [sums for sums in both if sums.examples] or list(both)  # as in `sums_of`
    common = with_examples[0].smoothing
    return Sums(
        model=first.model,
        request=first.request if first.request == second.request else None,
        smoothing=common_smoothing(with_examples),
        radii=first.radii,
        classes=first.classes,
        contributors=first.contributors + second.contributors,
        label_counts=added(first.label_counts, second.label_counts),
        certified_counts=added(first.certified_counts, second.certified_counts),
        by_class=_merged_totals([sums.by_class for sums in both if sums.by_class is not None]),
        moments=merged_moments(first.moments, second.moments),
        design_effect=_larger_effects(both),
        largest_group=_larger_group(both),
        alike=all(sums.alike and sums.smoothing == common for sums in with_examples),
        fewest_holders=max(first.fewest_holders or 0, second.fewest_holders or 0) or None,
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
    labels, certified = table.label_counts[disclosed], table.certified_counts[disclosed]
    return ClassTotals(
        contributors=int(disclosed.sum()),
        label_counts=tuple(labels.sum(axis=0).tolist()),
        certified_counts=as_rows(table.class_rows.sum(axis=0, dtype=np.int64)),
        moments=moments_of(labels, certified),
    )


def _merged_totals(parts: Sequence[ClassTotals]) -> ClassTotals | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    first, second = parts
    return ClassTotals(
        contributors=first.contributors + second.contributors,
        label_counts=added(first.label_counts, second.label_counts),
        certified_counts=tuple(map(added, first.certified_counts, second.certified_counts)),
        moments=merged_moments(first.moments, second.moments),
    )
