"""Differential privacy: discrete Gaussian noise on disjoint counts, drawn by OpenDP."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert.errors import Refused, preview, require
from fedcert.privacy.dp.accounting import NoiseShares, Share, noise_shares
from fedcert.report import Report, Request, Sums
from fedcert.report.privacy import ALONE, SIZE_RELEASES, AddedNoise, PrivacyBudget
from fedcert.report.provenance import SOFTWARE
from fedcert.report.sums.algebra import empty_sums, noisy_sums

Whole = npt.NDArray[np.int64]


def cells_of(report: Report) -> Whole:
    """A report's examples by class, and by what was counted of each; each example is in one cell.

    With population certificates that is how many of its noisy copies are predicted right, which depends on no other
    example and on no radius. With CERTIFY it is the largest radius that it is certified to, if any.

    Raises:
        Refused: the report has no counts per class.
    """
    counts = report.class_procedure_counts
    if counts is None:
        raise Refused(
            f"the report of {preview(report.client)} has no counts per class, on which the noise goes; certify with "
            "--class-counts (they leave the site with noise only)"
        )
    rows = np.array(counts, dtype=np.int64)
    if report.smoothing.is_population:
        return rows
    labels = np.array(report.label_counts, dtype=np.int64)[:, None]
    return np.concatenate([labels - rows[:, :1], rows[:, :-1] - rows[:, 1:], rows[:, -1:]], axis=1)


def check_units(report: Report, budget: PrivacyBudget) -> None:
    """Check that a client's units are as the budget has them.

    Raises:
        Refused: some unit has more examples than it may, or how many is unknown; or one may move others' counts.
    """
    if report.seed is None:
        raise Refused(
            f"the report of {preview(report.client)} does not say how its noise was drawn: that one example moves one "
            "count is a property of certificates that fedcert makes; certify with this version"
        )
    if report.time_budget is not None:
        raise Refused(
            f"the report of {preview(report.client)} was made under a time budget: which examples were done in time "
            "depends on all of them, so that noise for one does not hide it; certify without --time-budget"
        )
    if report.design_effect is None and report.largest_group in (None, 1):
        return
    if budget.unit == "example":
        raise Refused(
            f"the examples of {preview(report.client)} come in groups, and noise for single examples does not protect "
            "a group; ask for a budget whose unit is the group"
        )
    most = report.largest_group
    if most is None or most > budget.most_per_unit:
        unsaid = "does not say how many examples its largest group has"
        has = unsaid if most is None else f"has a group of {most} examples"
        raise Refused(
            f"{preview(report.client)} {has}, but the privacy budget is for at most {budget.most_per_unit}; certify "
            "with fewer examples of each, or ask for a larger budget"
        )


def with_noise(cells: Whole, share: Share) -> Whole:
    """Counts in the share's units, with discrete Gaussian noise in each."""
    added = _mechanism(share.variance)((cells * share.scale).ravel().tolist())
    return np.array(added, dtype=np.int64).reshape(cells.shape)


@lru_cache(maxsize=8)
def _mechanism(variance: float) -> Any:
    dp = require("opendp.prelude", "differential privacy", "dp")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return dp.m.make_gaussian(*space, scale=variance**0.5)


def released(report: Report, budget: PrivacyBudget) -> Sums:
    """A client's counts with all the noise that its budget asks for, which it may publish.

    Guarantee: (epsilon, delta)-differential privacy of the counts, as the budget has it, against any recipient, for
    this release. The settings are published as they are, and of groups only what the budget allows.

    Raises:
        Refused: the report has no counts per class, or its units are larger than the budget allows.
    """
    budget = budget if budget.noise == ALONE else PrivacyBudget(**{**budget.__dict__, "noise": ALONE})
    check_units(report, budget)
    shares = noise_shares(budget, 1, *cells_of(report).shape)
    return sums_of_noisy_counts(report, budget, shares, *noisy_counts(report, shares), 1)


def noisy_counts(report: Report, shares: NoiseShares) -> tuple[Whole, Whole]:
    """A report's cells, and the sizes of its classes in all their releases, each with noise of its own.

    Raises:
        Refused: the report has no counts per class.
    """
    cells = cells_of(report)
    sizes = np.tile(cells.sum(axis=1), (SIZE_RELEASES, 1))
    return with_noise(cells, shares.cells), with_noise(sizes, shares.sizes)


def sums_of_noisy_counts(
    like: Report | Request, budget: PrivacyBudget, shares: NoiseShares, cells: Whole, sizes: Whole, contributors: int
) -> Sums:
    """The sums that noisy cells and sizes stand for.

    Of groups they have the most that the budget allows, since the true sizes would be out without noise.

    Args:
        like: whose settings they have.
        budget: that the noise keeps to.
        shares: of the noise that each client added; all of them did, and perhaps all of them were honest.
        cells, sizes: in the shares' units.
        contributors: how many clients are in them.
    """
    most, software = budget.most_per_unit, like.software if isinstance(like, Report) else SOFTWARE
    unit = {} if most == 1 else {"design_effect": (float(most),) * len(like.radii), "largest_group": most}
    noise = AddedNoise(
        budget=budget, rho=shares.rho, variance=shares.cells.of_examples * contributors,
        sizes_variance=shares.sizes.of_examples * contributors, scale=shares.cells.scale, cells=cells.tolist(),
        sizes=sizes.tolist(),
    )  # fmt: skip
    empty = empty_sums(like, contributors, software=software, **unit)
    return noisy_sums(empty, noise, contributors, describe_budget(budget))


def describe_budget(budget: PrivacyBudget) -> str:
    """A budget in words."""
    unit = "example" if budget.unit == "example" else f"group of at most {budget.most_per_unit} examples"
    who = "by the sites together" if budget.noise != ALONE else "by each site"
    change = "is there" if budget.adjacency == "add-remove" else "holds"
    return (
        f"discrete Gaussian noise, added {who}: ({budget.epsilon:g}, {budget.delta:g})-differential privacy for "
        f"{'whether' if change == 'is there' else 'what'} one {unit} {change}"
    )
