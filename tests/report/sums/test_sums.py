"""Sums: reports fold into them, and they merge exactly."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import POPULATION_DOCUMENTS, population_report
from fedcert import CannotCombine, InvalidValue, Report, Sums

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


@st.composite
def population_reports(draw: st.DrawFn) -> list[Report]:
    """A few reports of right answers among four passes, over three classes, some without counts per class."""
    cells = st.lists(st.lists(st.integers(0, 9), min_size=5, max_size=5), min_size=3, max_size=3)
    return [
        population_report(f"client {index}", draw(cells), discloses=draw(st.booleans()))
        for index in range(draw(st.integers(2, 6)))
    ]


@given(population_reports(), st.data())
def test_sums_of_right_answers_merge_exactly_in_any_order(made: list[Report], data: st.DataObject) -> None:
    whole = Sums.of(made)
    order = data.draw(st.permutations(range(len(made))))
    merged = [Sums.of([made[index]]) for index in order]
    while len(merged) > 1:  # two neighbours at a time, wherever they are
        place = data.draw(st.integers(0, len(merged) - 2))
        merged[place : place + 2] = [merged[place].merged(merged[place + 1])]
    assert merged[0] == whole
    assert Sums.from_json(whole.to_json()) == whole


@given(population_reports())
def test_sums_of_right_answers_add_up_with_their_moments(made: list[Report]) -> None:
    sums = Sums.of(made)
    assert sums.certified_counts is None
    assert sums.procedure_counts == sums.correct_counts == tuple(np.sum([each.correct_counts for each in made], axis=0))
    assert sums.moments is not None
    labels, counts, products = np.zeros((3, 3)), np.zeros((3, 5)), np.zeros((5, 5))
    for report in made:
        label, right = np.array(report.label_counts, float), np.array(report.correct_counts, float)
        examples = max(label.sum(), 1)
        labels += np.outer(label, label) / examples
        counts += np.outer(label, right) / examples
        products += np.outer(right, right) / examples
    for name, expected in (("labels_labels", labels), ("labels_correct", counts), ("correct_correct", products)):
        assert np.allclose(np.array(getattr(sums.moments, name)) / sums.moments.scale, expected, atol=1e-6), name
    disclosing = [report for report in made if report.class_correct_counts is not None]
    if not disclosing:
        assert sums.by_class is None
    else:
        assert sums.by_class is not None
        rows = np.sum([report.class_correct_counts for report in disclosing], axis=0)
        assert sums.by_class.contributors == len(disclosing)
        assert sums.by_class.procedure_counts == sums.by_class.correct_counts == tuple(map(tuple, rows.tolist()))
        assert sums.by_class.moments == Sums.of(disclosing).moments


@pytest.mark.parametrize(
    ("path", "wrong", "sentence"),
    [
        (("by_class", "correct_counts"), [[2, 1, 2, 3, 4], [2, 1, 1, 2, 2]],
         "column 0 of by_class.correct_counts must be adding up to correct_counts[0] (3), but is 4"),
        (("moments", "clients"), 2, "moments.clients must be from 1 to the contributors (1), but is 2"),
        (("moments", "labels_labels", 0, 0), 1,
         "moments.labels_labels[0] must be adding up to 12 in units of 1/scale, but is 80530638"),
        (("moments", "labels_correct", 0, 3), 1,
         "column 3 of moments.labels_correct must be adding up to 5 in units of 1/scale, but is 33554433"),
        (("moments", "correct_correct", 2, 2), 1,
         "moments.correct_correct[2] must be adding up to 3 in units of 1/scale, but is 42781902"),
        (("moments", "correct_correct", 2, 0), 7549748,
         "moments.correct_correct[2][0] must be the same as correct_correct[0][2], but is 7549748"),
        (("by_class", "moments", "correct_correct", 4, 4), 0,
         "by_class.moments.correct_correct[4] must be adding up to 7 in units of 1/scale, but is 76336333"),
        (("by_class", "moments", "labels_correct", 1, 4), 0,
         "column 4 of by_class.moments.labels_correct must be adding up to 7 in units of 1/scale, but is 70464307"),
    ],
)  # fmt: skip
def test_exact_sums_of_right_answers_add_up_or_are_refused(path: tuple[Any, ...], wrong: Any, sentence: str) -> None:
    document = copy.deepcopy(POPULATION_DOCUMENTS["sums"])
    for name in ("noise", "private", "fewest_holders", "spread"):
        document.pop(name)
    Sums.from_json(document)
    inner: Any = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = wrong
    with pytest.raises(InvalidValue) as caught:
        Sums.from_json(document)
    assert sentence in str(caught.value)


def test_so_many_examples_that_moments_do_not_hold_them_have_none() -> None:
    made = [population_report(f"site-{index}", [[0, 2**40], [0, 0]]) for index in range(2)]
    sums = Sums.of(made)
    assert sums.moments is None
    assert sums == Sums.of(made[:1]).merged(Sums.of(made[1:]))
