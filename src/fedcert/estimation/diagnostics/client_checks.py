"""Checks of the clients: whether they used the same settings, agree with each other, and how much each one decides."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import preview
from fedcert.estimation.clients import AggregatedClients, Clients, ReportedClients
from fedcert.estimation.diagnostics.checks import OK, UNRELIABLE, WARNING, Check
from fedcert.estimation.diagnostics.class_conflicts import conflicting_class
from fedcert.estimation.diagnostics.input_range import compare_input_ranges
from fedcert.estimation.diagnostics.label_shift import ShiftTest
from fedcert.estimation.diagnostics.same_data import equal_histograms
from fedcert.estimation.diagnostics.site_sizes import size_finding

_FEW_CLIENTS, _DOMINANT = 3, 0.5
"""With so few clients each one counts; beyond, a client that carries half of the weight is worth a look."""
_TOO_MANY = 0.3
"""Share of clients that screening may leave out: its fit tolerates nearly half, less a margin."""
_MOST_LISTED, _MOST_SUSPECTS = 10, 3
"""Clients, and suspicious ones with their reasons, that a sentence names."""
NO_SUSPECTS: Mapping[str, str] = {}


def same_settings(clients: Clients) -> Check:
    """Whether all clients drew the same samples at the same failure probability."""
    if clients.smoothing.is_population:
        sentence = f"All clients used {clients.smoothing.n} noisy passes per example."
        return Check("same settings", OK, None, sentence)
    if clients.same_settings:
        sentence = "All clients used the same number of samples and the same failure probability."
        return Check("same settings", OK, None, sentence)
    sentence = (
        "Clients used different numbers of samples or failure probabilities. Fewer samples certify fewer examples, "
        "which lowers the estimate."
    )
    return Check("same settings", WARNING, None, sentence)


def secret_seeds(clients: Clients) -> Check | None:
    """Which clients' noise could be known beforehand; None where all is well, or nothing is said of seeds."""
    fixed = clients.fixed_seeds if isinstance(clients, ReportedClients) else ()
    if not fixed:
        return None
    named = ", ".join(preview(client) for client in fixed[:_MOST_LISTED])
    named += f" and {len(fixed) - _MOST_LISTED} more" if len(fixed) > _MOST_LISTED else ""
    sentence = (
        f"The noise seed was fixed by hand at {named}. Whoever supplied the model could know the noise in advance and "
        "fit the model to it. Outside tests, omit --seed."
    )
    return Check("secret seeds", WARNING, float(len(fixed)), sentence)


def input_ranges(clients: Clients) -> Check | None:
    """Whether the clients' inputs are in the same units, and in proportion to sigma; None where nothing is known."""
    if not isinstance(clients, ReportedClients):
        return None
    finding = compare_input_ranges(clients.input_ranges, clients.smoothing.sigma)
    if finding is None:
        return None
    return Check("input range", *finding)


def same_data(clients: Clients) -> Check | None:
    """Which clients seem to have certified the same file; None where none do, or only sums are known."""
    if not isinstance(clients, ReportedClients):
        return None
    finding = equal_histograms(clients.clients, clients.label_counts)
    return None if finding is None else Check("separate data", WARNING, *finding)


def dominance(federation: ReportedClients, weights: Floats) -> Check:
    """Whether one client decides."""
    heaviest = int(np.argmax(np.abs(weights)))
    share = float(abs(weights[heaviest]) / np.abs(weights).sum())
    client = preview(federation.clients[heaviest])
    sentence = f"Largest single influence: {client}, {share:.0%} of the total absolute weight"
    if federation.count > _FEW_CLIENTS and share > _DOMINANT:
        return Check("dominance", WARNING, share, f"{sentence}. Check its report.")
    few = f", with only {federation.count} client{'s' if federation.count != 1 else ''}"
    return Check("dominance", OK, share, f"{sentence}{few if federation.count <= _FEW_CLIENTS else ''}.")


def screening(dropped: int, reduced: int, kept: int, asymmetric: bool) -> Check:
    """How many clients screening left out.

    Args:
        dropped, reduced, kept: how many clients.
        asymmetric: whether those that stay differ, and mostly to one side.
    """
    share = dropped / (dropped + kept)
    sentence = f"Screening removed {dropped} of {dropped + kept} clients and down-weighted {reduced}"
    if not dropped:
        return Check("screening", OK, share, sentence + ".")
    sentence += "; the estimate names them, with reasons."
    if asymmetric:
        sentence += " Those that stay deviate mostly to one side, as liars in concert do."
        return Check("screening", UNRELIABLE, share, sentence)
    if share <= _TOO_MANY:
        return Check("screening", WARNING, share, sentence)
    return Check(
        "screening", UNRELIABLE, share, sentence + " With so many removed, it is not clear which side is right."
    )


def class_conflict(clients: Clients, mix: Floats) -> Check | None:
    """Whether groups of clients contradict each other about a class; None where they do not, or none is known alone."""
    if not isinstance(clients, ReportedClients):
        return None
    finding = conflicting_class(clients, mix)
    return None if finding is None else Check("contradicted class", UNRELIABLE, *finding)


def shift_allowed_for() -> Check:
    """Clients may differ, and the interval allows for it by a second sum."""
    sentence = (
        "Sums cannot show whether each class is equally hard at every client (label shift). The interval allows for "
        "clients that differ, by a second sum."
    )
    return Check("label shift", OK, None, sentence)


def label_shift(test: ShiftTest | None, allowed_for: bool, suspects: Mapping[str, str] = NO_SUSPECTS) -> Check:
    """The result of the test of label shift, the assumption behind everything.

    Args:
        test: its result; None where only sums are known, which do not allow it.
        allowed_for: whether there is an interval, which then allows for clients that differ.
        suspects: clients whose curves the others do not explain, and by how much.
    """
    if test is None:
        sentence = "Label shift cannot be tested from sums: that needs single reports."
        return Check("label shift", WARNING, None, sentence)
    if test.probability is None:
        sentence = "Label shift cannot be tested: too few clients, or all have the same class mix."
        return Check("label shift", WARNING, None, sentence)
    beyond = f"beyond chance and their class mixes at radius {test.radius:g} (p = {test.probability:.3f})"
    if not test.rejects:
        return Check("label shift", OK, test.probability, f"The {test.clients} clients do not differ {beyond}.")
    sentence = f"The clients differ {beyond}: a class is not equally hard everywhere."
    if suspects:
        sentence += f" {_suspected(suspects)}"
    if allowed_for:
        sentence += " The interval allows for clients that differ at random, but not for a target unlike any of them."
        return Check("label shift", WARNING, test.probability, sentence)
    return Check("label shift", UNRELIABLE, test.probability, f"{sentence} The estimate does not allow for that.")


def _suspected(suspects: Mapping[str, str]) -> str:
    """Who stands out, and what to do, in a sentence or two."""
    named = "; ".join(f"{preview(client)} ({why})" for client, why in list(suspects.items())[:_MOST_SUSPECTS])
    named += f"; {len(suspects) - _MOST_SUSPECTS} more" if len(suspects) > _MOST_SUSPECTS else ""
    single = len(suspects) == 1
    return (
        f"Suspicious: {named}. Check {'its' if single else 'their'} data and its scaling, labels and model, or remove "
        f"{'it' if single else 'them'} from the estimate with --screen."
    )


def site_sizes(clients: Clients, mix: Floats) -> Check | None:
    """How much one site could decide in a private sum; None where it is none."""
    if not isinstance(clients, AggregatedClients):
        return None
    finding = size_finding(clients.sums, mix)
    return None if finding is None else Check("examples per site", *finding)
