"""Population certificates on a real network: what few passes prove, beside CERTIFY, the truth and real attacks.

    python benchmarks/population.py measure CIFAR --sigma 0.25 --folder FOLDER [--device cuda] [--epochs 30]
        [--steps train,passes,counts,sequential,many,attack,bare,few_fixed] [--images 10000] [--n 10000]
    python benchmarks/population.py report FOLDER… [--out results.json]

CIFAR is the folder of CIFAR-10's binary files. `measure` trains ResNet-18 with noise, then counts on the test images:
right answers among 32 and 100 passes by the public way in (`passes`), all classes among n samples, of which CERTIFY's
fixed procedure and the truth of the vote follow (`counts`), the sequential procedure (`sequential`), both with ten
times the samples on every 20th image (`many`), and attacks on every 10th (`attack`: projected gradient ascent with the
expectation over noise, then the deployed vote). Each step leaves its file in FOLDER, and is not done again where that
is there. `report` makes the tables from these files.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special, stats

import fedcert
from fedcert.certification.bounds import error_upper_bound
from fedcert.population.vote import vote_accuracy
from fedcert.report import Report, Smoothing
from machine import describe_machine

PASSES = (32, 100)
RATIOS = (0.0, 0.4, 0.8, 1.2, 1.6, 2.0, 2.4)
ATTACKED = (0.4, 0.8, 1.2, 1.6, 2.0)
"""Radii of the tables and of the attacks, in units of sigma."""
VOTES = 11
FAILURE = 0.001
BARE_SECONDS = 10.0
"""Of timing the bare network, for each size of a batch."""
FEW, OF_MANY, SOME = 10, 20, 500
"""One image in ten is attacked, one in twenty has ten times the samples; images that are sampled at once."""


class Measurement:
    """One network on one device.

    Args:
        options: the command's.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        from fedcert.lab.datasets.cifar import read_cifar
        from fedcert.lab.networks import resnet18_cifar10

        self.options, self.folder = options, options.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = read_cifar(options.cifar)
        torch.manual_seed(0)
        self.network = resnet18_cifar10().to(options.device)
        self.images, self.labels = self.data.test_images[: options.images], self.data.test_labels[: options.images]
        self.precision = "bfloat16" if options.device.startswith("cuda") else "float32"

    def step(self, name: str) -> None:
        """Do a step, unless its file is there."""
        place = self.folder / f"{name}.npz"
        if name != "train" and place.exists():
            return
        start = time.perf_counter()
        figures = getattr(self, name)()
        if figures is not None:
            np.savez_compressed(place, **figures)
        print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)

    def train(self) -> None:
        """Train the network with noise, or load it."""
        import torch
        from safetensors.torch import load_file, save_file

        from fedcert.lab.central import CentralTraining, train_centrally

        place = self.folder / "weights.safetensors"
        if place.exists():
            self.network.load_state_dict(load_file(place))
            return
        on_gpu = self.options.device.startswith("cuda")
        settings = CentralTraining(
            epochs=self.options.epochs, sigma=self.options.sigma, bfloat16=on_gpu, channels_last=on_gpu
        )
        generator = torch.Generator(self.options.device).manual_seed(0)
        images, labels = (
            torch.from_numpy(part[: self.options.train_images].copy()).to(self.options.device)
            for part in (self.data.train_images, self.data.train_labels.astype(np.int64))
        )
        for epoch in train_centrally(self.network, images, labels, settings, generator):
            print(f"epoch {epoch.number}: loss {epoch.loss:.3f}, accuracy {epoch.accuracy:.3f}", flush=True)
        save_file({name: value.contiguous() for name, value in self.network.state_dict().items()}, place)

    def certified(self, every: int = 1, **settings: Any) -> tuple[Any, float]:
        """A certification by the public way in: its certificates, and its seconds after the model is loaded."""
        from fedcert.certification.data.local_data import data_of
        from fedcert.certification.dataset_run import certify_dataset
        from fedcert.certification.models.classifiers import classifier_of
        from fedcert.certification.plan import plan_certification
        from fedcert.certification.progress import ProgressListener

        radii = tuple(round(self.options.sigma * 0.1 * step, 9) for step in range(25))
        given = {"sigma": self.options.sigma, "radii": radii, **settings}
        plan = plan_certification("benchmark", None, given)
        classifier, data = classifier_of(self.network), data_of(self.images, self.labels)
        only = None if every == 1 else range(0, len(self.labels), every)
        start = time.perf_counter()
        result = certify_dataset(plan, classifier, data, ProgressListener(), only=only)
        return result.certificates, time.perf_counter() - start

    def passes(self) -> dict[str, Any]:
        """Right answers among few passes, by the public way in."""
        figures: dict[str, Any] = {}
        self.certified(every=100, procedure="population")  # what a device does once: kernels, memory
        for n in PASSES:
            table, seconds = self.certified(procedure="population", n=n)
            figures |= {f"correct_{n}": table.correct, f"seconds_{n}": seconds}
            print(f"{n} passes: {seconds:.2f} s, {table.samples.sum() / seconds:,.0f} samples/s", flush=True)
        return figures

    def bare(self) -> dict[str, Any]:
        """Passes per second of the network alone, on noisy images that are there already: the best of some batches."""
        import torch

        images = torch.rand(1000, 3, 32, 32, device=self.options.device)
        self.network.eval()
        rates = {}
        with torch.inference_mode():
            for size in (32, 64, 250, 1000):
                batch = images[:size].contiguous(memory_format=torch.channels_last)
                self.network(batch)
                calls, start = 0, time.perf_counter()
                while time.perf_counter() - start < BARE_SECONDS:
                    self.network(batch)
                    calls += 1
                rates[f"rate_{size}"] = calls * size / (time.perf_counter() - start)
                print(f"bare network, {size} at a time: {rates[f'rate_{size}']:,.0f} passes/s", flush=True)
        return rates

    def few_fixed(self) -> dict[str, Any]:
        """CERTIFY's fixed procedure on a few images, from which its time for all is extrapolated."""
        rows = np.arange(self.options.fixed_images)
        _, counts, seconds = self._counts(rows, self.options.n)
        per_image = seconds / len(rows)
        print(f"CERTIFY fixed, n = {self.options.n}: {per_image:.1f} s an image", flush=True)
        return {"images": len(rows), "samples": counts.sum() + 100 * len(rows), "seconds": seconds}

    def _counts(self, rows: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Selected classes and estimation counts of all classes, with seconds."""
        from fedcert.certification.certificate import in_flight
        from fedcert.certification.models.classifiers import classifier_of
        from fedcert.certification.perturbation import perturbation_of
        from fedcert.certification.seeds import Seed
        from fedcert.certification.streams import Phase, Streams

        smoothing = Smoothing(sigma=self.options.sigma, n=n, precision=self.precision, lattice=255)
        classifier = classifier_of(self.network)
        images = (self.images / np.float32(255)).astype(np.float32)
        with classifier.running(self.precision):
            streams = Streams(Seed.fixed(n), "truth")
            sampler = classifier.sampler(10, perturbation_of(smoothing), streams, None, self.precision)
            sampler.fuse(images[:64])
            sampler.counts(in_flight(images[:1], [0], Phase.FORECAST, 16_000))
            start = time.perf_counter()
            selected, counts = [], []
            for place in range(0, len(rows), SOME):
                some = rows[place : place + SOME]
                for phase, samples, kept in ((Phase.SELECTION, 100, selected), (Phase.ESTIMATION, n, counts)):
                    kept.append(sampler.counts(in_flight(images[some], some.tolist(), phase, samples)))
        seconds = time.perf_counter() - start
        return np.concatenate(selected).argmax(axis=1), np.concatenate(counts), seconds

    def counts(self) -> dict[str, Any]:
        """CERTIFY's fixed procedure, with the counts of all classes."""
        selected, counts, seconds = self._counts(np.arange(len(self.labels)), self.options.n)
        return {"selected": selected, "counts": counts.astype(np.int32), "seconds": seconds}

    def sequential(self) -> dict[str, Any]:
        """CERTIFY's sequential procedure."""
        table, seconds = self.certified(procedure="sequential", n=self.options.n)
        return {"selected": table.selected, "radius": table.radius, "samples": table.samples, "seconds": seconds}

    def many(self) -> dict[str, Any]:
        """Both procedures with ten times the samples, on some images."""
        rows, n = np.arange(0, len(self.labels), OF_MANY), 10 * self.options.n
        table, seconds = self.certified(OF_MANY, procedure="sequential", n=n)
        figures = {"radius": table.radius, "chosen": table.selected, "samples": table.samples, "sequential": seconds}
        selected, counts, seconds = self._counts(rows, n)
        return figures | {"selected": selected, "counts": counts.astype(np.int32), "seconds": seconds, "rows": rows}

    def attack(self) -> dict[str, Any]:
        """How often the deployed vote is right on attacked images."""
        import torch

        options, rows = self.options, np.arange(0, len(self.labels), FEW)
        device = options.device
        clean = torch.from_numpy((self.images[rows] / np.float32(255)).astype(np.float32)).to(device)
        labels = torch.from_numpy(self.labels[rows].astype(np.int64)).to(device)
        deployed = fedcert.smooth(self.network, options.sigma, votes=VOTES, lattice=255, precision=self.precision)
        right = []
        for ratio in (0.0, *ATTACKED):
            moved = torch.cat([
                attacked(self.network, clean[start : start + SOME], labels[start : start + SOME], options.sigma, ratio,
                         options.attack_steps, options.attack_draws)
                for start in range(0, len(clean), SOME)
            ]) if ratio else clean  # fmt: skip
            largest = float((moved - clean).flatten(1).norm(dim=1).max())
            if largest > ratio * options.sigma * (1 + 1e-4):
                raise ArithmeticError(f"an attack went {largest} far")
            answers = np.stack([
                np.asarray(deployed.vote(moved).labels) == self.labels[rows] for _ in range(options.answers)
            ])  # fmt: skip
            right.append(answers.mean(axis=0))
            print(f"attack at {ratio} sigma: {right[-1].mean():.3f} right", flush=True)
        return {"rows": rows, "ratios": np.array((0.0, *ATTACKED)), "right": np.array(right)}


def attacked(network: Any, clean: Any, labels: Any, sigma: float, ratio: float, steps: int, draws: int) -> Any:
    """Images moved within a radius against the smoothed classifier (projected gradient ascent, expectation over noise).

    The loss is the cross-entropy of the mean of the softmax over fresh noise in every step (Salman et al. 2019). Pixels
    may leave [0, 1]: the certificate allows for that.
    """
    import torch

    radius = ratio * sigma
    generator = torch.Generator(clean.device).manual_seed(1)
    change = torch.zeros_like(clean)
    network.eval()
    for _ in range(steps):
        change.requires_grad_(True)
        noisy = (clean + change).repeat(draws, 1, 1, 1)
        noisy = noisy + sigma * torch.randn(noisy.shape, generator=generator, device=clean.device)
        with torch.autocast(clean.device.type, torch.bfloat16, enabled=clean.is_cuda):
            scores = network(noisy.contiguous(memory_format=torch.channels_last))
        chance = scores.float().softmax(dim=1).view(draws, len(clean), -1).mean(dim=0)
        loss = torch.nn.functional.nll_loss(chance.clamp_min(1e-12).log(), labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, change)
        with torch.no_grad():
            length = gradient.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None, None]
            change = change.detach() + 2.5 * radius / steps * gradient / length
            size = change.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None, None]
            change = change * (radius / size).clamp_max(1.0)
    return (clean + change).detach()


