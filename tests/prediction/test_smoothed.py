"""The smoothed classifier for use: its law, its noise, and all kinds of models behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from scipy import stats

import fedcert
from fedcert import CallError, DataProblem, ModelProblem, smooth
from fedcert.certification.streams import Stream
from fedcert.prediction import voting
from fedcert.prediction.voting import noise_batches

Batch = npt.NDArray[np.float32]

SIGMA = 0.25
UNLIKELY = 1e-6
"""How often each comparison with a distribution may fail by chance: the noise is secret, so every run has its own."""


def above_zero(batch: Batch) -> npt.NDArray[np.int64]:
    """A linear classifier: at x, under noise of standard deviation sigma, it answers 1 with probability Φ(x/sigma)."""
    return (batch[:, 0] > 0).astype(np.int64)


class Recorder:
    """A model that keeps what it is given."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def __call__(self, batch: Batch) -> npt.NDArray[np.int64]:
        self.batches.append(batch.copy())
        return np.zeros(len(batch), dtype=np.int64)

    @property
    def seen(self) -> Batch:
        return np.concatenate(self.batches)


# The law of answers.


@pytest.mark.parametrize("votes", [1, 3, 11])
@pytest.mark.parametrize("noise", ["gaussian", "uniform"])
def test_a_vote_is_right_as_often_as_the_binomial_says(votes: int, noise: str) -> None:
    """h_v(p), P(Binomial(v, p) > v/2): exact for two classes, where a majority is also necessary."""
    at, inputs = 0.07, 4_000
    law = stats.norm(0, SIGMA) if noise == "gaussian" else stats.uniform(-(3**0.5) * SIGMA, 2 * 3**0.5 * SIGMA)
    right = stats.binom.sf(votes // 2, votes, law.cdf(at))
    labels = smooth(above_zero, SIGMA, votes=votes, noise=noise)(np.full((inputs, 2), at))
    assert stats.binomtest(int(labels.sum()), inputs, right).pvalue > UNLIKELY


def test_an_attack_costs_what_the_theorem_says() -> None:
    """The vote at x + δ, against h_v(Φ(Φ⁻¹(p) - ‖δ‖/σ)): a linear classifier meets it exactly."""
    at, radius, inputs = 0.3, 0.2, 4_000
    p = stats.norm.cdf(stats.norm.ppf(stats.norm.cdf(at / SIGMA)) - radius / SIGMA)
    labels = smooth(above_zero, SIGMA)(np.full((inputs, 2), at - radius))
    assert stats.binomtest(int(labels.sum()), inputs, stats.binom.sf(5, 11, p)).pvalue > UNLIKELY


def test_predict_is_wrong_no_more_often_than_its_level() -> None:
    """Next to the boundary, where the smoothed classifier's class leads by least: p = 0.508."""
    level, inputs = 0.1, 4_000
    labels = smooth(above_zero, SIGMA, abstain=level, n=101)(np.full((inputs, 2), 0.005))
    assert (labels == 0).sum() <= stats.binom.isf(UNLIKELY, inputs, level)
    assert (labels == -1).mean() > 0.5


def test_predict_answers_where_the_vote_is_clear_and_abstains_on_the_boundary() -> None:
    vote = smooth(above_zero, SIGMA, abstain=0.001, n=200).vote([[1.0], [-1.0], [0.0]])
    assert vote.labels.tolist()[:2] == [1, 0]
    assert vote.counts.sum(axis=1).tolist() == [200, 200, 200]
    boundary = smooth(above_zero, SIGMA, abstain=0.001, n=200)(np.zeros((200, 1)))
    assert (boundary == -1).sum() >= 195  # each answers with probability 0.001


# Its noise.


@pytest.mark.parametrize("options", [{}, {"lattice": 255}, {"noise": "uniform"}])
def test_noise_is_fresh_for_every_copy_input_and_call(options: dict[str, Any]) -> None:
    model = Recorder()
    classifier = smooth(model, SIGMA, **options)
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002 (what an attacker, or a careless program, might do)
        torch.manual_seed(0)
        classifier(np.zeros((20, 30)))
    assert model.seen.shape == (2 * 20 * 11, 30)
    assert len(np.unique(model.seen, axis=0)) == len(model.seen)
    assert abs(model.seen.std() / SIGMA - 1) < 0.05  # 6 standard errors of 13,200 numbers' are 0.04


def test_every_block_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[Stream] = []
    draw = voting.secret_key
    monkeypatch.setattr(voting, "secret_key", lambda: keys.append(draw()) or keys[-1])  # type: ignore[func-returns-value]
    classifier = smooth(above_zero, SIGMA)
    classifier(np.zeros((7, 2)))
    classifier(np.zeros((7, 2)))
    smooth(above_zero, SIGMA, abstain=0.01, n=250)(np.zeros((3, 2)))  # blocks of 100, 100 and 50
    assert len(keys) == len(set(keys)) == 7 + 7 + 9
    assert {len(key) for key in keys} == {32}


def test_neither_noise_of_numpy_nor_of_torch_is_used_up() -> None:
    model = torch.nn.Linear(2, 2)
    numpy_state, torch_state = np.random.get_state()[1].copy(), torch.get_rng_state()  # type: ignore[index,union-attr]  # noqa: NPY002
    smooth(model, SIGMA)(torch.zeros(5, 2))
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # type: ignore[index]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_state)


def test_images_of_8_bits_are_pixels_on_their_lattice() -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 1, 4, 4), dtype=np.uint8)
    model = Recorder()
    smooth(model, SIGMA, votes=101)(images)
    steps = model.seen.astype(np.float64) * 255
    assert np.abs(steps - np.rint(steps)).max() < 1e-4
    means = model.seen.reshape(3, 101, 1, 4, 4).mean(axis=1)
    assert np.abs(means - images / 255).max() < 6 * SIGMA / 101**0.5
    smooth(plain := Recorder(), SIGMA, lattice=0)(images)
    steps = plain.seen.astype(np.float64) * 255
    assert np.abs(steps - np.rint(steps)).max() > 0.1
    smooth(table := Recorder(), SIGMA)(np.full((1, 3), 200, dtype=np.uint8))  # a table's numbers mean anything
    assert table.seen.mean() == pytest.approx(200, abs=1)


