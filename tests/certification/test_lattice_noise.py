"""Noise on a lattice: its distribution is exact, and so is what the model is given."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from fedcert import CallError, DataProblem, FedcertWarning, Report, certify
from fedcert.certification.lattice_noise import LatticeTable, normal_table, uniform_table
from fedcert.certification.perturbation import Gaussian, Perturbation, RandomBytes, Uniform
from fedcert.certification.streams import Stream, key_of
from fedcert.errors import InvalidValue
from fedcert.report import Smoothing

STREAM = Stream(key_of(5))


def probabilities(table: LatticeTable) -> np.ndarray:
    """Of each value, from the smallest on."""
    ends = [0, *map(int, table.thresholds), 2**64]
    return np.array([(high - low) / 2**64 for low, high in pairwise(ends)])


@pytest.mark.parametrize("sigma", [0.02, 0.25, 1.0])
@pytest.mark.parametrize("lattice", [1, 16, 255])
def test_thresholds_are_those_of_the_normal_distribution(sigma: float, lattice: int) -> None:
    table = normal_table(sigma, lattice)
    points = (2 * (np.arange(len(table.thresholds)) + table.least) + 1) / (2 * lattice)
    assert np.abs(table.thresholds / 2**64 - stats.norm.cdf(points / sigma)).max() < 1e-15
    tail = [int(value) for value in table.thresholds]
    few = [place for place, value in enumerate(tail) if 2**24 < value < 2**40]  # where a double has no digits of 1 - F
    assert np.array([tail[place] / 2**64 for place in few]) == pytest.approx(stats.norm.cdf(points[few] / sigma), 1e-7)
    assert tail == sorted(tail)
    assert all(low + high == 2**64 - 1 for low, high in zip(tail, tail[::-1], strict=True))
    assert stats.norm.sf((len(tail) / 2 - 0.5) / lattice / sigma) < 2.0**-64
    assert table.total_variation < 1e-15


def test_thresholds_are_right_to_the_last_bit() -> None:
    """Φ(1) and Φ(2) to forty digits (Abramowitz and Stegun's table has fifteen), in steps of two deviations."""
    table = normal_table(0.5, 1)
    for step, value in (
        (0, "0.8413447460685429485852325456320379224779"),
        (1, "0.9986501019683699054733481852324050226181"),
    ):
        assert int(table.thresholds[step - table.least]) == int(Decimal(value) * 2**64)


def test_thresholds_of_the_uniform_distribution() -> None:
    table = uniform_table(0.4, 10)
    assert probabilities(table)[-table.least - 4 : -table.least + 5] == pytest.approx(
        [0.0625, *[0.125] * 7, 0.0625], abs=1e-15
    )
    assert probabilities(table).sum() == 1


@pytest.mark.parametrize("table", [normal_table(0.25, 255), normal_table(1.0, 3), uniform_table(0.43, 255)])
def test_draws_have_the_probabilities_of_the_table(table: LatticeTable) -> None:
    values = table.draw(1_000_000, RandomBytes(STREAM)) - table.least
    expected = 1_000_000 * probabilities(table)
    common = expected > 20
    counts = np.bincount(values, minlength=len(expected))
    counts, expected = (
        np.append(counts[common], counts[~common].sum()),
        np.append(expected[common], expected[~common].sum()),
    )
    used = expected > 0
    assert stats.chisquare(counts[used], expected[used] / expected[used].sum() * counts[used].sum()).pvalue > 1e-3


def test_bits_after_the_first_sixteen_decide_where_these_do_not() -> None:
    """All prefixes once, with the smallest and the largest rest: the value is that of the whole number."""
    table = normal_table(0.25, 255)
    prefixes = np.arange(2**16, dtype="<u2").tobytes()
    for rest in (bytes(8), b"\xff" * 8):
        pieces = {2 * 2**16: prefixes}
        values = table.draw(2**16, lambda size, known=pieces, rest=rest: known.get(size) or rest * (size // 8))
        whole = (np.arange(2**16, dtype=np.uint64) << np.uint64(48)) | (np.frombuffer(rest, "<u8")[0] >> np.uint64(16))
        assert np.array_equal(values - table.least, np.searchsorted(table.thresholds, whole, side="right"))


@pytest.mark.parametrize("perturbation", [Gaussian(0.25).on_lattice(255), Uniform(0.5).on_lattice(16)])
def test_the_model_is_given_points_of_the_lattice(perturbation: Perturbation) -> None:
    lattice = perturbation.lattice  # type: ignore[attr-defined]
    image = np.random.default_rng(0).integers(0, lattice + 1, (3, 4)).astype(np.float32) / np.float32(lattice)
    out = np.empty((200, 3, 4), np.float32)
    perturbation.perturb(image, STREAM, out)
    steps = np.rint(out.astype(np.float64) * lattice)
    assert np.array_equal(out, steps.astype(np.float32) / np.float32(lattice))
    drawn = perturbation.table.draw(out.size, RandomBytes(STREAM)).reshape(out.shape)  # type: ignore[attr-defined]
    assert np.array_equal(steps, drawn + np.rint(image.astype(np.float64) * lattice))
    tensor = torch.empty(20_000, 3, 4)
    perturbation.perturb_tensors([torch.from_numpy(image)] * 2, [STREAM, Stream(key_of(6))], [12_000, 8_000], tensor)
    noise = (tensor - torch.from_numpy(image)).numpy()
    assert np.abs(noise * lattice - np.rint(noise * lattice)).max() < 1e-3
    assert np.array_equal(tensor.numpy(), np.rint(tensor.numpy() * lattice) / np.float32(lattice))
    wanted = np.sqrt(perturbation.sigma**2 + 1 / (12 * lattice**2))
    assert noise.std() == pytest.approx(wanted, rel=0.01)


def test_a_gpus_way_of_drawing_has_the_same_distribution() -> None:
    perturbation = Gaussian(0.05).on_lattice(255)
    table = perturbation.table  # type: ignore[attr-defined]
    out = torch.empty(500_000, 1)
    perturbation.perturb_tensor(torch.zeros(1), STREAM, out)
    values = np.rint(out.numpy().ravel() * 255).astype(int) - table.least
    expected = 500_000 * probabilities(table)
    counts = np.bincount(values, minlength=len(expected))
    common = expected > 20
    assert (
        stats.chisquare(counts[common], expected[common] / expected[common].sum() * counts[common].sum()).pvalue > 1e-3
    )


def test_noise_below_half_a_step_is_none() -> None:
    table = normal_table(1e-7, 255)
    assert table.draw(1_000, RandomBytes(STREAM)).tolist() == [0] * 1_000
    assert normal_table(1e-9, 255).total_variation < 1e-15


def test_what_is_too_fine_is_refused() -> None:
    with pytest.raises(CallError, match="the lattice of 65535 steps to 1 is too fine for this sigma: noise would have"):
        Gaussian(1.0).on_lattice(65_535)
    assert Gaussian(0.01).on_lattice(65_535).sigma == 0.01


PIXELS = np.random.default_rng(0).integers(0, 256, (24, 1, 3, 3)).astype(np.uint8)
LABELS = (PIXELS.reshape(24, -1).mean(axis=1) > 128).astype(int)


def brightness(batch: np.ndarray) -> np.ndarray:
    return (batch.reshape(len(batch), -1).mean(axis=1) > 0.502).astype(int)


def certified(x: np.ndarray, **changes: object) -> Report:
    values = {"client": "a", "sigma": 0.25, "n": 200, "procedure": "fixed", "model_id": "m", "seed": 0}
    return certify(brightness, x, LABELS, **{**values, **changes})  # type: ignore[arg-type]


def test_images_of_8_bits_have_their_lattice_by_themselves() -> None:
    report = certified(PIXELS)
    assert report.smoothing.lattice == 255
    assert report.smoothing.to_json()["lattice"] == 255
    floats = PIXELS.astype(np.float32) / 255
    assert certified(floats).smoothing.lattice is None
    assert "lattice" not in certified(floats).smoothing.to_json()
    same = certified(floats, lattice=255)
    assert (same.smoothing, same.certified_counts) == (report.smoothing, report.certified_counts)
    by_reciprocal = PIXELS.astype(np.float32) * np.float32(1 / 255)  # off by a last bit
    assert certified(by_reciprocal, lattice=255).procedure_counts == report.procedure_counts
    assert certified(PIXELS, lattice=0).smoothing.lattice is None
    assert certified(PIXELS, noise="uniform").smoothing.lattice == 255
    table = PIXELS.reshape(24, -1)  # columns may mean anything
    with pytest.warns(FedcertWarning, match="the inputs range from 0 to 255"):
        assert certified(table).smoothing.lattice is None


def test_data_off_the_lattice_is_refused() -> None:
    x = PIXELS.astype(np.float32) / 255
    x[7, 0, 1, 1] = 0.5
    wanted = r"^x\[7\] must hold multiples of 1/255, the lattice on which noise is exact, but holds others, from 0.133 to 0.878; quantise the data"
    with pytest.raises(DataProblem, match=wanted):
        certified(x, lattice=255)
    quantised = np.round(x * 255) / 255  # as the sentence says
    assert certified(quantised, lattice=255).examples == 24
    with pytest.raises(DataProblem, match=r"^x\[0\] must hold multiples of 1/255"):
        certified(x * 1e7, lattice=255)


@pytest.mark.parametrize("wrong", [-1, 65_536, 2.5])
def test_lattices_that_are_none(wrong: float) -> None:
    with pytest.raises(InvalidValue, match="^lattice must be a whole number from 1 to 65535, or null, but is"):
        Smoothing(sigma=0.25, lattice=wrong)  # type: ignore[arg-type]
