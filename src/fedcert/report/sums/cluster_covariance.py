"""How clients differ, as sums may tell: what each adds to the error of an estimate, squared and added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedcert._schema.declare import required
from fedcert._schema.field_types import ListOf, Number
from fedcert._schema.record import Record
from fedcert.report.fields import MOST_CLASSES, MOST_RADII

_ROW = ListOf(Number(), "numbers, one per radius", most=MOST_RADII)


@dataclass(frozen=True, kw_only=True)
class ClusterCovariance(Record):
    """The spread of a post-stratified estimate over the clients.

    Attributes:
        target: the class mix that it is about, in the order of the classes.
        covariance: Σ u uᵀ over the clients, radii x radii, with u what each adds to the estimate's error.
        freedom: as how many clients of equal weight the clients are worth, less one.
    """

    NOUN: ClassVar[str] = "spread"

    target: tuple[float, ...] = required(ListOf(Number(least=0, most=1), "shares, one per class", most=MOST_CLASSES))
    covariance: tuple[tuple[float, ...], ...] = required(ListOf(_ROW, "rows, one per radius", most=MOST_RADII))
    freedom: float = required(Number(above=0))
