"""Which reports go together, and how those that do not are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fedcert import CannotCombine, Report
from fedcert.report.compatibility import check_together, common_smoothing

END = "; leave them out or have them certified again with the same settings"


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"model": "other"}, "model 'other' where the rest has 'sha256:" + "ab" * 32 + "'"),
        ({"smoothing": {"sigma": 0.5}}, "sigma 0.5 where the rest has 0.25"),
        ({"radii": [0.0, 0.3]}, "radii[1] 0.3 where the rest has 0.25"),
        ({"radii": [0.0], "certified_counts": [5]}, "1 radii where the rest has 2"),
        ({"classes": ["x", "class 1"]}, "classes[0] 'x' where the rest has 'class 0'"),
    ],
)
def test_the_odd_one_is_named(make_report: Callable[..., Report], changes: dict[str, Any], difference: str) -> None:
    usual = [make_report(f"site-{index}", [3, 4], [5, 2]) for index in range(3)]
    values = {"labels": [3, 4], "certified": changes.pop("certified_counts", [5, 2])}
    odd = make_report("odd", **values, **changes)
    with pytest.raises(CannotCombine) as caught:
        check_together([usual[0], odd, *usual[1:]])
    assert str(caught.value) == f"these cannot be combined with the rest: 'odd' has {difference}{END}"


def test_all_odd_ones_are_named_together(make_report: Callable[..., Report]) -> None:
    made = [make_report(f"site-{index}", [3, 4], [5, 2]) for index in range(3)]
    made.append(make_report("a", [3, 4], [5, 2], smoothing={"sigma": 1}))
    made.append(make_report("b", [3, 4], [5, 2], model="other"))
    with pytest.raises(CannotCombine, match=r"'b' has model .*; 'a' has sigma 1\.0"):
        check_together(made)


def test_a_client_that_appears_twice_is_named(make_report: Callable[..., Report]) -> None:
    made = [make_report("a", [3, 4], [5, 2]), make_report("b", [3, 4], [5, 2]), make_report("a", [1, 1], [1, 1])]
    with pytest.raises(
        CannotCombine, match=r"^each client may report once, but there are several reports of 'a'; keep one of each$"
    ):
        check_together(made)


def test_other_samples_are_allowed_and_the_weakest_settings_count(make_report: Callable[..., Report]) -> None:
    first = make_report("a", [3, 4], [5, 2], smoothing={"sigma": 0.25, "n": 1000, "failure_probability": 0.001})
    second = make_report("b", [3, 4], [5, 2], smoothing={"sigma": 0.25, "n": 100, "failure_probability": 0.05})
    check_together([first, second])
    together = common_smoothing([first, second])
    assert (together.n, together.failure_probability) == (100, 0.05)


def test_radii_within_the_tolerance_are_the_same(make_report: Callable[..., Report]) -> None:
    first = make_report("a", [3, 4], [5, 2], radii=[0.0, 0.25])
    second = make_report("b", [3, 4], [5, 2], radii=[0.0, 0.250000001])
    check_together([first, second])


def test_many_odd_ones_do_not_make_a_long_message(make_report: Callable[..., Report]) -> None:
    made = [make_report(f"u{index}", [3, 4], [5, 2]) for index in range(50)]
    made += [make_report(f"o{index}", [3, 4], [5, 2], model=f"m{index}") for index in range(40)]
    with pytest.raises(CannotCombine, match="; and 30 more; "):
        check_together(made)
