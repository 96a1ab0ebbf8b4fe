"""Estimators by name: fedcert's own, and those that other packages register.

An estimator is a function of the clients, a target's class mix and settings that gives a `PointEstimate`. A `Method`
says what it takes; every list of methods, in help texts, messages, comparisons and pages, is computed from these. Other
packages' estimators are found by their entry points in the group `fedcert.estimators`, each a function of
`ReportedClients` or a `Method`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fedcert._arrays import Floats
from fedcert.errors import CallError, EstimationProblem, FedcertError, preview
from fedcert.estimation.clients import Clients, ReportedClients
from fedcert.estimation.methods.point_estimate import Chosen, PointEstimate
from fedcert.estimation.settings import Settings

GROUP = "fedcert.estimators"
AUTO = "auto"
"""The method that chooses another one."""

Estimator = Callable[[Any, Floats, Settings], PointEstimate]
"""The first argument is a `ReportedClients`; methods that work from sums take any `Clients`."""


@dataclass(frozen=True)
class Method:
    """An estimator and what it takes.

    Attributes:
        name: as `--method` names it.
        title: as tables have it.
        function: the estimator, or where it is, as "module:name": it is imported when it is first used.
        from_sums: whether it works from sums; where not, it needs the clients' reports.
        allows_noise: whether its interval allows for noise that was added for privacy.
        class_curves: whether it knows the curve of each class: then it estimates many targets at once.
        from_class_counts: whether counts per class are what it is made for.
        mix_forms: where the function is that packs it for the page's script, as "module:name"; None where the script
            does not know the method.
        paper: whether it is one of the paper's.
        compared: whether comparisons of all methods include it.
        description: what it does, in one sentence for people who compare methods.
    """

    name: str
    title: str
    function: str | Estimator
    from_sums: bool = False
    allows_noise: bool = False
    class_curves: bool = False
    from_class_counts: bool = False
    mix_forms: str | None = None
    paper: bool = False
    compared: bool = True
    description: str = ""

    def __post_init__(self) -> None:
        for part in ("name", "title"):
            if not isinstance(getattr(self, part), str) or not getattr(self, part):
                raise CallError(f"a method's {part} must be a text, but is {preview(getattr(self, part))}")
        if not callable(self.function) and not (isinstance(self.function, str) and ":" in self.function):
            raise CallError(
                f"the method {preview(self.name)} must have a function, or its place as 'module:name', but has "
                f"{preview(self.function)}"
            )

    def estimator(self) -> Estimator:
        """The function, imported if need be.

        Raises:
            CallError: it cannot be imported.
        """
        return self.function if callable(self.function) else load_place(self.name, self.function)


_PAPER = "fedcert.estimation.methods.paper.estimators"
_FORMS = "fedcert.estimation.mix_forms"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "vw", "VW", f"{_PAPER}:volume_weighted", from_sums=True, paper=True,
            description="Volume weighting: all test examples count the same, whatever the target's class mix.",
        ),
        Method(
            "ap", "AP", f"{_PAPER}:approximation", paper=True,
            description="Approximation: the random subset of clients, and its weights, closest to the target's mix.",
        ),
        Method(
            "ga", "GA", f"{_PAPER}:grouped_approximation", paper=True,
            description="Grouped approximation: AP after merging small clients into larger ones.",
        ),
        Method(
            "blup", "BLUP", "fedcert.estimation.methods.blup:blup", from_sums=True, class_curves=True,
            mix_forms=f"{_FORMS}:blup_forms",
            description="Best linear unbiased prediction: each class's accuracy is inferred from how clients with "
            "different class mixes differ. Needs no counts per class.",
        ),
        Method(
            "poststratified", "post-stratification", "fedcert.estimation.methods.poststratified:poststratified",
            from_sums=True, allows_noise=True, class_curves=True, from_class_counts=True,
            mix_forms=f"{_FORMS}:poststratified_forms",
            description="The accuracy of each class over all clients, weighted by the target's mix. Needs counts per "
            "class.",
        ),
        Method(
            "minimax", "minimax", "fedcert.estimation.methods.minimax:minimax", from_sums=True,
            description="Client weights with the shortest interval in the worst case.",
        ),
        Method(
            AUTO, "auto", f"{__name__}:auto", from_sums=True, allows_noise=True,
            from_class_counts=True, compared=False,
            description="Post-stratification where clients disclose counts per class, else BLUP.",
        ),
    )
}  # fmt: skip


def recommended(methods: Iterable[Method] | None = None) -> list[Method]:
    """Methods as people should read them: the automatic choice, what uses most of the data, the paper's last."""
    among = METHODS.values() if methods is None else methods
    return sorted(among, key=lambda method: (method.name != AUTO, not method.from_class_counts, method.paper))


