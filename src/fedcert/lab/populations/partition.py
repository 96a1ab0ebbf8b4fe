"""How examples are divided among clients.

A partition is a list of index arrays, one for each client: together they are all examples, each once. A client may have
none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedcert._schema.field_types import FieldType, Number, Whole
from fedcert._schema.registry import Registry, alternatives
from fedcert.errors import CallError

Indices = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Partition(ABC):
    """A way to divide examples among clients. A new one is one small class, and a line in `PARTITIONS`."""

    NAME: ClassVar[str]

    @abstractmethod
    def shares(self, classes: int, clients: int, generator: np.random.Generator) -> Shares:
        """The share of each class (rows) that each client (columns) gets; each row adds up to 1."""

    def __str__(self) -> str:
        """As `partition_of` reads it."""
        values = (f"{value:g}" if isinstance(value, float) else str(value) for value in astuple(self))
        return ":".join([self.NAME, *values])

    def divide(self, labels: Labels, clients: int, generator: np.random.Generator) -> list[Indices]:
        """Divide examples among clients.

        Args:
            labels: class of each example.
            clients: how many clients.
            generator: source of the draws.

        Returns:
            Indices of each client's examples, in random order.
        """
        present = np.unique(labels)
        shares = self.shares(len(present), clients, generator)
        parts: list[list[Indices]] = [[] for _ in range(clients)]
        for label, row in zip(present, shares, strict=True):
            members = generator.permutation(np.flatnonzero(labels == label))
            cuts = np.round(np.cumsum(row)[:-1] * len(members)).astype(np.int64)
            for part, piece in zip(parts, np.split(members, cuts), strict=True):
                part.append(piece)
        empty = np.zeros(0, dtype=np.int64)
        return [generator.permutation(np.concatenate([empty, *part])) for part in parts]


@dataclass(frozen=True)
class Iid(Partition):
    """Every client gets about the same number of examples, drawn without regard to their classes."""

    NAME: ClassVar[str] = "iid"

    def shares(self, classes: int, clients: int, generator: np.random.Generator) -> Shares:  # noqa: ARG002
        """Equal ones; `divide` does without them, so that classes vary by chance."""
        return np.full((classes, clients), 1 / clients)

    def divide(self, labels: Labels, clients: int, generator: np.random.Generator) -> list[Indices]:
        """Deal shuffled examples out."""
        return [np.asarray(part) for part in np.array_split(generator.permutation(len(labels)), clients)]


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Each class's shares are drawn from a Dirichlet distribution.

    Attributes:
        concentration: the paper's β; the smaller, the more the clients differ.
    """

    concentration: float
    NAME: ClassVar[str] = "dirichlet"

    def shares(self, classes: int, clients: int, generator: np.random.Generator) -> Shares:
        """One draw for each class."""
        return generator.dirichlet(np.full(clients, self.concentration), size=classes)