def measure(options: argparse.Namespace) -> None:
    """Do the steps."""
    measurement = Measurement(options)
    facts = {"machine": describe_machine("torch", "numpy", "scipy"), "sigma": options.sigma, "n": options.n}
    if options.device.startswith("cuda"):
        import torch

        facts["device"] = torch.cuda.get_device_name()
    settings = {"epochs": options.epochs, "steps": options.attack_steps, "draws": options.attack_draws}
    facts |= {"precision": measurement.precision, "images": len(measurement.labels), **settings}
    (options.folder / "facts.json").write_text(json.dumps(facts))
    np.save(options.folder / "labels.npy", measurement.labels)
    for name in ["train", *(step for step in options.steps.split(",") if step != "train")]:
        measurement.step(name)


def truth(right: np.ndarray, n: int, ratio: float) -> tuple[float, float]:
    """The vote's accuracy at a radius from counts of the true class, and the standard error of n samples in it."""
    shares = right / n
    moved = special.ndtr(special.ndtri(np.clip(shares, 1e-12, 1 - 1e-12)) - ratio)
    value, _ = vote_accuracy(moved, 1 - moved, VOTES)
    step = np.sqrt(np.maximum(shares * (1 - shares), 0.25 / n) / n)
    beside = np.clip(shares + step, 1e-12, 1 - 1e-12)
    other, _ = vote_accuracy(
        special.ndtr(special.ndtri(beside) - ratio), special.ndtr(ratio - special.ndtri(beside)), VOTES
    )
    return float(value.mean()), float(np.sqrt(np.mean((other - value) ** 2) / len(right)))


