"""A smoothed torch module is a torch module; on a GPU, where torch finds one, it is what certification runs."""

from __future__ import annotations

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from fedcert import CallError, DataProblem, ModelProblem, smooth
from fedcert.prediction.settings import PredictionSettings
from fedcert.prediction.torch_classifier import SmoothedModule, _Fusion, _halved

UNLIKELY = 1e-6
"""How often each comparison with a distribution may fail by chance: the noise is secret."""
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU on this machine")


def network() -> torch.nn.Module:
    """A convolutional network with what evaluation mode changes."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Dropout(0.5)]
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(288, 4))


IMAGES = torch.from_numpy(np.random.default_rng(0).random((9, 3, 8, 8)).astype(np.float32))


def smoothed(model: torch.nn.Module | None = None, **options: Any) -> SmoothedModule:
    classifier = smooth(network() if model is None else model, 0.25, **options)
    assert isinstance(classifier, SmoothedModule)
    return classifier


def test_it_takes_and_gives_tensors() -> None:
    classifier = smoothed()
    labels = classifier(IMAGES)
    assert labels.dtype == torch.int64
    assert labels.shape == (9,)
    assert labels.device == IMAGES.device
    assert classifier(IMAGES[:0]).shape == (0,)
    assert classifier.vote(IMAGES).counts.shape == (9, 4)
    assert torch.nn.Sequential(torch.nn.Identity(), classifier)(IMAGES).shape == (9,)
    assert smoothed(abstain=0.001, n=20)(IMAGES).min() >= -1


def test_it_takes_other_types() -> None:
    flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    flat[1].load_state_dict({"weight": torch.tensor([[0.0] * 4, [1.0] * 4]), "bias": torch.tensor([2.0, 0.0])})
    classifier = smooth(flat, 0.01)
    bright = torch.full((2, 1, 2, 2), 0.8)  # the sum of four pixels is above 2
    for x in (bright, bright.double(), bright.bfloat16(), bright.half(), bright.numpy(), bright.requires_grad_()):
        assert classifier(x).tolist() == [1, 1]
    assert classifier(torch.full((2, 1, 2, 2), 204, dtype=torch.uint8)).tolist() == [1, 1]
    assert classifier(torch.full((2, 1, 2, 2), 20, dtype=torch.uint8)).tolist() == [0, 0]


def test_its_state_is_the_models() -> None:
    classifier, other = smoothed(), smoothed()
    assert list(classifier.state_dict()) == [f"model.{name}" for name in network().state_dict()]
    torch.nn.init.constant_(other.model[-1].weight, 1.0)  # type: ignore[index]
    other.load_state_dict(classifier.state_dict())
    assert torch.equal(other.model[-1].weight, classifier.model[-1].weight)  # type: ignore[index]
    assert classifier.to("cpu") is classifier


@pytest.mark.parametrize("training", [True, False])
def test_it_runs_in_evaluation_mode_and_leaves_the_mode_alone(training: bool) -> None:
    model = network().train(training)
    before = copy.deepcopy(model.state_dict())
    classifier = smoothed(model).train(training)
    classifier(IMAGES)
    assert model.training is classifier.training is training
    assert all(part.training is training for part in model.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    quiet = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(1.0), torch.nn.Linear(192, 2, bias=False)).train()
    torch.nn.init.constant_(quiet[2].weight[0], -1.0)  # type: ignore[arg-type]
    torch.nn.init.constant_(quiet[2].weight[1], 1.0)  # type: ignore[arg-type]
    assert smoothed(quiet)(IMAGES).tolist() == [1] * 9  # with dropout, all scores would be 0


def test_copies_of_it_have_noise_of_their_own() -> None:
    seen: list[torch.Tensor] = []

    class Recorder(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(x.clone())
            return torch.zeros(len(x), 2)

    classifier = smooth(Recorder(), 0.25)
    twin = copy.deepcopy(classifier)
    for each in (classifier, twin, classifier):
        torch.manual_seed(0)
        each(torch.zeros(4, 6))
    copies = torch.cat([batch for batch in seen if len(batch) > 1])
    assert copies.shape == (3 * 4 * 11, 6)
    assert len(torch.unique(copies, dim=0)) == len(copies)


def test_it_can_be_pickled() -> None:
    classifier = smoothed()
    classifier._fusion = _Fusion.of(classifier.model, None)
    again = pickle.loads(pickle.dumps(classifier))  # noqa: S301
    assert again._fusion is None
    assert again.settings == classifier.settings
    assert again(IMAGES).shape == (9,)


def test_answers_in_several_threads() -> None:
    classifier = smoothed()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: classifier.vote(IMAGES), range(8)))
    assert all(vote.counts.sum(axis=1).tolist() == [11] * 9 for vote in answers)
    assert classifier.model.training


@pytest.mark.parametrize("size", [4, 64])
def test_calls_are_filled_up_to_the_batch_size(size: int) -> None:
    sizes = set()

    class Counter(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            sizes.add(len(x))
            return torch.stack([x[:, 0] * 0, x[:, 0] * 0 + 1], dim=1)

    vote = smooth(Counter(), 0.25, batch_size=size).vote(np.zeros((3, 2)))
    assert sizes == {size}
    assert vote.counts.tolist() == [[0, 11]] * 3


def test_bfloat16_on_a_cpu_is_autocast() -> None:
    types = set()

    class Types(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores = super().forward(x)
            types.add(scores.dtype)
            return scores

    smooth(Types(4, 2), 0.25, precision="bfloat16")(torch.zeros(2, 4))
    assert types == {torch.bfloat16}
    with pytest.raises(CallError, match="^precision 'tf32' is a GPU's; use 'float32' here$"):
        smooth(Types(4, 2), 0.25, precision="tf32")(torch.zeros(2, 4))


def test_a_model_without_weights() -> None:
    assert smooth(torch.nn.Identity(), 0.01)(torch.eye(3)).tolist() == [0, 1, 2]


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(DataProblem, match=r"^x must have one row per input, .* but has shape \(4,\)"):
        smooth(torch.nn.Linear(4, 2), 0.25)(torch.zeros(4))
    with pytest.raises(DataProblem, match=r"^x\[1\] must hold finite numbers"):
        smooth(torch.nn.Linear(4, 2), 0.25)(torch.tensor([[0.0] * 4, [float("inf")] * 4]))
    with pytest.raises(ModelProblem, match=r"^the model failed on a float32 batch of shape \(1, 5\): RuntimeError"):
        smooth(torch.nn.Linear(4, 2), 0.25)(torch.zeros(1, 5))
    with pytest.raises(ModelProblem, match=r"^the model gives scores for 2 classes, but 3 classes are named"):
        smooth(torch.nn.Linear(4, 2), 0.25, classes=["a", "b", "c"])(torch.zeros(1, 4))
    broken = torch.nn.Linear(4, 2)
    torch.nn.init.constant_(broken.weight, float("nan"))
    with pytest.raises(ModelProblem, match=r"^the model gave NaN scores under noise"):
        smooth(broken, 0.25)(torch.zeros(1, 4))


# The fused copy, which GPUs run below float32.


def test_a_fused_copy_is_made_anew_when_weights_change() -> None:
    model = network()
    fusion = _Fusion.of(model, None)
    assert fusion.is_of(model)
    smoothed(model)(IMAGES)
    assert fusion.is_of(model)
    model(IMAGES)  # in training mode: batch normalisation takes statistics
    assert not fusion.is_of(model)
    fusion = _Fusion.of(model, None)
    model.load_state_dict(network().state_dict())
    assert not fusion.is_of(model)
    fusion = _Fusion.of(model, None)
    model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True)
    assert not fusion.is_of(model)
    fusion = _Fusion.of(model, None)
    assert not fusion.is_of(torch.nn.Sequential(*list(model)[:-1]))


def test_memory_that_runs_out_halves_the_batch() -> None:
    with pytest.warns(match="^the device's memory does not hold 9 samples at a time; going on with 4$"):
        assert _halved(9) == 4
    with pytest.raises(ModelProblem, match="^the device's memory does not hold one noisy input and the model"):
        _halved(1)


def test_a_vote_goes_on_with_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    class Greedy(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if len(x) > 3:
                raise torch.cuda.OutOfMemoryError("full")
            return x

    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        vote = SmoothedModule(Greedy(), PredictionSettings(sigma=0.01, batch_size=16)).vote(np.eye(2))
    assert vote.counts.tolist() == [[11, 0], [0, 11]]
    assert [str(note.message).rpartition(" ")[2] for note in notes] == ["8", "4", "2"]


@on_a_gpu
@pytest.mark.parametrize("precision", [None, "float32", "tf32", "bfloat16"])
@pytest.mark.parametrize("lattice", [None, 255])
def test_a_gpu_votes_as_a_cpu_does(precision: str | None, lattice: int | None) -> None:
    model = network()
    images = np.repeat((IMAGES.numpy() * 255).astype(np.uint8)[:4], 200, axis=0) / np.float32(255)
    expected = smoothed(model, lattice=lattice).vote(images).counts.reshape(4, 200, 4).sum(axis=1)
    classifier = smoothed(model, lattice=lattice, precision=precision).to("cuda")
    x = torch.from_numpy(images).to("cuda")
    labels = classifier(x)
    assert labels.device == x.device
    counts = classifier.vote(x).counts
    assert counts.sum(axis=1).tolist() == [11] * 800
    assert len(np.unique(counts[:200], axis=0)) > 1  # equal inputs, noise of their own
    for row, other in zip(counts.reshape(4, 200, 4).sum(axis=1), expected, strict=True):
        table = np.array([row, other])[:, row + other > 20]
        assert table.shape[1] < 2 or stats.chi2_contingency(table).pvalue > UNLIKELY
    assert (classifier._fusion is None) is (precision == "float32")


@on_a_gpu
def test_a_gpu_rounds_inputs_off_the_lattice_with_their_noise() -> None:
    steps: list[torch.Tensor] = []

    class Recorder(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            steps.append(x * 4)
            return super().forward(x)

    smooth(Recorder(2, 2).to("cuda"), 0.25, lattice=4, votes=9_999, precision="float32")(torch.tensor([[0.1, 0.0]]))
    copies = torch.cat(steps)
    assert torch.equal(copies, copies.round())
    assert copies.mean(dim=0).tolist() == pytest.approx([0.4, 0.0], abs=0.07)


@on_a_gpu
def test_the_fused_copy_follows_the_weights() -> None:
    classifier = smoothed(precision="bfloat16").to("cuda")
    classifier(IMAGES)
    first = classifier._fusion
    assert first is not None
    assert first.network is not None
    classifier(IMAGES)
    assert classifier._fusion is first
    with torch.no_grad():
        for tensor, value in zip(classifier.model[-1].parameters(), (0.0, torch.arange(4.0)), strict=True):  # type: ignore[index]
            tensor.copy_(torch.as_tensor(value).expand(tensor.shape))
    assert classifier(IMAGES).tolist() == [3] * 9
    assert classifier._fusion is not first