@dataclass(frozen=True)
class Pareto(Partition):
    """Each class's shares are in proportion to draws from a Pareto distribution, P(X > x) = (1/x)^shape.

    That is how fedcert reads the paper's "number of images of each class among clients follows a power law".

    Attributes:
        shape: the paper's β; the smaller, the heavier the tail.
    """

    shape: float
    NAME: ClassVar[str] = "pareto"

    def shares(self, classes: int, clients: int, generator: np.random.Generator) -> Shares:
        """One draw for each class and client, divided by the class's sum."""
        draws = generator.pareto(self.shape, size=(classes, clients)) + 1
        return np.asarray(draws / draws.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Limited(Partition):
    """Each client holds a few classes only, and volumes have a heavy tail.

    Each client draws its classes, all equally likely, and a volume from a Pareto distribution; a class is divided among
    the clients that drew it, in proportion to their volumes. A class that no client drew goes to one of them.

    Attributes:
        held: classes of each client, or all of them where there are fewer.
        shape: of the volumes; the smaller, the heavier the tail.
    """

    held: int
    shape: float
    NAME: ClassVar[str] = "limited"

    def shares(self, classes: int, clients: int, generator: np.random.Generator) -> Shares:
        """Volumes, where a client holds the class."""
        volumes = generator.pareto(self.shape, size=clients) + 1
        holds = np.zeros((classes, clients))
        for client in range(clients):
            holds[generator.choice(classes, min(self.held, classes), replace=False), client] = 1
        for label in np.flatnonzero(holds.sum(axis=1) == 0):
            holds[label, generator.integers(clients)] = 1
        draws = holds * volumes
        return np.asarray(draws / draws.sum(axis=1, keepdims=True))


_ABOVE_ZERO = Number(above=0, most=1e6)  # above that, draws are as good as equal
_TAIL = Number(least=0.1, most=1e6)  # below that, draws from a Pareto distribution can exceed all numbers


@dataclass(frozen=True)
class PartitionForm:
    """How a partition is written in settings: its name and its parameters, with colons between.

    Attributes:
        partition: its class, or another function of the parameters.
        example: such as "limited:2:1.5".
        parameters: what each is called in messages, and what it may be.

    Raises:
        TypeError: the example has more or fewer parameters.
    """

    partition: Callable[..., Partition]
    example: str
    parameters: tuple[tuple[str, FieldType], ...] = ()

    def __post_init__(self) -> None:
        if self.example.count(":") != len(self.parameters):
            raise TypeError(f"the example {self.example!r} must have {len(self.parameters)} parameters after the name")


PARTITIONS: Registry[PartitionForm] = Registry(
    PartitionForm,
    {
        Iid.NAME: PartitionForm(Iid, "iid"),
        Dirichlet.NAME: PartitionForm(Dirichlet, "dirichlet:0.1", (("concentration", _ABOVE_ZERO),)),
        Pareto.NAME: PartitionForm(Pareto, "pareto:3", (("shape", _TAIL),)),
        Limited.NAME: PartitionForm(
            Limited, "limited:2:1.5", (("classes per client", Whole(least=1)), ("shape", _TAIL))
        ),
    },
)


def partition_of(text: str) -> Partition:
    """A partition by its name and parameters.

    Args:
        text: such as "iid", "dirichlet:0.1", "pareto:3" or "limited:2:1.5" (classes per client, shape).

    Raises:
        CallError: it is none of these.

    Examples:
        >>> partition_of("dirichlet:0.1")
        Dirichlet(concentration=0.1)
        >>> str(partition_of("limited:2:1.5"))
        'limited:2:1.5'
    """
    name, *texts = text.split(":")
    if name not in PARTITIONS:
        examples = alternatives(form.example for form in PARTITIONS.values())
        raise CallError(f"partition must be {examples}, but is {text!r}")
    parameters = PARTITIONS[name].parameters
    if len(texts) != len(parameters):
        form = ":".join((name, *(f"<{what}>" for what, _ in parameters)))
        raise CallError(f"partition must be of the form {form}, but is {text!r}")
    values = []
    for given, (what, kind) in zip(texts, parameters, strict=True):
        try:
            number: float = int(given) if isinstance(kind, Whole) else float(given)
        except ValueError:
            raise CallError(f"the partition's {what} must be a number, but is {given!r} in {text!r}") from None
        values.append(kind.validate(number, f"the partition's {what}"))
    return PARTITIONS[name].partition(*values)


def class_counts(parts: Sequence[Indices], labels: Labels, classes: int) -> Indices:
    """Examples of each class at each client, clients x classes."""
    return np.stack([np.bincount(labels[part], minlength=classes) for part in parts])


def local_split(part: Indices, share: float, generator: np.random.Generator) -> tuple[Indices, Indices]:
    """Split a client's examples into those to train on and those to test with, at random.

    Args:
        part: the client's examples.
        share: of them, rounded to the nearest whole number, to train on.
        generator: source of the order.
    """
    order = generator.permutation(part)
    cut = round(share * len(order))
    return order[:cut], order[cut:]
