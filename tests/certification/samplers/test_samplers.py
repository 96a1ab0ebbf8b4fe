"""The hot loops: counts that add up, noise of the right law, the same whatever the batch size."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from scipy import stats

from fedcert import DeviceProblem, ModelProblem
from fedcert.certification.certificate import ExampleState, InFlight, in_flight
from fedcert.certification.models.classifiers import ArrayClassifier, classifier_of
from fedcert.certification.perturbation import Gaussian
from fedcert.certification.samplers.blocks import batches, fitting_batch
from fedcert.certification.samplers.numpy_sampler import ArraySampler
from fedcert.certification.samplers.protocol import Sampler
from fedcert.certification.samplers.torch_cpu import CpuSampler
from fedcert.certification.samplers.torch_gpu import DeviceSampler
from fedcert.certification.seeds import Seed
from fedcert.certification.streams import Phase, Stream, Streams, key_of

STREAMS = Streams(Seed.fixed(7), "site-07")


def linear(seed: int = 0) -> torch.nn.Module:
    """A small linear network with scores of three classes."""
    torch.manual_seed(seed)
    return torch.nn.Linear(6, 3)


def samplers(batch_size: int | None) -> dict[str, Sampler]:
    """The same classifier through both loops."""
    module = linear()
    weight, bias = module.weight.detach().numpy(), module.bias.detach().numpy()
    array = ArrayClassifier(lambda batch: batch @ weight.T + bias, "linear")
    return {
        "array": array.sampler(3, Gaussian(0.5), STREAMS, batch_size),
        "torch": classifier_of(module).sampler(3, Gaussian(0.5), STREAMS, batch_size),
    }


IMAGES = np.random.default_rng(0).random((9, 6)).astype(np.float32)


@pytest.mark.parametrize("kind", ["array", "torch"])
@pytest.mark.parametrize("samples", [1, 99, 100, 101, 350])
def test_each_row_adds_up_to_the_samples(kind: str, samples: int) -> None:
    counts = samplers(None)[kind].counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, samples))
    assert counts.shape == (9, 3)
    assert counts.sum(axis=1).tolist() == [samples] * 9


@pytest.mark.parametrize("kind", ["array", "torch"])
def test_batch_size_order_and_company_do_not_change_the_counts(kind: str) -> None:
    whole = samplers(None)[kind].counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, 250))
    for batch_size in (1, 7, 100, 333):
        assert np.array_equal(
            samplers(batch_size)[kind].counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, 250)), whole
        )
    turned = samplers(None)[kind].counts(in_flight(IMAGES[::-1].copy(), range(8, -1, -1), Phase.ESTIMATION, 250))
    assert np.array_equal(turned[::-1], whole)
    alone = samplers(None)[kind].counts(in_flight(IMAGES[4:5], [4], Phase.ESTIMATION, 250))
    assert np.array_equal(alone[0], whole[4])


def test_on_a_cpu_both_loops_see_the_same_noise() -> None:
    """Counts may differ only where float32 scores tie."""
    first, second = (
        samplers(None)[kind].counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, 4000)) for kind in ("array", "torch")
    )
    assert np.abs(first - second).sum() <= 4


@pytest.mark.parametrize("kind", ["array", "torch"])
def test_the_counts_have_the_exact_probabilities(kind: str) -> None:
    """A linear model of two classes: p = Φ(margin / (σ‖w‖))."""
    weight = np.array([0.6, -0.8, 0.0], dtype=np.float32)
    module = torch.nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(np.stack([weight, -weight])))
    array = ArrayClassifier(lambda batch: np.stack([batch @ weight, -(batch @ weight)], axis=1), "linear")
    classifier = array if kind == "array" else classifier_of(module)
    images = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32) * 0.3
    counts = classifier.sampler(2, Gaussian(0.5), STREAMS, None).counts(
        in_flight(images, range(20), Phase.ESTIMATION, 3000)
    )
    chance = stats.norm.cdf(images @ weight / 0.5)
    assert min(stats.binomtest(int(k), 3000, float(p)).pvalue for k, p in zip(counts[:, 0], chance, strict=True)) > 1e-4


@pytest.mark.parametrize("kind", ["array", "torch"])
def test_the_noise_is_normal_independent_and_of_the_asked_deviation(kind: str) -> None:
    seen: list[np.ndarray] = []

    class Watching(torch.nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            seen.append(batch.clone().numpy())
            return torch.zeros(len(batch), 2)

    def watch(batch: np.ndarray) -> np.ndarray:
        seen.append(batch.copy())
        return np.zeros((len(batch), 2))

    classifier = classifier_of(Watching(), model_id="watch") if kind == "torch" else ArrayClassifier(watch, "watch")
    image = np.full((1, 4), 0.25, dtype=np.float32)
    for phase in (Phase.SELECTION, Phase.ESTIMATION):
        classifier.sampler(2, Gaussian(0.5), STREAMS, None).counts(in_flight(image, [3], phase, 5000))
    noise = (np.concatenate([batch for batch in seen if len(batch) > 1]) - 0.25) / 0.5  # one is a look at sizes
    assert noise.shape == (10_000, 4)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(noise.T) - np.eye(4)).max() < 0.05
    # No block repeats another: estimation is fresh, and so is every block within it.
    assert len(np.unique(noise[:, 0])) > 9_900


def test_streams_differ_by_client_seed_example_phase_and_block() -> None:
    seeds = {
        Streams(Seed.fixed(seed), client).stream(key_of(index), phase, block)
        for seed in (0, 1)
        for client in ("a", "b", "1\0a")
        for index in (0, 1)
        for phase in Phase
        for block in (0, 1)
    }
    assert len(seeds) == 2 * 3 * 2 * 4 * 2
    assert all(len(seed) == 32 for seed in seeds)
    # A generator that kept only the low 32 bits of its seed would let streams coincide.
    first, second = np.empty(8, np.float32), np.empty(8, np.float32)
    Gaussian(1.0).fill(Stream(bytes(32)), first)
    Gaussian(1.0).fill(Stream(bytes(15) + b"\1" + bytes(16)), second)
    assert not np.array_equal(first, second)
    same = [Streams(Seed.fixed(0), "a").stream(key_of(5), Phase.SELECTION, 0) for _ in range(2)]
    assert same[0] == same[1]


def test_units_cover_every_sample_once_and_are_never_split() -> None:
    image = np.zeros(2, np.float32)
    examples = [
        InFlight(image, ExampleState(index), key_of(index), phase=Phase.ESTIMATION, first=first, samples=250)
        for index, first in ((10, 0), (20, 300))
    ]
    blocks = [block for batch in batches(examples, STREAMS, 120, 100) for block in batch]
    assert [(block.row, block.samples) for block in blocks] == [
        (0, 100),
        (0, 100),
        (0, 50),
        (1, 100),
        (1, 100),
        (1, 50),
    ]
    assert [block.stream for block in blocks] == [
        STREAMS.stream(key_of(index), Phase.ESTIMATION, number)
        for index, number in ((10, 0), (10, 1), (10, 2), (20, 3), (20, 4), (20, 5))
    ]


@pytest.mark.parametrize("kind", ["array", "torch"])
def test_samples_in_parts_are_the_samples_at_once(kind: str) -> None:
    """What the sequential procedure and a restart rest on."""
    sampler = samplers(None)[kind]
    whole = sampler.counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, 700))
    parts = [(0, 100), (100, 400), (500, 200)]
    summed = sum(sampler.counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, size, first)) for first, size in parts)
    assert np.array_equal(summed, whole)
    mixed = in_flight(IMAGES, range(9), Phase.ESTIMATION, 0)
    for row, example in enumerate(mixed):
        example.samples = 100 * (row + 1)
    assert sampler.counts(mixed).sum(axis=1).tolist() == [100 * (row + 1) for row in range(9)]


def test_batches_fit_the_example() -> None:
    assert fitting_batch((3, 64, 64)) == 300
    assert fitting_batch((4,)) == 1000
    assert fitting_batch((10_000_000,)) == 1


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (np.full((2, 3), np.nan), "the model gave NaN scores under noise"),
        (np.zeros((2, 4)), "the model gives scores for 4 classes, but 3 classes are named"),
        (
            np.zeros((1, 3)),
            r"must answer 2 examples with scores of shape \(2, classes\) or labels of shape \(2,\), but gave float64 of shape \(1, 3\)",
        ),
        (np.zeros((2, 3, 1)), r"but gave float64 of shape \(2, 3, 1\)"),
        (np.array(["a", "b"]), "but gave <U1 of shape"),
        (np.array([0, 3]), "must answer with labels from 0 to 2, but gave 3; name all its classes"),
        (np.array([0, -1]), "but gave -1"),
        (np.array([0.5, 1.0]), "but gave 0.5"),
        (None, "but gave object of shape"),
    ],
)
def test_an_answer_that_is_no_prediction_is_named(answer: object, sentence: str) -> None:
    sampler = ArrayClassifier(lambda _: answer, "odd").sampler(3, Gaussian(0.5), STREAMS, 2)
    assert isinstance(sampler, ArraySampler)
    with pytest.raises(ModelProblem, match=sentence):
        sampler.counts(in_flight(IMAGES[:1], [0], Phase.SELECTION, 2))


@pytest.mark.parametrize(
    ("layer", "sentence"),
    [
        (lambda batch: torch.full((len(batch), 3), torch.nan), "the model gave NaN scores under noise"),
        (
            lambda batch: torch.zeros(len(batch), 4),
            "the model gives scores for 4 classes, but 3 classes are named",
        ),
        (
            lambda batch: batch @ torch.zeros(7, 3),
            r"the model failed on a float32 batch of shape \(2, 6\): RuntimeError",
        ),
        (lambda batch: "text", "but gave str"),
        (lambda batch: batch[:, :3] > 0, r"but gave torch.bool of shape \(2, 3\)"),
        (lambda batch: batch[:, :3].to(torch.complex64), r"but gave torch.complex64 of shape \(2, 3\)"),
    ],
)
def test_a_module_that_answers_nonsense_is_named(layer: object, sentence: str) -> None:
    class Odd(torch.nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return layer(batch)  # type: ignore[operator]

    with pytest.raises(ModelProblem, match=sentence):
        classifier_of(Odd(), model_id="odd").sampler(3, Gaussian(0.5), STREAMS, 2).counts(
            in_flight(IMAGES[:1], [0], Phase.SELECTION, 2)
        )


@pytest.mark.parametrize("batch_size", [64, 100, 250, 1000, 100_000])
def test_the_devices_way_of_counting_fills_up_batches_and_counts_no_filler(batch_size: int) -> None:
    """The path that a GPU takes, run on the CPU, where only its noise is another one."""
    sampler = DeviceSampler(linear(), 3, Gaussian(0.5), STREAMS, torch.device("cpu"), batch_size)
    examples = in_flight(IMAGES, range(9), Phase.ESTIMATION, 0)
    for row, example in enumerate(examples):
        example.samples = 50 * (row + 1)
    asked: list[int] = []
    with torch.inference_mode():
        counts = sampler.counts(examples, asked.append)
    assert counts.sum(axis=1).tolist() == [50 * (row + 1) for row in range(9)]
    assert sum(asked) == counts.sum()
    plain = samplers(None)["torch"].counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, 20_000))
    many = in_flight(IMAGES, range(9), Phase.ESTIMATION, 5_000)
    with torch.inference_mode():
        other = sampler.counts(many, asked.append)
    assert np.abs(other / 5_000 - plain / 20_000).max() < 0.05


@pytest.fixture
def threads() -> Iterator[None]:
    """Tests that change torch's threads put them back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Absent(torch.nn.Module):
    """A module that keeps things in itself while it works, as some do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = linear()
        self.held: torch.Tensor | None = None

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.held = batch
        time.sleep(0.001)
        scores: torch.Tensor = self.linear(self.held)
        return scores


@pytest.mark.usefixtures("threads")
def test_the_number_of_cores_changes_nothing_not_even_for_a_module_that_keeps_things_in_itself() -> None:
    made = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        sampler = CpuSampler(Absent(), 3, Gaussian(0.5), STREAMS, 50)
        made.append(sampler.counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, 700)))
        assert torch.get_num_threads() == count
    plain = samplers(None)["torch"].counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, 700))
    assert all(np.array_equal(counts, plain) for counts in made)


@pytest.mark.usefixtures("threads")
def test_a_module_that_cannot_be_copied_works_alone() -> None:
    class Locked(Absent):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

    torch.set_num_threads(3)
    sampler = CpuSampler(Locked(), 3, Gaussian(0.5), STREAMS, 50)
    counts = sampler.counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, 300))
    assert np.array_equal(counts, samplers(None)["torch"].counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, 300)))


class Remembering(torch.nn.Module):
    """A module whose layers are read by hooks, or by functions that remember: copies would share what they write."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.inner = linear()
        held: dict[str, torch.Tensor] = {}
        if way == "hook":
            self.inner.register_forward_hook(lambda _part, _given, made: held.__setitem__("made", made))
            self.read = torch.nn.Identity()
        else:
            self.write = lambda made: held.__setitem__("made", made)
        self.way, self.held = way, (lambda: held["made"])

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        made = self.inner(batch)
        if self.way != "hook":
            self.write(made)
        time.sleep(0.001)
        return self.held()


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("way", ["hook", "function"])
def test_a_module_whose_copies_would_share_state_works_alone(way: str) -> None:
    torch.set_num_threads(4)
    sampler = CpuSampler(Remembering(way), 3, Gaussian(0.5), STREAMS, 50)
    counts = sampler.counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, 700))
    assert np.array_equal(counts, samplers(None)["torch"].counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, 700)))


def test_the_batch_fits_the_largest_activation() -> None:
    wide = torch.nn.Sequential(torch.nn.Linear(6, 2**17), torch.nn.Linear(2**17, 3, bias=False))
    sampler = CpuSampler(wide, 3, Gaussian(0.5), STREAMS)
    sampler.counts(in_flight(IMAGES[:1], [0], Phase.ESTIMATION, 10))
    assert sampler.batch_size == 25  # four times in a block of 100; 32 would fit
    assert fitting_batch((6,)) == 1000


@pytest.mark.parametrize("text", ["CUDA error: unspecified launch failure\nand more", "cuDNN error: it is gone"])
def test_a_device_that_fails_is_one_sentence(text: str) -> None:
    class Gone(torch.nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            raise AcceleratorError(text)

    class AcceleratorError(RuntimeError):
        """As torch calls it."""

    sampler = DeviceSampler(Gone(), 3, Gaussian(0.5), STREAMS, torch.device("cpu"))
    first = text.splitlines()[0]
    with pytest.raises(DeviceProblem, match=f"^the device 'cpu' failed: {first}; see whether it is still there"):
        sampler.counts(in_flight(IMAGES[:1], [0], Phase.ESTIMATION, 10))
