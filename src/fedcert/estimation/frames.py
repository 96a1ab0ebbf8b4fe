"""Curves as pandas data frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fedcert.errors import require

if TYPE_CHECKING:
    import pandas

Curves = Sequence[Sequence[float] | None]


def frame_of(
    radii: Sequence[float], curves: Mapping[str, Curves], names: Mapping[str, Sequence[str]] | None = None
) -> pandas.DataFrame:
    """Curves below each other: one row per curve and radius.

    Args:
        radii: of all curves.
        curves: column -> its part of each curve; None where there is none.
        names: column -> what each curve is called.

    Raises:
        MissingExtra: pandas is not installed.
    """
    frames = require("pandas", "a data frame", "pandas")
    count = len(next(iter(curves.values())))
    columns: dict[str, list[object]] = {
        title: [name for name in given for _ in radii] for title, given in (names or {}).items()
    }
    columns["radius"] = [radius for _ in range(count) for radius in radii]
    for title, parts in curves.items():
        columns[title] = [value for part in parts for value in (part or [float("nan")] * len(radii))]
    frame: pandas.DataFrame = frames.DataFrame(columns)
    return frame


def distinct_names(names: Iterable[str]) -> list[str]:
    """Names, each once: further ones get a number.

    Examples:
        >>> distinct_names(["a", "a", "b"])
        ['a', 'a (2)', 'b']
    """
    times: Counter[str] = Counter()
    numbered = []
    for name in names:
        times[name] += 1
        numbered.append(name if times[name] == 1 else f"{name} ({times[name]})")
    return numbered
