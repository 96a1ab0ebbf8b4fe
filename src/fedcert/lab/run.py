"""Running experiments: training round by round, with checkpoints and a learning curve, then certification."""

from __future__ import annotations

import csv
import io
import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedcert._files.paths import display_path, make_folder
from fedcert.certification.progress import ProgressListener
from fedcert.errors import DataProblem
from fedcert.lab.accuracy import accuracy
from fedcert.lab.architectures import build_network
from fedcert.lab.datasets.dataset import Dataset
from fedcert.lab.experiment import Experiment
from fedcert.lab.traces.certify_trace import forget, make_trace
from fedcert.lab.traces.trace import Trace, write_trace
from fedcert.lab.training.checkpoint import load_checkpoint, save_checkpoint
from fedcert.lab.training.rounds import FederatedTraining, TrainingRound
from fedcert.report import write_whole
from fedcert.report.provenance import SOFTWARE

_SECONDS_BETWEEN_CHECKPOINTS = 30.0
"""The most work that a crash may cost."""
_ROUNDS_BETWEEN_ACCURACIES = 50
"""Twenty points on the curve of the paper's 1,000 rounds; each takes about as long as one of its rounds."""
_HEADER = ("round", "loss", "seconds", "noisy accuracy")

RoundListener = Callable[[TrainingRound], None]


@dataclass(frozen=True)
class Trained:
    """A global model.

    Attributes:
        network: the model, on its device.
        rounds: that it was trained for.
        accuracy: on the test images: "clean", and "noisy" under the certification's noise.
        seconds: of all rounds, those of earlier runs included.
        curve: accuracy under noise, by the round after which it was measured.
    """

    network: torch.nn.Module
    rounds: int
    accuracy: dict[str, float]
    seconds: float
    curve: dict[int, float]


def train_experiment(
    experiment: Experiment,
    data: Dataset,
    folder: Path,
    device: torch.device,
    on_round: RoundListener = lambda _: None,
    *,
    seconds: float | None = None,
) -> Trained:
    """Train an experiment's global model, or continue an earlier run.

    Writes `checkpoint.safetensors` and `curve.csv` to the folder, every half minute, at the end, and when it is
    interrupted. The curve has the loss and the seconds of each round, and the accuracy on the test images under noise
    after every 50 rounds and at the end.

    Args:
        experiment: its settings.
        data: its data.
        folder: where its files are; made if need be.
        device: where to train.
        on_round: called after each round.
        seconds: stop after that time, at the end of a round.

    Raises:
        FileProblem: the folder cannot be made or written.
        CallError: its checkpoint is of another experiment, or has more rounds.
        DataProblem: training diverged.
    """
    make_folder(folder)
    torch.manual_seed(experiment.seed)
    network = build_network(experiment.network, data).to(device)
    images, labels = torch.from_numpy(data.train_images).to(device), torch.from_numpy(data.train_labels).to(device)
    parts = [train for train, _ in experiment.split_clients(data.train_labels)]
    federation = FederatedTraining(network, images, labels, parts, experiment.training)
    checkpoint, curve = folder / "checkpoint.safetensors", _Curve(folder / "curve.csv")
    subject = f"{experiment.network} on {data.name} {data.digest}, seed {experiment.seed}"
    if checkpoint.exists():
        load_checkpoint(federation, checkpoint, subject)
        curve.resume(federation.done)
    began = saved = time.monotonic()
    kept = federation.done
    try:
        for finished in federation.rounds():
            _check_finite(finished)
            curve.add(finished)
            on_round(finished)
            now = time.monotonic()
            over = seconds is not None and now - began > seconds
            ends = over or finished.number == experiment.training.rounds
            if ends or finished.number % _ROUNDS_BETWEEN_ACCURACIES == 0:
                curve.note(_accuracies(experiment, network, data, device)["noisy"])
            if ends or now - saved > _SECONDS_BETWEEN_CHECKPOINTS:
                save_checkpoint(federation, checkpoint, subject)
                kept = federation.done
                curve.write()
                saved = now
            if over:
                break
    except KeyboardInterrupt:
        if federation.settled and federation.done > kept:
            save_checkpoint(federation, checkpoint, subject)
            curve.write()
        raise
    accuracies = _accuracies(experiment, network, data, device)
    return Trained(network, federation.done, accuracies, curve.seconds, curve.noisy)


def trace_experiment(
    experiment: Experiment,
    data: Dataset,
    trained: Trained,
    path: Path,
    listener: ProgressListener | None = None,
    *,
    journals: Path | None = None,
) -> Trace:
    """Certify a trained model and write its trace.

    Args:
        experiment: its settings.
        data: its data.
        trained: the model.
        path: the trace's file.
        listener: called with progress.
        journals: a folder in which to remember how far the work is.
    """
    device = next(trained.network.parameters()).device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    about: dict[str, Any] = {
        "software": SOFTWARE, "torch": torch.__version__, "device": name, "data": data.digest,
        "training_seconds": round(trained.seconds, 1), "noisy_accuracy_after_round": trained.curve,
    }  # fmt: skip
    began = time.monotonic()
    trace = make_trace(
        experiment, data, trained.network, rounds=trained.rounds, accuracy=trained.accuracy, about=about,
        listener=listener, journals=journals,
    )  # fmt: skip
    trace.about["certification_seconds"] = round(time.monotonic() - began, 1)
    write_trace(path, trace)
    if journals is not None:
        forget(journals)
    return trace


def _check_finite(finished: TrainingRound) -> None:
    if not math.isfinite(finished.loss):
        raise DataProblem(
            f"training diverged: its loss is {finished.loss} in round {finished.number}; lower learning_rate, and look "
            "at momentum, weight_decay and the algorithm's figures"
        )


def _accuracies(
    experiment: Experiment, network: torch.nn.Module, data: Dataset, device: torch.device
) -> dict[str, float]:
    images, labels = torch.from_numpy(data.test_images).to(device), torch.from_numpy(data.test_labels).to(device)
    generator = torch.Generator(device).manual_seed(experiment.seed)
    sigmas = {"clean": 0.0, "noisy": experiment.smoothing.sigma}
    return {name: accuracy(network, images, labels, sigma=sigma, generator=generator) for name, sigma in sigmas.items()}


class _Curve:
    """The learning curve's file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[list[str]] = []

    def resume(self, rounds: int) -> None:
        """Keep what an earlier run wrote, up to where its checkpoint is."""
        if not self.path.exists():
            return
        try:
            with self.path.open(newline="", encoding="utf-8") as file:
                rows = [row for row in list(csv.reader(file))[1:] if len(row) == len(_HEADER)]
            self.rows = [row for row in rows if int(row[0]) <= rounds and math.isfinite(float(row[2]))]
        except (ValueError, csv.Error) as error:
            raise DataProblem(
                f"{display_path(self.path)} must be the learning curve of an earlier run, but is not ({error}); "
                "remove it to go on without"
            ) from None

    def add(self, finished: TrainingRound) -> None:
        self.rows.append([str(finished.number), f"{finished.loss:.6g}", f"{finished.seconds:.3f}", ""])

    @property
    def seconds(self) -> float:
        return sum(float(row[2]) for row in self.rows)

    @property
    def noisy(self) -> dict[int, float]:
        return {int(row[0]): float(row[-1]) for row in self.rows if row[-1]}

    def note(self, accuracy: float) -> None:
        self.rows[-1][-1] = f"{accuracy:.4f}"

    def write(self) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([_HEADER, *self.rows])
        write_whole(self.path, text.getvalue())
