"""Whether reports (or sums) belong together: the same model, smoothed the same way, counted at the same radii."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from fedcert._schema.declare import shared_fields
from fedcert._schema.record import Record
from fedcert.errors import CannotCombine, preview
from fedcert.report.fields import RADIUS_DIGITS
from fedcert.report.smoothing import Smoothing


class HasHeader(Protocol):
    """A table of reports."""

    @property
    def header(self) -> Mapping[str, Any]:
        """The fields that all rows agree on, by name, the settings among them."""


Combinable = Record | HasHeader
"""Reports, sums, and tables of reports."""


SETTINGS_PER_CLIENT = ("n0", "n", "failure_probability")
"""Settings that change how much a certificate can show, not what it is about: clients may differ in them."""
_MOST_NAMED = 10
"""Reports that a message names: more would not help to find out what is wrong."""


def check_together(values: Sequence[Combinable]) -> None:
    """Check that reports or sums can be combined.

    Raises:
        CannotCombine: there are none, a client appears twice, or some differ from the rest; all of
            those are named in one message.
    """
    if not values:
        raise CannotCombine("there are no reports to combine; give at least one")
    check_once([value.client for value in values if hasattr(value, "client")])
    check_compatible(values)


def check_compatible(values: Sequence[Combinable]) -> None:
    """Check that reports or sums are about the same model, smoothed and counted the same way.

    Raises:
        CannotCombine: some differ from the rest; all of those are named.
    """
    _check_kinds(values)
    differences: list[str] = []
    traits = [_traits_of(value) for value in values]
    for trait in traits[0]:
        of_each = [known[trait] for known in traits]
        ((most_common, _),) = Counter(of_each).most_common(1)
        differences.extend(
            f"{_name(value, index)} has {_difference(trait, own, most_common)}"
            for index, (value, own) in enumerate(zip(values, of_each, strict=True))
            if not _same(own, most_common)
        )
    if differences:
        more = f"; and {len(differences) - _MOST_NAMED} more" if len(differences) > _MOST_NAMED else ""
        raise CannotCombine(
            f"these cannot be combined with the rest: {'; '.join(differences[:_MOST_NAMED])}{more}; "
            "leave them out or have them certified again with the same settings"
        )


def _check_kinds(values: Sequence[Combinable]) -> None:
    """Check that CERTIFY's counts are not mixed with those of population certificates.

    Raises:
        CannotCombine: they are; those of the kind that is rarer are named.
    """
    kinds = [_shared(value)["smoothing"].is_population for value in values]
    if len(set(kinds)) == 1:
        return
    rarer = sum(kinds) <= len(kinds) / 2
    names = [
        _name(value, index) for index, (value, kind) in enumerate(zip(values, kinds, strict=True)) if kind == rarer
    ]
    named = ", ".join(names[:_MOST_NAMED]) + (
        f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    )
    own, rest = ("population certificates", "CERTIFY's") if rarer else ("CERTIFY's counts", "population certificates")
    has = f"{named} has {own} where the rest has {rest}"
    raise CannotCombine(
        f"CERTIFY's counts and population certificates cannot be combined: {has}; "
        "leave them out or have all sites certify by the same --procedure"
    )


def _traits_of(value: Combinable) -> dict[str, Any]:
    """What must agree, settings one by one."""
    traits: dict[str, Any] = {}
    for name, item in _shared(value).items():
        if isinstance(item, Smoothing):
            names = [each for each in type(item).field_types() if each not in _not_compared(item)]
            traits |= {each: getattr(item, each) for each in names}
        else:
            traits[name] = item
    return traits


def _not_compared(smoothing: Smoothing) -> tuple[str, ...]:
    """Settings that clients may differ in. A histogram of right answers is one of so many passes, at all clients."""
    of_certify = (*SETTINGS_PER_CLIENT, "tolerance")
    return tuple(name for name in of_certify if name != "n") if smoothing.is_population else of_certify


def common_smoothing(values: Sequence[Combinable]) -> Smoothing:
    """The settings of combined reports."""
    return joint([_shared(value)["smoothing"] for value in values])


def _shared(value: Combinable) -> Mapping[str, Any]:
    """The fields that must agree, by name, the settings among them."""
    return shared_fields(value) if isinstance(value, Record) else value.header


def joint(smoothings: Sequence[Smoothing]) -> Smoothing:
    """Several settings as one: the smallest samples and the largest failure probability."""
    if smoothings[0].is_population:
        return smoothings[0]
    return replace(
        smoothings[0],
        n0=min(smoothing.n0 or 0 for smoothing in smoothings),
        n=min(smoothing.n for smoothing in smoothings),
        failure_probability=max(smoothing.failure_probability or 0.0 for smoothing in smoothings),
    )


def check_once(clients: Sequence[str]) -> None:
    """Check that no client reports twice.

    Raises:
        CannotCombine: some do; they are named.
    """
    if len(set(clients)) == len(clients):
        return
    twice = [client for client, times in Counter(clients).items() if times > 1]
    named = ", ".join(preview(client) for client in twice[:_MOST_NAMED])
    more = f" and {len(twice) - _MOST_NAMED} more" if len(twice) > _MOST_NAMED else ""
    several = f"there are several reports of {named}{more}"
    raise CannotCombine(f"each client may report once, but {several}; keep one report of each")


def _name(value: Combinable, index: int) -> str:
    client = getattr(value, "client", None)
    return preview(client) if client is not None else f"number {index + 1}"


def _same(trait: Any, other: Any) -> bool:
    """Whether two traits are equal; radii may differ in the last digit that is written."""
    if trait == other:
        return True
    if not isinstance(trait, tuple) or len(trait) != len(other) or isinstance(trait[0], str):
        return False
    step = 1.5 * 10.0**-RADIUS_DIGITS
    return all(abs(a - b) <= step for a, b in zip(trait, other, strict=True))


def _difference(trait: str, value: Any, rest: Any) -> str:
    if not isinstance(value, tuple):
        return f"{trait} {preview(value, 90)} where the rest has {preview(rest, 90)}"
    if len(value) != len(rest):
        return f"{len(value)} {trait} where the rest has {len(rest)}"
    index = next(i for i, (a, b) in enumerate(zip(value, rest, strict=True)) if not _same((a,), (b,)))
    return f"{trait}[{index}] {preview(value[index])} where the rest has {preview(rest[index])}"
