"""Settings of federated training, and its algorithms by name.

Settings know the names; the algorithms' classes need torch, and are loaded when training begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedcert._schema.declare import Checked, defaulting
from fedcert._schema.field_types import Enumerated, Flag, MappingOf, Number, Whole
from fedcert._schema.registry import Registry

if TYPE_CHECKING:
    from fedcert.lab.training.algorithms import Algorithm


@dataclass(frozen=True)
class AlgorithmEntry:
    """A training algorithm.

    Attributes:
        load: gives its class, which declares its hyperparameters.
    """

    load: Callable[[], type[Algorithm]]


def _own(name: str) -> AlgorithmEntry:
    def load() -> type[Algorithm]:
        algorithm: type[Algorithm] = getattr(import_module("fedcert.lab.training.algorithms"), name)
        return algorithm

    return AlgorithmEntry(load)


ALGORITHMS: Registry[AlgorithmEntry] = Registry(
    AlgorithmEntry, {"fedavg": _own("FedAvg"), "fedprox": _own("FedProx"), "scaffold": _own("Scaffold")}
)


@dataclass(frozen=True, kw_only=True)
class Training(Checked):
    """Settings of federated training; the defaults are the paper's, and where it is silent, fedcert's.

    Attributes:
        rounds: communication rounds.
        clients_per_round: clients that take part in each, drawn without repetition among those with training examples.
        epochs: local passes over a client's examples. They follow one another without a break: all passes make one
            stream, which is cut into full batches; what is left over at its end is dropped.
        batch_size: of a local step; a client with fewer examples in all passes fills one batch by further passes.
        learning_rate: of local SGD.
        momentum: of local SGD, started anew in each round; not in the paper.
        weight_decay: the L2 penalty on all parameters; not in the paper.
        sigma: standard deviation of the noise on every training example, in units of pixels in [0, 1].
        algorithm: its name, in `ALGORITHMS`.
        figures: the algorithm's own hyperparameters.
        padding: black pixels on each side, of which a random crop takes some in; not in the paper.
        flip: whether every other picture, by chance, is mirrored; not in the paper.
        bfloat16: whether to compute in bfloat16 where autocast holds that to be safe.
        compiled: whether torch.compile makes kernels for the network, on a GPU: half a minute at the start.
        seed: of everything random.
    """

    rounds: int = defaulting(Whole(least=1, most=10**9), 1000)
    clients_per_round: int = defaulting(Whole(least=1, most=1_000_000), 10)
    epochs: int = defaulting(Whole(least=1, most=1_000_000), 5)
    batch_size: int = defaulting(Whole(least=1, most=1_000_000), 64)
    learning_rate: float = defaulting(Number(above=0, most=1e6), 0.01)
    momentum: float = defaulting(Number(least=0, below=1), 0.0)
    weight_decay: float = defaulting(Number(least=0, most=1e6), 0.0)
    sigma: float = defaulting(Number(least=0, most=1e6), 0.1**0.5)
    algorithm: str = defaulting(Enumerated(ALGORITHMS), "fedavg")
    figures: Mapping[str, float] = defaulting(MappingOf(Number(), "names to numbers"), factory=dict)
    padding: int = defaulting(Whole(most=1024), 4)
    flip: bool = defaulting(Flag(), True)
    bfloat16: bool = defaulting(Flag(), False)
    compiled: bool = defaulting(Flag(), False)
    seed: int = defaulting(Whole(), 0)

    def to_table(self) -> dict[str, Any]:
        """The settings as a plain table."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"figures": dict(self.figures)}

    def steps(self, examples: int) -> int:
        """Local steps in a round of a client with so many training examples."""
        return max(1, self.epochs * examples // self.batch_size) if examples else 0
