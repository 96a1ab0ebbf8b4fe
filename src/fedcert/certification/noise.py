"""A noise, the radius that it certifies, and the streams that it is drawn from."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special


@dataclass(frozen=True)
class Gaussian:
    """Independent normal noise of standard deviation `sigma` on every input coordinate."""

    sigma: float

    def radius(self, miss: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The L2 radius within which the smoothed classifier keeps its class (Cohen et al., Theorem 1).

        If the class has probability at least 1 - miss > 1/2 under the noise, the smoothed classifier
        predicts it everywhere within sigma·Φ⁻¹(1 - miss). Otherwise nothing is certified, which is
        radius 0: CERTIFY abstains. A certified radius is always above 0.
        """
        miss = np.asarray(miss, dtype=np.float64)
        return np.where(miss < 0.5, -self.sigma * special.ndtri(np.minimum(miss, 0.5)), 0.0)


class Phase(IntEnum):
    """What noise is drawn for. Estimation must not reuse the noise of selection."""

    SELECTION = 0
    ESTIMATION = 1
    FORECAST = 2


_LARGEST_BLOCK = 100
_FLOATS_PER_BLOCK = 2**24


def block_size(shape: tuple[int, ...]) -> int:
    """Samples that one stream gives for examples of a shape: 100, or as many as have 64 MB.

    A block is never split between streams. So what is drawn depends on the example and the settings alone.
    """
    return max(1, min(_LARGEST_BLOCK, _FLOATS_PER_BLOCK // max(1, int(np.prod(shape)))))


def fill_normal(stream: int, out: npt.NDArray[np.float32]) -> None:
    """Fill an array with the standard normal numbers of a stream.

    torch's own generator on the CPU keeps only 32 bits of its seed: with it, streams would coincide.
    """
    np.random.Generator(np.random.Philox(key=stream)).standard_normal(out=out, dtype=np.float32)


@dataclass(frozen=True)
class Streams:
    """Seeds of independent noise streams, one per example, phase and block of samples.

    A seed depends on the run's seed, the client's name and the example's index alone. So no two clients
    share noise (intervals rest on that), and neither batch size nor order changes what is drawn.
    """

    seed: int
    client: str

    def stream(self, index: int, phase: Phase, block: int) -> int:
        """The seed of one block of noise: 63 bits, because torch's generator on a GPU takes no more."""
        key = hashlib.blake2b(
            struct.pack("<qqq", index, phase, block), key=self._key, digest_size=8, person=b"fedcert noise 1"
        )
        return int.from_bytes(key.digest(), "little") >> 1

    @cached_property
    def _key(self) -> bytes:
        return hashlib.sha256(f"{self.seed}\0{self.client}".encode()).digest()
