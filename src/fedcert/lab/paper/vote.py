"""CERTIFY beside the vote: what a trace's target keeps by either, what is estimated, and the passes of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcert._arrays import Floats
from fedcert._files.paths import display_path, kind_of_path
from fedcert.errors import CallError, DataProblem
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.prepared import PreparedClients
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import Settings
from fedcert.lab.traces.federations import draw_voting_federation
from fedcert.lab.traces.trace import Trace, read_trace

VOTE = "vote"
"""The table's name, beside those of the paper."""
RATIOS = tuple(round(0.4 * step, 1) for step in range(7))
"""Radii in units of sigma: to 2.4, as far as 100 passes reach within about half a point."""
_METHOD = "poststratified"
"""The estimator: that of counts per class, which population reports can disclose like CERTIFY's."""


@dataclass(frozen=True)
class VoteComparison:
    """CERTIFY and the vote on one trace, the clients as they were in training, the target all test images.

    Attributes:
        trace: the trace.
        certify: certified accuracy of the target's examples at each radius, as the paper has it.
        truth: what is proven of the vote's accuracy on the target's own examples.
        estimate: the same, estimated from the clients' reports for the target's class mix, with its interval.
    """

    trace: Trace
    certify: Floats
    truth: Floats
    estimate: Estimate

    @property
    def certify_passes(self) -> float:
        """Noisy samples of an example that CERTIFY drew, on average."""
        both = (self.trace.clients, self.trace.target)
        return float(sum(part.samples.sum() for part in both) / max(1, sum(len(part) for part in both)))

    @property
    def vote_passes(self) -> int:
        """Those of them that the vote's counts are made of: the samples of selection."""
        return self.trace.passes


def compare_with_vote(trace: Trace) -> VoteComparison:
    """CERTIFY and the vote on a trace.

    CERTIFY is counted at the very radii. Where its procedure was sequential, it stopped when the experiment's own radii
    were decided, so that between two of them it may count a few examples less than n samples of each would.

    Raises:
        DataProblem: the trace has no right answers, or one split of it is empty.
    """
    for part, examples in (("clients", trace.clients), ("target", trace.target)):
        if not len(examples):
            raise DataProblem(f"the trace has no examples of the {part}; make it anew with 'fedcert lab trace'")
    radii = [round(ratio * trace.experiment.smoothing.sigma, 9) for ratio in RATIOS]
    drawn = draw_voting_federation(trace, radii, np.random.default_rng(0))
    prepared = PreparedClients.of(ReportedClients.of(drawn.reports), Settings())
    certify = np.asarray(trace.target.certified(radii).mean(axis=0), dtype=np.float64)
    return VoteComparison(trace, certify, drawn.truth, estimate_of(prepared, drawn.target, _METHOD))


def vote_comparisons(where: Path, left_out: list[str]) -> Iterator[VoteComparison]:
    """CERTIFY and the vote on all traces with right answers.

    Args:
        where: a trace, or a folder of traces.
        left_out: the names of traces without right answers are added to it.

    Raises:
        CallError: there is no trace.
        DataProblem: no trace has right answers, or one cannot be used.
    """
    paths = [where] if kind_of_path(where) == "a file" else sorted(where.glob("*.parquet"))
    if not paths:
        raise CallError(
            f"{display_path(where)} holds no trace; make one with 'fedcert lab trace', and name it or its folder "
            "(--traces)"
        )
    for path in paths:
        trace = read_trace(path)
        if not trace.has_correct:
            left_out.append(path.stem)
            continue
        try:
            yield compare_with_vote(trace)
        except DataProblem as error:
            raise DataProblem(f"{display_path(path)}: {error}") from None
    if len(left_out) == len(paths):
        raise DataProblem(
            f"a trace in {display_path(where)} must have right answers (the column 'correct'), but none has: they are "
            "of an earlier fedcert; make one anew with 'fedcert lab trace'"
        )
