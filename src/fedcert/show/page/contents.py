"""The contents of a page: an estimate, others to compare it with, its contributors, and what other mixes need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import CallError
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.compare import check_comparable
from fedcert.estimation.method_comparison import compare_methods, forms_for_page
from fedcert.estimation.mix_arrays import MixForms
from fedcert.estimation.prepared import PreparedClients
from fedcert.estimation.result import Estimate
from fedcert.show.sentences import headline

_MOST_CLIENTS = 20_000
"""Clients that a page lists: a megabyte of names and numbers."""
_MOST_OWN = 50_000
"""Accuracies of single clients on a page, 130 KB; where there are more, those at one radius are kept."""


@dataclass(frozen=True)
class Contributors:
    """The clients that are in an estimate.

    Attributes:
        names: theirs, those of the largest where they are very many.
        sizes: examples of each.
        has_class_counts: which of them disclose counts per class.
        count: how many there are.
        own_radii: indices of the radii at which each one's own certified accuracy is known.
        own_accuracy: that, in thousandths, clients x these radii.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    has_class_counts: tuple[bool, ...]
    count: int
    own_radii: tuple[int, ...]
    own_accuracy: Floats

    @classmethod
    def of(cls, federation: ReportedClients, radius: int) -> Contributors:
        """The clients of a federation, largest first.

        Args:
            federation: the clients.
            radius: index of the radius at which accuracies are kept where there are too many for all radii.
        """
        sizes, names = federation.sizes, federation.clients
        largest = sorted(range(federation.count), key=lambda row: (-sizes[row], names[row]))[:_MOST_CLIENTS]
        every = len(largest) * len(federation.radii) <= _MOST_OWN
        radii = tuple(range(len(federation.radii))) if every else (radius,)
        own = federation.certified_accuracy[np.ix_(largest, radii)]
        return cls(
            tuple(names[row] for row in largest),
            tuple(round(float(sizes[row])) for row in largest),
            tuple(bool(federation.has_class_counts[row]) for row in largest),
            federation.count,
            radii,
            np.rint(1000 * np.clip(own, 0.0, 1.0)) + 0.0,
        )


@dataclass(frozen=True)
class Contents:
    """The contents of a page.

    Attributes:
        estimates: the one that it is about, and others of the same target to compare with.
        failed: method -> why there is no estimate by it.
        contributors: the clients in it; None where they are not known.
        evaluators: method -> arrays that other class mixes are evaluated from.
        no_evaluator: why there are none.
        labels: examples of each class, all clients together; None where they are not known.
    """

    estimates: tuple[Estimate, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    contributors: Contributors | None = None
    evaluators: Mapping[str, MixForms] = field(default_factory=dict)
    no_evaluator: str | None = None
    labels: tuple[int, ...] | None = None

    @classmethod
    def of_estimates(cls, estimates: Sequence[Estimate]) -> Contents:
        """Of estimates alone: other class mixes need the reports.

        Raises:
            CallError: there is none, or they do not belong together.
        """
        if not estimates:
            raise CallError("there is no estimate to show")
        check_comparable(estimates)
        why = "A page made from estimates alone does not know what other class mixes need; make it from the reports."
        return cls(tuple(estimates), no_evaluator=why)

    @classmethod
    def of_clients(cls, prepared: PreparedClients, estimate: Estimate) -> Contents:
        """Of an estimate and the clients that it was made from: with the other methods', and for other class mixes.

        Raises:
            CallError: a method is only half registered.
        """
        comparison = compare_methods(prepared, estimate)
        evaluators, no_evaluator = forms_for_page(prepared)
        clients = prepared.clients
        radius = headline(estimate)
        contributors = Contributors.of(clients, radius) if isinstance(clients, ReportedClients) else None
        labels = tuple(int(count) for count in clients.labels.tolist())
        return cls(comparison.estimates, comparison.failed, contributors, evaluators, no_evaluator, labels)

    @property
    def method(self) -> str:
        """The method that other mixes are estimated by, where there is one."""
        used = self.estimates[0].used_method
        return used if used in self.evaluators or not self.evaluators else next(iter(self.evaluators))
