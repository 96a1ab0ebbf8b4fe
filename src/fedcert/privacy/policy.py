"""A client's own rules about what leaves it. What they do not allow does not leave, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedcert._files.documents import read_record
from fedcert._schema.declare import defaulting, optional
from fedcert._schema.field_types import Enumerated, Flag, Nullable, Number, Whole
from fedcert._schema.record import Record
from fedcert.errors import InvalidValue, Refused
from fedcert.report import Report, Request
from fedcert.report.privacy import PrivacyBudget

NEVER, PRIVATELY, ALWAYS = "never", "in private sums", "always"
MIN_CLIENTS_FOR_SQUARES, MIN_CLIENTS_FOR_MOMENTS = 5, 50
"""Fewest clients in a second sum and in a sum with moments, by default. Over three or four, sums and their squares
nearly give each away. Moments have the products of all pairs of counts, 33 right answers and the classes: with fewer
clients than that, their histograms may follow (docs/security.md)."""
TOTAL_EPSILON = 10.0
"""By default: at delta 1e-5 some sixty sums of epsilon 1. Beyond it the guarantee says next to nothing."""


@dataclass(frozen=True, kw_only=True)
class Policy(Record):
    """What a client lets out.

    Attributes:
        minimum_examples: with fewer test examples, nothing.
        reports: whether counts in the clear leave; else private sums, and noise where `largest_epsilon` is set.
        class_counts: counts per class: "never", "in private sums" (or with noise where `largest_epsilon` is set), or
            "always".
        fewest_clients: the fewest clients that a private sum may be over.
        fewest_holders: clients that must hold a class for its counts to enter a private sum; reports in the clear,
            which always disclose classes, are then not let out.
        fewest_for_squares: the fewest clients that a second sum, of squares, may be over: it discloses more of each
            than sums do.
        fewest_for_moments: the fewest that sums with moments may be over: they disclose still more.
        largest_epsilon: counts leave with noise of at most this epsilon; null where noise is not asked for.
        largest_delta: noise that is asked for, by this policy or a request, has at most this delta.
        total_epsilon: what all releases with noise together may cost, by this client's memory; null for no bound.
        total_delta: the delta at which that is counted.
        signed_requests: requests must be signed by a member of the keyring.
    """

    SCHEMA: ClassVar[str] = "fedcert/policy/1"
    NOUN: ClassVar[str] = "policy"
    REMEDY: ClassVar[str | None] = "fix the policy, or ask whoever wrote it"

    minimum_examples: int = defaulting(Whole(), 0)
    reports: bool = defaulting(Flag(), True)
    class_counts: str = defaulting(Enumerated((NEVER, PRIVATELY, ALWAYS)), ALWAYS)
    fewest_clients: int = defaulting(Whole(least=3), 3)
    fewest_holders: int = defaulting(Whole(), 0)
    fewest_for_squares: int = defaulting(Whole(least=3), MIN_CLIENTS_FOR_SQUARES)
    fewest_for_moments: int = defaulting(Whole(least=3), MIN_CLIENTS_FOR_MOMENTS)
    largest_epsilon: float | None = optional(Number(above=0))
    largest_delta: float = defaulting(Number(above=0, below=1), 1e-5)
    total_epsilon: float | None = defaulting(Nullable(Number(above=0)), TOTAL_EPSILON)
    total_delta: float = defaulting(Number(above=0, below=1), 1e-5)
    signed_requests: bool = defaulting(Flag(), False)

    def check_report(self, examples: int, class_counts: bool) -> None:
        """Check that a report in the clear may leave.

        Args:
            examples: that it is about.
            class_counts: whether it has counts per class.

        Raises:
            Refused: it may not; the sentence says why.
        """
        self._check_examples(examples)
        if self.largest_epsilon is not None:
            raise Refused("this site's policy lets counts out with noise only; use: fedcert private release")
        self._check_readable()
        if class_counts and self.class_counts != ALWAYS:
            raise Refused(f"this site's policy lets counts per class out {self._when()}; leave --class-counts out")

    def gives_class_counts(self, request: Request) -> bool:
        """Whether a report that answers a request has counts per class: it asks for them, and they may leave."""
        return request.release.class_counts and self.class_counts == ALWAYS

    def check_private(self, report: Report, request: Request) -> None:
        """Check that a report may enter the private sum that a request asks for.

        Raises:
            Refused: it may not; the sentence says why.
        """
        self._check_examples(report.examples)
        self.check_asked(request)

    def check_asked(self, request: Request) -> None:
        """Check a request for a private sum, whatever this client's report will be.

        Raises:
            Refused: this client does not take part in it; the sentence says why.
        """
        private = request.private
        if private is None:
            raise Refused("the request asks for no private sum")
        if private.class_counts and self.class_counts == NEVER:
            raise Refused("this site's policy lets counts per class out never, and the private sum is over them")
        if private.threshold < self.fewest_clients:
            raise Refused(
                f"the sum may be over as few as {private.threshold} clients, but this site's policy wants at least "
                f"{self.fewest_clients}"
            )
        for asked, least, option in (
            (private.spread, self.fewest_for_squares, "spread"),
            (private.moments, self.fewest_for_moments, "moments"),
        ):
            if asked and private.threshold < least:
                rule = "fewest_for_squares" if option == "spread" else "fewest_for_moments"
                raise Refused(
                    f"sums of squares may be over as few as {private.threshold} clients, but this site's policy wants "
                    f"at least {least} ({rule}); ask the coordinator for a larger --threshold, or for a sum without "
                    f"--{option}"
                )
        noisy = private.budget is not None and self.largest_epsilon is not None
        if not noisy and (private.fewest_holders or 0) < self.fewest_holders:
            raise Refused(
                f"this site's policy wants classes summed only where {self.fewest_holders} sites hold them, but the "
                f"request asks for {private.fewest_holders or 0}; ask the coordinator for one with "
                f"--fewest-holders {self.fewest_holders}"
            )
        self._check_budget(private.budget)

    def fewest_apart(self, request: Request) -> int:
        """The fewest clients that a difference of two sums, as a request asks for, may be over.

        Classes that few hold are left out of a sum by who is in it: where that is asked for, no difference will do.
        """
        private = request.private
        if private is None or private.fewest_holders is not None or self.fewest_holders:
            return len(request.roster or ()) + 1
        least = [self.fewest_clients]
        least += [self.fewest_for_squares] if private.spread else []
        least += [self.fewest_for_moments] if private.moments else []
        return max(least)

    def check_release(self, report: Report, budget: PrivacyBudget) -> None:
        """Check that a report's counts may leave with noise of a budget.

        Raises:
            Refused: they may not; the sentence says why.
        """
        self._check_examples(report.examples)
        if self.class_counts == NEVER:
            raise Refused("this site's policy lets counts per class out never, not even with noise")
        self._check_budget(budget)
        if self.largest_epsilon is not None:
            return
        self._check_readable()
        if self.class_counts != ALWAYS:
            raise Refused(
                f"this site's policy lets counts per class out {self._when()}; noise would do only if the policy named "
                "a largest_epsilon"
            )

    def _check_readable(self) -> None:
        """Check that counts of this client may be read by others."""
        if not self.reports:
            raise Refused("this site's policy lets no report out; take part in a private sum: fedcert private join")
        if self.fewest_holders:
            raise Refused(
                f"this site's policy lets a class out only where {self.fewest_holders} sites hold it, which a report "
                "in the clear cannot wait for; take part in a private sum: fedcert private join"
            )

    def _check_budget(self, budget: PrivacyBudget | None) -> None:
        if budget is None:
            if self.largest_epsilon is not None:
                raise Refused(
                    f"this site's policy wants noise of at most epsilon {self.largest_epsilon:g}, but none is asked"
                )
            return
        for name, most in {"epsilon": self.largest_epsilon, "delta": self.largest_delta}.items():
            asked = getattr(budget, name)
            if most is not None and asked > most:
                raise Refused(f"{name} is {asked:g}, but this site's policy allows at most {most:g} (largest_{name})")

    def _check_examples(self, examples: int) -> None:
        if examples < self.minimum_examples:
            raise Refused(
                f"this site has {examples} test examples, but its policy lets nothing out with fewer than "
                f"{self.minimum_examples}"
            )

    def _when(self) -> str:
        return "never" if self.class_counts == NEVER else "in private sums only"


def read_policy(path: Path | None) -> Policy:
    """A client's policy; the default one where there is no file.

    Raises:
        CallError: there is no such file.
        FileProblem: it cannot be read.
        InvalidValue: it is no policy. A key that it does not know is refused: a rule that is misspelt would not hold.
    """
    if path is None:
        return Policy()
    policy: Policy = read_record(path, Policy)
    if policy.extra:
        known, name = ", ".join(Policy.field_types()), next(iter(policy.extra))
        raise InvalidValue("policy", f"made of {known}", name, place=str(path), remedy=Policy.REMEDY)
    return policy
