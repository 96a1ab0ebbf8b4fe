"""The fields of estimates that were in their details alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from factories import drawn_reports
from fedcert import Estimate, InvalidValue, compare, estimate
from fedcert.estimation.result import upgraded
from fedcert.show.sentences import method_of

REPORTS = drawn_reports(12, 3, 4, seed=1)


def test_what_was_chosen_and_reduced_has_fields_of_its_own() -> None:
    result = estimate(REPORTS, screen=True)
    assert result.chosen is not None
    assert (result.chosen.method, result.chosen.because) == (result.details["chosen"], result.details["because"])
    assert result.used_method == "blup"
    assert result.screened == result.details["screened"]
    plain = estimate(REPORTS, method="vw")
    assert (plain.chosen, plain.screened, plain.worst_case, plain.comparison, plain.privacy) == (None,) * 5
    assert "chosen" not in plain.to_json()
    assert Estimate.from_json(result.to_json()) == result


def test_estimates_of_an_earlier_version_are_upgraded() -> None:
    result = estimate(REPORTS, screen=True)
    errors = compare(result.certified_accuracy, [0.5] * 4)
    worst = {"clients": 2, "examples_each": 5, "lower": [0.1] * 4, "upper": [0.9] * 4}
    details = {**result.details, "missing": worst, "comparison": errors.to_json()}
    earlier = replace(result, details=details, chosen=None, screened=None)
    assert method_of(earlier) == "BLUP"
    later = upgraded(earlier)
    assert (later.chosen, later.screened, later.comparison) == (result.chosen, result.screened, errors)
    assert later.worst_case is not None
    assert later.worst_case.upper == (0.9,) * 4
    strange = replace(earlier, details={"chosen": 7, "missing": "nothing", "comparison": [1]})
    assert upgraded(strange) == strange


def test_a_worst_case_has_a_point_per_radius() -> None:
    worst = {"clients": 2, "examples_each": 5, "lower": [0.1], "upper": [0.9] * 4}
    with pytest.raises(InvalidValue, match=r"worst_case.lower must be of the same length as radii \(4\)"):
        replace(estimate(REPORTS), worst_case=worst)  # type: ignore[arg-type]
