"""Noise that is rounded to a lattice and drawn exactly, by integers alone.

For inputs on the lattice of multiples of 1/m, rounding x + ε is adding the rounded ε to x. So the smoothed classifier
of f∘round, to which the certificate's theorem applies in real numbers, is sampled by drawing round(ε): a whole number k
with P(k <= i) = F((2i + 1)/2m), F the noise's distribution function. A draw is 64 random bits against the integers
⌊2^64·F⌋. Nothing but these is rounded: the drawn distribution is within 2^-64 times their number of the exact one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedcert.errors import CallError

if TYPE_CHECKING:
    import torch

Words = npt.NDArray[np.uint64]
Steps = npt.NDArray[np.int32]
Distribution = Callable[[Decimal], Decimal]
"""A point from 0 on -> the probability of noise up to it."""

BITS = 64
"""Of a draw: a resolution of 5e-20, where 3,072 coordinates in 10,000 samples are 3e7 draws."""
_DIGITS = 60
"""Of the arithmetic behind the thresholds: they have 20, and series of some hundred terms lose a few."""
_PREFIX_BITS = 16
"""Of the first part of a draw, which nearly always decides it: a table of so many bits stays in a core's own cache."""
_UNDECIDED = np.iinfo(np.int16).min
"""In that table, where a prefix leaves several values."""
_MOST_STEPS = 2**19
"""Steps: sigma = 0.87 on a lattice of 65,535, whose table takes half a minute."""
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
_ALL = Decimal(20)
"""Standard deviations: 1 - Φ is below 1e-88 beyond, which is more digits than are computed."""
_FARTHEST_NORMAL = Decimal("9.3")
"""Standard deviations: normal noise is beyond with a probability of less than 2^-64."""


@dataclass(frozen=True, eq=False)
class LatticeTable:
    """The distribution of noise that is rounded to a lattice; compared by identity.

    Attributes:
        least: the smallest value, in steps of the lattice.
        thresholds: ⌊2^64·P(value <= least + i)⌋, rising; the last value, of probability 1, has none.
    """

    least: int
    thresholds: Words

    @property
    def total_variation(self) -> float:
        """The most that the probability of any event differs from the exact distribution's, for one coordinate."""
        return len(self.thresholds) * 2.0 ** (1 - BITS)  # a GPU draws one bit less

    @cached_property
    def _by_prefix(self) -> npt.NDArray[np.int16]:
        """The value of each prefix, relative to `least`; undecided where it depends on the bits after it."""
        if len(self.thresholds) > -_UNDECIDED:  # hardly any prefix decides
            return np.full(2**_PREFIX_BITS, _UNDECIDED, dtype=np.int16)
        first = np.arange(2**_PREFIX_BITS, dtype=np.uint64) << np.uint64(BITS - _PREFIX_BITS)
        last = first | np.uint64(2 ** (BITS - _PREFIX_BITS) - 1)
        low, high = (np.searchsorted(self.thresholds, end, side="right") for end in (first, last))
        return np.where(low == high, low, _UNDECIDED).astype(np.int16)

    def on_device(self, device: torch.device) -> torch.Tensor:
        """The thresholds of draws of 63 bits, which is what torch has in a whole number."""
        import torch

        if device not in self._copies:
            halved = (self.thresholds >> np.uint64(1)).astype(np.int64)
            self._copies[device] = torch.from_numpy(halved).to(device)
        return self._copies[device]

    @cached_property
    def _copies(self) -> dict[torch.device, torch.Tensor]:
        return {}

    def draw(self, size: int, bits: Callable[[int], bytes]) -> Steps:
        """So many independent values, in steps of the lattice.

        Args:
            size: how many.
            bits: gives the next so many random bytes.
        """
        prefixes = np.frombuffer(bits(2 * size), dtype="<u2")
        values: Steps = self._by_prefix[prefixes].astype(np.int32)
        undecided = np.flatnonzero(values == _UNDECIDED)
        if len(undecided):
            rest = np.frombuffer(bits(8 * len(undecided)), dtype="<u8") >> np.uint64(_PREFIX_BITS)
            whole = (prefixes[undecided].astype(np.uint64) << np.uint64(BITS - _PREFIX_BITS)) | rest
            values[undecided] = np.searchsorted(self.thresholds, whole, side="right")
        values += np.int32(self.least)
        return values


def lattice_table(distribution: Distribution, lattice: int, farthest: Decimal) -> LatticeTable:
    """The table of a symmetric distribution on a lattice.

    Args:
        distribution: of the noise.
        lattice: m; the lattice is the multiples of 1/m.
        farthest: noise is beyond with a probability of less than 2^-64.

    Raises:
        CallError: there would be too many values.
    """
    last = int(farthest * lattice) + 1
    if last > _MOST_STEPS:
        raise CallError(
            f"the lattice of {lattice} steps to 1 is too fine for this sigma: noise would have {2 * last:,} values, "
            f"and at most {2 * _MOST_STEPS:,} are drawn; quantise the data to a coarser one, such as 255"
        )
    whole = 2**BITS
    with localcontext() as context:
        context.prec = _DIGITS
        upper = []
        for step in range(last + 1):
            scaled = distribution(Decimal(2 * step + 1) / (2 * lattice)) * whole
            upper.append(min(int(scaled.to_integral_value(ROUND_FLOOR)), whole - 1))
    lower = [whole - 1 - value for value in reversed(upper)]  # P(value <= -i - 1) is 1 - P(value <= i)
    return LatticeTable(-last - 1, np.array(lower + upper, dtype=np.uint64))


@lru_cache(maxsize=8)
def normal_table(sigma: float, lattice: int) -> LatticeTable:
    """The table of normal noise.

    Examples:
        >>> table = normal_table(0.25, 4)  # steps of one standard deviation
        >>> int(table.thresholds[-table.least]) / 2**64  # up to half a one
        0.6914624612740131
    """
    spread = Decimal(sigma)
    return lattice_table(lambda point: _normal(point / spread), lattice, _FARTHEST_NORMAL * spread)


@lru_cache(maxsize=8)
def uniform_table(half_width: float, lattice: int) -> LatticeTable:
    """The table of noise that is uniform up to a half-width on both sides."""
    most = Decimal(half_width)
    return lattice_table(lambda point: min(Decimal(1), (1 + point / most) / 2), lattice, most)


def _normal(x: Decimal) -> Decimal:
    """Φ(x) for x >= 0: ½ + φ(x)·(x + x³/3 + x⁵/(3·5) + …), in which nothing cancels."""
    if x > _ALL:
        return Decimal(1)
    square, term, total, odd = x * x, x, x, 1
    while term > total.scaleb(-_DIGITS):
        odd += 2
        term = term * square / odd
        total += term
    return Decimal("0.5") + total * (-square / 2).exp() / (2 * _PI).sqrt()
