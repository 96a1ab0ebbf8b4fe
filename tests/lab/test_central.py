"""Central training: it learns, crops as it says, and repeats itself for the same seed."""

from __future__ import annotations

import copy
import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from fedcert import DataProblem, InvalidValue
from fedcert.lab.accuracy import accuracy
from fedcert.lab.central import CentralTraining, augmented_batch, random_crop, train_centrally

SMALL = CentralTraining(epochs=4, sigma=0.25, batch_size=32, learning_rate=0.1)


def stripes(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of 32 x 32 with stripes across, stripes down, or none; noise of 0.25 hides none of them for long."""
    labels = torch.arange(count) % 3
    images = torch.randint(100, 156, (count, 3, 32, 32), dtype=torch.uint8, generator=drawn(seed))
    wave = (60 * torch.sin(torch.arange(32) * math.pi / 4)).to(torch.int16)
    across, down = wave[:, None].expand(32, 32), wave[None, :].expand(32, 32)
    patterns = torch.stack([across, down, torch.zeros_like(across)])
    return (images.to(torch.int16) + patterns[labels][:, None]).clamp(0, 255).to(torch.uint8), labels


def drawn(seed: int) -> torch.Generator:
    """A generator on the CPU."""
    return torch.Generator().manual_seed(seed)


def small_network() -> nn.Module:
    """A network with all that ResNet has, in small."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2, padding=2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


@pytest.mark.parametrize("bfloat16", [False, True])
def test_it_learns_to_see_through_noise(bfloat16: bool) -> None:
    torch.manual_seed(0)
    network = small_network()
    images, labels = stripes(384)
    settings = CentralTraining(
        epochs=6, sigma=0.25, batch_size=32, learning_rate=0.1, bfloat16=bfloat16, channels_last=bfloat16
    )
    epochs = list(train_centrally(network, images, labels, settings, drawn(1)))
    assert [epoch.number for epoch in epochs] == [1, 2, 3, 4, 5, 6]
    assert all(epoch.seconds > 0 for epoch in epochs)
    assert epochs[-1].loss < epochs[0].loss / 2
    fresh = stripes(300, seed=7)
    noisy = accuracy(network, *fresh, sigma=0.25, generator=drawn(2), batch_size=64)
    assert noisy > 0.9
    assert noisy == pytest.approx(epochs[-1].accuracy, abs=0.1)
    assert accuracy(network, *fresh, sigma=20.0, generator=drawn(2)) < 0.6


def test_a_seed_gives_the_same_network_and_another_a_different_one() -> None:
    first, images_and_labels = small_network(), stripes(64)
    second, third = copy.deepcopy(first), copy.deepcopy(first)
    runs = [
        list(train_centrally(network, *images_and_labels, SMALL, drawn(seed)))
        for network, seed in ((first, 1), (second, 1), (third, 2))
    ]
    assert [epoch.loss for epoch in runs[0]] == [epoch.loss for epoch in runs[1]]
    assert [epoch.loss for epoch in runs[0]] != [epoch.loss for epoch in runs[2]]
    assert all(torch.equal(one, other) for one, other in zip(first.parameters(), second.parameters(), strict=True))


def test_without_crops_and_noise_it_is_nesterovs_sgd_to_the_bit() -> None:
    settings = CentralTraining(
        epochs=2, sigma=0.0, batch_size=10, learning_rate=0.1, warmup=0.5, weight_decay=0.01, padding=0, flip=False
    )
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 3))
    plain = copy.deepcopy(network)
    images, labels = stripes(25)
    epochs = list(train_centrally(network, images, labels, settings, drawn(1)))
    # The same draws, in the same order: a permutation each epoch, then shifts (all 0) and noise (times 0) each step.
    generator, losses = drawn(1), []
    optimizer = torch.optim.SGD(plain.parameters(), 0.1, momentum=0.9, weight_decay=0.01, nesterov=True)
    rates = iter([0.05, 0.1, 0.05, 0.0])
    for _ in range(2):
        order = torch.randperm(25, generator=generator)
        for batch in order.split(10)[:2]:
            torch.randint(0, 1, (2, 10, 1), generator=generator)
            torch.randn(10, 3, 32, 32, generator=generator)
            optimizer.param_groups[0]["lr"] = next(rates)
            loss = nn.functional.cross_entropy(plain(images[batch].float() / 255), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert [epoch.loss for epoch in epochs] == pytest.approx([sum(losses[:2]) / 2, sum(losses[2:]) / 2])
    assert all(torch.allclose(one, other) for one, other in zip(network.parameters(), plain.parameters(), strict=True))


def test_the_learning_rate_rises_then_falls_to_zero() -> None:
    settings = CentralTraining(epochs=1, sigma=0, learning_rate=0.4, warmup=0.2)
    rates = [settings.rate_at(step / 100) for step in range(101)]
    assert max(rates) == rates[20] == pytest.approx(0.4)
    assert rates[0] == rates[100] == pytest.approx(0)
    assert all(one < other for one, other in pairwise(rates[:21]))
    assert all(one > other for one, other in pairwise(rates[20:]))
    assert rates[60] == pytest.approx(0.2)
    assert CentralTraining(epochs=1, sigma=0, learning_rate=0.4, warmup=0).rate_at(0) == pytest.approx(0.4)


def test_crops_are_shifted_and_mirrored_copies_and_all_of_them_occur() -> None:
    images = torch.arange(1, 26, dtype=torch.uint8).view(1, 1, 5, 5).repeat(400, 1, 1, 1)
    padded = nn.functional.pad(images[0, 0], (1, 1, 1, 1))
    windows = [padded[top : top + 5, left : left + 5] for top in range(3) for left in range(3)]
    possible = [window for shifted in windows for window in (shifted, shifted.flip(1))]
    cropped = random_crop(images, 1, flip=True, generator=drawn(0))
    assert cropped.dtype == torch.uint8
    seen = [[torch.equal(crop[0], window) for window in possible].index(True) for crop in cropped]
    assert set(seen) == set(range(18))
    unflipped = random_crop(images, 1, flip=False, generator=drawn(0))
    assert all(any(torch.equal(crop[0], window) for window in windows) for crop in unflipped)
    assert torch.equal(random_crop(images, 0, flip=False, generator=drawn(0)), images)


def test_colours_stay_together_when_cropped() -> None:
    images = torch.randint(0, 100, (20, 1, 8, 8), dtype=torch.uint8, generator=drawn(0)) + torch.tensor(
        [0, 50, 100], dtype=torch.uint8
    ).view(3, 1, 1)
    cropped = random_crop(nn.functional.pad(images, (4, 4, 4, 4)), 4, flip=True, generator=drawn(1)).int()
    inside = cropped[:, 2] > 0
    assert inside.sum() == 20 * 64
    assert torch.equal((cropped[:, 1] - cropped[:, 0])[inside], torch.full((1280,), 50, dtype=torch.int32))


def test_the_noise_has_the_asked_for_deviation_and_differs_between_examples() -> None:
    images = torch.full((64, 3, 32, 32), 51, dtype=torch.uint8)
    settings = CentralTraining(epochs=1, sigma=0.5, padding=0, channels_last=True)
    batch = augmented_batch(images, settings, drawn(0))
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert float(batch.mean()) == pytest.approx(0.2, abs=0.01)
    assert float(batch.std()) == pytest.approx(0.5, abs=0.01)
    assert float((batch[0] * batch[1]).mean() - batch[0].mean() * batch[1].mean()) == pytest.approx(0, abs=0.03)


def test_accuracy_counts_right_answers_in_evaluation_mode_and_puts_the_mode_back() -> None:
    network = small_network().train()
    images, labels = stripes(70)
    with torch.inference_mode():
        expected = copy.deepcopy(network).eval()(images.float() / 255).argmax(dim=1)
    assert accuracy(network, images, labels, sigma=0.0, generator=drawn(0), batch_size=32) == pytest.approx(
        float((expected == labels).float().mean())
    )
    assert network.training
    assert network[1].num_batches_tracked == 0


def test_what_is_left_over_waits_and_a_small_set_is_one_batch() -> None:
    network = small_network()
    images, labels = stripes(70)
    list(train_centrally(network, images, labels, CentralTraining(epochs=1, sigma=0, batch_size=32), drawn(0)))
    assert network[1].num_batches_tracked == 2
    list(train_centrally(network, images, labels, CentralTraining(epochs=1, sigma=0, batch_size=512), drawn(0)))
    assert network[1].num_batches_tracked == 3


def test_settings_and_data_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidValue, match="epochs must be a whole number from 1 to 2\\^53, but is 0"):
        CentralTraining(epochs=0, sigma=0.25)
    with pytest.raises(InvalidValue, match="sigma must be .*, but is -1"):
        CentralTraining(epochs=1, sigma=-1)
    with pytest.raises(InvalidValue, match="warmup must be .*, but is 1"):
        CentralTraining(epochs=1, sigma=0, warmup=1)
    images, labels = stripes(6)
    with pytest.raises(
        DataProblem,
        match="images must be bytes of shape N x C x H x W, but are torch.float32 of shape \\(6, 3, 32, 32\\); give them as they are",
    ):
        next(train_centrally(small_network(), images.float(), labels, SMALL, drawn(0)))
    with pytest.raises(
        DataProblem,
        match="one label for each image, and at least one, but there are 6 images and labels of shape \\(5,\\)",
    ):
        accuracy(small_network(), images, labels[:5], sigma=0.0, generator=drawn(0))
    with pytest.raises(DataProblem, match="but there are 0 images"):
        next(train_centrally(small_network(), images[:0], labels[:0], SMALL, drawn(0)))
