"""The whole story on scikit-learn's digits: federated training, certification, estimates, the truth."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedcert._files.paths import kind_of_path, make_folder
from fedcert.certification.data.local_data import PIXEL_LEVELS
from fedcert.certification.run import certify
from fedcert.errors import CallError, require
from fedcert.estimation.clients.readings import own_curve
from fedcert.estimation.compare import Comparison, compare
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import Settings
from fedcert.lab.datasets.dataset import Images, Labels, as_floats
from fedcert.lab.datasets.digits import CLASSES, load_digits
from fedcert.lab.populations.mixes import draw_mix
from fedcert.lab.populations.partition import Dirichlet, Indices
from fedcert.report import Release, Report, Request, Smoothing, Target, write_whole
from fedcert.report.provenance import provenance
from fedcert.report.smoothing import POPULATION
from fedcert.show.figures import plot
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import write_page

if TYPE_CHECKING:
    from torch import nn

# All chosen for the demo: a minute or two on a laptop, and clients that differ visibly from the target.
CLIENTS = 20
TARGET_SIZE = 400  # of 1,797 digits: the largest class of the mix has 80 of about 180
TARGET_MIX = (0.05, 0.15, 0.05, 0.10, 0.05, 0.10, 0.05, 0.05, 0.20, 0.20)  # far from uniform
CONCENTRATION = 0.3  # of the clients' Dirichlet distribution: most hold a few of the digits
SIGMA = 0.5  # of the range of pixels; radii up to 1 can be certified
ROUNDS = 30  # what the minute allows
TARGET_NAME = "new district"
METHODS = ("vw", "ap", "ga", "blup")
"""Methods that need no counts per class."""
RECOMMENDED = "poststratified"
"""The method that fedcert chooses where clients disclose counts per class."""
PAPER = "paper"
"""Folder of the round with CERTIFY, as in the paper."""
REPORTS, CURVES = "reports", "reports-without-class-counts"
"""Folders of the clients' reports: with counts per class, and of CERTIFY's as the paper has them."""

CERTIFY = Smoothing.defaults(SIGMA, procedure="sequential", lattice=PIXEL_LEVELS)
"""Certificates of single examples, as the paper has them."""
PASSES = 32
"""Of population certificates: they lose one point at 2 sigma, the demo's largest radius."""
VOTE = Smoothing.defaults(SIGMA, procedure=POPULATION, n=PASSES, lattice=PIXEL_LEVELS)
"""Certificates of averages over examples."""
TRUTH_PASSES = 100
"""Of the target's own examples: more, so that chance moves the truth less than the estimate."""

StageListener = Callable[[str, int, int], None]
"""Called with a stage's name, what is done, and what there is to do."""


@dataclass(frozen=True)
class DemoRound:
    """A round with one kind of certificates, the clients and the model being the same.

    Attributes:
        estimate: from counts per class.
        truth: the same on the target's own examples, at each radius: certified accuracy, or what is proven of the vote.
        passes: noisy passes of an example, on average.
        seconds: that all clients together took to certify.
    """

    estimate: Estimate
    truth: tuple[float, ...]
    passes: float
    seconds: float


@dataclass(frozen=True)
class Demo:
    """The demo's results.

    Attributes:
        folder: where its files are.
        reports: one per client.
        truth: the report on the target's own examples, which are not available in practice.
        estimates: of CERTIFY's round, one per method: the first ones without counts per class, the last one with them.
        errors: method -> error against the truth.
        certify_round: CERTIFY's.
        vote_round: that of population certificates.
    """

    folder: Path
    reports: tuple[Report, ...]
    truth: Report
    estimates: tuple[Estimate, ...]
    errors: dict[str, Comparison]
    certify_round: DemoRound
    vote_round: DemoRound


@dataclass(frozen=True)
class _Population:
    """The digits, divided: a target, and clients with examples to train on and examples to certify on."""

    pixels: Images
    labels: Labels
    target: Indices
    training: list[Indices]
    testing: list[Indices]

    @classmethod
    def draw(cls, generator: np.random.Generator) -> _Population:
        pixels, labels = load_digits()
        target = draw_mix(labels, np.array(TARGET_MIX), TARGET_SIZE, generator)
        rest = np.setdiff1d(np.arange(len(labels)), target)
        parts = [rest[part] for part in Dirichlet(CONCENTRATION).divide(labels[rest], CLIENTS, generator)]
        # Half for training, half for certification: digits is small, the paper's 80:20 would leave too few.
        return cls(pixels, labels, target, [part[::2] for part in parts], [part[1::2] for part in parts])

    @property
    def target_mix(self) -> dict[str, float]:
        """The target's class mix."""
        shares = np.bincount(self.labels[self.target], minlength=len(CLASSES)) / len(self.target)
        return dict(zip(CLASSES, shares.tolist(), strict=True))


