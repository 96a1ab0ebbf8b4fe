"""An experiment: data, a partition over clients, federated training, certification; as a value and as TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from fedcert._files.paths import check_readable, display_path
from fedcert._schema.declare import Checked, defaulting
from fedcert._schema.field_types import Enumerated, Number, Text, Whole
from fedcert.errors import CallError, DataProblem, FileProblem, InvalidValue, preview
from fedcert.lab.architectures import NETWORKS
from fedcert.lab.datasets.library import DATASETS
from fedcert.lab.populations.partition import Indices, local_split, partition_of
from fedcert.lab.training.settings import Training
from fedcert.report import DEFAULT_RADII, Smoothing
from fedcert.report.fields import RADII

PAPER_SIGMA = 0.1**0.5
"""The paper's N(0, 0.1), read as a variance: the reading under which all of its radii can be certified."""

PAPER_PROCEDURE = "sequential"
"""CERTIFY, which the paper's certified accuracy is made of; no more samples than its radii need."""


def paper_smoothing(**given: Any) -> Smoothing:
    """The paper's certification: CERTIFY with its sigma, but for the settings that are given."""
    return Smoothing.defaults(**{"sigma": PAPER_SIGMA, "procedure": PAPER_PROCEDURE, **given})


@dataclass(frozen=True, kw_only=True)
class Experiment(Checked):
    """Settings of an experiment; the defaults are the first row of the paper's Table 1.

    Attributes:
        data: name of the data set, in `DATASETS`.
        network: name of the architecture, in `NETWORKS`.
        partition: of the training images over clients, as `partition_of` reads it.
        clients: how many.
        train_share: of each client's examples, what it trains on; it certifies on the rest.
        seed: of the partition and of the network's first weights.
        training: how to train.
        smoothing: how to certify.
        radii: at which radii.
    """

    data: str = defaulting(Enumerated(DATASETS), "cifar10")
    network: str = defaulting(Enumerated(NETWORKS), "resnet18")
    partition: str = defaulting(Text(), "dirichlet:0.1")
    clients: int = defaulting(Whole(least=1, most=1_000_000), 100)
    train_share: float = defaulting(Number(above=0, below=1), 0.8)
    seed: int = defaulting(Whole(), 0)
    training: Training = field(default_factory=Training)
    smoothing: Smoothing = field(default_factory=lambda: paper_smoothing())
    radii: tuple[float, ...] = defaulting(RADII, DEFAULT_RADII)

    def __post_init__(self) -> None:
        super().__post_init__()
        partition_of(self.partition)
        if self.smoothing.is_population:
            raise InvalidValue(
                "smoothing.procedure",
                "'sequential' or 'fixed', since experiments have certificates of single examples (right answers are "
                "counted beside them)",
                self.smoothing.procedure,
            )

    @classmethod
    def of(cls, given: dict[str, Any], precision: str = "float32") -> Experiment:
        """Settings from plain tables, as TOML and traces hold them.

        Args:
            given: the tables.
            precision: in which to train and certify where they do not say.

        Raises:
            CallError: there is no such setting.
        """
        _check_names(given, cls, "")
        training = _within(given, "training", Training, Training, bfloat16=precision == "bfloat16")
        smoothing = _within(given, "smoothing", Smoothing, paper_smoothing, precision=precision)
        return cls(**{**given, "training": training, "smoothing": smoothing})

    def to_tables(self) -> dict[str, Any]:
        """The settings as plain tables."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        tables = {"training": self.training.to_table(), "smoothing": self.smoothing.to_json()}
        return {**plain, **tables, "radii": list(self.radii)}

    def split_clients(self, labels: np.ndarray) -> list[tuple[Indices, Indices]]:
        """Each client's examples to train on and to certify on."""
        generator = np.random.default_rng([self.seed, 1])
        parts = partition_of(self.partition).divide(labels, self.clients, generator)
        return [local_split(part, self.train_share, generator) for part in parts]


def read_experiment(path: Path, precision: str = "float32") -> Experiment:
    """Settings from a TOML file; what it does not say is as in the first row of the paper's Table 1.

    Args:
        path: the file.
        precision: in which to train and certify where it does not say.

    Raises:
        CallError: the file is not there, or names something that is no setting.
        FileProblem: it cannot be read.
        DataProblem: it is no TOML.
        InvalidValue: a setting breaks its rule.
    """
    check_readable(path, (".toml",))
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileProblem(f"cannot read {display_path(path)}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataProblem(f"{display_path(path)} must be TOML, but is not: {error}") from None
    try:
        return Experiment.of(given, precision)
    except CallError as error:
        raise CallError(f"{display_path(path)}: {error}") from None
    except InvalidValue as error:
        raise error.at(display_path(path)) from None


def _within(given: dict[str, Any], table: str, kind: type, maker: Callable[..., Any], **defaults: Any) -> Any:
    """The settings of a table; an error names the table."""
    own = given.get(table, {})
    _check_names(own, kind, table)
    try:
        return maker(**{**defaults, **own})
    except InvalidValue as error:
        raise InvalidValue(f"{table}.{error.field}", error.expected, error.actual, remedy=error.remedy) from None


def _check_names(given: Any, kind: type, place: str) -> None:
    known = {each.name for each in fields(kind)} - {"extra"}
    if not isinstance(given, dict):
        raise CallError(f"{place or 'an experiment'} must be a table of settings, but is {preview(given)}")
    unknown = sorted(set(given) - known)
    if unknown:
        whole = f"{place}.{unknown[0]}" if place else unknown[0]
        raise CallError(f"there is no setting {whole}; the settings are {', '.join(sorted(known))}")
