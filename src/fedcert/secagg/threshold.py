"""The threshold of a secure aggregation: its default, and how many colluding clients it tolerates."""

from __future__ import annotations

from fedcert.privacy.policy import MIN_CLIENTS_FOR_MOMENTS, MIN_CLIENTS_FOR_SQUARES


def least_for_squares(*, moments: bool, spread: bool) -> int:
    """Clients that sites want in such a sum by default; 0 where it has no squares."""
    return MIN_CLIENTS_FOR_MOMENTS if moments else MIN_CLIENTS_FOR_SQUARES if spread else 0


def default_threshold(sites: int, *, moments: bool = False, spread: bool = False) -> int:
    """The threshold where none is given: more than two thirds, and for sums of squares what sites want, if there are.

    Examples:
        >>> default_threshold(5), default_threshold(5, spread=True), default_threshold(20, moments=True)
        (4, 5, 20)
        >>> default_threshold(100, moments=True)
        67
    """
    return max(2 * sites // 3 + 1, min(sites, least_for_squares(moments=moments, spread=spread)))


def max_colluders(threshold: int, sites: int) -> int:
    """How many clients may collude with a malicious server without learning a single honest client's numbers.

    With C of N clients colluding and a threshold of t: fewer than t of them, or they remove all masks by themselves; at
    least two honest clients in every sum, so C <= t - 2; and no two sets of survivors are both confirmed by t clients,
    since honest ones confirm a single set: 2 (t - C) > N - C, so C < 2 t - N.

    Examples:
        >>> [max_colluders(threshold, 10) for threshold in (6, 7, 8, 9, 10)]
        [1, 3, 5, 7, 8]
    """
    return max(0, min(2 * threshold - sites - 1, threshold - 2))
