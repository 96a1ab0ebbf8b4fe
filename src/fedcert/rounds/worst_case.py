"""The worst case over what missing clients might hold.

Where clients differ in their class mix alone (label shift), an estimate is about accuracies that all clients share, and
who is missing changes its width only. Without that assumption the answers say nothing about the missing clients: then
the worst case over whatever they might hold is all that can be said.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import optimize

from fedcert._arrays import Floats
from fedcert.errors import CallError, EstimationProblem, preview
from fedcert.estimation.result import Estimate
from fedcert.estimation.target import distribution_of
from fedcert.report import Report


def check_missing_examples(examples: object, screened: bool) -> None:
    """Check the number of examples that a worst case is asked for.

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


def worst_case(estimate: Estimate, reports: Sequence[Report], missing: int, examples: int) -> dict[str, Any]:
    """The interval if missing clients held the worst that they could.

    The estimand is then the target's mix of the classes' accuracies over all that the whole roster holds. The missing
    clients may hold any classes, right or wrong, up to the given number of examples each. A class of the target that
    no client that answered holds is anything between all wrong and all right already.

    Guarantee: if the estimate's interval covers the same for the clients that answered, this one covers it for the
    whole roster, whatever the missing ones hold within that number.

    Args:
        estimate: the estimate from those that answered.
        reports: their reports.
        missing: how many clients are missing.
        examples: the most that each of them may hold.

    Raises:
        CallError: the number is negative.
        EstimationProblem: the estimate has no interval.
    """
    check_missing_examples(examples, screened=False)
    if estimate.lower is None or estimate.upper is None:
        raise EstimationProblem(f"method {estimate.method} has no interval, so it has no worst case either")
    lower, upper = list(estimate.lower), list(estimate.upper)
    if missing * examples > 2**53:
        raise CallError("the examples of all missing clients together must be at most 2^53")
    if missing and examples:
        held = np.sum([report.label_counts for report in reports], axis=0).astype(np.float64)
        mix = distribution_of(estimate.target, reports[0].classes)
        total = float(missing * examples)
        lower = [diluted(float(value), mix, held, total) for value in lower]
        upper = [1 - diluted(1 - float(value), mix, held, total) for value in upper]
    return {"clients": missing, "examples_each": examples, "lower": lower, "upper": upper}


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
        # The least that is left of a class's whole share, when an added example costs the price.
        cost = np.where(mix > price * held, 2 * np.sqrt(price * mix * held) - price * held, mix)
        # Shares are taken where they are cheapest; the last one may be taken in part.
        order = np.argsort(cost / mix, kind="stable")
        taken = np.minimum(mix[order], np.maximum(0.0, accuracy - np.cumsum(mix[order]) + mix[order]))
        return float(np.sum(taken * (cost / mix)[order]) - price * added)

    highest = float((mix / held).max())
    best = optimize.minimize_scalar(
        lambda share: -dual(share * highest), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12}
    )
    return float(np.clip(dual(best.x * highest), 0.0, accuracy))
