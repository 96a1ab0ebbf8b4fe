"""The whole story on scikit-learn's digits: federated training, certification, estimates, the truth."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedcert._files.paths import kind_of_path
from fedcert.certification.run import certify
from fedcert.errors import CallError, FileProblem, require
from fedcert.estimation.compare import Comparison, compare
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import Settings
from fedcert.lab.datasets.dataset import as_floats
from fedcert.lab.datasets.digits import CLASSES, load_digits
from fedcert.lab.populations.mixes import draw_mix
from fedcert.lab.populations.partition import Dirichlet
from fedcert.report import Report, Request, Smoothing, Target, write_whole
from fedcert.show.figures import plot
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import write_page
from fedcert.version import __version__

CLIENTS = 20
TARGET_SIZE = 400
TARGET_MIX = (0.05, 0.15, 0.05, 0.10, 0.05, 0.10, 0.05, 0.05, 0.20, 0.20)
CONCENTRATION = 0.3
SIGMA = 0.5
ROUNDS = 30
METHODS = ("vw", "ap", "ga", "blup")
BEST = "blup"
"""Whose interval is shown."""


@dataclass(frozen=True)
class Demo:
    """What the demo made.

    Attributes:
        folder: where its files are.
        reports: one per client.
        truth: the report on the target's own examples, which nobody would have in practice.
        estimates: one per method.
        errors: method -> error against the truth.
    """

    folder: Path
    reports: tuple[Report, ...]
    truth: Report
    estimates: tuple[Estimate, ...]
    errors: dict[str, Comparison]


def run_demo(folder: Path, seed: int, tell: Callable[[str, int, int], None]) -> Demo:
    """Run the demo and write its files.

    Args:
        folder: where to write; made if need be.
        seed: of everything random.
        tell: called with the stage's name, what is done and what there is to do.

    Raises:
        MissingExtra: torch, scikit-learn or matplotlib is not installed.
        CallError: the folder is a file.
    """
    torch = require("torch", "the demo", "demo")
    require("sklearn", "the demo", "demo")
    require("matplotlib", "the demo", "demo")
    safetensors = require("safetensors.torch", "the demo", "demo")
    check_folder(folder)
    for place in (folder, folder / "data", folder / "reports"):
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileProblem(f"cannot make the folder {str(place)!r}: {error.strerror or error}") from None

    from fedcert.certification.models.classifiers import digest_of_module
    from fedcert.lab.networks import digits_network
    from fedcert.lab.training.rounds import FederatedTraining
    from fedcert.lab.training.settings import Training

    # In training the network is so small that a second thread waits longer than it works.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    generator = np.random.default_rng(seed)
    pixels, labels = load_digits()
    images = as_floats(pixels)
    in_target = draw_mix(labels, np.array(TARGET_MIX), TARGET_SIZE, generator)
    rest = np.setdiff1d(np.arange(len(labels)), in_target)
    parts = [rest[part] for part in Dirichlet(CONCENTRATION).spread(labels[rest], CLIENTS, generator)]
    # Half for training, half for certification: digits is small, the paper's 80:20 would leave too few.
    train_parts, test_parts = [part[::2] for part in parts], [part[1::2] for part in parts]

    torch.manual_seed(seed)
    network = digits_network()
    settings = Training(
        rounds=ROUNDS, clients_per_round=CLIENTS, epochs=2, batch_size=16, learning_rate=0.05, momentum=0.9,
        sigma=SIGMA, padding=0, flip=False, seed=seed,
    )  # fmt: skip
    tell("training", 0, ROUNDS)
    federation = FederatedTraining(network, torch.from_numpy(pixels), torch.from_numpy(labels), train_parts, settings)
    for made in federation.rounds():
        tell("training", made.number, ROUNDS)
    torch.set_num_threads(threads)
    weights = safetensors.save({name: tensor.contiguous() for name, tensor in network.state_dict().items()})
    write_whole(folder / "model.safetensors", weights)

    names = [f"client-{number:02d}" for number in range(1, CLIENTS + 1)]
    shares = np.bincount(labels[in_target], minlength=len(CLASSES)) / len(in_target)
    request = Request(
        model=digest_of_module(network),
        smoothing=Smoothing.usual(SIGMA),
        classes=CLASSES,
        target=Target(name="demo population", distribution=dict(zip(CLASSES, shares.tolist(), strict=True))),
        roster=tuple(names),
        nonce=generator.bytes(16).hex(),
        software=f"fedcert {__version__}",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    write_whole(folder / "request.json", request.dumps())
    reports = []
    tell("certifying", 0, CLIENTS + 1)
    for name, part in zip(names, test_parts, strict=True):
        write_whole(folder / "data" / f"{name}.npz", _npz(images[part], labels[part]))
        report = certify(network, images[part], labels[part], client=name, request=request, seed=seed)
        write_whole(folder / "reports" / f"{name}.json", report.dumps())
        reports.append(report)
        tell("certifying", len(reports), CLIENTS + 1)
    truth = certify(
        network, images[in_target], labels[in_target], client="target", sigma=SIGMA, classes=CLASSES, seed=seed
    )
    write_whole(folder / "truth.json", truth.dumps())
    tell("certifying", CLIENTS + 1, CLIENTS + 1)

    prepared = PreparedClients.of(clients_of(reports), Settings(seed=seed))
    estimates = tuple(estimate_of(prepared, request.target, method) for method in METHODS)
    for one in estimates:
        write_whole(folder / f"estimate-{one.method}.json", one.dumps())
    title = "Certified accuracy of the target, with BLUP's 95% interval"
    plot(estimates, folder / "curve.png", truth=truth.certified_accuracy, title=title, interval_of=BEST)
    write_page(Contents.of_clients(prepared, estimates[METHODS.index(BEST)]), folder / "page.html")
    errors = {one.method: compare(one.certified_accuracy, truth.certified_accuracy) for one in estimates}
    return Demo(folder, tuple(reports), truth, estimates, errors)


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