def class_curve_methods() -> list[Method]:
    """Methods that know the curve of each class, the one that uses most of the data first."""
    return [method for method in recommended() if method.class_curves]


def method_names() -> list[str]:
    """The names of all estimators that are installed: fedcert's own, then the others."""
    others = {entry.name for entry in entry_points(group=GROUP)} - METHODS.keys()
    return [*METHODS, *sorted(others)]


def find_method(name: str) -> Method:
    """The method of a name. fedcert's own names cannot be taken over.

    Raises:
        CallError: there is none, or it is only half registered.
    """
    if isinstance(name, str):
        if name in METHODS:
            return _whole(name, METHODS[name])
        for entry in entry_points(group=GROUP, name=name):
            return _of_entry_point(entry)
    raise CallError(f"method must be one of {', '.join(method_names())}, but is {preview(name)}")


def estimator(name: str) -> Estimator:
    """The function of a method.

    Raises:
        CallError: there is no such method.
    """
    return find_method(name).estimator()


def check_knows(method: Method, clients: Clients) -> None:
    """Check that a method can work from what is known.

    Raises:
        EstimationProblem: only sums are given, and it needs the clients' own reports; or they have noise in them, which
            its interval would not allow for.
    """
    if clients.noisy_totals is not None and not method.allows_noise:
        others = " or ".join(other.name for other in recommended() if other.allows_noise)
        raise EstimationProblem(
            f"the method {preview(method.name)} does not allow for the noise in these sums; use {others}"
        )
    if not method.from_sums and not isinstance(clients, ReportedClients):
        others = ", ".join(other.name for other in recommended() if other.from_sums)
        raise EstimationProblem(
            f"the method {preview(method.name)} needs the clients' own reports, but sums are given; use one of {others}"
        )


def load_place(method: str, place: str) -> Any:
    """What stands at a place "module:name".

    Raises:
        CallError: nothing does.
    """
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise _cannot_load(method, place, error) from error


def _whole(name: str, method: object) -> Method:
    if not isinstance(method, Method) or method.name != name:
        given = method.name if isinstance(method, Method) else method
        raise CallError(f"the method {preview(name)} is registered as {preview(given)}: both names must be the same")
    return method


def _cannot_load(name: str, place: str, error: Exception) -> CallError:
    return CallError(f"the method {preview(name)} ({place}) cannot be loaded: {type(error).__name__}: {error}")


def _of_entry_point(entry: EntryPoint) -> Method:
    """Another package's method, whose faults are named as its own."""
    try:
        given = entry.load()
    except Exception as error:
        raise _cannot_load(entry.name, entry.value, error) from error
    if isinstance(given, Method):
        whole = _whole(entry.name, given)
        return replace(whole, function=_guarded(entry, whole.estimator()))
    return Method(entry.name, entry.name, _guarded(entry, given), compared=False)


def _guarded(entry: EntryPoint, function: Estimator) -> Estimator:
    def run(clients: Clients, target: Floats, settings: Settings) -> PointEstimate:
        try:
            point = function(clients, target, settings)
        except FedcertError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise EstimationProblem(f"the method {preview(entry.name)} ({entry.value}) failed: {reason}") from error
        if not isinstance(point, PointEstimate):
            raise EstimationProblem(
                f"the method {preview(entry.name)} must give a PointEstimate, but gave {type(point).__name__}"
            )
        return point

    return run


def auto(clients: Clients, target: Floats, settings: Settings) -> PointEstimate:
    """Post-stratified where clients disclose counts per class, else BLUP; the estimate says which and why."""
    chosen = choose_method(clients)
    point = estimator(chosen.method)(clients, target, settings)
    details = {**point.details, "chosen": chosen.method, "because": chosen.because}
    return replace(point, details=details, chosen=chosen)


def choose_method(clients: Clients) -> Chosen:
    """The method that makes most of what the clients disclose, and why."""
    disclosing = clients.n_with_class_counts
    if disclosing:
        who = "all clients" if disclosing == clients.count else f"{disclosing} of {clients.count} clients"
        because = f"{who} shared counts per class"
        return Chosen(method="poststratified", because=because)
    return Chosen(method="blup", because="no client shared counts per class")
