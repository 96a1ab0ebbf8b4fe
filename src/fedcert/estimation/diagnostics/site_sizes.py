"""How much one site could decide in a private sum, where no site's own numbers can be seen."""

from __future__ import annotations

import numpy as np

from fedcert._arrays import Floats
from fedcert.report import Sums

_LOOSE = 3.0
"""Times the mean size from which on a bound says little: as much as screening leaves a client of single reports."""


def size_finding(sums: Sums, mix: Floats) -> tuple[str, float, str] | None:
    """What the sites' sizes say: "ok", "warning" or "unreliable", the share that one site could move, a sentence.

    None for sums of reports, each of which could be looked at.

    Args:
        sums: the totals.
        mix: the target's class mix.
    """
    most, sites = sums.most_examples, sums.contributors
    if most is None or not sites:
        return None
    mean = sums.examples / sites
    known = f"The {sites} sites have {mean:,.0f} examples each on average, and the request allows {most:,}"
    if mean > most:
        return "unreliable", 1.0, f"{known}: some site gave false numbers, and which one cannot be known."
    moved = largest_movement(np.array(sums.label_counts, dtype=np.float64), mix, float(most))
    possible = f"A report with false counts, within that, can have moved the estimate by up to {moved:.0%}"
    if most <= _LOOSE * mean:
        return "ok", moved, f"{known}. {possible}."
    return "warning", moved, f"{known}. {possible}; a request with a closer bound (--most-examples) leaves less."


def largest_movement(labels: Floats, mix: Floats, examples: float) -> float:
    """The most by which so many of the examples can have moved a post-stratified accuracy.

    With n_j examples of class j, of which m_j are false, it is max Σ p_j m_j/n_j over m_j <= n_j and Σ m_j <= examples:
    a linear problem, in which the classes with the largest p_j/n_j are filled first.

    Args:
        labels: n, examples of each class.
        mix: p, the target's class mix.
        examples: the most that are false.

    Examples:
        >>> largest_movement(np.array([100.0, 400.0]), np.array([0.5, 0.5]), 200.0)
        0.625
    """
    held = labels > 0
    worth = np.divide(mix, labels, out=np.zeros_like(labels), where=held)
    order = np.argsort(-worth, kind="stable")
    sizes = labels[order]
    filled = np.clip(examples - (np.cumsum(sizes) - sizes), 0.0, sizes)
    return float(min(1.0, worth[order] @ filled + mix[~held].sum()))
