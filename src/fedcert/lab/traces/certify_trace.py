"""Making traces: a trained network certified on its clients' test examples and on the target's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedcert.certification.certificate import CertificateTable
from fedcert.certification.data.local_data import LocalData, parts_of
from fedcert.certification.dataset_run import certify_dataset
from fedcert.certification.models.classifiers import classifier_of
from fedcert.certification.plan import CertificationPlan
from fedcert.certification.progress import ProgressListener
from fedcert.lab.accuracy import clean_predictions
from fedcert.lab.datasets.dataset import Dataset, Images, Labels, as_floats
from fedcert.lab.experiment import Experiment
from fedcert.lab.traces.trace import Examples, Trace

_ROWS = 4096
"""Images that are turned into floats together: 50 MB of CIFAR's."""
_AT_ONCE = 1000
"""Images in a pass without noise, as in `accuracy`."""


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
    noise alone. Right answers are counted among the samples of selection: they cost no further pass. A last pass, one
    image each, has no noise.

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
        local = _local(images, labels, index)
        table = certify_dataset(plan, classifier, local, listener or ProgressListener(), journal).certificates
        assert isinstance(table, CertificateTable)  # noqa: S101 (experiments certify single examples)
        assert table.correct is not None  # noqa: S101 (local data has labels)
        splits.append(
            Examples(
                client=np.full(len(index), -1, np.int32) if client is None else client.astype(np.int32),
                index=index.astype(np.int32),
                label=labels[index].astype(np.int32),
                predicted=table.selected.astype(np.int32),
                radius=table.radius,
                samples=table.samples.astype(np.int32),
                correct=table.correct.astype(np.int32),
                clean=clean_predictions(
                    network,
                    (as_floats(images[index[start : start + _AT_ONCE]]) for start in range(0, len(index), _AT_ONCE)),
                    bfloat16=experiment.smoothing.precision == "bfloat16",
                ),
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
