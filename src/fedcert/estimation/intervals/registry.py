"""Kinds of intervals by name. A new one is one value here, and everything that lists or makes intervals follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedcert._arrays import Floats
from fedcert._schema.field_types import Enumerated
from fedcert.errors import CallError, preview
from fedcert.estimation.intervals.finite_sample import finite_sample
from fedcert.estimation.intervals.half_widths import asymptotic, hoeffding, hoeffding_deviations, normal_deviations
from fedcert.estimation.intervals.ingredients import Uncertainty

Ends = Callable[[Uncertainty, Floats, float, bool, int | None], tuple[Floats, Floats]]
"""Of the ingredients, the target's mix, the confidence, whether for all radii at once, and the target's size."""
HalfLengths = Callable[[Uncertainty, Floats, float, bool, int | None], Floats]
"""Of the same."""
Deviations = Callable[[float, int], float]
"""Of the confidence and the number of radii that the interval holds for at once."""


@dataclass(frozen=True)
class IntervalKind:
    """A kind of interval.

    Attributes:
        name: as the settings name it.
        title: the same as help texts have it.
        strength: in words, how surely it covers; the stated confidence follows.
        ends: its ends at each radius, before certificates that fail are allowed for; they may lie outside [0, 1].
        deviations: how many times sqrt(Σ a²/n) chance may cost; weights are chosen by it.
        uses_variances: whether it rests on the estimate's standard errors, rather than on Σ a²/n alone.
        simulated: whether its quantiles for all radii at once are simulated.
        scripted: whether the page's script has it too, for class mixes that the reader sets.
        needs_cells: where it rests on single cells of examples, the kind that stands in for it if they are not known
            (curves from sums); else None.
    """

    name: str
    title: str
    strength: str
    ends: Ends
    deviations: Deviations
    uses_variances: bool = True
    simulated: bool = False
    scripted: bool = False
    needs_cells: str | None = None

    @property
    def otherwise(self) -> str:
        """The kind that stands in for it where single cells are not known."""
        return self.needs_cells or self.name

    def __post_init__(self) -> None:
        for part in ("name", "title", "strength"):
            if not isinstance(getattr(self, part), str) or not getattr(self, part):
                raise CallError(f"an interval's {part} must be a text, but is {preview(getattr(self, part))}")
        for part in ("ends", "deviations"):
            if not callable(getattr(self, part)):
                given = preview(getattr(self, part))
                raise CallError(f"the interval {preview(self.name)} must have a function {part}, but has {given}")


def around_centre(half_widths: HalfLengths) -> Ends:
    """Ends as far below the centre as above it."""

    def ends(
        of: Uncertainty, target: Floats, confidence: float, simultaneous: bool, target_examples: int | None
    ) -> tuple[Floats, Floats]:
        half = half_widths(of, target, confidence, simultaneous, target_examples)
        return of.centre - half, of.centre + half

    return ends


INTERVALS: dict[str, IntervalKind] = {
    kind.name: kind
    for kind in (
        IntervalKind(
            "finite-sample", "finite-sample", "at least", finite_sample, hoeffding_deviations, uses_variances=False,
            scripted=True, needs_cells="hoeffding",
        ),
        IntervalKind(
            "hoeffding", "Hoeffding's (longer)", "at least", around_centre(hoeffding), hoeffding_deviations,
            uses_variances=False, scripted=True,
        ),
        IntervalKind(
            "asymptotic", "asymptotic", "approximately, for many examples,", around_centre(asymptotic),
            normal_deviations, simulated=True, scripted=True,
        ),
    )
}  # fmt: skip
INTERVAL_NAME = Enumerated(INTERVALS)


def interval_kind(name: str) -> IntervalKind:
    """The kind of a name.

    Raises:
        CallError: there is none, or it is registered under another name than its own.
    """
    kind = INTERVALS.get(name)
    if kind is None:
        raise CallError(f"interval must be {INTERVAL_NAME.expected}, but is {preview(name)}")
    if not isinstance(kind, IntervalKind) or kind.name != name:
        raise CallError(f"the interval {preview(name)} is registered as {preview(getattr(kind, 'name', kind))}")
    return kind
