"""Seeds of the noise: a pure function of run, client, example, phase and block."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np


class Phase(IntEnum):
    """What noise is drawn for. Estimation must not reuse the noise of selection."""

    SELECTION = 0
    ESTIMATION = 1
    FORECAST = 2


_LARGEST_BLOCK = 100
"""Samples of a stream at most: n0's default, so that selection takes one block. Part of what a seed means."""
_FLOATS_PER_BLOCK = 2**24
"""64 MB: a block is held in memory whole. Part of what a seed means."""


def block_size(shape: tuple[int, ...]) -> int:
    """Samples that one stream gives for examples of a shape: 100, or as many as have 64 MB.

    A block is never split between streams. So what is drawn depends on the example and the settings alone.
    """
    return max(1, min(_LARGEST_BLOCK, _FLOATS_PER_BLOCK // max(1, int(np.prod(shape)))))


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
