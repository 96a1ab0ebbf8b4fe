"""What an estimator gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fedcert._arrays import Floats
from fedcert._schema.declare import required
from fedcert._schema.field_types import Text
from fedcert._schema.record import Record
from fedcert.estimation.intervals.ingredients import Uncertainty
from fedcert.estimation.methods.linear_weights import LinearWeights


@dataclass(frozen=True, kw_only=True)
class Chosen(Record):
    """The method that was chosen automatically.

    Attributes:
        method: its name.
        because: why, in words.
    """

    NOUN: ClassVar[str] = "chosen method"

    method: str = required(Text())
    because: str = required(Text(longest=2000))


@dataclass(frozen=True)
class PointEstimate:
    """What an estimator gives.

    Attributes:
        certified_accuracy: the estimate at each radius.
        weights: one per client, adding up to 1, where the estimate is Σ weight x accuracy; else None.
        weights_note: why there are none.
        rule: the formula of the weights, where clients are not known one by one.
        uncertainty: the ingredients of its interval; None for a point without one.
        guarantee: what holds of it, in words; fedcert words it where weights say enough.
        settings: those that it used, so that it can be run again.
        details: anything else worth keeping, as plain JSON types.
        chosen: the method behind it, where one was chosen automatically.
    """

    certified_accuracy: Floats
    weights: Floats | None
    weights_note: str | None = None
    rule: LinearWeights | None = None
    uncertainty: Uncertainty | None = None
    guarantee: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    chosen: Chosen | None = None
