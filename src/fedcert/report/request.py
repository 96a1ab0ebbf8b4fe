"""What a coordinator asks of the sites: settings only, never code and never a path."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from fedcert._files.saved import SavedRecord
from fedcert._schema.declare import defaulting, optional, required
from fedcert._schema.field_types import Enumerated, Flag, ModelName, Pattern, Text, Timestamp, Whole
from fedcert._schema.record import Nested, Record
from fedcert._schema.summary import Summary
from fedcert.errors import InvalidValue, preview
from fedcert.report.fields import CLASSES, DISTRIBUTION, RADII, ROSTER, check_cells
from fedcert.report.input_range import INPUT_COLUMNS, INPUT_RANGE, INPUT_SHAPE, LARGEST_EXAMPLE, InputRange
from fedcert.report.privacy import TOGETHER, PrivacyBudget
from fedcert.report.signature import Signature, canonical
from fedcert.report.smoothing import DEFAULT_RADII, Smoothing
from fedcert.report.summary import summary_of_request

MOST_EXAMPLES = 100_000
"""Of a site in a private sum, where the request does not say: more than nearly all test sets have."""
MOST_SUMMED = 3_000_000
"""Numbers of a private sum: as base64 with eight bytes each, they fit into a document of 32 MiB."""
MOST_SUMMED_CLIENTS = 10_000
"""Sites in a private sum, each of which agrees on secrets with all others (see the scales in `secagg/second_sum`)."""
_SHARE_SLACK = 1e-6
"""Shares that people write have six decimals at most."""


@dataclass(frozen=True, kw_only=True)
class Target(Record):
    """The class mix of the population that the model will be deployed to.

    Attributes:
        name: what people call it.
        distribution: class name -> share; the shares add up to 1. Classes left out have share 0.

    Examples:
        >>> Target(name="ward", distribution={"cat": 0.75, "dog": 0.25}).distribution["dog"]
        0.25
    """

    NOUN: ClassVar[str] = "target"

    name: str = required(Text())
    distribution: Mapping[str, float] = required(DISTRIBUTION)

    def _check_consistency(self) -> None:
        """Check that the shares add up to 1."""
        total = sum(self.distribution.values())
        if abs(total - 1) > _SHARE_SLACK:
            raise InvalidValue("distribution", "shares that add up to 1", total)


@dataclass(frozen=True, kw_only=True)
class Release(Record):
    """What the coordinator asks the sites to release; each site decides for itself.

    Attributes:
        class_counts: certified counts per class too.
        minimum_examples: a site with fewer test examples is asked not to answer.
    """

    NOUN: ClassVar[str] = "release policy"

    class_counts: bool = defaulting(Flag(), False)
    minimum_examples: int = defaulting(Whole(), 0)


@dataclass(frozen=True, kw_only=True)
class PrivateSum(Record):
    """What secure aggregation is to add up: the coordinator learns totals, and no site's own numbers.

    Attributes:
        threshold: the fewest sites that a sum may be over; so many together can take its masks off.
        class_counts: labels and certified examples per class.
        moments: what BLUP needs.
        budget: the differential privacy that noise in the sum is to give; null for exact sums.
        spread: a second sum, of each site's contribution to the error of the estimate from the first.
        fewest_holders: sites that must hold a class for its counts to be summed, which a sum before this one counts;
            null where all classes are summed.
        most_examples: a site with more is not to take part, since who weighs how much cannot be seen in a sum; where
            null, 100,000.
    """

    NOUN: ClassVar[str] = "private sum"

    threshold: int = required(Whole(least=2))
    class_counts: bool = defaulting(Flag(), True)
    moments: bool = defaulting(Flag(), False)
    budget: PrivacyBudget | None = optional(Nested(PrivacyBudget), later=True)
    spread: bool = defaulting(Flag(), False)
    fewest_holders: int | None = optional(Whole(least=2), later=True)
    most_examples: int | None = optional(Whole(least=1), later=True)

    @property
    def bound(self) -> int:
        """The most examples that a site may have."""
        return self.most_examples or MOST_EXAMPLES

    def _check_consistency(self) -> None:
        """Check that something is summed, and that noise is only asked for where it protects single examples."""
        if not self.class_counts and not self.moments:
            raise InvalidValue("class_counts", "true where moments is false", False)
        if self.budget is not None and (self.moments or not self.class_counts):
            raise InvalidValue("moments", "false, and class_counts true, where noise protects single examples", True)
        if self.spread and (self.budget is not None or not self.class_counts):
            raise InvalidValue("spread", "false where sums have noise, or no counts per class", True)
        if self.fewest_holders is not None and (self.budget is not None or not self.class_counts):
            rule = "null where sums have noise, or no counts per class"
            raise InvalidValue("fewest_holders", rule, self.fewest_holders)
        if self.budget is not None and self.budget.noise != TOGETHER:
            raise InvalidValue("budget.noise", f"'{TOGETHER}' in a private sum", self.budget.noise)


@dataclass(frozen=True, kw_only=True, repr=False)
class Request(SavedRecord):
    """A coordinator's request: what every site must agree on before it certifies.

    Attributes:
        task: what is predicted.
        model: digest of the model to certify.
        smoothing: how to smooth and certify it.
        radii: at which radii to count.
        classes: names in index order.
        target: the target population, where the coordinator discloses it.
        roster: the clients that are asked; null where anyone may answer.
        nonce: makes this request different from every other.
        deadline: answers after it are late.
        release: what the coordinator would like to be given.
        private: what a secure sum is to be over, instead of reports; null where reports are wanted.
        input_range: the least and the largest value that inputs may have; null where it is not checked.
        input_shape: sizes of the axes of one example; null where it is not checked.
        input_columns: names of a table's columns, in the order of the model's inputs; null where they are not checked.
        software: what wrote the request.
        created: when.
        signature: of the coordinator; null in an unsigned request.

    Examples:
        >>> asked = Request(model="demo", smoothing={"sigma": 0.25}, classes=["cat", "dog"], nonce="0f" * 16)
        >>> asked.radii[:3], asked.digest[:7]
        ((0.0, 0.05, 0.1), 'sha256:')
    """

    SCHEMA: ClassVar[str] = "fedcert/request/1"
    NOUN: ClassVar[str] = "request"
    REMEDY: ClassVar[str | None] = "ask the coordinator for a new request"

    task: str = defaulting(Enumerated(("multiclass",)), "multiclass")
    model: str = required(ModelName())
    smoothing: Smoothing = required(Nested(Smoothing))
    radii: tuple[float, ...] = defaulting(RADII, DEFAULT_RADII)
    classes: tuple[str, ...] = required(CLASSES)
    target: Target | None = optional(Nested(Target))
    roster: tuple[str, ...] | None = optional(ROSTER)
    nonce: str = required(Pattern("32 hexadecimal digits", "[0-9a-f]{32}"))
    deadline: str | None = optional(Timestamp())
    release: Release = defaulting(Nested(Release), factory=Release)
    private: PrivateSum | None = optional(Nested(PrivateSum), later=True)
    input_range: InputRange | None = optional(INPUT_RANGE, later=True)
    input_shape: tuple[int, ...] | None = optional(INPUT_SHAPE, later=True)
    input_columns: tuple[str, ...] | None = optional(INPUT_COLUMNS, later=True)
    software: str | None = optional(Text())
    created: str | None = optional(Timestamp())
    signature: Signature | None = optional(Nested(Signature), later=True)

    def _check_consistency(self) -> None:
        """Check sizes, the columns' number, the target's classes, and a private sum's roster and threshold."""
        check_cells(self.classes, self.radii, self.smoothing)
        if self.input_shape is not None and math.prod(self.input_shape) > LARGEST_EXAMPLE:
            wanted = f"sizes of at most {LARGEST_EXAMPLE:,} numbers in all"
            raise InvalidValue("input_shape", wanted, math.prod(self.input_shape))
        if self.input_columns is not None and self.input_shape not in (None, (len(self.input_columns),)):
            wanted = f"a list of {len(self.input_columns)}, the number of input_columns, or null"
            raise InvalidValue("input_shape", wanted, list(self.input_shape or ()))
        if self.private is not None:
            if self.roster is None:
                raise InvalidValue("roster", "a list of names where the sum is private", None)
            self._check_sum(self.private, len(self.roster))
            least, most = len(self.roster) // 2 + 1, len(self.roster)
            if not max(least, 2) <= self.private.threshold <= most:
                wanted = f"more than half of the {most} clients on the roster, and at most all of them"
                raise InvalidValue("private.threshold", wanted, self.private.threshold)
        for name in self.target.distribution if self.target else ():
            if name not in self.classes:
                raise InvalidValue(f"target.distribution[{preview(name)}]", "one of the request's classes", name)

    def _check_sum(self, private: PrivateSum, sites: int) -> None:
        """Check that a private sum is not larger than its messages can be."""
        if sites > MOST_SUMMED_CLIENTS:
            raise InvalidValue("roster", f"of at most {MOST_SUMMED_CLIENTS:,} names where the sum is private", sites)
        classes, radii = len(self.classes), len(self.radii)
        entries = self.smoothing.n + 1 if self.smoothing.is_population else radii
        numbers = classes * (entries + 3) + 50  # with sizes of classes, and some that are about groups
        if private.moments:
            numbers += classes * (classes + 1) // 2 + classes * entries + entries * (entries + 1) // 2
        if private.spread:
            numbers = max(numbers, radii * (radii + 1) // 2)
        if private.spread or private.fewest_holders is not None:
            numbers *= 2  # as many again, by which sites check the totals
        if numbers > MOST_SUMMED:
            raise InvalidValue(
                "private", f"a sum of at most {MOST_SUMMED:,} numbers, which fit into a message", numbers,
                remedy="ask for fewer classes, radii or passes" + (", or without moments" if private.moments else ""),
            )  # fmt: skip

    def _summary(self) -> Summary:
        return summary_of_request(self)

    @property
    def digest(self) -> str:
        """SHA-256 over the request as canonical JSON, its signature left out (see `signature.canonical`)."""
        return "sha256:" + hashlib.sha256(canonical(self)).hexdigest()

    def late(self, now: datetime) -> bool:
        """Whether the deadline has passed at `now` (a time with its zone)."""
        return self.deadline is not None and now > datetime.fromisoformat(self.deadline)
