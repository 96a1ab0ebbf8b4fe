"""One example more or less moves one cell: the sensitivity that differential privacy rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from fedcert import CallError, Report, certify
from fedcert.certification.certificate import in_flight
from fedcert.certification.models.loading import onnx_classifier
from fedcert.certification.perturbation import Gaussian
from fedcert.certification.samplers.numpy_sampler import ArraySampler
from fedcert.certification.seeds import Seed
from fedcert.certification.streams import Phase, Streams, example_keys
from fedcert.errors import Refused
from fedcert.privacy.dp.mechanism import cells_of, released
from fedcert.report.privacy import PrivacyBudget

RANDOM = np.random.default_rng(0)
X = RANDOM.integers(0, 17, (30, 3)).astype(np.float32) / 16
X[9] = X[3]  # equal images, of one class and of two
X[20] = X[4]
WEIGHT = RANDOM.normal(size=(3, 3)).astype(np.float32)
Y = (X @ WEIGHT).argmax(axis=1)
Y[20] = (Y[4] + 1) % 3
GROUPS = np.arange(30) // 2


def linear() -> torch.nn.Module:
    module = torch.nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(WEIGHT.T))
    return module


def onnx_file(path: Path) -> Path:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("x", "scores")]
    weight = numpy_helper.from_array(WEIGHT, "weight")
    nodes = [helper.make_node("MatMul", ["x", "weight"], ["scores"])]
    graph = helper.make_graph(nodes, "linear", values[:1], values[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def models(tmp_path: Path) -> dict[str, tuple[Any, dict[str, str]]]:
    return {
        "torch": (linear(), {}),
        "onnx": (onnx_classifier(onnx_file(tmp_path / "m.onnx")), {}),
        "callable": (lambda batch: batch @ WEIGHT, {"model_id": "m"}),
    }


@pytest.mark.parametrize("lattice", [None, 16])
@pytest.mark.parametrize("procedure", ["fixed", "sequential", "population"])
@pytest.mark.parametrize("kind", ["torch", "onnx", "callable"])
def test_neighbouring_data_moves_one_cell_by_one(
    kind: str, procedure: str, lattice: int | None, tmp_path: Path
) -> None:
    model, named = models(tmp_path)[kind]
    grouped = kind == "callable"

    def cells(kept: np.ndarray, **changes: Any) -> np.ndarray:
        settings = {"client": "a", "sigma": 0.25, "procedure": procedure, "seed": 1, "lattice": lattice}
        settings |= {"n": 32} if procedure == "population" else {"n": 301, "n0": 51}
        groups = GROUPS[kept] if grouped else None
        report = certify(
            model, X[kept], Y[kept], groups=groups, classes=["0", "1", "2"], class_counts=True,
            **{**settings, **named, **changes},
        )  # fmt: skip
        return cells_of(report)

    everything = np.arange(30)
    whole, third = cells(everything), cells(everything, every=3)
    changes = set()
    for place in (0, 3, 4, 9, 20, 29):
        left = np.delete(everything, place)
        assert np.abs(whole - cells(left)).sum() == 1
        moved = np.abs(third - cells(left, every=3)).sum()
        assert moved <= 1
        changes.add(int(moved))
    assert np.array_equal(whole, cells(RANDOM.permutation(30)))  # nor does the order matter
    assert cells(everything, seed=2).tolist() != whole.tolist()


def test_not_even_a_function_that_mixes_its_batch_lets_examples_move_others() -> None:
    """It is given one block at a time, or part of one, so that an example's company is its own noise."""

    def mixes(batch: np.ndarray) -> np.ndarray:
        return (np.arange(len(batch)) + int(1e3 * np.abs(batch).sum())) % 3

    for batch_size in (None, 30, 100):
        sampler = ArraySampler(mixes, 3, Gaussian(0.25), Streams(Seed.fixed(0), "a"), batch_size)
        together = sampler.counts(in_flight(X[:4], range(4), Phase.ESTIMATION, 130))
        alone = [sampler.counts(in_flight(X[i : i + 1], [i], Phase.ESTIMATION, 130))[0] for i in range(4)]
        assert np.array_equal(together, alone)


