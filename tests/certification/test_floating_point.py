"""A model that is certified in floating point and wrong within the radius (after Voráček and Hein, ICLR 2023).

x + ε in float32 reveals x by its last bits: near 0 a sum with x = 0.9 is always a multiple of 2^-24, as both terms are;
with x = 0.1 it is not. The model looks at nothing else. On a lattice what it is given does not depend on x that way.
"""

from __future__ import annotations

import numpy as np

from fedcert import Report, certify

FAR, NEAR, SIGMA, DISTANCE = 230, 26, 0.3, 204 / 255


def reads_last_bits(batch: np.ndarray) -> np.ndarray:
    """1 where a number next to 0 is no multiple of 2^-24, else 0."""
    value = batch[:, 0].astype(np.float64)
    return ((np.abs(value) < 0.4) & (value * 2**24 % 1 != 0)).astype(int)


def certified_at(pixel: int, label: int, lattice: int | None) -> Report:
    x = np.full((10, 2), pixel, np.float32) / np.float32(255)
    x[:, 1] = np.arange(10) / 255 * 28  # which the model does not look at
    return certify(
        reads_last_bits, x, np.full(10, label), client="a", model_id="m", sigma=SIGMA, radii=[0.0, DISTANCE + 0.01],
        classes=["0", "1"], lattice=lattice, seed=0, procedure="sequential",
    )  # fmt: skip


def test_it_is_certified_beyond_its_adversarial_example_without_a_lattice() -> None:
    assert certified_at(FAR, 0, None).certified_counts == (10, 10)  # to a distance of 0.81
    assert certified_at(NEAR, 1, None).certified_counts[0] > 5  # the other class, at a distance of 0.8


def test_it_is_not_with_one() -> None:
    assert certified_at(FAR, 0, 255).certified_counts == (10, 0)
