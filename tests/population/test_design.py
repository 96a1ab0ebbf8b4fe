"""Designs: every shipped one is proven again, and a false one is caught."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special, stats

from fedcert.population import design as designs
from fedcert.population.bernstein import binomial_probabilities
from fedcert.population.design import Design, is_proven, make_design, unbiased_scores
from fedcert.population.proof import excess_above
from fedcert.population.tables import SHIPPED_PASSES, SHIPPED_RATIOS, SHIPPED_VOTES, designs_for
from fedcert.population.vote import VoteCurve

SETTINGS = list(itertools.product(SHIPPED_PASSES, SHIPPED_VOTES))


@pytest.mark.parametrize(("n", "votes"), SETTINGS)
def test_every_shipped_design_is_proven(n: int, votes: int) -> None:
    for design in designs_for("gaussian", n, votes, SHIPPED_RATIOS):
        assert is_proven(design), design.curve
        # The floor is one but for the margin, and what a proof lowered scores by.
        assert design.lower.min() >= designs.FLOOR - 1e-4
        assert design.upper.max() <= 1 - designs.FLOOR + 1e-4
        assert design.lower.max() <= 1
        assert design.upper.min() >= 0


def places_of(design: Design) -> tuple[list[int], np.ndarray]:
    """Scores to raise: the ends, and the one whose rise shows most; and how far each is above the curve then."""
    grid = np.linspace(-8, 8, 2001)
    p, complement = special.ndtr(grid), special.ndtr(-grid)
    table = binomial_probabilities(design.n, p, complement)
    room = design.curve(p, complement)[0] - table @ design.lower
    above = np.max(1e-4 * table - room[:, None], axis=0)
    inner = 1 + int(np.argmax(above[1:-1]))
    return [0, inner, design.n], above


@pytest.mark.parametrize(("n", "votes"), SETTINGS)
def test_a_score_raised_by_a_ten_thousandth_is_caught(n: int, votes: int) -> None:
    """At 0 and some inner count in every table, and at n wherever that is above the curve; upper scores, mirrored."""
    caught = 0
    for design in designs_for("gaussian", n, votes, SHIPPED_RATIOS[1:]):
        curve = design.curve
        sides = [design, Design(curve.mirror(), 1 - design.upper[::-1], 1 - design.lower[::-1])]
        for side in sides:
            places, above = places_of(side)
            for place in places:
                if above[place] <= 1e-8:
                    assert place == n
                    continue
                raised = side.lower.copy()
                raised[place] += 1e-4
                assert excess_above(raised, side.curve) > 0, (side.curve, place)
                caught += 1
            assert above.max() > 5e-5
    # Both sides of 24 radii, two or three places of each.
    assert caught > 96


def test_changed_unbiased_scores_are_no_longer_proven() -> None:
    (design,) = designs_for("gaussian", 32, 11, [0.0])
    assert is_proven(design)
    for side in ("lower", "upper"):
        scores = {"lower": design.lower.copy(), "upper": design.upper.copy()}
        scores[side][16] += 1e-4
        assert not is_proven(Design(design.curve, **scores))


@pytest.mark.parametrize("noise", ["gaussian", "uniform"])
@pytest.mark.parametrize("n", [1, 2, 3, 20])
@pytest.mark.parametrize("votes", [1, 3, 9999])
def test_designs_of_unlikely_settings_are_proven(noise: str, n: int, votes: int) -> None:
    """Few passes, fewer than votes, no change at all, and changes beyond all hope: something always comes out."""
    for ratio in (0.0, 1e-6, 0.35, 2.0, 5.0, 1e6):
        design = make_design(VoteCurve(noise, votes, ratio), n)
        assert is_proven(design), ratio
        assert designs.prior_moments(n)[0] @ (design.upper - design.lower) > -1e-12
        assert -1e-6 < design.loss < 1  # by a quadrature


def test_more_passes_than_have_a_programme_take_the_polynomial_of_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(designs, "DESIGNED_PASSES", 20)
    curve = VoteCurve("gaussian", 11, 1.2)
    few, many = make_design(curve, 20), make_design(curve, 50)
    assert many.n == 50
    assert is_proven(many)
    assert many.loss == pytest.approx(few.loss, abs=1e-9)
    p = np.linspace(0, 1, 51)
    for side in ("lower", "upper"):
        values = [binomial_probabilities(each.n, p, 1 - p) @ getattr(each, side) for each in (few, many)]
        np.testing.assert_allclose(*values, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "votes", "ratio"), [(200, 31, 2.0), (500, 11, 3.0), (2000, 101, 2.0), (800, 1, 1.0)])
def test_designs_of_many_passes_are_proven(n: int, votes: int, ratio: float) -> None:
    design = make_design(VoteCurve("gaussian", votes, ratio), n)
    assert design.n == n
    assert is_proven(design)
    assert design.loss < 0.002


@pytest.mark.parametrize("broken", [np.nan, 10.0, -10.0, 1e-3])
def test_where_the_programme_fails_a_design_still_comes_out(broken: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(designs, "minimise", lambda *given: given[-1] + broken * np.cos(np.arange(13)))
    design = make_design(VoteCurve("gaussian", 11, 0.8), 12)
    assert is_proven(design)
    if broken != 1e-3:
        np.testing.assert_array_equal(design.lower, np.full(13, -designs.MARGIN))
        np.testing.assert_array_equal(design.upper, np.full(13, 1 + designs.MARGIN))


def test_where_no_proof_succeeds_scores_are_below_every_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(designs, "excess_above", lambda *_: 1e-10)
    assert np.all(make_design(VoteCurve("gaussian", 11, 0.8), 12).lower == -designs.MARGIN)


def test_unbiased_scores_are_a_vote_among_the_copies() -> None:
    np.testing.assert_array_equal(unbiased_scores(5, 3), [0, 0, 3 / 10, 7 / 10, 1, 1])
    expected = stats.hypergeom.sf(15, 100, np.arange(101), 31)
    np.testing.assert_allclose(unbiased_scores(100, 31), expected, atol=1e-13)


def test_a_design_of_another_caller_cannot_be_changed() -> None:
    (design,) = designs_for("gaussian", 32, 11, [1.2])
    with pytest.raises(ValueError, match="read-only"):
        design.lower[0] = 1
    own = np.zeros(3)
    assert not Design(design.curve, own, own + 1).lower.flags.writeable
    own[0] = 1  # the caller's array stays the caller's


def test_the_gap_bounds_what_a_design_loses_whatever_the_data() -> None:
    generator = np.random.default_rng(11)
    for ratio in (0.4, 1.6, 2.0):
        (design,) = designs_for("gaussian", 32, 11, [ratio])
        for _ in range(20):
            p = generator.beta(*generator.uniform(0.2, 8, size=2), size=500)
            expected = binomial_probabilities(32, p, 1 - p).sum(axis=0)
            lost = np.mean(design.curve(p, 1 - p)[0]) - expected @ design.lower / 500
            assert 0 < lost < design.most_lost(expected)
    assert design.most_lost([1] + [0] * 32) == design.gap[0]


def test_loss_is_what_the_lower_scores_miss_over_the_mixture() -> None:
    generator = np.random.default_rng(2)
    (design,) = designs_for("gaussian", 32, 11, [2.0])
    parts = [generator.uniform(size=40_000), generator.beta(0.5, 0.5, 20_000), generator.beta(5, 1, 20_000)]
    p = np.concatenate(parts)
    lost = design.curve(p, 1 - p)[0] - binomial_probabilities(32, p, 1 - p) @ design.lower
    assert design.loss == pytest.approx(np.mean(lost), abs=4 * np.std(lost) / len(p) ** 0.5)
