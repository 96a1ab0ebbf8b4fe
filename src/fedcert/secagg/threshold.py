"""What a secure sum's threshold withstands."""

from __future__ import annotations

from fedcert.privacy.policy import MIN_CLIENTS_FOR_MOMENTS


def default_threshold(sites: int, *, squares: bool) -> int:
    """The threshold where none is given: more than two thirds, and for sums of squares five where there are so many.

    Examples:
        >>> default_threshold(5, squares=False), default_threshold(5, squares=True)
        (4, 5)
        >>> default_threshold(100, squares=True)
        67
    """
    usual = 2 * sites // 3 + 1
    return max(usual, min(sites, MIN_CLIENTS_FOR_MOMENTS)) if squares else usual


def max_colluders(threshold: int, sites: int) -> int:
    """How many sites may collude with a lying server, and yet no honest site's numbers are told apart.

    With C of N sites colluding and a threshold of t: fewer than t of them, or they take all masks off by themselves; at
    least two honest sites in every sum, so C <= t - 2; and no two sets of survivors can both find t sites that give
    their word, since honest ones give it once: 2 (t - C) > N - C, so C < 2 t - N.

    Examples:
        >>> [max_colluders(threshold, 10) for threshold in (6, 7, 8, 9, 10)]
        [1, 3, 5, 7, 8]
    """
    return max(0, min(2 * threshold - sites - 1, threshold - 2))
