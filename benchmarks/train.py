"""Seconds per round of federated training at the paper's setting, both sides in one run.

    python benchmarks/train.py [--network resnet18] [--device cuda] [--rounds 3] [--out results.json]

Ten clients of 400 examples, 5 epochs, batch 64: 31 steps each. The eager loop is what one would write: one client after
the other, a copy of the network, torch.optim.SGD, data resident on the device, channels last, noise drawn there. It
runs in TF32 (torch's default for convolutions) and in bfloat16; the faster one counts. fedcert's simulators do the same
steps, in the same precisions.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fedcert.lab.architectures import build_network
from fedcert.lab.datasets.dataset import Dataset
from fedcert.lab.training.algorithms import FedAvg
from fedcert.lab.training.batches import ClientBatches, pictures
from fedcert.lab.training.graph_simulator import GraphSimulator
from fedcert.lab.training.replica import Task
from fedcert.lab.training.settings import Training
from fedcert.lab.training.simulator import PlainSimulator
from fedcert.lab.training.state_layout import StateLayout
from machine import describe_machine

FLOPS = {"resnet18": 3 * 2 * 0.5559e9, "mobilenet_v2": 3 * 2 * 0.0941e9}
"""Floating-point operations of a training step for one image: three times those of a prediction."""


def eager(
    network: nn.Module, images: torch.Tensor, labels: torch.Tensor, courses: list[ClientBatches], settings: Training
) -> None:
    """A round of the loop that one would write."""
    states = []
    for course in courses:
        local = copy.deepcopy(network).train()
        optimizer = torch.optim.SGD(local.parameters(), settings.learning_rate, settings.momentum)
        generator = torch.Generator(images.device).manual_seed(course.seed)
        for examples, shifts in zip(course.examples, course.shifts, strict=True):
            noise = torch.empty((len(examples), *images.shape[1:]), device=images.device)
            noise.normal_(0.0, settings.sigma, generator=generator)
            batch = pictures(images, examples, shifts, settings.padding, noise)
            with torch.autocast(images.device.type, torch.bfloat16, enabled=settings.bfloat16):
                loss = nn.functional.cross_entropy(local(batch), labels[examples])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        states.append(local.state_dict())
    with torch.no_grad():
        mean = {
            name: torch.stack([state[name].double() for state in states]).mean(0).to(tensor.dtype)
            for name, tensor in network.state_dict().items()
        }
    network.load_state_dict(mean)


def timed(work: Callable[[], object], rounds: int, device: torch.device) -> list[float]:
    """Seconds of each of some calls, after one that is not counted."""
    taken = []
    for _ in range(rounds + 1):
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return taken[1:]


def peak(device: torch.device) -> float:
    """Floating-point operations per second of a large bfloat16 matrix product."""
    size = 8192 if device.type == "cuda" else 512
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    seconds = timed(lambda: [left @ right for _ in range(10)], 3, device)
    return 10 * 2 * size**3 / min(seconds)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="resnet18", choices=sorted(FLOPS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--examples", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--sides", default="eager-tf32,eager-bf16,fast-tf32,fast-bf16,fast-bf16-compiled")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    generator = np.random.default_rng(0)
    count = options.clients * options.examples
    pixels = generator.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    classes = generator.integers(0, 10, count)
    data = Dataset("random", pixels, classes, pixels[:1], classes[:1], tuple(map(str, range(10))))
    images, labels = torch.from_numpy(pixels).to(device), torch.from_numpy(classes).to(device)
    parts = np.array_split(np.arange(count), options.clients)
    base = Training(clients_per_round=options.clients, batch_size=options.batch_size)
    result: dict[str, Any] = {
        "machine": describe_machine("torch", "numpy"),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "network": options.network, "clients": options.clients, "examples": options.examples,
        "batch_size": options.batch_size, "steps": base.steps(options.examples), "matrix_peak": peak(device),
        "sides": {},
    }  # fmt: skip
    samples = options.clients * base.steps(options.examples) * options.batch_size
    for side in options.sides.split(","):
        settings = replace(base, bfloat16="bf16" in side, compiled="compiled" in side)
        courses = [ClientBatches.of(settings, part, number, 1) for number, part in enumerate(parts)]
        torch.manual_seed(0)
        network = build_network(options.network, data).to(device, memory_format=torch.channels_last)
        began = time.perf_counter()
        if side.startswith("eager"):
            held = [course.to(device) for course in courses]
            seconds = timed(lambda: eager(network, images, labels, held, settings), options.rounds, device)  # noqa: B023
        else:
            kind = GraphSimulator if side.startswith("fast") else PlainSimulator
            simulator = kind(Task(network, images, labels, settings, FedAvg()))
            start = StateLayout.of(network).read(network, device)
            seconds = timed(
                lambda: simulator.run(start, range(options.clients), courses),  # noqa: B023
                options.rounds,
                device,
            )
        best = float(np.median(seconds))
        result["sides"][side] = {
            "seconds_per_round": best, "all": seconds, "samples_per_second": samples / best,
            "share_of_matrix_peak": samples * FLOPS[options.network] / best / result["matrix_peak"],
            "set_up_seconds": time.perf_counter() - began - sum(seconds),
        }  # fmt: skip
        made = result["sides"][side]
        print(
            f"{side}: {best:.3f} s a round, {made['samples_per_second']:,.0f} samples/s, "
            f"{made['share_of_matrix_peak']:.1%} of the matrix peak",
            flush=True,
        )
        if options.out is not None:
            options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
