"""Reports that break an estimate in an unforeseen way: they are left out by name, and the round goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from fedcert.errors import EstimationProblem, FedcertError
from fedcert.estimation.result import Estimate
from fedcert.report import Report
from fedcert.rounds.transport import single_line

_LOG = logging.getLogger("fedcert")
_MOST_TRIED = 300
"""Estimates that are made to find whose report it is: less than a minute."""

MakeEstimate = Callable[[Sequence[Report]], Estimate]


def estimate_of_usable(reports: Sequence[Report], make: MakeEstimate) -> tuple[Estimate, dict[str, str]]:
    """An estimate, and the clients whose reports it had to leave out, with the reason.

    Args:
        reports: all that were taken.
        make: makes the estimate.

    Raises:
        EstimationProblem: no estimate follows from the reports, or it is not because of one report.
        FedcertError: what `make` says otherwise.
    """
    try:
        return make(reports), {}
    except (FedcertError, MemoryError):
        raise
    except Exception as error:
        _LOG.warning("the estimate failed: %s", _words(error), exc_info=error)
        unusable = _alone(reports, make) or _by_leaving_out(reports, make)
        rest = [report for report in reports if report.client not in unusable]
        why = f"the estimate failed, and not because of one report ({_words(error)}); the reports are kept. "
        why += "This is a fault of fedcert's: please report it to its maintainers"
        if not unusable or not rest:
            raise EstimationProblem(why) from error
        if _failure(make, rest) is not None:
            raise EstimationProblem(why) from error
        return make(rest), unusable


def _alone(reports: Sequence[Report], make: MakeEstimate) -> dict[str, str]:
    """Reports that break an estimate from themselves alone."""
    return {report.client: why for report in reports[:_MOST_TRIED] if (why := _failure(make, [report]))}


def _by_leaving_out(reports: Sequence[Report], make: MakeEstimate) -> dict[str, str]:
    """The report without which there is an estimate."""
    for place, report in enumerate(reports[:_MOST_TRIED]):
        if _failure(make, [*reports[:place], *reports[place + 1 :]]) is None:
            return {report.client: "with its report there is no estimate"}
    return {}


def _failure(make: MakeEstimate, reports: Sequence[Report]) -> str | None:
    """Why there is no estimate, where that was not foreseen."""
    try:
        make(reports)
    except FedcertError:
        return None
    except Exception as error:  # noqa: BLE001 (it is what is looked for)
        return f"its report could not be used: {_words(error)}"
    return None


def _words(error: Exception) -> str:
    return single_line(f"{type(error).__name__}: {error}")
