"""Clients' weights, of any number of clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedcert._arrays import Floats
from fedcert._schema.field_types import MappingOf, Number


class Weights(Mapping[str, float]):
    """Client -> weight. Two columns, until someone asks for a client by name."""

    def __init__(self, clients: Sequence[str], values: Floats) -> None:
        self.clients = tuple(clients)
        self.values_in_order = np.asarray(values, dtype=np.float64)
        self.values_in_order.flags.writeable = False

    @cached_property
    def _position(self) -> dict[str, int]:
        return {client: index for index, client in enumerate(self.clients)}

    def __getitem__(self, client: str) -> float:
        return float(self.values_in_order[self._position[client]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.clients)

    def __len__(self) -> int:
        return len(self.clients)

    def __hash__(self) -> int:
        return hash(self.clients)

    def __repr__(self) -> str:
        return repr(dict(self)) if len(self) <= 100 else f"<weights of {len(self)} clients>"


@dataclass(frozen=True)
class WeightsKind(MappingOf):
    """Weights by client; columns stay columns."""

    def validate(self, value: Any, field: str) -> Mapping[str, float]:
        """Weights, in columns."""
        if isinstance(value, Weights):
            if not np.isfinite(value.values_in_order).all():
                raise self.error(value, field)
            return value
        taken = super().validate(value, field)
        return Weights(list(taken), np.array(list(taken.values()), dtype=np.float64))


WEIGHTS = WeightsKind(Number(), "client names to weights", least=1)


def heaviest(weights: Mapping[str, float], count: int) -> list[tuple[str, float]]:
    """The clients of largest weight, whatever its sign; ties in the order of the clients."""
    columns = weights if isinstance(weights, Weights) else Weights(list(weights), np.array(list(weights.values())))
    values = columns.values_in_order
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return [(columns.clients[index], float(values[index])) for index in order if values[index]]
