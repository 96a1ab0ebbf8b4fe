"""Sums: reports fold into them, and they merge exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcert import CannotCombine, Report, Sums

MODEL = "sha256:" + "ab" * 32


@st.composite
def reports(draw: st.DrawFn) -> list[Report]:
    """A few reports over three classes and two radii, some with counts per class."""
    made = []
    for index in range(draw(st.integers(2, 6))):
        labels = draw(st.lists(st.integers(0, 20), min_size=3, max_size=3))
        rows = []
        for count in labels:
            first = draw(st.integers(0, count))
            rows.append([first, draw(st.integers(0, first))])
        made.append(
            Report(
                client=f"client {index}",
                model=MODEL,
                smoothing={"sigma": 0.5, "n": draw(st.sampled_from([100, 1000]))},
                radii=[0.0, 0.5],
                classes=["a", "b", "c"],
                label_counts=labels,
                certified_counts=np.sum(rows, axis=0),
                class_certified_counts=rows if draw(st.booleans()) else None,
            )
        )
    return made


@given(reports(), st.data())
def test_sums_of_parts_merge_into_the_sums_of_all(made: list[Report], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(made) - 1))
    whole = Sums.of(made)
    first, second = Sums.of(made[:cut]), Sums.of(made[cut:])
    assert first.merged(second) == whole
    assert second.merged(first) == whole


@given(reports())
def test_sums_add_up(made: list[Report]) -> None:
    sums = Sums.of(made)
    assert sums.contributors == len(made)
    assert sums.label_counts == tuple(np.sum([report.label_counts for report in made], axis=0))
    # Whoever has no examples certified nothing: how it would have is of no interest.
    tested = [report for report in made if report.examples] or made
    assert sums.smoothing.n == min(report.smoothing.n for report in tested)
    assert sums.alike == (len({report.smoothing.n for report in tested}) == 1)
    assert sums.moments is not None
    expected = np.zeros((3, 3))
    for report in made:
        labels = np.array(report.label_counts, dtype=float)
        expected += np.outer(labels, labels) / max(labels.sum(), 1)
    assert np.allclose(np.array(sums.moments.labels_labels) / sums.moments.scale, expected, atol=1e-6)
    assert sums.moments.clients == sum(report.examples > 0 for report in made)


@pytest.mark.parametrize("labels", [(0, 0), (0, 5), (5, 0), (5, 5)])
def test_settings_of_clients_without_examples_do_not_count(
    make_report: Callable[..., Report], labels: tuple[int, int]
) -> None:
    made = [
        make_report(name, [count, 0], [0, 0], smoothing={"sigma": 0.5, "n": samples})
        for name, count, samples in zip("ab", labels, (1000, 100), strict=True)
    ]
    whole = Sums.of(made)
    assert whole.smoothing.n == (1000 if labels == (5, 0) else 100)
    assert whole.alike == (0 in labels and labels != (0, 0))
    first, second = (Sums.of([report]) for report in made)
    assert first.merged(second) == second.merged(first) == whole


def test_class_totals_cover_the_contributors_that_gave_them(make_report: Callable[..., Report]) -> None:
    open_one = make_report("a", [3, 4], [5, 2], class_certified_counts=[[2, 1], [3, 1]])
    closed = make_report("b", [10, 0], [5, 2])
    by_class = Sums.of([open_one, closed]).by_class
    assert by_class is not None
    assert (by_class.contributors, by_class.label_counts) == (1, (3, 4))


def test_nothing_cannot_be_summed() -> None:
    with pytest.raises(CannotCombine, match="there are no reports to combine; give at least one"):
        Sums.of([])


def test_sums_of_other_settings_do_not_merge(make_report: Callable[..., Report]) -> None:
    first = Sums.of([make_report("a", [3, 4], [5, 2])])
    second = Sums.of([make_report("b", [3, 4], [5, 2], smoothing={"sigma": 0.5})])
    with pytest.raises(CannotCombine, match="number 2 has sigma 0.5 where the rest has 0.25"):
        first.merged(second)


def test_noisy_sums_do_not_merge(make_report: Callable[..., Report]) -> None:
    sums = Sums.of([make_report("a", [3, 4], [5, 2])])
    noisy = Sums.from_json({**sums.to_json(), "noise": "discrete Gaussian"})
    with pytest.raises(CannotCombine, match="sums with noise cannot be merged"):
        sums.merged(noisy)
