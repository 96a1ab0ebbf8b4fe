"""How clients differ, for sums: each client's contribution to the error of an estimate, squared and added up."""

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
    """The cluster-robust covariance of a post-stratified estimate.

    Attributes:
        target: the class mix that it is about, in the order of the classes.
        covariance: Σ u uᵀ over the clients, radii x radii, with u the client's contribution to the estimate's error.
        freedom: degrees of freedom: the effective number of clients (of equal weight), less one.
    """

    NOUN: ClassVar[str] = "spread"

    target: tuple[float, ...] = required(ListOf(Number(least=0, most=1), "shares, one per class", most=MOST_CLASSES))
    covariance: tuple[tuple[float, ...], ...] = required(ListOf(_ROW, "rows, one per radius", most=MOST_RADII))
    freedom: float = required(Number(above=0))
