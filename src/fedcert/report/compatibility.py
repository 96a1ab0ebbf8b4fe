"""Whether reports (or sums) belong together: the same model, smoothed the same way, counted alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from fedcert.errors import CannotCombine, preview
from fedcert.report.fields import RADIUS_DIGITS
from fedcert.report.smoothing import Smoothing


class Combinable(Protocol):
    """What reports and sums share."""

    @property
    def task(self) -> str: ...  # noqa: D102
    @property
    def model(self) -> str: ...  # noqa: D102
    @property
    def smoothing(self) -> Smoothing: ...  # noqa: D102
    @property
    def radii(self) -> tuple[float, ...]: ...  # noqa: D102
    @property
    def classes(self) -> tuple[str, ...]: ...  # noqa: D102


# What must agree. n0, n and the failure probability may differ: they change how much a certificate
# can show, not what it is about.
_TRAITS: dict[str, Callable[[Combinable], Any]] = {
    "task": lambda one: one.task,
    "model": lambda one: one.model,
    "noise": lambda one: one.smoothing.noise,
    "norm": lambda one: one.smoothing.norm,
    "sigma": lambda one: one.smoothing.sigma,
    "procedure": lambda one: one.smoothing.procedure,
    "precision": lambda one: one.smoothing.precision,
    "radii": lambda one: one.radii,
    "classes": lambda one: one.classes,
}
_MOST_NAMED = 10


def check_together(ones: Sequence[Combinable]) -> None:
    """Check that reports or sums can be combined.

    Raises:
        CannotCombine: there are none, a client appears twice, or some differ from the rest; all of
            those are named in one message.
    """
    if not ones:
        raise CannotCombine("there are no reports to combine; give at least one")
    check_once([one.client for one in ones if hasattr(one, "client")])
    check_compatible(ones)


def check_compatible(ones: Sequence[Combinable]) -> None:
    """Check that reports or sums are about the same model, smoothed and counted the same way.

    Raises:
        CannotCombine: some differ from the rest; all of those are named.
    """
    odd: list[str] = []
    for trait, read in _TRAITS.items():
        values = Counter(read(one) for one in ones)
        if len(values) == 1:
            continue
        usual, _ = values.most_common(1)[0]
        odd.extend(
            f"{_name(one, index)} has {_difference(trait, read(one), usual)}"
            for index, one in enumerate(ones)
            if not _same(read(one), usual)
        )
    if odd:
        more = f"; and {len(odd) - _MOST_NAMED} more" if len(odd) > _MOST_NAMED else ""
        raise CannotCombine(
            f"these cannot be combined with the rest: {'; '.join(odd[:_MOST_NAMED])}{more}; "
            "leave them out or have them certified again with the same settings"
        )


def common_smoothing(ones: Sequence[Combinable]) -> Smoothing:
    """The settings of combined reports."""
    return joint([one.smoothing for one in ones])


def joint(smoothings: Sequence[Smoothing]) -> Smoothing:
    """Several settings as one: the smallest samples and the largest failure probability."""
    return replace(
        smoothings[0],
        n0=min(one.n0 for one in smoothings),
        n=min(one.n for one in smoothings),
        failure_probability=max(one.failure_probability for one in smoothings),
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
    raise CannotCombine(
        f"each client may report once, but there are several reports of {named}{more}; keep one of each"
    )


def _name(one: Combinable, index: int) -> str:
    client = getattr(one, "client", None)
    return preview(client) if client is not None else f"number {index + 1}"


def _same(value: Any, usual: Any) -> bool:
    if value == usual:
        return True
    if not isinstance(value, tuple) or len(value) != len(usual) or isinstance(value[0], str):
        return False
    step = 1.5 * 10.0**-RADIUS_DIGITS
    return all(abs(a - b) <= step for a, b in zip(value, usual, strict=True))


def _difference(trait: str, value: Any, usual: Any) -> str:
    if not isinstance(value, tuple):
        return f"{trait} {preview(value, 90)} where the rest has {preview(usual, 90)}"
    if len(value) != len(usual):
        return f"{len(value)} {trait} where the rest has {len(usual)}"
    index = next(i for i, (a, b) in enumerate(zip(value, usual, strict=True)) if not _same((a,), (b,)))
    return f"{trait}[{index}] {preview(value[index])} where the rest has {preview(usual[index])}"
