"""Perturbations: how the noises of `report.noises` are drawn, on a CPU and on a GPU."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats, Images
from fedcert.certification.lattice_noise import LatticeTable, normal_table, uniform_table
from fedcert.certification.streams import Stream
from fedcert.errors import CallError, preview
from fedcert.report import Smoothing
from fedcert.report.noises import NOISES, Noise

if TYPE_CHECKING:
    import torch

_MOST_DEVICE_BITS = 2**24
"""Coordinates whose random bits are on a GPU at a time: 128 MB, enough to fill it."""


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

    def on_lattice(self, lattice: int) -> Perturbation:
        """The same, rounded to a lattice.

        Raises:
            CallError: it cannot be.
        """
        raise CallError(
            f"lattice must be left out with the noise {preview(self.noise.name)}, which is not drawn on one, but is "
            f"{lattice}"
        )

    def radius(self, error_bound: npt.ArrayLike) -> Floats:
        """The certified radius at each error bound; see `Noise.certified_radius`."""
        bounds = np.asarray(error_bound, dtype=np.float64)
        radii = [self.noise.certified_radius(self.sigma, bound) for bound in bounds.ravel().tolist()]
        return np.array(radii, dtype=np.float64).reshape(bounds.shape)

    @abstractmethod
    def perturb(self, image: Images, stream: Stream, out: Images) -> None:
        """Fill `out` (samples x the image's shape) with independent perturbations of an image.

        What is drawn is a pure function of the stream.
        """

    @abstractmethod
    def perturb_tensor(self, image: torch.Tensor, stream: Stream, out: torch.Tensor) -> None:
        """The same on a GPU, by the device's own generator; the numbers of a stream may be others than on a CPU."""

    def perturb_tensors(
        self, images: Sequence[torch.Tensor], streams: Sequence[Stream], sizes: Sequence[int], out: torch.Tensor
    ) -> None:
        """The same for several images, each with its stream and as many samples, one after the other."""
        start = 0
        for image, stream, size in zip(images, streams, sizes, strict=True):
            self.perturb_tensor(image, stream, out[start : start + size])
            start += size


class AdditivePerturbation(Perturbation):
    """Noise that is added to the image, and drawn in place of the noisy images."""

    def perturb(self, image: Images, stream: Stream, out: Images) -> None:
        """Fill with noise, then add the image."""
        self.fill(stream, out)
        out += image

    def perturb_tensor(self, image: torch.Tensor, stream: Stream, out: torch.Tensor) -> None:
        """Fill with noise, then add the image."""
        self.fill_tensor(stream, out)
        out += image

    @abstractmethod
    def fill(self, stream: Stream, out: Images) -> None:
        """Fill an array with the noise of a stream."""

    @abstractmethod
    def fill_tensor(self, stream: Stream, out: torch.Tensor) -> None:
        """Fill a tensor on a GPU with the noise of a stream."""


@dataclass(frozen=True)
class LatticePerturbation(Perturbation):
    """Additive noise that is rounded to a lattice: drawn exactly, and added exactly.

    Inputs are multiples of 1/m. All is done in whole steps, which float32 holds up to 2^24, and then divided by m: what
    the model is given is a function of the point of the lattice, whatever its arithmetic.

    Attributes:
        noise: what is rounded.
        sigma: its standard deviation, before rounding.
        lattice: m.
        table: its distribution.
    """

    noise: Noise  # type: ignore[misc]
    sigma: float
    lattice: int
    table: LatticeTable

    def perturb(self, image: Images, stream: Stream, out: Images) -> None:
        """Steps of the image and of the noise, added."""
        steps = self.table.draw(out.size, RandomBytes(stream)).reshape(out.shape)
        steps += np.rint(image * np.float32(self.lattice)).astype(np.int32)
        np.copyto(out, steps, casting="same_kind")
        out /= np.float32(self.lattice)

    def perturb_tensor(self, image: torch.Tensor, stream: Stream, out: torch.Tensor) -> None:
        """The same with random numbers of the device."""
        self.perturb_tensors([image], [stream], [len(out)], out)

    def perturb_tensors(
        self, images: Sequence[torch.Tensor], streams: Sequence[Stream], sizes: Sequence[int], out: torch.Tensor
    ) -> None:
        """Random bits block by block, as each has a stream of its own; all else for many blocks at once."""
        import torch

        thresholds = self.table.on_device(out.device)
        parts = torch.split(out, list(sizes))
        for group in _groups([part.numel() for part in parts], _MOST_DEVICE_BITS):
            bits = torch.empty(sum(parts[place].numel() for place in group), dtype=torch.int64, device=out.device)
            pieces = torch.split(bits, [parts[place].numel() for place in group])
            for place, piece in zip(group, pieces, strict=True):
                piece.random_(generator=device_generator_of(streams[place], out.device))
            values = torch.searchsorted(thresholds, bits, right=True, out_int32=True)
            for place, value in zip(group, torch.split(values, [len(piece) for piece in pieces]), strict=True):
                # Whole numbers below 2^24, which float32 adds exactly.
                steps = torch.round(images[place] * self.lattice) + self.table.least
                torch.add(value.view(parts[place].shape), steps, out=parts[place])
        out /= torch.tensor(float(self.lattice), device=out.device)  # a number would be multiplied by its reciprocal


@dataclass(frozen=True)
class Gaussian(AdditivePerturbation):
    """Independent normal noise of standard deviation `sigma` on every input coordinate; radii are in L2."""

    noise: ClassVar[Noise] = NOISES["gaussian"]
    sigma: float

    def on_lattice(self, lattice: int) -> Perturbation:
        """See `Perturbation.on_lattice`."""
        return LatticePerturbation(self.noise, self.sigma, lattice, normal_table(self.sigma, lattice))

    def fill(self, stream: Stream, out: Images) -> None:
        """Normal numbers of a stream."""
        generator_of(stream).standard_normal(out=out, dtype=np.float32)
        out *= np.float32(self.sigma)

    def fill_tensor(self, stream: Stream, out: torch.Tensor) -> None:
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

    def on_lattice(self, lattice: int) -> Perturbation:
        """See `Perturbation.on_lattice`."""
        return LatticePerturbation(self.noise, self.sigma, lattice, uniform_table(self.half_width, lattice))

    def fill(self, stream: Stream, out: Images) -> None:
        """Uniform numbers of a stream."""
        generator_of(stream).random(out=out, dtype=np.float32)
        out *= np.float32(2 * self.half_width)
        out -= np.float32(self.half_width)

    def fill_tensor(self, stream: Stream, out: torch.Tensor) -> None:
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
    perturbation = kind(smoothing.sigma)
    return perturbation if smoothing.lattice is None else perturbation.on_lattice(smoothing.lattice)


class RandomBytes:
    """The random bytes of a stream, one piece after the other: SHAKE-128 of its key and the piece's number.

    Anyone who does not know the key cannot distinguish them from random ones.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._piece = 0

    def __call__(self, size: int) -> bytes:
        """The next so many bytes."""
        self._piece += 1
        return hashlib.shake_128(self._stream + self._piece.to_bytes(8, "little")).digest(size)


def generator_of(stream: Stream) -> np.random.Generator:
    """A stream's random numbers on a CPU: Philox, with as much of the key as it takes, 128 bits."""
    # torch's own generator on the CPU keeps only 32 bits of its seed: with it, streams would coincide.
    return np.random.Generator(np.random.Philox(key=int.from_bytes(stream[:16], "little")))


def device_generator_of(stream: Stream, device: torch.device) -> torch.Generator:
    """A stream's random numbers on a GPU, whose generator takes a seed of 63 bits."""
    import torch

    return torch.Generator(device).manual_seed(int.from_bytes(stream[:8], "little") >> 1)


def _groups(sizes: Sequence[int], most: int) -> Iterator[range]:
    """Places of neighbours that have so much together at most, or of single ones that have more."""
    start, held = 0, 0
    for place, size in enumerate(sizes):
        if place > start and held + size > most:
            yield range(start, place)
            start, held = place, 0
        held += size
    yield range(start, len(sizes))
