"""Speed of certification, all sides in one run, and what the sequential procedure saves and costs.

    python benchmarks/certify.py DATA --weights WEIGHTS [--network fedcert.lab.networks:resnet18_cifar10] --sigma 0.5
        [--device cuda] [--pairs] [--out results.json]

DATA is what `fedcert certify` takes. The published loop is that of Cohen et al.'s code: one image at a time, float32 as
torch runs it by default, predictions counted on the host after every batch. ART is IBM's Adversarial Robustness
Toolbox, where it is installed. `--pairs` certifies every image by the fixed and by the sequential procedure and
compares them, radius by radius.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedcert.certification.data import load_data
from fedcert.certification.models import load_classifier
from fedcert.certification.plan import make_plan
from fedcert.certification.run import Watcher, carry_out
from machine import describe_machine


def published(module: torch.nn.Module, image: np.ndarray, sigma: float, n: int, batch: int, device: str) -> float:
    """Samples per second of the published loop on one image, after a first run that pays for kernels."""
    clean = torch.from_numpy(image).to(device)
    for samples in (min(n, 2 * batch), n):
        start = time.perf_counter()
        counts = np.zeros(10_000, dtype=int)
        left = samples
        with torch.no_grad():
            while left > 0:
                size = min(batch, left)
                left -= size
                noisy = clean.repeat((size, *[1] * clean.ndim))
                predictions = module(noisy + torch.randn_like(noisy) * sigma).argmax(1)
                for label in predictions.cpu().numpy():
                    counts[label] += 1
        seconds = time.perf_counter() - start
    return n / seconds


def art(module: torch.nn.Module, image: np.ndarray, sigma: float, n: int, batch: int, classes: int) -> float | None:
    """Samples per second of ART's CERTIFY on one image; None where it is not installed."""
    try:
        from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing
    except ImportError:
        return None
    smoothed = PyTorchRandomizedSmoothing(
        model=module, loss=torch.nn.CrossEntropyLoss(), input_shape=image.shape, nb_classes=classes,
        sample_size=100, scale=sigma, alpha=0.001,
    )  # fmt: skip
    smoothed.certify(image[None], n=100, batch_size=batch)
    start = time.perf_counter()
    smoothed.certify(image[None], n=n, batch_size=batch)
    return (n + 100) / (time.perf_counter() - start)


def run(options: argparse.Namespace, data: Any, **settings: Any) -> dict[str, Any]:
    """One certification through the public way in: its time, its samples and its curve."""
    classifier = load_classifier(options.network, weights=options.weights, model_id=None, device=options.device)
    given = {"sigma": options.sigma, "failure_probability": 0.001, "radii": radii_of(options), **settings}
    every = given.pop("every", options.every)
    plan = make_plan("benchmark", None, given, every=every)
    start = time.perf_counter()
    done = carry_out(plan, classifier, data, _Telling())
    seconds = time.perf_counter() - start
    report = done.report
    return {
        **settings, "every": every, "seconds": seconds, "samples": report.samples,
        "samples_per_second": (report.samples or 0) / seconds, "examples": report.examples,
        "certified": list(report.certified_counts),
    }  # fmt: skip


class _Telling(Watcher):
    def forecast(self, samples: int, rate: float) -> None:
        print(f"  at most {samples:,} samples at {rate:,.0f}/s", flush=True)


def radii_of(options: argparse.Namespace) -> tuple[float, ...]:
    """Radii 0.05 apart."""
    return tuple(np.arange(0, options.largest_radius + 1e-9, 0.05).round(9).tolist())


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--network", default="fedcert.lab.networks:resnet18_cifar10")
    parser.add_argument("--sigma", type=float, required=True)
    parser.add_argument("--largest-radius", type=float, default=1.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precisions", default="float32,tf32,bfloat16")
    parser.add_argument("--n", type=int, default=100_000, help="samples of the fixed procedure in --pairs")
    parser.add_argument("--speed-n", type=int, default=20_000)
    parser.add_argument("--speed-every", type=int, default=200)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--pair-precision", default="bfloat16")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result: dict[str, Any] = {
        "machine": describe_machine("torch", "numpy"),
        "device": options.device,
        "sigma": options.sigma,
    }
    if options.device.startswith("cuda"):
        result["device"] = torch.cuda.get_device_name()
    data = load_data(options.data)
    image = next(iter(data.pieces()))[1][0]
    classifier: Any = load_classifier(options.network, weights=options.weights, model_id=None, device=options.device)
    classifier.module.eval()
    speeds: dict[str, Any] = {}
    for batch in (1000, 64):
        speeds[f"published, batch {batch}"] = published(
            classifier.module, image, options.sigma, options.speed_n, batch, options.device
        )
        print(f"published, batch {batch}: {speeds[f'published, batch {batch}']:,.0f} samples/s", flush=True)
    speeds["art, batch 1000"] = art(classifier.module, image, options.sigma, options.speed_n, 1000, 10)
    print("art:", speeds["art, batch 1000"], flush=True)
    for precision in options.precisions.split(","):
        made = run(options, data, precision=precision, n=options.speed_n, every=options.speed_every)
        speeds[f"fedcert fixed, {precision}"] = made["samples_per_second"]
        print(
            f"fedcert fixed, {precision}: {made['samples_per_second']:,.0f} samples/s ({made['seconds']:.1f} s)",
            flush=True,
        )
    result["samples_per_second"] = speeds
    if options.pairs:
        precision = options.pair_precision
        pairs = {
            "sequential": run(options, data, precision=precision, n=options.n, procedure="sequential"),
            "sequential, tolerance 0.02": run(
                options, data, precision=precision, n=options.n, procedure="sequential", tolerance=0.02
            ),
            "fixed": run(options, data, precision=precision, n=options.n),
        }
        fixed = np.array(pairs["fixed"]["certified"]) / pairs["fixed"]["examples"]
        for name, made in pairs.items():
            lost = (fixed - np.array(made["certified"]) / made["examples"]).max()
            made["points_lost_at_worst_radius"] = float(100 * lost)
            made["times_fewer_samples"] = pairs["fixed"]["samples"] / made["samples"]
            published_seconds = pairs["fixed"]["samples"] / speeds["published, batch 1000"]
            made["times_faster_than_published"] = published_seconds / made["seconds"]
            print(
                f"{name}: {made['seconds']:.1f} s, {made['samples']:,} samples, "
                f"{made['times_fewer_samples']:.2f} times fewer, {100 * lost:.2f} points lost, "
                f"{made['times_faster_than_published']:.1f} times faster than published",
                flush=True,
            )
        result["pairs"] = pairs
        result["radii"] = radii_of(options)
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
