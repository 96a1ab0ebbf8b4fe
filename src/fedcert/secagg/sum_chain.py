"""The secure aggregations that one request asks a client for, in order.

    class support  (where `fewest_holders` is set)   which classes the client holds
    counts                                           its counts, of classes that enough clients hold
    second sum     (where `spread` is set)           what it adds to the error of the estimate from the counts

The second and the third open with the total of the one before, which the client checks by its tags and keeps, so that
a program that starts anew is where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fedcert._schema.encoding import decoded_numbers
from fedcert.errors import FileProblem, Refused
from fedcert.privacy.state_store import StateStore
from fedcert.report import Report
from fedcert.secagg.class_support import ClassSupport, holding
from fedcert.secagg.client import SecAggClient
from fedcert.secagg.masks import Vector
from fedcert.secagg.messages import Holders, ServerMessage, Survivors, Totals
from fedcert.secagg.second_sum import SecondSum
from fedcert.secagg.vectors import VectorLayout


class ChainedSum(NamedTuple):
    """One of a request's secure aggregations.

    Attributes:
        client: this client in it.
        pack: the numbers that a report adds.
        support: of the classes that it is over; None where that does not depend on an aggregation before.
    """

    client: SecAggClient
    pack: Callable[[Report], Vector]
    support: ClassSupport | None = None


class SumChain:
    """Where a client is in the aggregations of a request.

    Args:
        first: the client in the first of them.
        memory: what the client remembers.
    """

    def __init__(self, first: SecAggClient, memory: StateStore) -> None:
        self.request, self.first, self.memory = first.request, first, memory
        self.layout = VectorLayout(self.request)
        self._asks_support = self.layout.private.fewest_holders is not None
        self._asks_second = self.layout.private.spread

    def sum_of(self, message: ServerMessage) -> ChainedSum:
        """The aggregation that a message belongs to.

        Raises:
            Refused: none that was begun.
        """
        for begun in self._begun():
            if message.session == begun.client.session:
                return begun
        raise Refused(f"the {type(message).NOUN} is of another sum")

    def _begun(self) -> Iterator[ChainedSum]:
        if self._asks_support:
            yield ChainedSum(self.first, holding)
        counts = self.counts()
        if counts is not None:
            yield counts
            totals = self.memory.get(f"second-{self.request.nonce}")
            if totals is not None:
                yield self._second_sum(counts, Totals.from_json(totals))

    def counts(self) -> ChainedSum | None:
        """The aggregation of counts; None while it is not known over which classes it is."""
        if not self._asks_support:
            return ChainedSum(self.first, self.layout.pack)
        kept = self.memory.get(f"holders-{self.request.nonce}")
        return None if kept is None else self._counts_over(Holders.from_json(kept))

    def _counts_over(self, holders: Holders) -> ChainedSum:
        """The aggregation of counts over classes that enough clients hold."""
        total = np.array(holders.holders, dtype=np.uint64)
        support = ClassSupport.of(self.request, total, len(self.first.over))
        client = self.first.again(support.purpose, checked=self._asks_second)
        return ChainedSum(client, lambda report: self.layout.pack(support.restricted(report)), support)

    def _second_sum(self, counts: ChainedSum, totals: Totals) -> ChainedSum:
        """The aggregation about the totals of counts, which were checked, and the request's own target."""
        total = decoded_numbers(totals.total, self.layout.length)
        if total is None:
            raise FileProblem("the memory of the second sum is not as fedcert wrote it; ask for a new sum")
        second = SecondSum.asked(self.request, self.layout.sums(total, len(counts.client.over)))
        support = counts.support

        def pack(report: Report) -> Vector:
            return second.pack(report if support is None else support.restricted(report))

        return ChainedSum(self.first.again(second.purpose), pack)

    def open_counts(self, holders: Holders) -> SecAggClient:
        """Begin the aggregation of counts, after that of class support.

        Raises:
            Refused: it was not asked for, class support is not summed yet, or the server gives a false total.
        """
        if not self._asks_support:
            raise Refused("the request asks for no number of holders")
        if not self.first.done:
            raise Refused("counts come after the sum of holders, which is not done")
        tags = decoded_numbers(holders.tags, len(holders.holders))
        if not self.first.holds(np.array(holders.holders, dtype=np.uint64), tags):
            raise Refused("the server tells another number of holders than the sites have summed")
        client = self._counts_over(holders).client
        if holders.session != client.session:
            raise Refused("the number of holders is of another request")
        self.memory.put(f"holders-{self.request.nonce}", holders.to_json())
        return client

    def open_second(self, totals: Totals) -> SecAggClient:
        """Begin the second sum, after that of counts; there is one for each request, about one target.

        Raises:
            Refused: it was not asked for, counts are not summed yet, or the server gives false totals.
        """
        if not self._asks_second:
            raise Refused("the request asks for no second sum")
        counts = self.counts()
        if counts is None or not counts.client.done:
            raise Refused("a second sum comes after the first, which is not done")
        length = self.layout.length
        if not counts.client.holds(decoded_numbers(totals.total, length), decoded_numbers(totals.tags, length)):
            raise Refused("the server tells other totals than the sites have summed")
        client = self._second_sum(counts, totals).client
        if totals.session != client.session:
            raise Refused("the totals of the first sum are of another request")
        self.memory.put(f"second-{self.request.nonce}", totals.to_json())
        return client

    def check_survivors(self, begun: ChainedSum, survivors: Survivors) -> None:
        """Check that the classes of an aggregation are still held by enough clients.

        Raises:
            Refused: some may be held by too few.
        """
        if begun.support is not None:
            begun.support.check_without(len(set(self.first.over) - set(survivors.survivors)))
