"""Corrected and withdrawn reports: which of two reports of one client counts, and what a run remembers of the other.

Of two reports that answer the same request with different counts, the newer one counts, by the times at which they say
they were created. Where these do not decide, neither replaces the other: the coordinator has to say which is meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from fedcert.errors import Refused, preview
from fedcert.report import Report
from fedcert.rounds.validation import same_counts


@dataclass(frozen=True)
class PlacedReport:
    """A report and where it came from.

    Attributes:
        report: the report.
        place: a file's name, or other words for where it is; "" where that is not known.
    """

    report: Report
    place: str

    def __str__(self) -> str:
        """The place and the time, for a sentence."""
        when = f"created {self.report.created}" if self.report.created else "with no creation time"
        return f"{self.place or 'a report'} ({when})"


_OTHER_MIX = 0.25
"""Total variation between the class mixes of two reports of one client, beyond which they are hardly about one site."""
_FEWEST = 10
"""Examples from which on a class mix says something."""
_DOUBT = "is it another client's report?"


def correction(offered: PlacedReport, kept: PlacedReport) -> str:
    """Which report replaces which, in words; with a doubt where their class mixes are very different."""
    what = f"{offered} replaces {kept}"
    now, before = (np.array(placed.report.label_counts, dtype=np.float64) for placed in (offered, kept))
    if len(now) != len(before) or min(now.sum(), before.sum()) < _FEWEST:
        return what
    if np.abs(now / now.sum() - before / before.sum()).sum() / 2 <= _OTHER_MIX:
        return what
    return f"{what}, although their class mixes are very different: {_DOUBT}"


def is_doubtful(what: str) -> bool:
    """Whether a correction, in the words of `correction`, looks like another client's report."""
    return what.endswith(_DOUBT)


def newer(offered: PlacedReport, kept: PlacedReport) -> bool:
    """Whether an offered report is newer than the one that counts.

    Raises:
        Refused: it is older, or the times do not say; the sentence names both, and what to do.
    """
    client = preview(offered.report.client)
    first, second = kept.report.created, offered.report.created
    if first is None or second is None or _time(first) == _time(second):
        raise Refused(
            f"{client} has two different reports, {kept} and {offered}, and their times do not say which is newer: "
            f"remove one of the files, or replace the kept report with --replace {offered.report.client}"
        )
    if _time(second) < _time(first):
        raise Refused(
            f"{client} has a newer report, {kept}, than {offered}; the newer one counts. To use the older one, remove "
            f"the newer file, or give --replace {offered.report.client}"
        )
    return True


def check_not_withdrawn(offered: Report, withdrawn: Report | None) -> None:
    """Check that a report is not one that was withdrawn.

    Raises:
        Refused: it is the withdrawn report, or an older one.
    """
    if withdrawn is None:
        return
    later = (
        offered.created is not None
        and withdrawn.created is not None
        and _time(offered.created) > _time(withdrawn.created)
    )
    if same_counts(offered, withdrawn) or not later:
        raise Refused(
            f"the report of {preview(offered.client)} was withdrawn; a report that was created later is taken, or this "
            f"one with --replace {offered.client}"
        )


def _time(moment: str) -> datetime:
    return datetime.fromisoformat(moment)