def run_demo(folder: Path, seed: int | None, on_progress: StageListener) -> Demo:
    """Run the demo and write its files.

    Args:
        folder: where to write; made if need be.
        seed: of everything random, the noise of certificates too; where None, of the data and the training alone (0),
            and the noise is secret, as it should be.
        on_progress: called as work proceeds.

    Raises:
        MissingExtra: torch, scikit-learn or matplotlib is not installed.
        CallError: the folder is a file.
    """
    for package in ("torch", "sklearn", "matplotlib", "safetensors.torch"):
        require(package, "the demo", "demo")
    check_folder(folder)
    paper = folder / PAPER
    for place in (folder, folder / "data", folder / REPORTS, paper / REPORTS, paper / CURVES):
        make_folder(place)
    generator = np.random.default_rng(seed or 0)
    population = _Population.draw(generator)
    network = _train(population, folder, seed or 0, on_progress)
    vote_request = _write_request(network, population, VOTE, folder, generator)
    vote_round = _count_right_answers(network, population, vote_request, folder, seed, on_progress)
    request = _write_request(network, population, CERTIFY, paper, generator)
    reports, truth, seconds = _certify(network, population, request, paper, seed, on_progress)
    curves, disclosed = (
        PreparedClients.of(clients_of(given), Settings(seed=seed or 0))
        for given in ([_without_class_counts(report) for report in reports], reports)
    )
    estimates = (
        *(estimate_of(curves, request.target, method) for method in METHODS),
        estimate_of(disclosed, request.target, RECOMMENDED),
    )
    for each in estimates:
        write_whole(paper / f"estimate-{each.method}.json", each.dumps())
    title = "Certified accuracy (CERTIFY) of the target, by method"
    curve = truth.certified_accuracy
    plot(estimates, paper / "curve.png", truth=curve, title=title, interval_of=RECOMMENDED)
    errors = {each.method: compare(each.certified_accuracy, truth.certified_accuracy) for each in estimates}
    certify_round = DemoRound(estimates[-1], truth.certified_accuracy, _passes(reports), seconds)
    return Demo(folder, tuple(reports), truth, estimates, errors, certify_round, vote_round)


def _train(population: _Population, folder: Path, seed: int, on_progress: StageListener) -> nn.Module:
    import safetensors.torch
    import torch

    from fedcert.lab.networks import digits_network
    from fedcert.lab.training.rounds import FederatedTraining
    from fedcert.lab.training.settings import Training

    # In training the network is so small that a second thread waits longer than it works.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    network = digits_network()
    settings = Training(
        rounds=ROUNDS, clients_per_round=CLIENTS, epochs=2, batch_size=16, learning_rate=0.05, momentum=0.9,
        sigma=SIGMA, padding=0, flip=False, seed=seed,
    )  # fmt: skip
    images, labels = torch.from_numpy(population.pixels), torch.from_numpy(population.labels)
    on_progress("training", 0, ROUNDS)
    for finished in FederatedTraining(network, images, labels, population.training, settings).rounds():
        on_progress("training", finished.number, ROUNDS)
    torch.set_num_threads(threads)
    weights = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    write_whole(folder / "model.safetensors", safetensors.torch.save(weights))
    return network


def _write_request(
    network: nn.Module, population: _Population, smoothing: Smoothing, folder: Path, generator: np.random.Generator
) -> Request:
    from fedcert.certification.models.classifiers import digest_of_module

    request = Request(
        model=digest_of_module(network),
        smoothing=smoothing,
        radii=VOTE.default_radii,  # of both kinds, so that they can be compared
        classes=CLASSES,
        target=Target(name=TARGET_NAME, distribution=population.target_mix),
        roster=tuple(f"office-{number:02d}" for number in range(1, CLIENTS + 1)),
        release=Release(class_counts=True),
        nonce=generator.bytes(16).hex(),
        **provenance(),
    )
    write_whole(folder / "request.json", request.dumps())
    return request


