"""Algorithm 1, by hand and as a property."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcert.estimation.methods.paper.subsets import group_clients, group_many


@pytest.mark.parametrize(
    ("sizes", "threshold", "groups"),
    [
        ([], 50, ()),
        ([10], 50, ((0,),)),
        ([50], 50, ((0,),)),
        ([60, 70], 50, ((0,), (1,))),
        ([10, 60, 30, 25, 5], 50, ((4, 0, 3, 2), (1,))),  # 5 + 10 + 25 + 30 = 70
        ([40, 45, 12], 50, ((2, 0), (1,))),  # 12 + 40 = 52, then 45 stays alone, below 50
        ([20, 20, 20], 20, ((0,), (1,), (2,))),
        ([30, 30, 30], 0, ((0,), (1,), (2,))),
    ],
)
def test_by_hand(sizes: list[int], threshold: int, groups: tuple[tuple[int, ...], ...]) -> None:
    assert group_clients(sizes, threshold) == groups


@given(st.lists(st.integers(1, 120), min_size=1, max_size=25), st.integers(0, 150))
def test_the_rules_hold(sizes: list[int], threshold: int) -> None:
    groups = group_clients(sizes, threshold)
    assert sorted(member for group in groups for member in group) == list(range(len(sizes)))
    totals = [sum(sizes[member] for member in group) for group in groups]
    assert sum(total < threshold for total in totals) <= 1  # only the last virtual client may stay below
    for group, total in zip(groups, totals, strict=True):
        assert len(group) == 1 or total - sizes[group[-1]] < threshold  # complete as soon as it can be
        assert len(group) == 1 or all(sizes[member] < threshold for member in group)


@given(st.lists(st.lists(st.integers(1, 120), min_size=7, max_size=7), min_size=1, max_size=10), st.integers(0, 150))
def test_many_at_once_are_grouped_alike(subsets: list[list[int]], threshold: int) -> None:
    numbers = group_many(np.array(subsets), threshold)
    for sizes, row in zip(subsets, numbers, strict=True):
        groups = group_clients(sizes, threshold)
        assert [sorted(np.flatnonzero(row == number)) for number in range(len(groups))] == [sorted(g) for g in groups]
