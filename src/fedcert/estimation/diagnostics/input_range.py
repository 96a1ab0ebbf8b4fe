"""Whether the clients' inputs are in the same units, and in proportion to sigma, by their coarse ranges."""

from __future__ import annotations

from collections.abc import Mapping

from fedcert.errors import preview
from fedcert.report.input_range import InputRange, worded

_MOST_SIGMAS, _FAR_TOO_MANY = 100.0, 500.0
"""Extents in sigmas. The first is where sites warn too; beyond the second are pixels from 0 to 255, which are rounded
to 500, with a sigma of at most 1, as it is in use for pixels from 0 to 1."""
_OTHER_EXTENT, _OTHER_UNITS = 2.5, 10.0
"""Ratios of extents: one step of the coarse grid is at most the first, and standardised pixels (-5 to 5) are the second
times those from 0 to 1."""
_MOST_NAMED = 10
"""Clients that a sentence names."""

Finding = tuple[str, float, str]
"""How grave it is ("ok", "warning" or "unreliable"), the figure behind it, and a sentence."""


def compare_input_ranges(ranges: Mapping[InputRange, tuple[str, ...]], sigma: float) -> Finding | None:
    """Compare the clients' coarse ranges with each other and with sigma; None where no report states one.

    Args:
        ranges: each with the clients that state it.
        sigma: of the noise.

    Examples:
        >>> compare_input_ranges({(0.0, 1.0): ("a", "b")}, 0.25)
        ('ok', 4.0, 'The inputs of all clients that state a range are within 0 to 1, 4 times sigma.')
        >>> compare_input_ranges({(0.0, 500.0): ("a",)}, 0.5)[0]
        'unreliable'
    """
    if not ranges:
        return None
    by_extent = sorted(ranges, key=lambda bounds: bounds[1] - bounds[0])
    widest, narrowest = by_extent[-1], by_extent[0]
    sigmas, ratio = _extent(widest) / sigma, _extent(widest) / _extent(narrowest)
    if sigmas > _MOST_SIGMAS:
        grave = "unreliable" if sigmas >= _FAR_TOO_MANY else "warning"
        return grave, sigmas, (
            f"The inputs of {_named(ranges[widest])} are within {worded(widest)}, {sigmas:,.0f} times sigma: the noise "
            "hardly changes them, so that every radius is tiny in their units. Were pixels from 0 to 255 certified "
            "with a sigma for 0 to 1? State the range in the request (--input-range), and have them certify again."
        )  # fmt: skip
    signs = {bounds[0] < 0 for bounds in ranges}
    if ratio > _OTHER_EXTENT or len(signs) > 1:
        grave = "unreliable" if ratio >= _OTHER_UNITS else "warning"
        rest = max((bounds for bounds in ranges if bounds != widest), key=lambda bounds: len(ranges[bounds]))
        return grave, ratio, (
            f"The inputs of {_named(ranges[widest])} are within {worded(widest)}, those of {_named(ranges[rest])} "
            f"within {worded(rest)}: a radius does not mean the same at these clients if they scale their data "
            "otherwise. State the range in the request (--input-range), and have the ones that differ certify again."
        )  # fmt: skip
    within = f"within {worded((min(low for low, _ in ranges), max(high for _, high in ranges)))}"
    return "ok", sigmas, f"The inputs of all clients that state a range are {within}, {sigmas:.3g} times sigma."


def _extent(bounds: InputRange) -> float:
    return bounds[1] - bounds[0]


def _named(clients: tuple[str, ...]) -> str:
    listed = ", ".join(preview(client) for client in clients[:_MOST_NAMED])
    return listed + (f" and {len(clients) - _MOST_NAMED} more" if len(clients) > _MOST_NAMED else "")
