"""Reports as vectors of whole numbers that add up, and such sums as `Sums`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert.errors import InvalidValue, Refused, preview
from fedcert.privacy.dp.accounting import share_of
from fedcert.privacy.dp.mechanism import cells_of, check_units, describe_budget, privacy_unit, with_noise
from fedcert.report import Report, Request, Sums
from fedcert.report.privacy import AddedNoise, PrivacyBudget
from fedcert.report.sums.algebra import empty_sums, noisy_sums
from fedcert.report.sums.groups import effects_or_ones, group_bound
from fedcert.report.sums.moments import MOMENT_SCALE, Moments
from fedcert.report.sums.values import ClassTotals
from fedcert.secagg.class_support import holding
from fedcert.secagg.masks import Vector
from fedcert.secagg.threshold import max_colluders
from fedcert.version import __version__

_EFFECTS = tuple(2 ** (step / 2) for step in range(21))
"""Design effects are rounded up to these, and clients counted at each step: a maximum is no sum, a histogram is."""
_GROUPS = tuple(2**step for step in range(21))
"""The same for the largest group; the last one is for all that are larger."""
_LARGEST_SUM = 2**62
"""Sums mod 2^64 are read as signed numbers; one bit is spare."""

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class VectorLayout:
    """Where the numbers of a private sum stand in its vector.

    Attributes:
        request: what is asked.
    """

    request: Request

    def __post_init__(self) -> None:
        if self.request.private is None or self.request.roster is None:
            raise Refused("the request asks for no private sum")

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        assert self.request.private is not None  # noqa: S101
        classes, radii = len(self.request.classes), len(self.request.radii)
        if self.request.private.budget is not None:  # anything else would be out without noise
            return {"cells": (classes, radii + 1)}
        shapes: dict[str, tuple[int, ...]] = {"holding": (), "labels": (classes,)}
        if self.request.private.class_counts:
            shapes["class_rows"] = (classes, radii)
        else:
            shapes["certified"] = (radii,)
        shapes |= {"effects": (len(_EFFECTS),), "groups": (len(_GROUPS),)}
        if self.request.private.moments:
            shapes |= {
                "labels_labels": (classes * (classes + 1) // 2,),
                "labels_certified": (classes, radii),
                "certified_squared": (radii,),
            }
        return shapes

    @property
    def length(self) -> int:
        """Numbers in the vector."""
        return sum(math.prod(shape) for shape in self._shapes.values())

    @property
    def most_examples(self) -> int:
        """The most that a client may hold: with more, a moment over all clients might not fit into 62 bits."""
        assert self.request.roster is not None  # noqa: S101
        return _LARGEST_SUM // (MOMENT_SCALE * len(self.request.roster))

    def pack(self, report: Report) -> Vector:
        """A report's numbers.

        Raises:
            Refused: it lacks counts per class, or holds too many examples.
        """
        if report.examples > self.most_examples:
            raise Refused(f"{report.examples:,} examples are more than a private sum can hold ({self.most_examples:,})")
        budget = self.request.private.budget if self.request.private is not None else None
        if budget is not None:
            return self._noisy(report, budget)
        effect = max(effects_or_ones(report.design_effect, report.largest_group, 1))
        if effect > _EFFECTS[-1]:
            raise Refused(f"a design effect above {_EFFECTS[-1]:g} is more than a private sum can tell")
        rows = report.class_certified_counts
        if "class_rows" in self._shapes and rows is None:
            raise Refused(
                f"the report of {preview(report.client)} has no counts per class, which the private sum is over; "
                "certify "
                "with --class-counts (they leave the site under masks only)"
            )
        parts: dict[str, Any] = {
            "holding": int(report.examples > 0),
            "labels": report.label_counts,
            "class_rows": rows,
            "certified": report.certified_counts,
            "effects": _step(_EFFECTS, effect),
            "groups": _step(_GROUPS, group_bound(report.examples, report.design_effect, report.largest_group)),
        }
        alone = Sums.of([report]).moments
        if alone is not None:
            cells = np.array(alone.labels_labels, dtype=np.int64)
            parts |= {
                "labels_labels": cells[np.triu_indices(len(cells))],
                "labels_certified": alone.labels_certified,
                "certified_squared": alone.certified_squared,
            }
        flat = [np.asarray(parts[name], dtype=np.int64).ravel() for name in self._shapes]
        return np.concatenate(flat).astype(np.uint64)

    def contribution(self, report: Report) -> dict[str, Any]:
        """What of a report would enter the sum, by name; before noise, where there is any."""
        private = self.request.private
        if private is not None and private.budget is not None:
            check_units(report, private.budget)
            return {"cells": cells_of(report).tolist(), "noise": describe_budget(private.budget)}
        parts = {name: part.tolist() for name, part in self._parts(self.pack(report))}
        if private is not None and private.fewest_holders is not None:
            counts = f"in a second sum, without classes that fewer than {private.fewest_holders} sites hold"
            return {"in a first sum": {"holding": holding(report).tolist()}, counts: parts}
        return parts

    def _noisy(self, report: Report, budget: PrivacyBudget) -> Vector:
        """A client's cells with its share of the noise: the shares of the fewest honest clients make up the whole."""
        check_units(report, budget)
        cells = cells_of(report)
        return with_noise(cells, share_of(budget, self.fewest_honest, cells.size)).ravel().astype(np.uint64)

    @property
    def fewest_honest(self) -> int:
        """Clients in a sum that surely add their noise, if no more collude than the threshold tolerates."""
        assert self.request.private is not None  # noqa: S101
        assert self.request.roster is not None  # noqa: S101
        threshold, roster = self.request.private.threshold, len(self.request.roster)
        return threshold - max_colluders(threshold, roster)

    def sums(self, total: Vector, contributors: int) -> Sums:
        """The sums that a total over so many clients stands for.

        Raises:
            Refused: it is no sum of honest reports: some client gave false numbers.
        """
        try:
            return self._sums(dict(self._parts(total)), contributors)
        except InvalidValue as error:
            raise Refused(
                f"the private sum is not one of honest reports ({error}); who gave false numbers cannot be told"
            ) from None

    def _noisy_sums(self, cells: Whole, contributors: int, budget: PrivacyBudget) -> Sums:
        share = share_of(budget, self.fewest_honest, cells.size)
        # All clients in the sum added a share, and perhaps all of them were honest.
        variance = share.of_examples * contributors
        noise = AddedNoise(budget=budget, rho=share.rho, variance=variance, scale=share.scale, cells=cells.tolist())
        unit = privacy_unit(budget, len(self.request.radii))
        empty = empty_sums(self.request, contributors, software=f"fedcert {__version__}", **unit)
        return noisy_sums(empty, noise, contributors, describe_budget(budget))

    def _sums(self, parts: dict[str, Whole], contributors: int) -> Sums:
        if "cells" in parts:
            assert self.request.private is not None  # noqa: S101
            assert self.request.private.budget is not None  # noqa: S101
            return self._noisy_sums(parts["cells"], contributors, self.request.private.budget)
        labels = tuple(parts["labels"].tolist())
        moments = self._moments(parts, int(parts["holding"])) if "labels_labels" in parts else None
        rows = parts.get("class_rows")
        certified = parts["certified"] if rows is None else rows.sum(axis=0)
        by_class = None
        if rows is not None:
            by_class = ClassTotals(
                contributors=contributors,
                label_counts=labels,
                certified_counts=tuple(map(tuple, rows.tolist())),
                moments=moments,
            )
        effect, group = _largest(_EFFECTS, parts["effects"]), _largest(_GROUPS, parts["groups"])
        return Sums(
            model=self.request.model,
            request=self.request.digest,
            smoothing=self.request.smoothing,
            radii=self.request.radii,
            classes=self.request.classes,
            contributors=contributors,
            label_counts=labels,
            certified_counts=tuple(certified.tolist()),
            by_class=by_class,
            moments=moments,
            design_effect=None if effect == 1 else (float(effect),) * len(self.request.radii),
            largest_group=None if group in (1, _GROUPS[-1]) else int(group),
            software=f"fedcert {__version__}",
        )

    def _parts(self, total: Vector) -> Iterator[tuple[str, Whole]]:
        signed, start = total.astype(np.int64), 0
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            yield name, signed[start : start + size].reshape(shape)
            start += size

    def _moments(self, parts: dict[str, Whole], holding: int) -> Moments:
        classes = len(self.request.classes)
        cells = np.zeros((classes, classes), dtype=np.int64)
        cells[np.triu_indices(classes)] = parts["labels_labels"]
        cells = np.maximum(cells, cells.T)
        return Moments(
            scale=MOMENT_SCALE,
            clients=holding,
            labels_labels=tuple(map(tuple, cells.tolist())),
            labels_certified=tuple(map(tuple, parts["labels_certified"].tolist())),
            certified_squared=tuple(parts["certified_squared"].tolist()),
        )


def _step(steps: tuple[float, ...], value: float) -> list[int]:
    """A value as a 1 at the next larger step; at the last for all that are larger."""
    place = next((index for index, step in enumerate(steps) if value <= step * (1 + 1e-9)), len(steps) - 1)
    return [int(index == place) for index in range(len(steps))]


def _largest(steps: tuple[float, ...], counts: Whole) -> float:
    """The largest step that a client is at."""
    held = np.flatnonzero(counts)
    return float(steps[held[-1]]) if len(held) else 1.0
