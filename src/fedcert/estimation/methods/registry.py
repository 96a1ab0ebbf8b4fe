"""Estimators by name: fedcert's own, and those that other packages register.

An estimator is a function of a federation, a target distribution and settings that gives an `PointEstimate`. Other
packages' estimators are found by their entry points in the group `fedcert.estimators`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fedcert._arrays import Floats
from fedcert._schema.checked import Checked
from fedcert._schema.declare import defaulting, optional
from fedcert._schema.field_types import Enumerated, Flag, ListOf, Number, Text, Whole
from fedcert.errors import CallError, EstimationProblem, FedcertError, preview
from fedcert.estimation.clients.protocol import Clients
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.intervals.ingredients import Uncertainty
from fedcert.estimation.methods.linear_weights import LinearWeights

GROUP = "fedcert.estimators"

_OWN = {
    "vw": "fedcert.estimation.methods.paper.estimators:volume_weighted",
    "ap": "fedcert.estimation.methods.paper.estimators:approximation",
    "ga": "fedcert.estimation.methods.paper.estimators:grouped_approximation",
    "blup": "fedcert.estimation.methods.blup:blup",
    "poststratified": "fedcert.estimation.methods.poststratified:poststratified",
    "minimax": "fedcert.estimation.methods.minimax:minimax",
    "auto": "fedcert.estimation.methods.auto:auto",
}


@dataclass(frozen=True)
class Settings(Checked):
    """What estimators may be told; each uses what it needs. Defaults are the paper's.

    Attributes:
        subsets: how many random subsets of clients Algorithm 2 draws (T).
        subset_size: clients in each (E).
        threshold: examples below which a client is small (τ).
        seed: of the draws.
        confidence: of the interval.
        interval: "finite-sample" or "asymptotic".
        simultaneous: whether the interval is for all radii at once.
        target_examples: size of the finite set that the target is; None for the population it comes from.
        non_negative: keep the weights of minimax and BLUP at or above 0.
        screen: leave out clients whose curves the others cannot explain, and cut huge ones to size.
        trusted: clients that screening never leaves out, and only cuts to size.
    """

    subsets: int = defaulting(Whole(least=1), 1000)
    subset_size: int = defaulting(Whole(least=1), 10)
    threshold: int = defaulting(Whole(), 50)
    seed: int = defaulting(Whole(), 0)
    confidence: float = defaulting(Number(above=0, below=1), 0.95)
    interval: str = defaulting(Enumerated(("finite-sample", "asymptotic")), "finite-sample")
    simultaneous: bool = defaulting(Flag(), False)
    target_examples: int | None = optional(Whole(least=1))
    non_negative: bool = defaulting(Flag(), False)
    screen: bool = defaulting(Flag(), False)
    trusted: tuple[str, ...] = defaulting(ListOf(Text(), "client names", least=0, most=10_000_000), ())

    def used(self, *names: str) -> dict[str, Any]:
        """The named settings, for the record of an estimate."""
        return {name: value for name, value in asdict(self).items() if name in names}


@dataclass(frozen=True)
class PointEstimate:
    """What an estimator gives.

    Attributes:
        certified_accuracy: the estimate at each radius.
        weights: one per client, adding up to 1, where the estimate is Σ weight x accuracy; else None.
        weights_note: why there are none.
        rule: the formula of the weights, where clients are not known one by one.
        uncertainty: what its interval is made of; None for a point without one.
        guarantee: what holds of it, in words; fedcert words it where weights say enough.
        settings: those that it used, so that it can be run again.
        details: anything else worth keeping, as plain JSON types.
    """

    certified_accuracy: Floats
    weights: Floats | None
    weights_note: str | None = None
    rule: LinearWeights | None = None
    uncertainty: Uncertainty | None = None
    guarantee: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


Estimator = Callable[[Any, Floats, Settings], PointEstimate]
"""The first argument is a `ReportedClients`; the estimators of `FROM_SUMS` take any `Clients`."""

FROM_SUMS = ("auto", "vw", "blup", "minimax", "poststratified")
FROM_NOISE = ("auto", "poststratified")


def method_names() -> list[str]:
    """The names of all estimators that are installed: fedcert's own, then the others."""
    others = {entry.name for entry in entry_points(group=GROUP)} - _OWN.keys()
    return [*_OWN, *sorted(others)]


def estimator(name: str) -> Estimator:
    """The estimator of a name. fedcert's own names cannot be taken over.

    Raises:
        CallError: there is none.
    """
    if not isinstance(name, str):
        raise CallError(f"method must be one of {', '.join(method_names())}, but is {preview(name)}")
    if name in _OWN:
        module, function = _OWN[name].split(":")
        own: Estimator = getattr(import_module(module), function)
        return own
    for entry in entry_points(group=GROUP, name=name):
        return _guarded(entry)
    raise CallError(f"method must be one of {', '.join(method_names())}, but is {preview(name)}")


def check_knows(name: str, pool: Clients) -> None:
    """Check that a method can work from what is known.

    Raises:
        EstimationProblem: only sums are given, and it needs the clients' own reports; or they have noise in them, which
            its interval would not allow for.
    """
    if getattr(pool, "noise", None) is not None and name not in FROM_NOISE:
        raise EstimationProblem(
            f"the method {preview(name)} does not allow for the noise in these sums; use {' or '.join(FROM_NOISE)}"
        )
    if name not in FROM_SUMS and not isinstance(pool, ReportedClients):
        raise EstimationProblem(
            f"the method {preview(name)} needs the clients' own reports, but sums are given; "
            f"use one of {', '.join(FROM_SUMS)}"
        )


def _guarded(entry: EntryPoint) -> Estimator:
    """Another package's estimator, whose faults are told as such."""
    try:
        function = entry.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise CallError(f"the method {preview(entry.name)} ({entry.value}) cannot be loaded: {reason}") from error

    def run(federation: ReportedClients, target: Floats, settings: Settings) -> PointEstimate:
        try:
            answer = function(federation, target, settings)
        except FedcertError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise EstimationProblem(f"the method {preview(entry.name)} ({entry.value}) failed: {reason}") from error
        if not isinstance(answer, PointEstimate):
            raise EstimationProblem(
                f"the method {preview(entry.name)} must give a PointEstimate, but gave {type(answer).__name__}"
            )
        return answer

    return run
