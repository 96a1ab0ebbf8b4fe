"""Settings of a round, checked before any client starts to work."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fedcert.errors import CallError, preview
from fedcert.estimation.clients.readings import check_readable_again, vote_readings
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings
from fedcert.estimation.target import target_of
from fedcert.privacy.given_keys import given_identity, given_keyring
from fedcert.report import Release, Smoothing
from fedcert.report.fields import CLASSES, RADII, ROSTER
from fedcert.report.input_range import INPUT_COLUMNS, INPUT_RANGE, INPUT_SHAPE, InputRange
from fedcert.report.request import MOST_EXAMPLES, PrivateSum
from fedcert.rounds.checks import Quorum, needed
from fedcert.rounds.requests import LONGEST_WAIT
from fedcert.rounds.worst_case import check_missing_examples

if TYPE_CHECKING:
    from fedcert.privacy.keys.identity import Identity
    from fedcert.privacy.keys.keyring import Keyring


@dataclass(frozen=True, kw_only=True)
class RoundSettings:
    """What clients are asked for, and how to estimate from their answers.

    Attributes:
        classes: names in index order.
        smoothing: how to smooth and certify; a number is sigma, and a mapping has settings by name, each with the
            default settings for the rest.
        roster: the clients' names; or how many there are at least; where None, all that are present.
        seconds: until the deadline; waiting for clients to come is in it.
        run: a folder that keeps what is asked, answered and estimated. One that has the same request goes on with it,
            and asks only who is missing.
        target, method: see `fedcert.estimate`; the request's target where None.
        radii: at which radii to count, or, with population certificates, for which to estimate; the procedure's own
            where None.
        input_range: the least and the largest value that inputs may have, which clients check.
        input_shape: the shape of one example, which clients check.
        input_columns: names of a table's columns, in the order of the model's inputs, which clients check.
        estimation: further settings of `fedcert.estimate`.

    Raises:
        CallError: settings that do not go together, or that `fedcert.estimate` does not know.
        InvalidValue: a value breaks a rule of requests.
    """

    classes: tuple[str, ...]
    smoothing: Smoothing
    roster: tuple[str, ...] | int | None = None
    seconds: float = 600.0
    run: Path | None = None
    target: object = None
    method: str = "auto"
    radii: tuple[float, ...] | None = None
    input_range: InputRange | None = None
    input_shape: tuple[int, ...] | None = None
    input_columns: tuple[str, ...] | None = None
    estimation: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Settings by name, in the forms that callers have; those of `fedcert.estimate` among them."""
        own = {each.name for each in fields(cls)} - {"estimation"}
        return cls(
            **{name: value for name, value in given.items() if name in own},
            estimation={name: value for name, value in given.items() if name not in own},
        )

    def __post_init__(self) -> None:
        smoothing = _smoothing_of(self.smoothing)
        radii = smoothing.default_radii if self.radii is None else self.radii
        normal = {
            "smoothing": smoothing, "seconds": _checked_seconds(self.seconds), "roster": _checked_roster(self.roster),
            "classes": CLASSES.validate(self.classes, "classes"), "radii": RADII.validate(radii, "radii"),
            "run": None if self.run is None else Path(self.run),
            "input_range": None if self.input_range is None else INPUT_RANGE.validate(self.input_range, "input_range"),
            "input_shape": None if self.input_shape is None else INPUT_SHAPE.validate(self.input_shape, "input_shape"),
            "input_columns": self.input_columns and INPUT_COLUMNS.validate(self.input_columns, "input_columns"),
        }  # fmt: skip
        for name, value in normal.items():
            object.__setattr__(self, name, value)
        self._check_estimation()

    def _check_estimation(self) -> None:
        """Check, before the clients' hours of work, that an estimate could follow."""
        estimator(self.method)
        if self.target is not None:
            target_of(self.target, self.classes)
        known = {each.name for each in fields(Settings)}
        unknown = [name for name in self.estimation if name not in known]
        if unknown:
            raise CallError(f"there is no setting {preview(unknown[0])}; there are {', '.join(sorted(known))}")
        settings = Settings(**self.estimation)
        check_readable_again(self.smoothing, settings.votes, settings.radii)
        if self.smoothing.is_population:  # of some noises it is not known what a vote keeps
            vote_readings(self.smoothing, (self.radii or ())[:1], settings.votes)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The roster's names, where they are given."""
        return self.roster if isinstance(self.roster, tuple) else None

    @property
    def private(self) -> PrivateSum | None:
        """What a secure sum is over, instead of reports; None where reports are wanted."""
        return None

    def asked(self, model: str) -> dict[str, Any]:
        """What clients are asked, and a run that is resumed must have asked, by the names of a request's fields."""
        names = ("smoothing", "classes", "radii", "private", "input_range", "input_shape", "input_columns")
        return {"model": model, "roster": self.names} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class ReportSettings(RoundSettings):
    """Settings of a round for reports.

    Attributes:
        quorum, missing_examples, screen: see `CertificationRound.conclude`.
        keys: the coordinator's, which sign the request; or their file. It is not signed where None.
        trusted: whose signatures count, see `CertificationRound`; a keyring, or its file.
        release: what the clients are asked to release.
        class_counts: ask for counts per class too: tighter intervals, but they disclose each class's accuracy.
    """

    quorum: Quorum = 0.5
    class_counts: bool = False
    release: Release | None = None
    missing_examples: int | None = None
    screen: bool | None = None
    keys: Identity | None = None
    trusted: Keyring | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keys is not None:
            object.__setattr__(self, "keys", given_identity(self.keys, "keys"))
        if self.trusted is not None:
            object.__setattr__(self, "trusted", given_keyring(self.trusted, "trusted"))
        if self.class_counts:
            object.__setattr__(self, "release", replace(self.release or Release(), class_counts=True))
        check_missing_examples(self.missing_examples, bool(self.screen))
        needed(self.quorum, None if self.names is None else len(self.names))