def proven(correct: np.ndarray, labels: np.ndarray, n: int, facts: dict[str, Any], ratios: tuple[float, ...]) -> Any:
    """The estimate from right answers, as one client's report."""
    smoothing = Smoothing(sigma=facts["sigma"], procedure="population", n=n)
    cells = np.zeros((10, n + 1), dtype=np.int64)
    np.add.at(cells, (labels, correct), 1)
    report = Report(
        client="benchmark", model="resnet18", smoothing=smoothing,
        radii=[round(ratio * facts["sigma"], 9) for ratio in ratios], classes=[str(each) for each in range(10)],
        label_counts=cells.sum(axis=1).tolist(), correct_counts=cells.sum(axis=0).tolist(),
        class_correct_counts=cells.tolist(),
    )  # fmt: skip
    mix = {str(each): int(count) for each, count in enumerate(cells.sum(axis=1)) if count}
    return fedcert.estimate(replace(report), target=mix)


def share_certified(selected: np.ndarray, counts: np.ndarray, labels: np.ndarray, sigma: float) -> list[float]:
    """Certified accuracy of the fixed procedure at the radii of the table."""
    n = int(counts[0].sum())
    successes = counts[np.arange(len(counts)), selected]
    bound = error_upper_bound(successes, n, FAILURE)
    radius = np.where(bound < 0.5, -sigma * special.ndtri(np.minimum(bound, 0.5)), -1.0)
    return [float(np.mean((selected == labels) & (radius > 0) & (radius >= ratio * sigma))) for ratio in RATIOS]


