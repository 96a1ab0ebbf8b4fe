"""Which reports go together, and how those that do not are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from factories import population_report
from fedcert import CannotCombine, Report, Sums
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
        CannotCombine,
        match=r"^each client may report once, but there are several reports of 'a'; keep one report of each$",
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


ROWS = [[1, 0, 2, 0, 4], [0, 1, 1, 1, 1]]
KINDS = "CERTIFY's counts and population certificates cannot be combined: "
REMEDY = "; leave them out or have all sites certify by the same --procedure"


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"rows": [[1, 0, 2, 4], [0, 1, 1, 2]]}, "n 3 where the rest has 4"),
        ({"smoothing": {"votes": 3}}, "votes 3 where the rest has 11"),
        ({"smoothing": {"sigma": 0.25}}, "sigma 0.25 where the rest has 0.5"),
        ({"smoothing": {"lattice": 255}}, "lattice 255 where the rest has null"),
        ({"radii": [0.0, 0.25, 0.5, 0.8]}, "radii[3] 0.8 where the rest has 0.75"),
    ],
)
def test_the_odd_one_among_population_certificates_is_named(changes: dict[str, Any], difference: str) -> None:
    usual = [population_report(f"site-{index}", ROWS) for index in range(3)]
    odd = population_report("odd", changes.pop("rows", ROWS), **changes)
    expected = f"these cannot be combined with the rest: 'odd' has {difference}{END}"
    with pytest.raises(CannotCombine) as caught:
        check_together([usual[0], odd, *usual[1:]])
    assert str(caught.value) == expected
    with pytest.raises(CannotCombine) as caught:
        Sums.of(usual).merged(Sums.of([odd]))
    assert str(caught.value) == expected.replace("'odd'", "number 2")


@pytest.mark.parametrize(
    ("certify", "population", "named"),
    [
        (3, 1, "'p0' has population certificates where the rest has CERTIFY's"),
        (1, 3, "'c0' has CERTIFY's counts where the rest has population certificates"),
        (2, 2, "'p0', 'p1' has population certificates where the rest has CERTIFY's"),
        (12, 40, ", ".join(f"'c{index}'" for index in range(10)) + " and 2 more has CERTIFY's counts where the rest"),
    ],
)
def test_certificates_of_both_kinds_are_refused_by_name(
    make_report: Callable[..., Report], certify: int, population: int, named: str
) -> None:
    made = [make_report(f"c{index}", [3, 4], [5, 2]) for index in range(certify)]
    made += [population_report(f"p{index}", ROWS) for index in range(population)]
    with pytest.raises(CannotCombine) as caught:
        check_together(made)
    assert str(caught.value).startswith(KINDS + named)
    assert str(caught.value).endswith(REMEDY)
    with pytest.raises(CannotCombine, match=r"^CERTIFY's counts and population certificates cannot be combined"):
        Sums.of(made)


def test_sums_of_both_kinds_are_refused(make_report: Callable[..., Report]) -> None:
    certify, population = Sums.of([make_report("a", [3, 4], [5, 2])]), Sums.of([population_report("b", ROWS)])
    for first, second, named in ((certify, population, "number 2"), (population, certify, "number 1")):
        with pytest.raises(CannotCombine) as caught:
            first.merged(second)
        words = f"{KINDS}{named} has population certificates where the rest has CERTIFY's{REMEDY}"
        assert str(caught.value) == words


def test_common_settings_of_population_certificates_are_those_of_each() -> None:
    made = [population_report(f"site-{index}", ROWS) for index in range(3)]
    check_together(made)
    assert common_smoothing(made) == made[0].smoothing
