"""Help texts that list methods and kinds of intervals, from their registries."""

from __future__ import annotations

from collections.abc import Sequence

from fedcert.estimation.intervals.registry import INTERVALS
from fedcert.estimation.methods.registry import AUTO, class_curve_methods, recommended


def _either(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


ANY_METHOD = f"{', '.join(method.name for method in recommended())}, or a registered one."
METHOD = f"{_either([method.name for method in recommended()])}."
WHAT_IF_METHOD = f"{_either([AUTO, *(method.name for method in class_curve_methods())])}."
INTERVAL_KINDS = f"{', or '.join(kind.title for kind in INTERVALS.values())}."