# Calls of the model.


@pytest.mark.parametrize(("block", "batch"), [(3, 7), (7, 7), (1, 1), (11, 100)])
def test_batches_hold_all_copies_and_no_more_than_fit(block: int, batch: int) -> None:
    batches = list(noise_batches(5, 11, block, batch))
    assert all(batches)
    assert max(sum(each.samples for each in blocks) for blocks in batches) <= batch
    copies = [each.row for blocks in batches for each in blocks for _ in range(each.samples)]
    assert copies == np.repeat(np.arange(5), 11).tolist()


@pytest.mark.parametrize("size", [1, 4, 64])
def test_calls_are_filled_up_to_the_batch_size_and_fillers_do_not_count(size: int) -> None:
    model = Recorder()
    vote = smooth(model, SIGMA, batch_size=size).vote(np.zeros((3, 2)))
    assert {len(batch) for batch in model.batches} == {size}
    assert vote.counts.tolist() == [[11], [11], [11]]


def test_without_a_batch_size_nothing_is_filled_up() -> None:
    model = Recorder()
    smooth(model, SIGMA)(np.zeros((1, 2)))
    assert [len(batch) for batch in model.batches] == [11]


def test_more_inputs_than_a_piece_holds() -> None:
    """Those that come first show fewer classes than those that come later."""
    labels = np.repeat([0, 1, 2], [4_500, 10, 10])
    vote = smooth(lambda batch: np.rint(batch[:, 0]).astype(int), 0.01, votes=3).vote(labels[:, None])
    assert vote.labels.tolist() == labels.tolist()
    assert np.array_equal(vote.counts, 3 * np.eye(3, dtype=int)[labels])


def test_no_inputs_no_labels() -> None:
    assert smooth(above_zero, SIGMA)(np.zeros((0, 2))).tolist() == []
    assert smooth(above_zero, SIGMA, classes=["a", "b"]).vote(np.zeros((0, 2))).counts.shape == (0, 2)


def test_a_model_may_write_into_what_it_is_given() -> None:
    def careless(batch: Batch) -> npt.NDArray[np.int64]:
        labels = above_zero(batch)
        batch[:] = -1
        return labels

    x = np.ones((4, 2), dtype=np.float32)
    assert smooth(careless, 0.1)(x).tolist() == [1, 1, 1, 1]
    assert (x == 1).all()


# All kinds of models.

WEIGHT = np.array([[1.0, -1.0, 0.0], [0.5, 0.5, 0.0]], dtype=np.float32)
X = np.random.default_rng(0).normal(0, 0.3, (300, 2)).astype(np.float32)
FAR = np.array([[9.0, 0.0], [-9.0, 0.0], [0.0, -9.0]], dtype=np.float32)
"""Clear cases of each class: scores are many standard deviations of the noise apart."""


