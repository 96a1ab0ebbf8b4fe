"""Making traces: a trained network certified on its clients' test examples and on the target's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedcert.certification.data.local_data import LocalData, parts_of
from fedcert.certification.dataset_run import certify_dataset
from fedcert.certification.models.classifiers import classifier_of
from fedcert.certification.plan import CertificationPlan
from fedcert.certification.progress import ProgressListener
from fedcert.lab.datasets.dataset import Dataset, Images, Labels, as_floats
from fedcert.lab.experiment import Experiment
from fedcert.lab.traces.trace import Examples, Trace

_ROWS = 4096
"""Images that are turned into floats together: 50 MB of CIFAR's."""


def make_trace(
    experiment: Experiment,
    data: Dataset,
    network: Any,
    *,
    rounds: int,
    accuracy: dict[str, float],
    about: dict[str, Any],
    listener: ProgressListener | None = None,
    journals: Path | None = None,
) -> Trace:
    """Certify a network on all clients' test examples and on the data set's test images.

    The clients' examples are certified in one go, which keeps a device full; what an example gets depends on its own
    noise alone.

    Args:
        experiment: its settings.
        data: its data.
        network: trained, on the device where it is to be certified.
        rounds: that it was trained for.
        accuracy: of it.
        about: further facts.
        listener: called with progress.
        journals: a folder in which to remember how far the work is; `forget` when the trace is kept.
    """
    classifier = classifier_of(network)
    holders = [test for _, test in experiment.split_clients(data.train_labels)]
    held = np.concatenate([np.zeros(0, dtype=np.int64), *holders])
    owner = np.repeat(np.arange(len(holders)), [len(test) for test in holders])
    splits = []
    for name, images, labels, index, client in (
        ("clients", data.train_images, data.train_labels, held, owner),
        ("target", data.test_images, data.test_labels, np.arange(len(data.test_labels)), None),
    ):
        plan = CertificationPlan(name, experiment.smoothing, experiment.radii, data.classes, seed=experiment.seed)
        journal = None if journals is None else journals / f"{name}.journal"
        done = certify_dataset(plan, classifier, _local(images, labels, index), listener or ProgressListener(), journal)
        splits.append(
            Examples(
                client=np.full(len(index), -1, np.int32) if client is None else client.astype(np.int32),
                index=index.astype(np.int32),
                label=labels[index].astype(np.int32),
                predicted=done.certificates.selected.astype(np.int32),
                radius=done.certificates.radius,
                samples=done.certificates.samples.astype(np.int32),
            )
        )
    return Trace(experiment, data.classes, classifier.identity, rounds, accuracy, about, *splits)


def forget(journals: Path) -> None:
    """Remove the journals of a trace that is safely written."""
    for name in ("clients", "target"):
        (journals / f"{name}.journal").unlink(missing_ok=True)


def _local(images: Images, labels: Labels, index: np.ndarray) -> LocalData:
    """Some images as local data, turned into floats only when they are read."""

    def read(wanted: range) -> Any:
        for part in parts_of(wanted, _ROWS):
            yield as_floats(images[index[part.start : part.stop : part.step]])

    return LocalData(labels[index], images.shape[1:], read)
