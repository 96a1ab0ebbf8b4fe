"""Speed of certification, all sides in one run, and what the sequential procedure saves and costs.

    python benchmarks/certify.py DATA --weights WEIGHTS [--network fedcert.lab.networks:resnet18_cifar10] --sigma 0.5
        [--device cuda] [--speed float32:5,tf32:60,bfloat16:100] [--pairs] [--agreement] [--out results.json]

DATA is what `fedcert certify` takes. The others are in `rivals.py`: the published loop at two batch sizes, and ART if
it is installed. Times of fedcert are those of the public way in, from a loaded model to a report: noise, counting,
looking for a batch size and for fused layers are in them. `--pairs` certifies every image by the fixed and by the
sequential procedure and compares them, radius by radius. `--agreement` compares the counts of low precisions with those
of float32.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

from fedcert.certification.certificate import in_flight
from fedcert.certification.data.sources import load_data
from fedcert.certification.dataset_run import certify_dataset
from fedcert.certification.models.loading import load_classifier
from fedcert.certification.perturbation import Gaussian
from fedcert.certification.plan import plan_certification
from fedcert.certification.progress import ProgressListener
from fedcert.certification.seeds import Seed
from fedcert.certification.streams import Phase, Streams
from machine import describe_machine
from rivals import published, toolbox


class Bench:
    """One network, one data set, one device.

    Args:
        options: the command's.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.data = load_data(options.data)
        self.images = next(iter(self.data.pieces()))[1]
        self.radii = tuple(np.arange(0, options.largest_radius + 1e-9, 0.05).round(9).tolist())

    def classifier(self) -> Any:
        """The network, freshly loaded."""
        options = self.options
        return load_classifier(options.network, weights=options.weights, model_id=None, device=options.device)

    def rivals(self) -> dict[str, Any]:
        """Speeds of the others."""
        options, made = self.options, {}
        module = self.classifier().module.eval()
        for batch, images in zip((1000, 64), options.published_images, strict=True):
            name = f"published, batch {batch}"
            made[name] = published(module, self.images[:images], options.sigma, options.n, batch, options.device)
            told(name, made[name])
        width = int(module(torch.from_numpy(self.images[:1]).to(options.device)).shape[1])
        some = self.images[: options.toolbox_images]
        found = toolbox(module, some, options.sigma, options.n, 1000, width, options.device)
        if found is not None:
            made["ART, batch 1000"] = found
            told("ART, batch 1000", found)
        return made

    def run(self, every: int = 1, **settings: Any) -> dict[str, Any]:
        """One certification: its time, its samples and its curve."""
        options = self.options
        classifier = self.classifier()
        given = {"sigma": options.sigma, "failure_probability": 0.001, "radii": self.radii, "n": options.n, **settings}
        plan = plan_certification("benchmark", None, given, every=every)
        start = time.perf_counter()
        report = certify_dataset(plan, classifier, self.data, ProgressListener()).report
        seconds = time.perf_counter() - start
        return {
            **settings, "seconds": seconds, "samples": report.samples, "images": report.examples,
            "samples_per_second": (report.samples or 0) / seconds, "certified": list(report.certified_counts),
        }  # fmt: skip

    def speeds(self) -> dict[str, Any]:
        """Speeds of the fixed procedure in each precision, on some images."""
        made = {}
        for part in self.options.speed.split(","):
            precision, images = part.split(":")
            name = f"fedcert fixed, {precision}"
            made[name] = self.run(-(-len(self.data) // int(images)), precision=precision, procedure="fixed")
            told(name, made[name])
        return made

    def pairs(self, rate: float) -> dict[str, Any]:
        """Fixed and sequential on every image; `rate` is that of the published loop, to which times are compared."""
        precision = self.options.pair_precision
        pairs = {
            "sequential": self.run(precision=precision, procedure="sequential"),
            "sequential, tolerance 0.02": self.run(precision=precision, procedure="sequential", tolerance=0.02),
            "fixed": self.run(precision=precision, procedure="fixed"),
        }
        fixed = pairs["fixed"]
        for name, made in pairs.items():
            lost = np.array(fixed["certified"]) - made["certified"]
            made["points_lost_at_worst_radius"] = float(100 * lost.max() / made["images"])
            made["times_fewer_samples"] = fixed["samples"] / made["samples"]
            made["times_faster_than_published"] = fixed["samples"] / rate / made["seconds"]
            told(name, made)
            print(
                f"  {made['times_fewer_samples']:.2f} times fewer samples, {made['points_lost_at_worst_radius']:.2f} "
                f"points lost, {made['times_faster_than_published']:.1f} times faster than the published loop",
                flush=True,
            )
        return pairs

    def agreement(self, images: int, samples: int) -> dict[str, Any]:
        """Counts of low precisions beside float32's, with the same noise and with other noise."""
        some = self.images[:: max(1, len(self.images) // images)][:images]
        examples = in_flight(some, range(len(some)), Phase.ESTIMATION, samples)

        def counts(precision: str, seed: int) -> np.ndarray:
            classifier = self.classifier()
            with classifier.running(precision):
                width = classifier.width(some[:1])
                noise = Gaussian(self.options.sigma)
                sampler = classifier.sampler(width, noise, Streams(Seed.fixed(seed), "benchmark"), None, precision)
                sampler.fuse(some)
                return sampler.counts(examples)

        plain, made = counts("float32", 0), {}
        for precision in self.options.agreement.split(","):
            same, other = counts(precision, 0), counts(precision, 1)
            made[precision] = {
                "images": len(some), "samples": samples,
                "samples_that_moved": float(np.abs(same - plain).sum() / 2 / same.sum()),
                "selected_that_differ": int((same.argmax(axis=1) != plain.argmax(axis=1)).sum()),
                "chi_squared_p_value_with_other_noise": homogeneous(other, plain),
            }  # fmt: skip
            print(precision, made[precision], flush=True)
        made["float32"] = {"chi_squared_p_value_with_other_noise": homogeneous(counts("float32", 1), plain)}
        return made


def homogeneous(first: np.ndarray, second: np.ndarray) -> float:
    """The p-value of: on each image, both have the same probabilities of classes. Rare classes are put together."""
    statistic, freedom = 0.0, 0
    for row, other in zip(first, second, strict=True):
        table = np.stack([row, other])
        rare = table.sum(axis=0) < 20
        table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
        table = table[:, table.sum(axis=0) >= 20]
        if table.shape[1] > 1:
            answer = stats.chi2_contingency(table, correction=False)
            statistic, freedom = statistic + answer.statistic, freedom + answer.dof
    return float(stats.chi2.sf(statistic, freedom)) if freedom else 1.0


def told(name: str, made: dict[str, Any]) -> None:
    """Print a speed."""
    print(
        f"{name}: {made['samples_per_second']:,.0f} samples/s "
        f"({made['images']} images, {made['samples']:,} samples, {made['seconds']:.1f} s)",
        flush=True,
    )


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--network", default="fedcert.lab.networks:resnet18_cifar10")
    parser.add_argument("--sigma", type=float, required=True)
    parser.add_argument("--largest-radius", type=float, default=1.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--speed", default="float32:5", help="precision:images, …")
    parser.add_argument("--n", type=int, default=100_000, help="samples for each image")
    parser.add_argument("--published-images", type=int, nargs=2, default=(20, 5), help="at batch 1000 and at 64")
    parser.add_argument("--toolbox-images", type=int, default=3)
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--pair-precision", default="float32")
    parser.add_argument("--agreement", help="precision, …")
    parser.add_argument("--agreement-images", type=int, default=100)
    parser.add_argument("--agreement-samples", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    on_gpu = options.device.startswith("cuda")
    bench = Bench(options)
    result: dict[str, Any] = {
        "machine": describe_machine("torch", "numpy", "scipy"),
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "threads": torch.get_num_threads(),
        "network": options.network, "sigma": options.sigma, "n": options.n,
    }  # fmt: skip

    def keep(**figures: Any) -> None:
        result.update(figures)
        if options.out is not None:
            options.out.write_text(json.dumps(result, indent=1) + "\n")

    rivals = bench.rivals()
    keep(speeds={**rivals, **bench.speeds()})
    if options.pairs:
        keep(radii=bench.radii, pairs=bench.pairs(rivals["published, batch 1000"]["samples_per_second"]))
    if options.agreement:
        keep(agreement=bench.agreement(options.agreement_images, options.agreement_samples))


if __name__ == "__main__":
    main()
