"""The fast simulator: the clients of a round at the same time on one GPU.

A client's step is recorded once as a CUDA graph, for each of the clients that work at the same time, and replayed on a
stream of its own: launching it costs the host next to nothing, and the small kernels of many clients fill the device
together.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fedcert.lab.training.batches import ClientBatches
from fedcert.lab.training.plain_simulator import ClientUpdate
from fedcert.lab.training.replica import Replica, Task, loss_of_state

_WARM_UP = 3


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

    def run(self, start: torch.Tensor, clients: Sequence[int], courses: Sequence[ClientBatches]) -> list[ClientUpdate]:
        """See `plain.Simulator.run`."""
        device = start.device
        courses = [course.to(device) for course in courses]
        crew = list(zip(self.replicas, self.streams, self.graphs, strict=True))[: len(clients)]
        for (replica, _, _), client, course in zip(crew, clients, courses, strict=True):
            replica.begin(start, course, self.algorithm.correction(client))
        torch.cuda.synchronize(device)
        for number in range(max((course.steps for course in courses), default=0)):
            for (replica, stream, graph), course in zip(crew, courses, strict=True):
                if number < course.steps:
                    with torch.cuda.stream(stream):
                        replica.feed(number)
                        graph.replay()
        torch.cuda.synchronize(device)
        losses = torch.stack([replica.loss for replica, _, _ in crew]).tolist()
        return [
            ClientUpdate(replica.row.clone(), loss / course.steps)
            for (replica, _, _), course, loss in zip(crew, courses, losses, strict=True)
        ]