def test_every_takes_one_in_so_many_whatever_the_others_are() -> None:
    streams = Streams(Seed.fixed(0), "a")
    x = np.random.default_rng(1).random((3_000, 2)).astype(np.float32)
    keys = list(example_keys((image, 0) for image in x))
    chosen = [key for key in keys if streams.takes(key, 5)]
    assert 500 < len(chosen) < 700
    assert set(chosen) >= {key for key in keys[:100] if streams.takes(key, 5)}
    other = Streams(Seed.fixed(1), "a")
    assert {key for key in keys if other.takes(key, 5)} != set(chosen)
    assert all(streams.takes(key, 1) for key in keys)


def test_a_time_budget_is_said_and_keeps_noise_away() -> None:
    settings = {
        "client": "a",
        "sigma": 0.25,
        "n": 100,
        "model_id": "m",
        "class_counts": True,
        "classes": ["0", "1", "2"],
    }
    report = certify(lambda batch: batch @ WEIGHT, X, Y, time_budget=60, **settings)
    assert report.examples == 30
    assert report.time_budget == 60
    with pytest.raises(
        Refused, match="^the report of 'a' was made under a time budget: which examples were done in time"
    ):
        released(report, PrivacyBudget(epsilon=1.0))
    unknown = Report.from_json(
        {key: value for key, value in report.to_json().items() if key not in ("seed", "time_budget")}
    )
    with pytest.raises(Refused, match="^the report of 'a' does not say how its noise was drawn"):
        released(unknown, PrivacyBudget(epsilon=1.0))
    plain = certify(lambda batch: batch @ WEIGHT, X, Y, **settings)
    assert "time_budget" not in plain.to_json()
    assert released(plain, PrivacyBudget(epsilon=1.0)).private is not None
    with pytest.raises(CallError, match="leaves none of the 30 examples here"):
        certify(lambda batch: batch @ WEIGHT, X, Y, every=10**9, **settings)


@pytest.mark.parametrize("lattice", [None, 16])
@pytest.mark.parametrize("n", [1, 7, 32, 130])
@pytest.mark.parametrize("kind", ["torch", "onnx", "callable"])
def test_neighbouring_data_moves_one_cell_of_right_answers_by_one(
    kind: str, n: int, lattice: int | None, tmp_path: Path
) -> None:
    model, named = models(tmp_path)[kind]
    grouped = kind == "callable"

    def rows(kept: np.ndarray, **changes: Any) -> np.ndarray:
        settings = {"client": "a", "sigma": 0.25, "n": n, "procedure": "population", "seed": 1, "lattice": lattice}
        report = certify(
            model, X[kept], Y[kept], groups=GROUPS[kept] if grouped else None, classes=["0", "1", "2"],
            class_counts=True, **{**settings, **named, **changes},
        )  # fmt: skip
        return np.array(report.class_correct_counts)

    everything = np.arange(30)
    whole, third = rows(everything), rows(everything, every=3)
    assert whole.shape == (3, n + 1)
    assert whole.sum() == 30
    for place in (0, 3, 4, 9, 20, 29):
        left = np.delete(everything, place)
        moved = whole - rows(left)
        assert np.abs(moved).sum() == 1
        assert moved[Y[place]].sum() == 1
        assert np.abs(third - rows(left, every=3)).sum() <= 1
    assert np.array_equal(whole, rows(RANDOM.permutation(30)))
    assert np.array_equal(whole, rows(everything, batch_size=13))
    if n > 1:
        assert rows(everything, seed=2).tolist() != whole.tolist()


def test_a_replaced_example_moves_two_cells_of_right_answers_at_most() -> None:
    def rows(x: np.ndarray) -> np.ndarray:
        report = certify(
            lambda batch: batch @ WEIGHT, x, Y, client="a", sigma=0.25, n=32, procedure="population", seed=1,
            model_id="m", class_counts=True, classes=["0", "1", "2"],
        )  # fmt: skip
        return np.array(report.class_correct_counts)

    whole = rows(X)
    for place in (0, 3, 29):
        other = X.copy()
        other[place] = 1 - other[place]
        moved = np.abs(whole - rows(other))
        assert moved.sum() in (0, 2)
        assert moved.max() <= 1
