"""Reports as vectors of whole numbers that add up, and such sums as `Sums`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert.errors import InvalidValue, Refused, preview
from fedcert.privacy.dp.accounting import noise_shares
from fedcert.privacy.dp.mechanism import cells_of, check_units, describe_budget, noisy_counts, sums_of_noisy_counts
from fedcert.report import Report, Request, Sums
from fedcert.report.privacy import SIZE_RELEASES
from fedcert.report.provenance import SOFTWARE
from fedcert.report.request import MOST_SUMMED
from fedcert.report.sums.algebra import counted, empty_sums
from fedcert.report.sums.groups import effects_or_ones, group_bound
from fedcert.report.sums.moments import MOMENT_SCALE, Moments, as_rows, moments_from, moments_of
from fedcert.report.sums.values import ClassTotals
from fedcert.secagg.class_support import holding
from fedcert.secagg.masks import Vector
from fedcert.secagg.messages import sum_asked
from fedcert.secagg.threshold import max_colluders

_EFFECTS = tuple(2 ** (step / 2) for step in range(21))
"""Design effects are rounded up to these, and clients counted at each step: a maximum is no sum, a histogram is."""
_GROUPS = tuple(2**step for step in range(21))
"""The same for the largest group; the last one is for all that are larger."""
_LARGEST_SUM = 2**62
"""Sums mod 2^64 are read as signed numbers; one bit is spare."""

Whole = npt.NDArray[np.int64]


class VectorLayout:
    """Where the numbers of a private sum stand in its vector.

    What is counted are certified examples at each radius, or, with population certificates, examples by right answers.

    Args:
        request: what is asked.

    Raises:
        Refused: it asks for no private sum.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.private, self._roster = sum_asked(request)
        if self.length > MOST_SUMMED:  # requests are checked for it when they are read: this is the last word
            raise Refused(f"the private sum is over {self.length:,} numbers, and may be over {MOST_SUMMED:,}")

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        classes, numbers, population = len(self.request.classes), self._numbers, self._is_population
        if self.private.budget is not None:  # anything else would be out without noise
            return {"cells": (classes, numbers + (not population)), "sizes": (SIZE_RELEASES, classes)}
        shapes: dict[str, tuple[int, ...]] = {"holding": (), "labels": (classes,)}
        shapes |= {"class_rows": (classes, numbers)} if self.private.class_counts else {self._counted: (numbers,)}
        shapes |= {"effects": (len(_EFFECTS),), "groups": (len(_GROUPS),)}
        if self.private.moments:
            shapes |= {"labels_labels": (_pairs(classes),), f"labels_{self._counted}": (classes, numbers)}
            shapes |= {"correct_correct": (_pairs(numbers),)} if population else {"certified_squared": (numbers,)}
        return shapes

    @property
    def _is_population(self) -> bool:
        return self.request.smoothing.is_population

    @property
    def _counted(self) -> str:
        return "correct" if self._is_population else "certified"

    @property
    def _numbers(self) -> int:
        """How many counts each class has: one for each radius, or for each number of right answers from 0 to n."""
        return self.request.smoothing.n + 1 if self._is_population else len(self.request.radii)

    @property
    def length(self) -> int:
        """Numbers in the vector."""
        return sum(math.prod(shape) for shape in self._shapes.values())

    @property
    def most_examples(self) -> int:
        """The most that a client may hold: with more, a moment over all clients might not fit into 62 bits."""
        return _LARGEST_SUM // (MOMENT_SCALE * len(self._roster))

    def pack(self, report: Report) -> Vector:
        """A report's numbers.

        Raises:
            Refused: it lacks counts per class, holds too many examples, or counts something else than is asked for.
        """
        self._check_asked(report)
        if report.examples > self.private.bound:
            raise Refused(
                f"this site has {report.examples:,} examples, but the request allows {self.private.bound:,} of "
                "each (most_examples): certify some of them (--every), or ask the coordinator for a request with a "
                "larger --most-examples"
            )
        if report.examples > self.most_examples:
            raise Refused(f"{report.examples:,} examples are more than a private sum can hold ({self.most_examples:,})")
        budget = self.private.budget
        if budget is not None:  # with its share of the noise: those of the fewest honest clients make up the whole
            check_units(report, budget)
            shares = noise_shares(budget, self.fewest_honest, *cells_of(report).shape)
            return np.concatenate([part.ravel() for part in noisy_counts(report, shares)]).astype(np.uint64)
        effect = max(effects_or_ones(report.design_effect, report.largest_group, 1))
        if effect > _EFFECTS[-1]:
            raise Refused(f"a design effect above {_EFFECTS[-1]:g} is more than a private sum can tell")
        rows = report.class_procedure_counts
        if "class_rows" in self._shapes and rows is None:
            raise Refused(
                f"the report of {preview(report.client)} has no counts per class, which the private sum is over; "
                "certify with --class-counts (they leave the site under masks only)"
            )
        parts: dict[str, Any] = {
            "holding": int(report.examples > 0),
            "labels": report.label_counts,
            "class_rows": rows,
            self._counted: report.procedure_counts,
            "effects": _step(_EFFECTS, effect),
            "groups": _step(_GROUPS, group_bound(report.examples, report.design_effect, report.largest_group)),
        }
        if self.private.moments:
            parts |= self._products(report)
        flat = [np.asarray(parts[name], dtype=np.int64).ravel() for name in self._shapes]
        return np.concatenate(flat).astype(np.uint64)

    def _check_asked(self, report: Report) -> None:
        """Check that a report has the numbers that are added up: those of other settings are of something else.

        Raises:
            Refused: it has others.
        """
        for name in ("smoothing", "radii", "classes"):
            if getattr(report, name) != getattr(self.request, name):
                raise Refused(
                    f"the report of {preview(report.client)} has other {name} than the private sum is over; certify "
                    "with the request"
                )

    def _products(self, report: Report) -> dict[str, Any]:
        """One client's part of the moments; of symmetric matrices the upper triangle."""
        labels, counts = (np.array([row], dtype=np.int64) for row in (report.label_counts, report.procedure_counts))
        alone = moments_of(labels, counts, self._is_population)
        assert alone is not None  # noqa: S101 (`most_examples` is checked before)
        parts: dict[str, Any] = {
            "labels_labels": _upper(alone.labels_labels),
            f"labels_{self._counted}": alone.labels_entries,
        }
        if alone.correct_correct is not None:
            return parts | {"correct_correct": _upper(alone.correct_correct)}
        return parts | {"certified_squared": alone.certified_squared}

    def contribution(self, report: Report) -> dict[str, Any]:
        """What of a report would enter the sum, by name; before noise, where there is any."""
        budget, fewest = self.private.budget, self.private.fewest_holders
        if budget is not None:
            self._check_asked(report)
            check_units(report, budget)
            cells = cells_of(report)
            return {"cells": cells.tolist(), "sizes": cells.sum(axis=1).tolist(), "noise": describe_budget(budget)}
        parts = {name: part.tolist() for name, part in self._parts(self.pack(report))}
        if fewest is not None:
            counts = f"in a second sum, without classes that fewer than {fewest} sites hold"
            return {"in a first sum": {"holding": holding(report).tolist()}, counts: parts}
        return parts

    @property
    def fewest_honest(self) -> int:
        """Clients in a sum that surely add their noise, if no more collude than the threshold tolerates."""
        return self.private.threshold - max_colluders(self.private.threshold, len(self._roster))

    def sums(self, total: Vector, contributors: int) -> Sums:
        """The sums that a total over so many clients stands for.

        Raises:
            Refused: it is no sum of honest reports: some client gave false numbers.
        """
        try:
            return self._sums(dict(self._parts(total)), contributors)
        except InvalidValue as error:
            raise Refused(
                f"the private sum is not one of honest reports ({error}); which site gave false numbers is unknown"
            ) from None

    def _sums(self, parts: dict[str, Whole], contributors: int) -> Sums:
        if self.private.budget is not None:
            budget, cells = self.private.budget, parts["cells"]
            shares = noise_shares(budget, self.fewest_honest, *cells.shape)
            noisy = sums_of_noisy_counts(self.request, budget, shares, cells, parts["sizes"], contributors)
            return replace(noisy, most_examples=self.private.bound)
        labels, most = tuple(parts["labels"].tolist()), self.private.bound
        if sum(labels) > most * contributors:
            wanted = f"at most {most * contributors:,}, as each of {contributors} sites may have {most:,}"
            raise InvalidValue("the number of examples", wanted, sum(labels))
        moments = self._moments(parts, int(parts["holding"])) if "labels_labels" in parts else None
        rows, by_class = parts.get("class_rows"), None
        counts, smoothing = parts[self._counted] if rows is None else rows.sum(axis=0), self.request.smoothing
        if rows is not None:
            by_class = ClassTotals(
                contributors=contributors, label_counts=labels, moments=moments, **counted(smoothing, as_rows(rows))
            )
        effect, group = _largest(_EFFECTS, parts["effects"]), _largest(_GROUPS, parts["groups"])
        return replace(
            empty_sums(self.request, contributors, software=SOFTWARE),
            label_counts=labels,
            **counted(smoothing, counts.tolist()),
            by_class=by_class,
            moments=moments,
            most_examples=most,
            design_effect=None if effect == 1 else (float(effect),) * len(self.request.radii),
            largest_group=None if group in (1, _GROUPS[-1]) else int(group),
        )

    def _parts(self, total: Vector) -> Iterator[tuple[str, Whole]]:
        signed, start = total.astype(np.int64), 0
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            yield name, signed[start : start + size].reshape(shape)
            start += size

    def _moments(self, parts: dict[str, Whole], holding: int) -> Moments:
        cells = _symmetric(parts["labels_labels"], len(self.request.classes))
        squares = parts.get("certified_squared")
        if squares is None:
            squares = _symmetric(parts["correct_correct"], self._numbers)
        return moments_from(holding, cells, parts[f"labels_{self._counted}"], squares)


def _pairs(size: int) -> int:
    """Numbers in the upper triangle of a matrix, its diagonal included."""
    return size * (size + 1) // 2


def _upper(rows: Sequence[Sequence[int]]) -> Whole:
    """The upper triangle of a matrix, its diagonal included."""
    matrix = np.array(rows, dtype=np.int64)
    return np.asarray(matrix[np.triu_indices(len(matrix))], dtype=np.int64)


def _symmetric(upper: Whole, size: int) -> Whole:
    """The symmetric matrix with an upper triangle."""
    matrix = np.zeros((size, size), dtype=np.int64)
    matrix[np.triu_indices(size)] = upper
    return np.asarray(matrix + np.triu(matrix, 1).T, dtype=np.int64)


def _step(steps: tuple[float, ...], value: float) -> list[int]:
    """A value as a 1 at the next larger step; at the last for all that are larger."""
    place = next((index for index, step in enumerate(steps) if value <= step * (1 + 1e-9)), len(steps) - 1)
    return [int(index == place) for index in range(len(steps))]


def _largest(steps: tuple[float, ...], counts: Whole) -> float:
    """The largest step that a client is at."""
    held = np.flatnonzero(counts)
    return float(steps[held[-1]]) if len(held) else 1.0
