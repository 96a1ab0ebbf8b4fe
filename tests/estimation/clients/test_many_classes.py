"""Estimates over more classes than equations for all pairs can be solved for: a sentence, before memory is taken."""

from __future__ import annotations

import numpy as np
import pytest

from fedcert import EstimationProblem
from fedcert.estimation.clients import SufficientStatistics


def test_statistics_of_too_many_classes_are_refused_before_memory_is_taken() -> None:
    labels, certified = np.ones((2, 100_000), dtype=np.int64), np.ones((2, 3), dtype=np.int64)
    sentence = (
        "equations for all pairs of 100,000 classes, and may for 3,000: beyond that, clients must give counts per"
    )
    with pytest.raises(EstimationProblem, match=sentence):
        SufficientStatistics.of_clients(labels, certified)
    with pytest.raises(EstimationProblem, match=sentence):
        SufficientStatistics.of_classes(labels[0].astype(float), np.ones((100_000, 3)))
    assert SufficientStatistics.of_classes(np.ones(3000), np.ones((3000, 1))).labels_labels.shape == (3000, 3000)