def summary(folder: Path) -> dict[str, Any]:
    """The tables of one network."""
    facts, labels = json.loads((folder / "facts.json").read_text()), np.load(folder / "labels.npy").astype(np.int64)
    result: dict[str, Any] = {**facts, "ratios": RATIOS}
    files = {place.stem: np.load(place) for place in folder.glob("*.npz")}
    sigma = facts["sigma"]
    if "counts" in files:
        counts = files["counts"]["counts"]
        right, n = counts[np.arange(len(labels)), labels], int(counts[0].sum())
        result["truth"], result["truth_error"] = map(
            list, zip(*(truth(right, n, ratio) for ratio in RATIOS), strict=True)
        )
        result["certify_fixed"] = {
            "certified": share_certified(files["counts"]["selected"], counts, labels, sigma),
            "passes": n + 100, "seconds": float(files["counts"]["seconds"]),
        }  # fmt: skip
    if "sequential" in files:
        part = files["sequential"]
        right = part["selected"] == labels
        result["certify_sequential"] = {
            "certified": [float(np.mean(right & (part["radius"] > 0) & (part["radius"] >= r * sigma))) for r in RATIOS],
            "passes": float(part["samples"].mean()), "seconds": float(part["seconds"]),
        }  # fmt: skip
    for n in PASSES:
        estimate = proven(files["passes"][f"correct_{n}"], labels, n, facts, RATIOS)
        scores = np.array([getattr(estimate, name) for name in ("certified_accuracy", "lower", "upper")])
        seconds = float(files["passes"][f"seconds_{n}"])
        result[f"population_{n}"] = {
            "proven": scores[0].tolist(), "lower": scores[1].tolist(), "upper": scores[2].tolist(), "passes": n,
            "seconds": seconds,
        }  # fmt: skip
    if "many" in files:
        part = files["many"]
        some = labels[part["rows"]]
        right = part["chosen"] == some
        result["every_20th"] = {
            "fixed": share_certified(part["selected"], part["counts"], some, sigma),
            "fixed_seconds": float(part["seconds"]), "fixed_passes": int(part["counts"][0].sum()) + 100,
            "sequential": [
                float(np.mean(right & (part["radius"] > 0) & (part["radius"] >= ratio * sigma))) for ratio in RATIOS
            ],
            "sequential_seconds": float(part["sequential"]), "sequential_passes": float(part["samples"].mean()),
        }  # fmt: skip
        for n in PASSES:
            own = proven(files["passes"][f"correct_{n}"][part["rows"]], some, n, facts, RATIOS)
            result["every_20th"][f"population_{n}"] = list(own.certified_accuracy)
    if "bare" in files:
        result["bare_passes_per_second"] = {name: float(value) for name, value in files["bare"].items()}
    if "few_fixed" in files:
        result["few_fixed"] = {name: float(value) for name, value in files["few_fixed"].items()}
    if "attack" in files:
        part = files["attack"]
        ratios = tuple(part["ratios"].tolist())
        rows, right = part["rows"], part["right"]
        own = proven(files["passes"]["correct_32"][rows], labels[rows], 32, facts, ratios)
        result["attack"] = {
            "images": len(rows), "ratios": ratios, "right": right.mean(axis=1).tolist(),
            "proven": list(own.certified_accuracy), "lower": list(own.lower), "upper": list(own.upper),
        }  # fmt: skip
    return result


