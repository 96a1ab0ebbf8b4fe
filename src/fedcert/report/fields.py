"""Field types, and rules across fields, that several records share."""

from __future__ import annotations

from collections.abc import Sequence

from fedcert._schema.field_types import ListOf, MappingOf, Number, Pattern, Text, Whole
from fedcert.errors import InvalidValue
from fedcert.report.smoothing import MOST_PASSES, Smoothing

RADIUS_DIGITS = 9
"""Decimals of a radius: finer than any radius is asked for, coarser than what decimal text loses in float64."""
MOST_CLASSES = 100_000
"""Several times the classes of the largest label sets in use (ImageNet-21k has 21,841)."""
MOST_RADII = 10_000
"""Far more than a fine curve has; with `MOST_CLASSES` a limit to what an untrusted file can claim."""
MOST_CLIENTS = 2_000_000
"""Twice the million clients that tables of reports are made for; hardly more names fit into a document."""
MOST_CELLS = 10_000_000
"""Counts per class in all: a document of 32 MiB holds no more, and estimates take some hundred bytes for each."""
RADIUS_SLACK = 1e-6
"""Rounding that other implementations of the largest radius may differ by."""

_EFFECT_ROUNDING = 1e-9
"""Relative slack for a design effect, which JSON may have rounded."""

RADII = ListOf(Number(least=0, digits=RADIUS_DIGITS), "increasing radii", most=MOST_RADII, increasing=True)
CLASSES = ListOf(Text(), "different class names", most=MOST_CLASSES, distinct=True)
ROSTER = ListOf(Text(), "different client names", most=MOST_CLIENTS, distinct=True)
LABEL_COUNTS = ListOf(Whole(), "counts, one per class", most=MOST_CLASSES)
CERTIFIED_COUNTS = ListOf(Whole(), "counts, one per radius", most=MOST_RADII)
CORRECT_COUNTS = ListOf(Whole(), "counts, one per number of right answers", most=MOST_PASSES + 1)
CLASS_ROWS = ListOf(CERTIFIED_COUNTS, "rows, one per class", most=MOST_CLASSES)
CORRECT_CLASS_ROWS = ListOf(CORRECT_COUNTS, "rows, one per class", most=MOST_CLASSES)
DESIGN_EFFECT = ListOf(Number(least=1), "numbers from 1, one per radius", most=MOST_RADII)
DISTRIBUTION = MappingOf(Number(least=0), "class names to weights", least=1)
FIXED_SEED = "fixed"
"""What a report says of a seed that was given as a number: anyone who knows it can compute the noise."""
SEED = Pattern("'fixed', or 'sha256:' and 64 hexadecimal digits", "fixed|sha256:[0-9a-f]{64}")
REQUEST_DIGEST = Pattern("'sha256:' and 64 hexadecimal digits", "sha256:[0-9a-f]{64}")

NamedList = tuple[str, Sequence[object]]
"""A list and what messages call it."""


def check_same_length(field: str, values: Sequence[object], other: str, others: Sequence[object]) -> None:
    """Check that two lists go together.

    Raises:
        InvalidValue: their lengths differ.
    """
    if len(values) != len(others):
        raise InvalidValue(field, f"of the same length as {other} ({len(others)})", values)


def check_rows(field: str, rows: Sequence[Sequence[object]], outer: NamedList, inner: NamedList) -> None:
    """Check that rows go together with a list, and the entries of each with another, both given with their names.

    Raises:
        InvalidValue: there are more or fewer.
    """
    check_same_length(field, rows, *outer)
    for index, row in enumerate(rows):
        check_same_length(f"{field}[{index}]", row, *inner)


def check_cells(classes: Sequence[object], radii: Sequence[object], smoothing: Smoothing) -> None:
    """Check, before anything is made of them, that there are not too many classes with too many counts each.

    Raises:
        InvalidValue: there are.
    """
    passes = smoothing.n + 1 if smoothing.is_population else 0
    cells = len(classes) * max(len(radii), passes)
    if cells > MOST_CELLS:
        each = f"{passes:,} numbers of right answers" if passes > len(radii) else f"{len(radii):,} radii"
        raise InvalidValue(
            f"{len(classes):,} classes with {each} each", f"at most {MOST_CELLS:,} counts in all", cells,
            remedy="take fewer classes or radii",
        )  # fmt: skip