@dataclass(frozen=True, kw_only=True)
class PrivateSettings(RoundSettings):
    """Settings of a round for a private sum; it needs a roster of names.

    Attributes:
        keys: the coordinator's, which sign the request; or their file.
        trusted: public keys of all clients on the roster: a keyring, or its file.
        threshold: the fewest clients that the sum may be over; where None, more than two thirds.
        moments: sum what BLUP needs, too.
        spread: a second sum, for an interval that allows for clients that differ.
        fewest_holders: leave classes out that fewer clients hold; a sum before counts how many do.
        most_examples: a client with more examples is not to take part.
        patience: seconds for each exchange after the first, in which the clients certify.
    """

    keys: Identity
    trusted: Keyring
    threshold: int | None = None
    moments: bool = False
    spread: bool = False
    fewest_holders: int | None = None
    most_examples: int = MOST_EXAMPLES
    patience: float = 120.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "keys", given_identity(self.keys, "keys"))
        object.__setattr__(self, "trusted", given_keyring(self.trusted, "trusted"))
        if self.names is None:
            raise CallError("a private sum needs a roster of names, as on the clients' cards")

    @property
    def private(self) -> PrivateSum:
        """What the sum is over."""
        from fedcert.secagg.threshold import default_threshold

        return PrivateSum(
            threshold=self.threshold or default_threshold(
                len(self.names or ()), moments=self.moments, spread=self.spread
            ),
            moments=self.moments, spread=self.spread, fewest_holders=self.fewest_holders,
            most_examples=self.most_examples,
        )  # fmt: skip


def _smoothing_of(given: object) -> Smoothing:
    """Settings in the forms that callers have.

    Raises:
        CallError: a mapping without sigma, or with a setting that there is not.
        InvalidValue: a value breaks a rule.
    """
    if isinstance(given, Smoothing):
        return given
    if not isinstance(given, Mapping):
        return Smoothing.defaults(given)  # type: ignore[arg-type]
    known = Smoothing.field_types()
    unknown = [name for name in given if name not in known]
    if unknown or "sigma" not in given:
        what = f"not {preview(unknown[0])}" if unknown else "sigma among them"
        raise CallError(f"smoothing must be made of {', '.join(known)}, {what}")
    return Smoothing.defaults(**given)


def _checked_seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= LONGEST_WAIT:
        raise CallError(f"seconds must be a number above 0 and at most {LONGEST_WAIT:,}, but is {preview(value)}")
    return float(value)


def _checked_roster(value: object) -> tuple[str, ...] | int | None:
    """A roster's names, or how many clients are wanted.

    Raises:
        CallError: it is neither.
        InvalidValue: a name breaks a rule, or comes twice.
    """
    if value is None:
        return None
    if isinstance(value, str):
        raise CallError("roster must be a list of names or a number, but is one text; split it first")
    if isinstance(value, Iterable):
        return tuple(ROSTER.validate(list(value), "roster"))
    try:
        count = 0 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        count = 0
    if count < 1:
        raise CallError(f"roster must be a list of names or a whole number of 1 or more, but is {preview(value)}")
    return count
