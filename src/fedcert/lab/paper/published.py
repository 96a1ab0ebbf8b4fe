"""The paper's figures: RMSE and MAPE of AP, GA and VW, as printed."""

from __future__ import annotations

from dataclasses import dataclass

from fedcert.lab.experiment import Experiment, paper_smoothing
from fedcert.lab.training.settings import Training

METHODS = ("ap", "ga", "vw")


@dataclass(frozen=True)
class Setting:
    """What was trained for a row.

    Attributes:
        network: as `Experiment` names it.
        data: likewise.
        partition: likewise.
        algorithm: of training.
    """

    network: str = "resnet18"
    data: str = "cifar10"
    partition: str = "dirichlet:0.1"
    algorithm: str = "fedavg"

    @property
    def name(self) -> str:
        """The name of its trace."""
        return f"{self.network}-{self.data}-{self.partition.replace(':', '')}-{self.algorithm}"

    def experiment(self, rounds: int = 1000, *, on_gpu: bool = False) -> Experiment:
        """The paper's settings for it; on a GPU that has it in bfloat16."""
        training = Training(rounds=rounds, algorithm=self.algorithm, bfloat16=on_gpu)
        smoothing = paper_smoothing(precision="bfloat16" if on_gpu else "float32")
        return Experiment(
            network=self.network, data=self.data, partition=self.partition, training=training, smoothing=smoothing
        )


@dataclass(frozen=True)
class Row:
    """A row, or a column, of a table.

    Attributes:
        setting: what was trained.
        rmse: of AP, GA and VW.
        mape: of AP, GA and VW.
        subsets: T, the number of subsets that AP and GA try.
        subset_size: E, the clients in each.
    """

    setting: Setting
    rmse: tuple[float, float, float]
    mape: tuple[float, float, float]
    subsets: int = 1000
    subset_size: int = 10


_MOBILE = "mobilenet_v2"

TABLE_1 = (
    Row(Setting(), (0.021, 0.014, 0.061), (0.059, 0.055, 0.192)),
    Row(Setting(partition="pareto:3"), (0.014, 0.008, 0.032), (0.044, 0.016, 0.102)),
    Row(Setting(data="cifar100"), (0.061, 0.036, 0.056), (0.464, 0.273, 0.445)),
    Row(Setting(data="cifar100", partition="pareto:5"), (0.019, 0.007, 0.052), (0.370, 0.187, 1.036)),
    Row(Setting(network=_MOBILE), (0.103, 0.050, 0.109), (0.285, 0.145, 0.337)),
    Row(Setting(network=_MOBILE, partition="pareto:3"), (0.034, 0.009, 0.062), (0.249, 0.048, 0.556)),
    Row(Setting(network=_MOBILE, data="cifar100"), (0.003, 0.001, 0.006), (0.187, 0.039, 0.060)),
    Row(Setting(network=_MOBILE, data="cifar100", partition="pareto:5"), (0.008, 0.005, 0.060), (0.227, 0.084, 1.579)),
)
"""Two networks, two data sets, two partitions."""

TABLE_2 = (
    Row(Setting(partition="dirichlet:0.1"), (0.021, 0.014, 0.061), (0.059, 0.055, 0.192)),
    Row(Setting(partition="dirichlet:0.3"), (0.046, 0.025, 0.122), (0.179, 0.073, 0.464)),
    Row(Setting(partition="dirichlet:0.5"), (0.037, 0.014, 0.088), (0.106, 0.032, 0.252)),
    Row(Setting(partition="dirichlet:1"), (0.053, 0.065, 0.142), (0.124, 0.181, 0.447)),
    Row(Setting(partition="dirichlet:2"), (0.030, 0.079, 0.134), (0.126, 0.330, 0.576)),
    Row(Setting(partition="dirichlet:3"), (0.033, 0.053, 0.152), (0.077, 0.153, 0.475)),
    Row(Setting(partition="pareto:2"), (0.026, 0.011, 0.125), (0.113, 0.049, 0.552)),
    Row(Setting(partition="pareto:3"), (0.014, 0.008, 0.032), (0.044, 0.016, 0.102)),
    Row(Setting(partition="pareto:4"), (0.021, 0.017, 0.024), (0.146, 0.110, 0.155)),
    Row(Setting(partition="pareto:5"), (0.017, 0.005, 0.122), (0.054, 0.011, 0.364)),
    Row(Setting(partition="pareto:6"), (0.019, 0.005, 0.052), (0.038, 0.011, 0.112)),
)
"""Partitions from far apart to alike."""

TABLE_3 = (
    Row(Setting(), (0.021, 0.014, 0.061), (0.059, 0.055, 0.192)),
    Row(Setting(algorithm="fedprox"), (0.121, 0.096, 0.128), (0.500, 0.386, 0.528)),
    Row(Setting(algorithm="scaffold"), (0.006, 0.005, 0.010), (0.014, 0.013, 0.034)),
)
"""Three training algorithms."""

_PARETO_2, _DIRICHLET_05 = Setting(partition="pareto:2"), Setting(partition="dirichlet:0.5")

TABLE_4 = (
    Row(_PARETO_2, (0.026, 0.011, 0.125), (0.113, 0.049, 0.552), subsets=1000),
    Row(_PARETO_2, (0.081, 0.016, 0.125), (0.358, 0.064, 0.552), subsets=2000),
    Row(_PARETO_2, (0.021, 0.003, 0.125), (0.072, 0.009, 0.552), subsets=3000),
    Row(_PARETO_2, (0.021, 0.003, 0.125), (0.072, 0.009, 0.552), subsets=5000),
    Row(_PARETO_2, (0.021, 0.003, 0.125), (0.072, 0.009, 0.552), subsets=10_000),
)
"""The number of subsets, T."""

TABLE_5 = (
    Row(_DIRICHLET_05, (0.037, 0.014, 0.088), (0.106, 0.032, 0.252), subset_size=10),
    Row(_DIRICHLET_05, (0.031, 0.017, 0.088), (0.090, 0.032, 0.252), subset_size=20),
    Row(_DIRICHLET_05, (0.031, 0.031, 0.088), (0.088, 0.098, 0.252), subset_size=30),
    Row(_DIRICHLET_05, (0.032, 0.028, 0.088), (0.089, 0.075, 0.252), subset_size=50),
)
"""The clients in a subset, E."""

FIGURE_2 = (_PARETO_2, (0.2, 0.3, 0.4, 0.5, 0.6))
"""Targets at growing L2 distances from the clients' pool; the paper prints no numbers."""

TABLES = {"table1": TABLE_1, "table2": TABLE_2, "table3": TABLE_3, "table4": TABLE_4, "table5": TABLE_5}


def settings() -> tuple[Setting, ...]:
    """Everything that must be trained, each once, Table 1 first."""
    return tuple(dict.fromkeys(row.setting for table in TABLES.values() for row in table))
