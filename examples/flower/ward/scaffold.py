"""SCAFFOLD for Flower: the server's control variate travels with the weights, the clients' changes come back."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg


class Scaffold(FedAvg):
    """FedAvg whose clients' steps are corrected by control variates.

    Args:
        shapes: the network's parameters, for their shapes.
        clients: how many clients there are, taking part or not.
        options: FedAvg's.
    """

    def __init__(self, shapes: list[torch.Tensor], clients: int, **options: float) -> None:
        super().__init__(**options)
        self.clients = clients
        self.control = [torch.zeros_like(weight, requires_grad=False) for weight in shapes]

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """FedAvg's messages with the control variate."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for message in messages:
            state = {str(number): tensor for number, tensor in enumerate(self.control)}
            message.content["control"] = ArrayRecord(state)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """FedAvg's mean; the control variate moves by the clients' changes, as a share of all clients."""
        replies = list(replies)
        for reply in replies:
            change = reply.content.pop("change", None) if reply.has_content() else None
            for mean, part in zip(self.control, change.to_torch_state_dict().values() if change else (), strict=False):
                mean += part / self.clients
        return super().aggregate_train(server_round, replies)
