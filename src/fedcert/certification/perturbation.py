"""A noise, the radius that it certifies, and the streams that it is drawn from."""

from __future__ import annotations

import hashlib
import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import special

from fedcert.report import Smoothing

if TYPE_CHECKING:
    import torch


class Perturbation(ABC):
    """A noise that is added to the input, and the radius that it certifies. A new one is one small class.

    Attributes:
        sigma: its standard deviation on every input coordinate.
    """

    sigma: float

    @abstractmethod
    def radius(self, miss: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The radius within which the smoothed classifier keeps a class of probability at least 1 - miss.

        Where that is not above one half nothing is certified, which is radius 0: CERTIFY abstains. A certified radius
        is always above 0.
        """

    @abstractmethod
    def fill(self, stream: int, out: npt.NDArray[np.float32]) -> None:
        """Fill an array with the noise of a stream."""

    @abstractmethod
    def fill_tensor(self, stream: int, out: torch.Tensor) -> None:
        """Fill a tensor on a GPU with the noise of a stream, which is the device's own."""


@dataclass(frozen=True)
class Gaussian(Perturbation):
    """Independent normal noise of standard deviation `sigma` on every input coordinate; radii are in L2."""

    sigma: float

    def radius(self, miss: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Cohen et al., Theorem 1: sigma·Φ⁻¹(1 - miss)."""
        miss = np.asarray(miss, dtype=np.float64)
        return np.where(miss < 0.5, -self.sigma * special.ndtri(np.minimum(miss, 0.5)), 0.0)

    def fill(self, stream: int, out: npt.NDArray[np.float32]) -> None:
        """Normal numbers of a stream."""
        _generator(stream).standard_normal(out=out, dtype=np.float32)
        out *= np.float32(self.sigma)

    def fill_tensor(self, stream: int, out: torch.Tensor) -> None:
        """Normal numbers of the device's own stream."""
        out.normal_(0.0, self.sigma, generator=_device_generator(stream, out))


@dataclass(frozen=True)
class Uniform(Perturbation):
    """Independent uniform noise on [-λ, λ] with λ = √3·sigma on every input coordinate; radii are in L1."""

    sigma: float

    @property
    def half_width(self) -> float:
        """λ, the most that the noise moves a coordinate."""
        return float(np.sqrt(3) * self.sigma)

    def radius(self, miss: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """λ(1 - 2 miss): the overlap of two cubes that are moved apart falls at most by distance/(2λ)."""
        miss = np.asarray(miss, dtype=np.float64)
        return np.where(miss < 0.5, self.half_width * (1 - 2 * np.minimum(miss, 0.5)), 0.0)

    def fill(self, stream: int, out: npt.NDArray[np.float32]) -> None:
        """Uniform numbers of a stream."""
        _generator(stream).random(out=out, dtype=np.float32)
        out *= np.float32(2 * self.half_width)
        out -= np.float32(self.half_width)

    def fill_tensor(self, stream: int, out: torch.Tensor) -> None:
        """Uniform numbers of the device's own stream."""
        out.uniform_(-self.half_width, self.half_width, generator=_device_generator(stream, out))


def perturbation_of(smoothing: Smoothing) -> Perturbation:
    """The noise that settings name."""
    return Uniform(smoothing.sigma) if smoothing.noise == "uniform" else Gaussian(smoothing.sigma)


def _generator(stream: int) -> np.random.Generator:
    # torch's own generator on the CPU keeps only 32 bits of its seed: with it, streams would coincide.
    return np.random.Generator(np.random.Philox(key=stream))


def _device_generator(stream: int, out: torch.Tensor) -> torch.Generator:
    import torch

    return torch.Generator(out.device).manual_seed(stream)


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
