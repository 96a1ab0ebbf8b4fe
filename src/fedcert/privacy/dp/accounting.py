"""Accounting of noise: zero-concentrated differential privacy (zCDP), its conversion, shares of noise, and the ledger.

Clients that add noise together each add a discrete Gaussian of variance s². Their sum is no discrete Gaussian, but is
close to one; Kairouz, Liu and Steinke (2021, theorem 1) bound what that costs: with n summands, d cells and sensitivity
D the sum is (e²/2)-zCDP for

    e = min(sqrt(D²/(n s²) + t d/2), D/(sqrt(n) s) + t sqrt(d)),  t = 10 Σ_{k=1}^{n-1} exp(-2 π² s² k/(k+1)).

Three things are released: the cells, and the classes' sizes twice. Each has noise of its own and a part of the budget;
what they cost adds up, as zCDP does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import optimize

from fedcert.errors import CallError, FileProblem, Refused
from fedcert.privacy.state_store import StateStore
from fedcert.report.privacy import SIZE_RELEASES, PrivacyBudget

_MOST_STEPS = 200
"""Bisections: 53 exhaust a double, and the loops end before; this bounds them where they would not."""
_WIDE_ENOUGH = 4.0
"""The least variance of a share, in units squared: the excess t above is then below 1e-15."""
SIZES_PART = 0.15
"""Of the budget's rho, for each release of the sizes; the cells have the rest. Simulated with 1 to 21 radii and 2 to
400 classes: 0.1 makes intervals of large classes 1% to 3% shorter and those of classes little above the noise up to
twice as long, 0.2 makes the former 2% to 5% longer."""


def epsilon_of(rho: float, delta: float) -> float:
    """The epsilon of rho-zCDP at a delta (Canonne, Kamath and Steinke 2020, corollary 13)."""

    def log_delta(order: float, epsilon: float) -> float:
        return (order - 1) * (order * rho - epsilon) + order * math.log1p(-1 / order) - math.log(order - 1)

    def best(epsilon: float) -> float:
        minimum = optimize.minimize_scalar(
            lambda log: log_delta(1 + math.exp(log), epsilon), bounds=(-20.0, 20.0), method="bounded",
            options={"xatol": 1e-10},
        )  # fmt: skip
        return float(minimum.fun) - math.log(delta)

    if best(0.0) <= 0:
        return 0.0
    high = rho + 2 * math.sqrt(rho * math.log(1 / delta))  # the looser closed form of Bun and Steinke (2016)
    return float(optimize.brentq(best, 0.0, high, xtol=1e-12))


def rho_of(epsilon: float, delta: float) -> float:
    """The largest rho whose epsilon at a delta is at most the given one."""
    high = 1.0
    while epsilon_of(high, delta) < epsilon:
        high *= 2
    return _bisected(lambda rho: epsilon_of(rho, delta) > epsilon, 0.0, high)[0]


def _bisected(is_above: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """The bounds of a root, brought together to a relative distance of 1e-9.

    Args:
        is_above: whether a value is above the root.
        low, high: values on both sides of it.
    """
    for _ in range(_MOST_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
        if high - low < 1e-9 * high:
            break
    return low, high


def rho_together(variance: float, clients: int, cells: int, sensitivity: float) -> float:
    """The zCDP of a sum in which so many clients each added a discrete Gaussian of a variance."""
    steps = np.arange(1, clients)
    excess = 10 * float(np.exp(-2 * math.pi**2 * variance * steps / (steps + 1)).sum())
    signal = sensitivity**2 / (clients * variance)
    epsilon = min(math.sqrt(signal + excess * cells / 2), math.sqrt(signal) + excess * math.sqrt(cells))
    return epsilon**2 / 2


@dataclass(frozen=True)
class Share:
    """The noise that each client adds to each cell.

    Attributes:
        variance: in units squared.
        scale: units in one example: small shares are drawn in fractions of an example, since discrete Gaussians add up
            to one only if each is wider than a few units.
        rho: the zCDP of the sum over the fewest clients.
    """

    variance: float
    scale: int
    rho: float

    @property
    def of_examples(self) -> float:
        """The variance in examples squared."""
        return self.variance / self.scale**2


@lru_cache(maxsize=64)
def share_of(budget: PrivacyBudget, clients: int, cells: int, part: float = 1.0, scale: int = 1) -> Share:
    """The noise of each client in counts of which one unit moves one, or those of one unit in all.

    Args:
        budget: what is to be protected.
        clients: the fewest honest ones in a sum; 1 where each client adds all noise by itself.
        cells: how many counts.
        part: of the budget's rho that may be used.
        scale: the least units in one example.

    Raises:
        CallError: no noise of a sensible size gives so much privacy.
    """
    wanted = part * rho_of(budget.epsilon, budget.delta)
    continuous = budget.sensitivity**2 / (2 * wanted * clients)  # the variance of Gaussians that are not discrete
    while continuous * scale**2 < _WIDE_ENOUGH and scale < 2**20:
        scale *= 2
    sensitivity = budget.sensitivity * scale
    high = continuous * scale**2 + 1.0
    while rho_together(high, clients, cells, sensitivity) > wanted:
        high *= 2
        if high > 2.0**90:
            raise CallError(f"no noise gives epsilon {budget.epsilon:g} at delta {budget.delta:g}")
    _, variance = _bisected(lambda variance: rho_together(variance, clients, cells, sensitivity) <= wanted, 1e-4, high)
    return Share(variance, scale, rho_together(variance, clients, cells, sensitivity))


@dataclass(frozen=True)
class NoiseShares:
    """The noise that each client adds.

    Attributes:
        cells: to each cell.
        sizes: to each class's size, in each of their releases; in the same units.
    """

    cells: Share
    sizes: Share

    @property
    def rho(self) -> float:
        """The zCDP of all releases together."""
        return self.cells.rho + SIZE_RELEASES * self.sizes.rho


def noise_shares(budget: PrivacyBudget, clients: int, classes: int, cells: int) -> NoiseShares:
    """The noise of each client in all that is released.

    Guarantee: over the fewest clients the cells and all releases of sizes are together what the budget allows, whatever
    else is computed from them.

    Args:
        budget: what is to be protected.
        clients: the fewest honest ones in a sum; 1 where each client adds all noise by itself.
        classes: how many.
        cells: in each class.

    Raises:
        CallError: no noise of a sensible size gives so much privacy.
    """
    of_cells = share_of(budget, clients, classes * cells, 1 - SIZE_RELEASES * SIZES_PART)
    return NoiseShares(of_cells, share_of(budget, clients, classes, SIZES_PART, of_cells.scale))


@dataclass(frozen=True)
class Account:
    """What a client's releases with noise cost together, by its memory.

    Attributes:
        releases: how many.
        epsilon: of all together.
        delta: at which.
        most: the epsilon that they may cost; None for no bound.
    """

    releases: int
    epsilon: float
    delta: float
    most: float | None

    def __str__(self) -> str:
        """In words."""
        bound = "its policy sets no bound" if self.most is None else f"its policy allows {self.most:g} in all"
        what = "release with noise comes" if self.releases == 1 else "releases with noise come"
        return f"this site's {self.releases} {what} to epsilon {self.epsilon:.3g} at delta {self.delta:g}; {bound}"


def spend(
    memory: StateStore, name: str, budget: PrivacyBudget, most: float | None, delta: float, *, note: bool = True
) -> Account:
    """Note in a client's memory what a release with noise costs, before it leaves; the same one costs nothing again.

    What releases cost adds up, as zCDP does, and is converted at one delta, whatever each was asked with.

    Args:
        memory: what the client remembers.
        name: of the release: the nonce of a request, for a private sum.
        budget: what is asked.
        most: the epsilon that all releases may cost together; None for no bound.
        delta: of the account.
        note: whether it leaves now; else it is only checked that it may.

    Returns:
        The account with this release in it.

    Raises:
        Refused: with this release it would be more; nothing is noted.
        FileProblem: the memory's account is not as fedcert wrote it.
    """
    costs = memory.get("spent") or {}
    if not all(isinstance(cost, float) and cost >= 0 for cost in costs.values()):
        raise FileProblem("the memory's account of noise (spent.json) is not as fedcert wrote it; restore what it was")
    wanted = {**costs, name: rho_of(budget.epsilon, budget.delta)}
    account = Account(len(wanted), epsilon_of(sum(wanted.values()), delta), delta, most)
    if name in costs:
        return account
    if most is not None and account.epsilon > most * (1 + 1e-6):  # `rho_of` is found by bisection
        before = epsilon_of(sum(costs.values()), delta) if costs else 0.0
        raise Refused(
            f"with this release, {account.releases} with noise would come to epsilon {account.epsilon:.3g} at delta "
            f"{delta:g} (before it {before:.3g}), but this site's policy allows {most:g} in all (total_epsilon)"
        )
    if note:
        memory.put("spent", wanted)
    return account