def _certify(
    network: nn.Module,
    population: _Population,
    request: Request,
    folder: Path,
    seed: int | None,
    on_progress: StageListener,
) -> tuple[list[Report], Report, float]:
    """The clients' reports with counts per class, the report on the target's own examples, and the clients' seconds."""
    stage = "certifying"
    reports, seconds = _certify_clients(network, population, request, seed, stage, on_progress)
    for report in reports:
        write_whole(folder / CURVES / f"{report.client}.json", _without_class_counts(report).dumps())
        write_whole(folder / REPORTS / f"{report.client}.json", report.dumps())
    images, labels = as_floats(population.pixels[population.target]), population.labels[population.target]
    truth = certify(
        network, images, labels, client="target", sigma=SIGMA, lattice=PIXEL_LEVELS, classes=CLASSES,
        procedure=CERTIFY.procedure, radii=request.radii, seed=seed, progress=False,
    )  # fmt: skip
    write_whole(folder / "truth.json", truth.dumps())
    on_progress(stage, CLIENTS + 1, CLIENTS + 1)
    return reports, truth, seconds


def _certify_clients(
    network: nn.Module,
    population: _Population,
    request: Request,
    seed: int | None,
    stage: str,
    on_progress: StageListener,
) -> tuple[list[Report], float]:
    """The clients' reports, in the roster's order, and the seconds that all of them took."""
    images, labels = as_floats(population.pixels), population.labels
    reports: list[Report] = []
    began = time.monotonic()
    on_progress(stage, 0, CLIENTS + 1)
    for name, part in zip(request.roster or (), population.testing, strict=True):
        report = certify(
            network, images[part], labels[part], client=name, request=request, seed=seed, class_counts=True,
            progress=False,
        )  # fmt: skip
        reports.append(report)
        on_progress(stage, len(reports), CLIENTS + 1)
    return reports, time.monotonic() - began


def _count_right_answers(
    network: nn.Module,
    population: _Population,
    request: Request,
    folder: Path,
    seed: int | None,
    on_progress: StageListener,
) -> DemoRound:
    """The round with population certificates: reports, estimate, figure, page, and the truth on the target's examples.

    Returns:
        The round.
    """
    stage, images, labels = "counting right answers", as_floats(population.pixels), population.labels
    for name, part in zip(request.roster or (), population.testing, strict=True):
        write_whole(folder / "data" / f"{name}.npz", _npz(images[part], labels[part]))
    reports, seconds = _certify_clients(network, population, request, seed, stage, on_progress)
    for report in reports:
        write_whole(folder / REPORTS / f"{report.client}.json", report.dumps())
    target = population.target
    own = certify(
        network, images[target], labels[target], client="target", sigma=SIGMA, lattice=PIXEL_LEVELS, classes=CLASSES,
        procedure=VOTE.procedure, n=TRUTH_PASSES, votes=VOTE.votes, seed=seed, progress=False,
    )  # fmt: skip
    write_whole(folder / "truth.json", own.dumps())
    on_progress(stage, CLIENTS + 1, CLIENTS + 1)
    prepared = PreparedClients.of(clients_of(reports), Settings(seed=seed or 0))
    estimate, curve = estimate_of(prepared, request.target, "auto"), own_curve(own, radii=request.radii)
    write_whole(folder / "estimate.json", estimate.dumps())
    title = f"Proven accuracy in the {TARGET_NAME}, with its 95% interval"
    plot(estimate, folder / "curve.png", truth=curve, title=title)
    write_page(Contents.of_clients(prepared, estimate), folder / "page.html")
    return DemoRound(estimate, curve, _passes(reports), seconds)


def _passes(reports: Sequence[Report]) -> float:
    """Noisy passes of an example, on average."""
    return sum(report.samples or 0 for report in reports) / max(1, sum(report.examples for report in reports))


def _without_class_counts(report: Report) -> Report:
    return replace(report, class_certified_counts=None)


def check_folder(folder: Path) -> None:
    """Check that the demo's files can go there.

    Raises:
        CallError: it is a file.
    """
    if kind_of_path(folder) not in (None, "a folder"):
        raise CallError(f"the demo's folder {str(folder)!r} is a file; name a folder with --out")


def _npz(x: npt.NDArray[np.float32], y: npt.NDArray[np.int64]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=x, y=y)
    return buffer.getvalue()