def check_nonincreasing(field: str, counts: Sequence[int], most: int, of_what: str) -> None:
    """Check certified counts at increasing radii.

    Raises:
        InvalidValue: one is above its total, or above the count at a smaller radius.
    """
    for index, (count, bound) in enumerate(zip(counts, (most, *counts), strict=False)):
        if count > bound:
            rule = f"at most {'the count at the radius before it' if index else of_what} ({bound})"
            raise InvalidValue(f"{field}[{index}]", rule, count)


def check_class_rows(
    field: str, rows: Sequence[Sequence[int]], labels: Sequence[int], certified: Sequence[int] | None
) -> None:
    """Check counts per class: one row per class, no more than its labels, adding up to the whole.

    Args:
        field: name of the rows, for messages.
        rows: certified counts, one row per class, one column per radius.
        labels: examples per class.
        certified: what the columns must add up to; None where nothing is known of it.

    Raises:
        InvalidValue: one of the rules is broken.
    """
    check_same_length(field, rows, "classes", labels)
    for index, (row, count) in enumerate(zip(rows, labels, strict=True)):
        if certified is not None:
            check_same_length(f"{field}[{index}]", row, "radii", certified)
        check_nonincreasing(f"{field}[{index}]", row, count, "the class's label count")
    for index, whole in enumerate(certified or ()):
        total = sum(row[index] for row in rows)
        if total != whole:
            raise InvalidValue(f"column {index} of {field}", f"adding up to certified_counts[{index}] ({whole})", total)


def check_histogram(field: str, counts: Sequence[int], passes: int, examples: int, of_what: str) -> None:
    """Check examples counted by the right answers among their noisy passes: each is counted once.

    Raises:
        InvalidValue: there is not one count for each of 0 to `passes`, or they do not add up.
    """
    if len(counts) != passes + 1:
        raise InvalidValue(field, f"{passes + 1} counts, as n is {passes}: from none to all of them right", counts)
    if sum(counts) != examples:
        raise InvalidValue(f"the sum of {field}", f"{of_what} ({examples})", sum(counts))


def check_histogram_rows(
    field: str, rows: Sequence[Sequence[int]], passes: int, labels: Sequence[int], whole: Sequence[int] | None
) -> None:
    """Check histograms of right answers per class: one row per class, adding up to its labels and to the whole.

    Raises:
        InvalidValue: one of the rules is broken.
    """
    check_same_length(field, rows, "classes", labels)
    for index, (row, count) in enumerate(zip(rows, labels, strict=True)):
        check_histogram(f"{field}[{index}]", row, passes, count, "the class's label count")
    for index, count in enumerate(whole or ()):
        total = sum(row[index] for row in rows)
        if total != count:
            raise InvalidValue(f"column {index} of {field}", f"adding up to correct_counts[{index}] ({count})", total)


def check_design_effect(effects: Sequence[float], largest_group: int | None, examples: int) -> None:
    """Check that groups of some sizes m have the design effect Σ m²/n.

    It is at most the largest m, which is at most n, and least where all other examples are single. Where it is given
    for each radius the largest of them counts, since groups do not change with the radius.

    Raises:
        InvalidValue: no groups have this design effect.
    """
    index = max(range(len(effects)), key=effects.__getitem__)
    field, effect, most = f"design_effect[{index}]", effects[index], largest_group or examples
    why = "the design effect is Σ m²/n over the sizes m of the groups"
    if effect > most * (1 + _EFFECT_ROUNDING):
        of_what = "the examples" if largest_group is None else "largest_group"
        raise InvalidValue(field, f"at most {of_what} ({most}), as {why}", effect)
    if largest_group is not None:
        least = (largest_group**2 + examples - largest_group) / examples
        if effect < least * (1 - _EFFECT_ROUNDING):
            reason = f"with largest_group {largest_group} and {examples} examples, as {why}"
            raise InvalidValue(field, f"at least {least:.6g} {reason}", effect)


def check_certifiable(radii: Sequence[float], counts: Sequence[int], smoothing: Smoothing) -> None:
    """Check that nothing is certified beyond the largest radius that the settings can certify.

    Raises:
        InvalidValue: something is.
    """
    cap = smoothing.largest_radius
    assert cap is not None  # noqa: S101 (population certificates have no certified counts)
    for index, (radius, count) in enumerate(zip(radii, counts, strict=True)):
        if count and (radius > cap + RADIUS_SLACK or cap == 0):
            rule = f"0, as n = {smoothing.n} samples certify no radius above {cap:.6g}"
            raise InvalidValue(f"certified_counts[{index}]", rule, count)
