"""Noise on a lattice for any input, on the lattice or not: what was certified, at the inputs that attackers choose.

A certificate on the lattice of multiples of 1/m is about g, the smoothed classifier of f∘r, r rounding to the lattice:
g(x') answers by f(r(x' + ε)) at every real x' (docs/proofs.md, "Floating point"). Test data lies on the lattice, and
there r(x' + ε) is drawn exactly, by whole numbers. An attacked input lies where the attacker puts it. Rounding it to
the lattice first would be another classifier: the rounding moves it by up to √d/2m (0.11 for the 3,072 pixels of
CIFAR-10 and m = 255, in L2), perhaps out of the certified radius. So the noise is added first, to the input as it is,
and the sum is rounded.

In steps of the lattice the input is s + t, s whole and |t| <= ½, and m·x' is exact in float64. What is drawn is
s + rint(t + m·ε) with ε in float64. That differs from the rounded real sum only where t + m·ε comes closer to the
middle between two whole numbers than float64 resolves, which is some 1e-14 of a step: the distribution of a coordinate
is within about 1e-13 of the exact one in total variation, and 11 copies of 3,072 coordinates within about 1e-9.

A float32 that is the nearest to i/m stands for i/m itself. That moves a coordinate between 0 and 1 by at most 3e-8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedcert._arrays import Floats, Images
from fedcert.certification.perturbation import Perturbation, generator_of, perturbation_of
from fedcert.certification.streams import Stream
from fedcert.errors import CallError, DataProblem, preview
from fedcert.report import Smoothing
from fedcert.report.noises import Noise

if TYPE_CHECKING:
    import torch

_LARGEST_STEP = 2**22
"""As in certification: beyond it, noise and input together would not be whole numbers in float32."""
_SQRT_3 = 3.0**0.5  # half the width of uniform noise of standard deviation 1
_STANDARD: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Floats]] = {
    "gaussian": lambda generator, shape: generator.standard_normal(shape),
    "uniform": lambda generator, shape: generator.uniform(-_SQRT_3, _SQRT_3, shape),
}
"""How a noise of standard deviation 1 is drawn in float64."""


@dataclass(frozen=True)
class RoundedPerturbation(Perturbation):
    """Noise that is added to any input and rounded to a lattice with it; exact at points of the lattice.

    Attributes:
        exact: certification's own, for points of the lattice.
        noise: what is rounded.
        sigma: its standard deviation, before rounding.
        lattice: m.
    """

    exact: Perturbation
    noise: Noise  # type: ignore[misc]
    sigma: float
    lattice: int

    def perturb(self, image: Images, stream: Stream, out: Images) -> None:
        """See `Perturbation.perturb`."""
        scaled = image.astype(np.float64) * self.lattice
        steps = np.rint(scaled)
        if (largest := float(np.abs(steps).max(initial=0.0))) > _LARGEST_STEP:
            raise DataProblem(
                f"inputs must be below {_LARGEST_STEP / self.lattice:g} in absolute value on a lattice of "
                f"{self.lattice} steps to 1, but one is {largest / self.lattice:g}; scale them as what was certified"
            )
        on_lattice = (steps / self.lattice).astype(np.float32) == image
        if on_lattice.all():
            self.exact.perturb(image, stream, out)
            return
        noisy = self._standard()(generator_of(stream), out.shape)
        noisy *= self.sigma * self.lattice
        noisy += np.where(on_lattice, 0.0, scaled - steps)
        np.rint(noisy, out=noisy)
        noisy += steps
        np.copyto(out, noisy + 0.0, casting="same_kind")  # one zero: -0.0 is the same point
        out /= np.float32(self.lattice)

    def perturb_tensor(self, image: torch.Tensor, stream: Stream, out: torch.Tensor) -> None:
        """See `Perturbation.perturb_tensor`."""
        self.perturb_tensors([image], [stream], [len(out)], out)

    def perturb_tensors(
        self, images: Sequence[torch.Tensor], streams: Sequence[Stream], sizes: Sequence[int], out: torch.Tensor
    ) -> None:
        """See `Perturbation.perturb_tensors`; on the device where all images are on the lattice, else on the CPU."""
        import torch

        stacked = torch.stack(list(images)).double()
        steps = torch.round(stacked * self.lattice)
        if bool(((steps / self.lattice).float() == stacked).all() & (steps.abs() <= _LARGEST_STEP).all()):
            self.exact.perturb_tensors(images, streams, sizes, out)
            return
        for image, stream, part in zip(images, streams, torch.split(out, list(sizes)), strict=True):
            noisy = np.empty(tuple(part.shape), dtype=np.float32)
            self.perturb(image.cpu().numpy(), stream, noisy)
            part.copy_(torch.from_numpy(noisy))

    def _standard(self) -> Callable[[np.random.Generator, tuple[int, ...]], Floats]:
        """How the noise is drawn.

        Raises:
            CallError: that is known for points of the lattice only.
        """
        try:
            return _STANDARD[self.noise.name]
        except KeyError:
            raise CallError(
                f"the noise {preview(self.noise.name)} is drawn at multiples of 1/{self.lattice} only, and an input is "
                f"off them; give inputs on that lattice, or use one of the noises {', '.join(_STANDARD)}"
            ) from None


def deployed_perturbation(smoothing: Smoothing) -> Perturbation:
    """The perturbation that was certified, for inputs that may be off the lattice.

    Raises:
        CallError: the noise cannot be drawn here, or not on that lattice.
    """
    perturbation = perturbation_of(smoothing)
    if smoothing.lattice is None:
        return perturbation
    return RoundedPerturbation(perturbation, perturbation.noise, smoothing.sigma, smoothing.lattice)
