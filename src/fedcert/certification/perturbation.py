"""Perturbations: how the noises of `report.noises` are drawn, on a CPU and on a GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats, Images
from fedcert.errors import CallError, preview
from fedcert.report import Smoothing
from fedcert.report.noises import NOISES, Noise

if TYPE_CHECKING:
    import torch


class Perturbation(ABC):
    """A random change of the input, and the radius that it certifies.

    A new one is a class with a `noise` and two methods, made known by `register_perturbation`. It need not add
    anything to the image: a rotation by a random angle is one too. Those that do add derive from
    `AdditivePerturbation`.

    Attributes:
        noise: what reports say of it: its name, its norm, its radius.
        sigma: its standard deviation, in the units of what it changes.
    """

    noise: ClassVar[Noise]
    sigma: float

    def __init__(self, sigma: float) -> None:
        self.sigma = sigma

    def radius(self, error_bound: npt.ArrayLike) -> Floats:
        """The certified radius at each error bound; see `Noise.certified_radius`."""
        bounds = np.asarray(error_bound, dtype=np.float64)
        radii = [self.noise.certified_radius(self.sigma, bound) for bound in bounds.ravel().tolist()]
        return np.array(radii, dtype=np.float64).reshape(bounds.shape)

    @abstractmethod
    def perturb(self, image: Images, stream: int, out: Images) -> None:
        """Fill `out` (samples x the image's shape) with independent perturbations of an image.

        What is drawn is a pure function of the stream, a seed of 63 bits.
        """

    @abstractmethod
    def perturb_tensor(self, image: torch.Tensor, stream: int, out: torch.Tensor) -> None:
        """The same on a GPU, by the device's own generator; the numbers of a stream may be others than on a CPU."""


class AdditivePerturbation(Perturbation):
    """Noise that is added to the image, and drawn in place of the noisy images."""

    def perturb(self, image: Images, stream: int, out: Images) -> None:
        """Fill with noise, then add the image."""
        self.fill(stream, out)
        out += image

    def perturb_tensor(self, image: torch.Tensor, stream: int, out: torch.Tensor) -> None:
        """Fill with noise, then add the image."""
        self.fill_tensor(stream, out)
        out += image

    @abstractmethod
    def fill(self, stream: int, out: Images) -> None:
        """Fill an array with the noise of a stream."""

    @abstractmethod
    def fill_tensor(self, stream: int, out: torch.Tensor) -> None:
        """Fill a tensor on a GPU with the noise of a stream."""


@dataclass(frozen=True)
class Gaussian(AdditivePerturbation):
    """Independent normal noise of standard deviation `sigma` on every input coordinate; radii are in L2."""

    noise: ClassVar[Noise] = NOISES["gaussian"]
    sigma: float

    def fill(self, stream: int, out: Images) -> None:
        """Normal numbers of a stream."""
        generator_of(stream).standard_normal(out=out, dtype=np.float32)
        out *= np.float32(self.sigma)

    def fill_tensor(self, stream: int, out: torch.Tensor) -> None:
        """Normal numbers of the device's own stream."""
        out.normal_(0.0, self.sigma, generator=device_generator_of(stream, out.device))


@dataclass(frozen=True)
class Uniform(AdditivePerturbation):
    """Independent uniform noise on [-λ, λ] with λ = √3·sigma on every input coordinate; radii are in L1."""

    noise: ClassVar[Noise] = NOISES["uniform"]
    sigma: float

    @property
    def half_width(self) -> float:
        """λ, the most that the noise moves a coordinate."""
        return float(np.sqrt(3) * self.sigma)

    def fill(self, stream: int, out: Images) -> None:
        """Uniform numbers of a stream."""
        generator_of(stream).random(out=out, dtype=np.float32)
        out *= np.float32(2 * self.half_width)
        out -= np.float32(self.half_width)

    def fill_tensor(self, stream: int, out: torch.Tensor) -> None:
        """Uniform numbers of the device's own stream."""
        out.uniform_(-self.half_width, self.half_width, generator=device_generator_of(stream, out.device))


PERTURBATIONS: dict[str, type[Perturbation]] = {kind.noise.name: kind for kind in (Gaussian, Uniform)}
"""The perturbation of each noise, by the noise's name."""

_Registered = TypeVar("_Registered", bound=type[Perturbation])


def register_perturbation(kind: _Registered) -> _Registered:
    """Make a perturbation and its noise known: settings, schemas, help texts and `certify` then have it.

    This is all that a new one needs; it may decorate the class.

    Raises:
        CallError: there is another noise of that name.

    Examples:
        >>> register_perturbation(Gaussian).noise.norm
        'l2'
    """
    name = kind.noise.name
    if NOISES.get(name, kind.noise) is not kind.noise or PERTURBATIONS.get(name, kind) is not kind:
        raise CallError(f"there is already a noise {preview(name)}: give the new one another name")
    NOISES[name], PERTURBATIONS[name] = kind.noise, kind
    return kind


def perturbation_of(smoothing: Smoothing) -> Perturbation:
    """The perturbation that settings name.

    Raises:
        CallError: the noise is known by name only, or another one is drawn under its name.
    """
    kind = PERTURBATIONS.get(smoothing.noise)
    if kind is None or kind.noise is not NOISES.get(smoothing.noise):
        raise CallError(
            f"the noise {preview(smoothing.noise)} cannot be drawn here: it is registered without the perturbation "
            "that goes with it; register both with fedcert.certification.perturbation.register_perturbation"
        )
    return kind(smoothing.sigma)


def generator_of(stream: int) -> np.random.Generator:
    """A stream's random numbers on a CPU."""
    # torch's own generator on the CPU keeps only 32 bits of its seed: with it, streams would coincide.
    return np.random.Generator(np.random.Philox(key=stream))


def device_generator_of(stream: int, device: torch.device) -> torch.Generator:
    """A stream's random numbers on a GPU."""
    import torch

    return torch.Generator(device).manual_seed(stream)