def chance(result: dict[str, Any], n: int) -> list[float]:
    """The standard error of proven less true at each radius, n passes being new for the same images."""
    width = np.subtract(result[f"population_{n}"]["upper"], result[f"population_{n}"]["lower"])
    quantile = 2 * stats.norm.ppf(0.975)
    return np.hypot(width / quantile, result["truth_error"]).tolist()


def show(result: dict[str, Any]) -> None:
    """Print the tables."""
    print(f"sigma {result['sigma']}, {result['images']} images")
    rows = {"truth of the vote": result.get("truth")}
    for n in PASSES:
        rows[f"population, {n} passes"] = result[f"population_{n}"]["proven"]
        rows[f"  lower end, {n}"] = result[f"population_{n}"]["lower"]
    for name in ("certify_fixed", "certify_sequential"):
        if name in result:
            rows[f"{name}, {result[name]['passes']:,.0f} passes"] = result[name]["certified"]
    if "every_20th" in result:
        rows |= {
            f"every 20th: {name}": value for name, value in result["every_20th"].items() if isinstance(value, list)
        }
    print(f"{'':34}" + " ".join(f"{ratio:6.1f}" for ratio in RATIOS))
    for name, row in rows.items():
        if row is not None:
            print(f"{name:34}" + " ".join(f"{value:6.3f}" for value in row))
    for name in ("population_32", "population_100", "certify_fixed", "certify_sequential"):
        if name in result:
            print(f"{name}: {result[name]['seconds']:.1f} s")
    if "attack" in result:
        attack = result["attack"]
        for name in ("ratios", "right", "proven", "lower", "upper"):
            print(f"attack, {name:26}" + " ".join(f"{value:6.3f}" for value in attack[name]))


def main() -> None:
    """Measure, or report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("measure")
    first.add_argument("cifar", type=Path)
    first.add_argument("--sigma", type=float, required=True)
    first.add_argument("--folder", type=Path, required=True)
    first.add_argument("--device", default="cpu")
    first.add_argument("--epochs", type=int, default=30)
    first.add_argument("--train-images", type=int, default=50_000)
    first.add_argument("--images", type=int, default=10_000)
    first.add_argument("--n", type=int, default=10_000)
    first.add_argument("--steps", default="train,passes,counts,sequential,many,attack")
    first.add_argument("--fixed-images", type=int, default=20, help="of the step few_fixed")
    first.add_argument("--attack-steps", type=int, default=40)
    first.add_argument("--attack-draws", type=int, default=8)
    first.add_argument("--answers", type=int, default=10, help="votes on each attacked image")
    second = commands.add_parser("report")
    second.add_argument("folders", type=Path, nargs="+")
    second.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.command == "measure":
        measure(options)
        return
    results = [summary(folder) for folder in options.folders]
    for result in results:
        show(result)
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
