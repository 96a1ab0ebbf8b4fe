"""Restricted likelihood in the eigenbasis against the formula with dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from fedcert.estimation.reml import CLASS_VARIANCES, RestrictedLikelihood


@pytest.mark.parametrize(("clients", "classes"), [(12, 4), (5, 9)])
def test_it_is_the_dense_restricted_likelihood(clients: int, classes: int) -> None:
    generator = np.random.default_rng(0)
    mixes = generator.dirichlet(np.ones(classes), size=clients)
    weights, curves = generator.uniform(10, 500, clients), generator.uniform(0, 1, (3, clients))
    likelihood = RestrictedLikelihood.of(curves, mixes, weights)
    found = likelihood.deviance(CLASS_VARIANCES)
    ones = np.ones(clients)
    for index, variance in enumerate(CLASS_VARIANCES):
        covariance = variance * mixes @ mixes.T + np.diag(1 / weights)
        inverse = np.linalg.inv(covariance)
        left = ones @ inverse @ ones
        for curve, deviance in zip(curves, found[index], strict=True):
            rest = curve - ones @ inverse @ curve / left
            assert deviance == pytest.approx(
                rest @ inverse @ rest + np.linalg.slogdet(covariance)[1] + np.log(left), rel=1e-9, abs=1e-8
            )


def test_class_accuracies_are_the_dense_predictor() -> None:
    generator = np.random.default_rng(1)
    mixes, weights = generator.dirichlet(np.ones(4), size=10), generator.uniform(10, 500, 10)
    curve, variance, ones = generator.uniform(0, 1, 10), 0.03, np.ones(10)
    accuracy, covariance = RestrictedLikelihood.of(curve[None, :], mixes, weights).class_accuracy(variance)
    inverse = np.linalg.inv(variance * mixes @ mixes.T + np.diag(1 / weights))
    mean = ones @ inverse @ curve / (ones @ inverse @ ones)
    assert accuracy == pytest.approx(mean + variance * mixes.T @ inverse @ (curve - mean), abs=1e-10)
    by_mean = 1 - variance * mixes.T @ inverse @ ones
    expected = variance * (np.eye(4) - variance * mixes.T @ inverse @ mixes)
    expected += np.outer(by_mean, by_mean) / (ones @ inverse @ ones)
    assert covariance == pytest.approx(expected, abs=1e-10)
