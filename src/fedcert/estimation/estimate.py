"""The coordinator's work: reports or sums and targets in, estimates out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fedcert._schema.registry import alternatives
from fedcert._threads import single_blas_thread
from fedcert.errors import CallError, EstimationProblem, preview
from fedcert.estimation.assembly import assemble, assemble_what_if
from fedcert.estimation.methods.poststratified import NO_CLASS_COUNTS
from fedcert.estimation.methods.registry import AUTO, check_knows, choose_method, class_curve_methods, find_method
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import Estimate, WhatIf
from fedcert.estimation.settings import Settings
from fedcert.estimation.target import named_target, target_of
from fedcert.report import LoadedReports, Target
from fedcert.report.load import Source


def estimate(
    reports: Source | Iterable[Source] | LoadedReports,
    target: object = "uniform",
    method: str = "auto",
    *,
    subsets: int = 1000,
    subset_size: int = 10,
    threshold: int = 50,
    seed: int = 0,
    confidence: float = 0.95,
    interval: str = "finite-sample",
    simultaneous: bool = False,
    target_examples: int | None = None,
    non_negative: bool = False,
    screen: bool | None = None,
    trusted: Iterable[str] = (),
    all_classes: bool = False,
    votes: int | None = None,
    radii: Sequence[float] | None = None,
    radius: float | None = None,
    target_name: str | None = None,
) -> Estimate:
    """Estimate the certified accuracy of a target population from the clients' reports.

    Args:
        reports: reports or sums, or paths of files, folders and Parquet tables that hold them.
        target: the target's class mix: "uniform", a mapping from class name to weight, a list of weights
            in class order, a JSON file's name, or "class=weight,…".
        method: "auto" (post-stratified where clients disclose counts per class, else BLUP), "poststratified", "blup",
            "minimax", the paper's "vw", "ap" and "ga", or one that another package registers.
        subsets: random subsets of clients to draw (T; AP and GA).
        subset_size: clients in each (E; AP and GA).
        threshold: examples below which a client is small (τ; GA).
        seed: of the draws.
        confidence: of the interval.
        interval: "finite-sample" (holds for any number of examples), "hoeffding" (too, and longer) or "asymptotic"
            (right for many examples).
        simultaneous: an interval for all radii at once, rather than for each.
        target_examples: the target is a finite set of so many examples, rather than the population they come from.
        non_negative: keep the weights of minimax and BLUP at or above 0.
        screen: leave out clients whose curves the others cannot explain, and cut huge ones to size; where None, if
            trusted clients are named. Without it the check of single clients says whether some decide the result.
        trusted: clients that screening never leaves out, and only cuts to size.
        all_classes: intervals of single classes (`by_class`) that hold for all classes at once, and so for the weakest
            one too, rather than each by itself.
        votes: population certificates: noisy copies that vote on an answer (odd); those that the request names where
            None. With others, the interval allows for the choice.
        radii: population certificates: increasing radii; those that the request names where None. With others, the
            interval allows for the choice.
        radius: the radius that summaries begin with, one of the estimate's; a quarter of the largest where None.
        target_name: of the target, for titles.

    Raises:
        CannotCombine: reports or sums that do not belong together.
        CallError: an unknown method, a setting or target of the wrong form.
        InvalidValue: a report or a target that breaks a rule.
        EstimationProblem: no client has any test example, or the method needs more than sums hold.

    Examples:
        >>> from fedcert.report import Report
        >>> def site(name, labels, certified):
        ...     return Report(client=name, model="demo", smoothing={"sigma": 0.25}, radii=[0, 0.5],
        ...                   classes=["cat", "dog"], label_counts=labels, certified_counts=certified)
        >>> reports = [site("a", [80, 20], [90, 50]), site("b", [20, 80], [60, 20])]
        >>> result = estimate(reports, target="cat=0.5,dog=0.5", method="ap")
        >>> [round(accuracy, 6) for accuracy in result.certified_accuracy]
        [0.75, 0.35]
        >>> {client: round(weight, 6) for client, weight in result.weights.items()}
        {'a': 0.5, 'b': 0.5}
    """
    vouched = tuple(trusted)
    settings = Settings(
        subsets, subset_size, threshold, seed, confidence, interval, simultaneous, target_examples, non_negative,
        bool(vouched) if screen is None else screen, vouched, all_classes, votes,
        None if radii is None else tuple(radii), radius,
    )  # fmt: skip
    prepared = PreparedClients.of(clients_of(reports), settings)
    return estimate_of(prepared, named_target(target, prepared.clients.classes, target_name), method)


@single_blas_thread()
def estimate_of(prepared: PreparedClients, target: object, method: str) -> Estimate:
    """The estimate of one method; several may be made of clients that were prepared once.

    Raises:
        CallError: an unknown method, or a target of the wrong form.
        InvalidValue: a target that breaks a rule.
        EstimationProblem: the method needs more than is known.
    """
    known = find_method(method)
    check_knows(known, prepared.clients)
    return assemble(prepared, known, target_of(target, prepared.clients.classes))


def what_if(
    reports: Source | Iterable[Source] | LoadedReports,
    targets: Sequence[object] | Mapping[str, object],
    method: str = "auto",
    *,
    confidence: float = 0.95,
    interval: str = "finite-sample",
    simultaneous: bool = False,
    target_examples: int | None = None,
    votes: int | None = None,
    radii: Sequence[float] | None = None,
) -> WhatIf:
    """Estimate the certified accuracy of many target populations at once, each with its own interval.

    Args:
        reports: as for `estimate`.
        targets: class mixes, each in a form that `estimate` takes; with names, where they are a mapping.
        method: "auto", "poststratified" or "blup".
        confidence: as for `estimate`, for each target by itself.
        interval: as for `estimate`, for each target by itself.
        simultaneous: as for `estimate`, for each target by itself.
        target_examples: as for `estimate`, for each target by itself.
        votes: as for `estimate`.
        radii: as for `estimate`.

    Raises:
        CannotCombine: reports or sums that do not belong together.
        CallError: another method, no target, a setting or target of the wrong form.
        InvalidValue: a report or a target that breaks a rule.
        EstimationProblem: no client has any test example, or sums without what the method needs.

    Examples:
        >>> from fedcert.report import Report
        >>> site = Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0], classes=["cat", "dog"],
        ...               label_counts=[80, 20], certified_counts=[70], class_certified_counts=[[60], [10]])
        >>> result = what_if(site, {"cats": "cat=1", "half": "uniform"})
        >>> [(curve.target.name, curve.certified_accuracy) for curve in result.targets]
        [('cats', (0.75,)), ('half', (0.625,))]
    """
    settings = Settings(
        confidence=confidence, interval=interval, simultaneous=simultaneous, target_examples=target_examples,
        votes=votes, radii=None if radii is None else tuple(radii),
    )  # fmt: skip
    return what_if_of(PreparedClients.of(clients_of(reports), settings), targets, method)


@single_blas_thread()
def what_if_of(prepared: PreparedClients, targets: Sequence[object] | Mapping[str, object], method: str) -> WhatIf:
    """The estimates for many targets, of clients that were prepared once.

    Raises:
        CallError: another method, no target, or a target of the wrong form.
        InvalidValue: a target that breaks a rule.
        EstimationProblem: the method needs more than is known.
    """
    clients = prepared.clients
    wanted = _targets(targets, clients.classes)
    able = (AUTO, *(known.name for known in class_curve_methods()))
    if method not in able:
        raise CallError(f"method must be {alternatives(able)} for a what-if, but is {preview(method)}")
    check_knows(find_method(method), clients)
    if method == "poststratified" and clients.class_totals is None:
        raise EstimationProblem(NO_CLASS_COUNTS)
    chosen = choose_method(clients).method if method == AUTO else method
    return assemble_what_if(prepared, find_method(chosen), wanted)


def _targets(targets: object, classes: tuple[str, ...]) -> list[Target]:
    if isinstance(targets, Mapping):
        wanted = [replace(target_of(target, classes), name=name) for name, target in targets.items()]
    elif isinstance(targets, Iterable) and not isinstance(targets, (str, bytes)):
        wanted = [target_of(target, classes) for target in targets]
    else:
        raise CallError(f"targets must be a list of targets or a mapping from names to them, but is {preview(targets)}")
    if not wanted:
        raise CallError("there are no targets; give at least one")
    return wanted
