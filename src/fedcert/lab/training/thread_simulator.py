"""The simulator for CPUs: a client for each core at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import torch

from fedcert.lab.training.batches import ClientBatches
from fedcert.lab.training.replica import Replica, Task
from fedcert.lab.training.simulator import ClientUpdate, train_client


class ThreadSimulator:
    """As many clients at a time as torch has threads, each with one: small networks gain nothing from several.

    It gives what `PlainSimulator` gives with one thread, to the bit.
    """

    def __init__(self, task: Task) -> None:
        self.algorithm = task.algorithm
        self.workers = max(1, min(torch.get_num_threads(), task.settings.clients_per_round))
        # Each copies the architecture: while a network is called with another state, it holds that state.
        self.replicas = [Replica(task) for _ in range(self.workers)]

    def run(self, start: torch.Tensor, clients: Sequence[int], batches: Sequence[ClientBatches]) -> list[ClientUpdate]:
        """See `simulator.Simulator.run`."""
        idle: SimpleQueue[Replica] = SimpleQueue()
        for replica in self.replicas:
            idle.put(replica)

        def train(client: int, own: ClientBatches) -> ClientUpdate:
            torch.set_num_threads(1)
            replica = idle.get()
            try:
                return train_client(replica, start, own, self.algorithm.correction(client))
            finally:
                idle.put(replica)

        threads = torch.get_num_threads()
        try:
            with ThreadPoolExecutor(self.workers, thread_name_prefix="fedcert client") as pool:
                return list(pool.map(train, clients, batches))
        finally:
            torch.set_num_threads(threads)
