"""What missing clients mean for an estimate.

Where clients differ in their class mix alone (label shift), an estimate is about accuracies that all clients share, and
who is missing changes its width only. Without that assumption, nothing that answered tells about the missing: then the
worst case over whatever they might have held is all that can be said.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import optimize

from fedcert._arrays import Floats
from fedcert.errors import CallError, EstimationProblem, preview
from fedcert.estimation.diagnostics.checks import LOOK, OK, Check
from fedcert.estimation.result import Estimate
from fedcert.estimation.target import distribution_of
from fedcert.report import Report

_NAMED = 10


def check_missing(missing: Mapping[str, str], answered: int, roster: Sequence[str] | None) -> Check:
    """Whether clients that were asked are missing."""
    if roster is None:
        sentence = f"{answered} clients answered; the request named no roster, so nobody is known to be missing."
        return Check(name="missing clients", verdict=OK, figure=None, sentence=sentence)
    if not missing:
        sentence = f"All {len(roster)} clients that were asked answered."
        return Check(name="missing clients", verdict=OK, figure=0.0, sentence=sentence)
    named = ", ".join(preview(client) for client in list(missing)[:_NAMED])
    named += f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    sentence = (
        f"{len(missing)} of the {len(roster)} clients that were asked are missing: {named}. If clients differ in their "
        "class mix alone, the estimate does not depend on who is missing; if these differ otherwise, nothing here "
        "shows it."
    )
    return Check(name="missing clients", verdict=LOOK, figure=len(missing) / len(roster), sentence=sentence)


def check_contested(contested: Mapping[str, str]) -> list[Check]:
    """Whether others claimed to be clients that had answered; nothing where nobody did."""
    if not contested:
        return []
    told = "; ".join(f"{preview(client)}: {why}" for client, why in list(contested.items())[:_NAMED])
    sentence = f"Of {len(contested)} clients that answered, others claim the name: {told}. Their first answers count."
    return [Check(name="contested names", verdict=LOOK, figure=float(len(contested)), sentence=sentence)]


def check_missing_examples(examples: object, screened: bool) -> None:
    """Check what a worst case is asked for.

    Raises:
        CallError: the number is no whole one of 0 or more, or screening is asked for as well.
    """
    if examples is None:
        return
    try:
        count = -1 if isinstance(examples, bool) else operator.index(examples)  # type: ignore[arg-type]
    except TypeError:
        count = -1
    if not 0 <= count <= 2**53:
        raise CallError(
            "the examples of a missing client must be a whole number, 0 or more, and must be at most 2^53, but are "
            f"{preview(examples)}"
        )
    if screened:
        raise CallError("a worst case is about everybody who answered: leave screening out, or the worst case")


def worst_case(made: Estimate, reports: Sequence[Report], missing: int, examples: int) -> dict[str, Any]:
    """The interval if missing clients had held the worst that they could.

    The estimand is then the target's mix of the classes' accuracies over all that the whole roster holds. The missing
    clients may hold any classes, right or wrong, up to the given number of examples each. A class of the target that
    nobody who answered holds is anything between all wrong and all right already.

    Guarantee: if the estimate's interval covers the same for the clients that answered, this one covers it for the
    whole roster, whatever the missing ones hold within that number.

    Args:
        made: the estimate from those that answered.
        reports: their reports.
        missing: how many clients are missing.
        examples: the most that each of them may hold.

    Raises:
        CallError: the number is negative.
        EstimationProblem: the estimate has no interval.
    """
    check_missing_examples(examples, screened=False)
    if made.lower is None or made.upper is None:
        raise EstimationProblem(f"method {made.method} has no interval, so it has no worst case either")
    if not missing or not examples:
        return {"clients": missing, "examples_each": examples, "lower": list(made.lower), "upper": list(made.upper)}
    if missing * examples > 2**53:
        raise CallError("the examples of all missing clients together must be at most 2^53")
    held = np.sum([report.label_counts for report in reports], axis=0).astype(np.float64)
    mix = distribution_of(made.target, reports[0].classes)
    total = float(missing * examples)
    return {
        "clients": missing,
        "examples_each": examples,
        "lower": [diluted(float(value), mix, held, total) for value in made.lower],
        "upper": [1 - diluted(1 - float(value), mix, held, total) for value in made.upper],
    }


def diluted(accuracy: float, mix: Floats, held: Floats, added: float) -> float:
    """The least that an accuracy can become when examples that are all wrong are added, to whatever classes.

    With accuracies A_j of n_j examples it is min Σ p_j A_j n_j / (n_j + m_j) over Σ p_j A_j = accuracy, A_j in [0, 1],
    and m_j >= 0 with Σ m_j <= added. The problem is bounded from below by its dual in two multipliers. As it is not
    convex, the bound may be below the least; it is never too high.

    Args:
        accuracy: Σ p_j A_j.
        mix: p, the target's class mix.
        held: n, examples of each class; of those without any, nothing is known, and they count as wrong.
        added: examples that are added.

    Examples:
        >>> import numpy as np
        >>> round(diluted(0.8, np.array([1.0]), np.array([60.0]), 20.0), 6)
        0.6
    """
    counts = (mix > 0) & (held > 0)
    accuracy = min(accuracy, float(mix[counts].sum()))
    if accuracy <= 0 or added <= 0:
        return max(0.0, accuracy)
    # No class can have more of the accuracy than there is.
    mix, held = np.minimum(mix[counts], accuracy), held[counts]

    def dual(price: float) -> float:
        # What a class's whole share costs at best, when an added example costs the price.
        spread = np.where(mix > price * held, 2 * np.sqrt(price * mix * held) - price * held, mix)
        # Shares are taken where they are cheapest; the last one may be taken in part.
        order = np.argsort(spread / mix, kind="stable")
        taken = np.minimum(mix[order], np.maximum(0.0, accuracy - np.cumsum(mix[order]) + mix[order]))
        return float(np.sum(taken * (spread / mix)[order]) - price * added)

    highest = float((mix / held).max())
    found = optimize.minimize_scalar(
        lambda share: -dual(share * highest), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12}
    )
    return float(np.clip(dual(found.x * highest), 0.0, accuracy))