def onnx_file(path: Path, batch: int | str = "batch") -> Path:
    nodes = [helper.make_node("MatMul", ["x", "weight"], ["scores"])]
    graph = helper.make_graph(
        nodes, "linear", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 2])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, 3])],
        [numpy_helper.from_array(WEIGHT, "weight")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def module() -> torch.nn.Module:
    linear = torch.nn.Linear(2, 3, bias=False)
    linear.load_state_dict({"weight": torch.from_numpy(WEIGHT.T.copy())})
    return linear


MODELS: dict[str, Callable[[Path], object]] = {
    "labels": lambda folder: lambda batch: (batch @ WEIGHT).argmax(axis=1),
    "module": lambda folder: module(),
    "ONNX file": lambda folder: str(onnx_file(folder / "m.onnx")),
    "ONNX path": lambda folder: onnx_file(folder / "m.onnx"),
    "ONNX classifier": lambda folder: fedcert.onnx_classifier(onnx_file(folder / "m.onnx")),
    "ONNX of one batch size": lambda folder: onnx_file(folder / "m.onnx", batch=4),
}


@pytest.mark.parametrize("lattice", [None, 255])
@pytest.mark.parametrize("kind", MODELS)
def test_all_kinds_of_models_vote_alike(kind: str, lattice: int | None, tmp_path: Path) -> None:
    """The same function behind each of them: class counts of all copies are compared with the function's own."""
    reference = smooth(lambda batch: batch @ WEIGHT, SIGMA, lattice=lattice).vote(X)
    vote = smooth(MODELS[kind](tmp_path), SIGMA, lattice=lattice).vote(X)
    assert vote.counts.shape == (300, 3)
    assert vote.counts.sum(axis=1).tolist() == [11] * 300
    table = np.array([reference.counts.sum(axis=0), vote.counts.sum(axis=0)])
    assert stats.chi2_contingency(table).pvalue > UNLIKELY
    far = FAR @ WEIGHT
    assert smooth(MODELS[kind](tmp_path), SIGMA, lattice=lattice)(FAR).tolist() == far.argmax(axis=1).tolist()


# Mistakes.


class Angry:
    def __call__(self, batch: Batch) -> object:
        raise RuntimeError("no such shape\nand more")


NAN = float("nan")
MISTAKES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no model": (lambda: smooth(3, SIGMA), CallError, "model must be a torch module, the path of an ONNX file, a scikit-learn classifier"),
    "missing file": (lambda: smooth("none.onnx", SIGMA), CallError, "there is no file none.onnx; check the name"),
    "another file": (lambda: smooth("model.pt", SIGMA), CallError, "model.pt"),
    "precision of a function": (
        lambda: smooth(above_zero, SIGMA, precision="bfloat16"),
        CallError,
        "precision must be 'float32' for this model, but is 'bfloat16': only torch modules run in others",
    ),
    "a single input": (
        lambda: smooth(above_zero, SIGMA)([1.0, 2.0]),
        DataProblem,
        "x must have one row per input, at least 2 axes and no empty one, but has shape (2,); a single input goes in "
        "as x[None]",
    ),
    "empty inputs": (lambda: smooth(above_zero, SIGMA)(np.zeros((2, 0))), DataProblem, "x must have one row per input"),
    "ragged": (lambda: smooth(above_zero, SIGMA)([[1.0], [1.0, 2.0]]), DataProblem, "x must be an array of numbers, all"),
    "text": (lambda: smooth(above_zero, SIGMA)([["a"]]), DataProblem, "x must hold numbers, but holds <U1"),
    "NaN": (
        lambda: smooth(above_zero, SIGMA)([[0.0], [NAN]]),
        DataProblem,
        "x[1] must hold finite numbers, but holds NaN or infinity; fix or remove it",
    ),
    "too large": (lambda: smooth(above_zero, SIGMA)([[1e300]]), DataProblem, "x[0] must hold finite numbers"),
    "failing model": (
        lambda: smooth(Angry(), SIGMA)([[0.0]]),
        ModelProblem,
        "the model failed on a float32 batch of shape (11, 1): RuntimeError: no such shape and more; if the data's shape",
    ),
    "NaN scores": (
        lambda: smooth(lambda batch: np.full((len(batch), 2), NAN), SIGMA)([[0.0]]),
        ModelProblem,
        "the model gave NaN scores under noise",
    ),
    "one score": (
        lambda: smooth(lambda batch: batch[:, :1], SIGMA)([[0.0]]),
        ModelProblem,
        "the model gives one score per example",
    ),
    "classes of another number": (
        lambda: smooth(lambda batch: batch @ WEIGHT, SIGMA, classes=["a", "b"])(X),
        ModelProblem,
        "the model gives scores for 3 classes, but 2 classes are named",
    ),
    "labels beyond the classes": (
        lambda: smooth(lambda batch: np.full(len(batch), 2), SIGMA, classes=["a", "b"])(X),
        ModelProblem,
        "the model must answer with labels from 0 to 1, but gave 2; name all its classes",
    ),
    "labels beyond reason": (
        lambda: smooth(lambda batch: np.full(len(batch), 10**12), SIGMA)(X),
        ModelProblem,
        "the model must have at most 100,000 classes, but answers with 1,000,000,000,001",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence(name: str) -> None:
    call, kind, sentence = MISTAKES[name]
    with pytest.raises(kind) as caught:
        call()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pixels_in_other_units_are_warned_of() -> None:
    classifier = smooth(lambda batch: (batch.mean(axis=(1, 2, 3)) > 0.5).astype(int), sigma=0.25)
    pixels = np.random.default_rng(0).random((5, 3, 4, 4), dtype=np.float32)
    classifier(pixels)
    with pytest.warns(fedcert.FedcertWarning, match=r"sigma 0.25 suits pixels from 0 to 1: divide them by 255"):
        classifier(255 * pixels)
