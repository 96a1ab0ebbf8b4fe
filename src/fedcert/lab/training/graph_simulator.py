"""The fast simulator: the clients of a round at the same time on one GPU.

A client's step is recorded once as a CUDA graph, for each of the clients that work at the same time, and replayed on a
stream of its own: launching it costs the host next to nothing, and the small kernels of many clients fill the device
together.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fedcert.lab.training.batches import ClientBatches
from fedcert.lab.training.replica import Replica, Task, loss_of_state
from fedcert.lab.training.simulator import ClientUpdate

_WARM_UP = 3
"""Steps before a graph is recorded: as many as PyTorch's documentation of CUDA graphs runs."""


class GraphSimulator:
    """All clients of a round at once. It does what `PlainSimulator` does, step by step."""

    def __init__(self, task: Task) -> None:
        device, settings = task.images.device, task.settings
        self.algorithm = task.algorithm
        loss = None
        if settings.compiled:  # once for all: the state is an argument
            torch.compiler.reset()  # else torch gives up compiling after some federations in one process
            loss = torch.compile(loss_of_state(task.network, settings), dynamic=False)
        self.replicas = [Replica(task, loss) for _ in range(settings.clients_per_round)]
        self.streams = [torch.cuda.Stream(device) for _ in self.replicas]  # type: ignore[no-untyped-call]
        start = task.layout.read(task.network, device)
        self.graphs = [self._record(*pair, start) for pair in zip(self.replicas, self.streams, strict=True)]

    def _record(self, replica: Replica, stream: torch.cuda.Stream, start: torch.Tensor) -> torch.cuda.CUDAGraph:
        torch.cuda.synchronize()
        with torch.cuda.stream(stream), torch.no_grad():
            replica.row.copy_(start)
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                replica.step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            replica.step()
        return graph

    def run(self, start: torch.Tensor, clients: Sequence[int], batches: Sequence[ClientBatches]) -> list[ClientUpdate]:
        """See `simulator.Simulator.run`."""
        device = start.device
        batches = [own.to(device) for own in batches]
        crew = list(zip(self.replicas, self.streams, self.graphs, strict=True))[: len(clients)]
        for (replica, _, _), client, own in zip(crew, clients, batches, strict=True):
            replica.begin(start, own, self.algorithm.correction(client))
        torch.cuda.synchronize(device)
        for number in range(max((own.steps for own in batches), default=0)):
            for (replica, stream, graph), own in zip(crew, batches, strict=True):
                if number < own.steps:
                    with torch.cuda.stream(stream):
                        replica.feed(number)
                        graph.replay()
        torch.cuda.synchronize(device)
        losses = torch.stack([replica.loss for replica, _, _ in crew]).tolist()
        return [
            ClientUpdate(replica.row.clone(), loss / own.steps)
            for (replica, _, _), own, loss in zip(crew, batches, losses, strict=True)
        ]
