"""How a smoothed classifier is set up, and every setting that does not go."""

from __future__ import annotations

from typing import Any

import pytest

from fedcert import CallError, FedcertError, InvalidValue
from fedcert.prediction.settings import PredictionSettings
from fedcert.report.smoothing import DEFAULT_VOTES


def test_what_is_left_out() -> None:
    settings = PredictionSettings(sigma=0.25)
    assert settings.samples == DEFAULT_VOTES == 11
    assert PredictionSettings(sigma=0.25, votes=3).samples == 3
    assert PredictionSettings(sigma=0.25, abstain=0.001).samples == 1000
    assert PredictionSettings(sigma=0.25, abstain=0.001, n=200).samples == 200
    assert settings.class_count is None
    assert PredictionSettings(sigma=0.25, classes=("a", "b")).class_count == 2


@pytest.mark.parametrize(
    ("given", "natural", "lattice"),
    [(None, None, None), (None, 255, 255), (0, 255, None), (100, 255, 100), (100, None, 100)],
)
def test_the_lattice_is_the_one_asked_for_or_the_inputs_own(
    given: int | None, natural: int | None, lattice: int | None
) -> None:
    assert PredictionSettings(sigma=0.25, lattice=given).smoothing(natural, "float32").lattice == lattice


def test_the_precision_is_the_one_asked_for_or_the_models_own() -> None:
    assert PredictionSettings(sigma=0.25).smoothing(None, "bfloat16").precision == "bfloat16"
    assert PredictionSettings(sigma=0.25, precision="tf32").smoothing(None, "bfloat16").precision == "tf32"


def test_fewer_samples_than_a_test_can_ever_pass_are_refused() -> None:
    assert PredictionSettings(sigma=1.0, abstain=0.001, n=11).samples == 11  # 2^-10 < 0.001
    assert PredictionSettings(sigma=1.0, abstain=0.25, n=3).samples == 3  # 2^-2, exactly
    with pytest.raises(InvalidValue, match="^n must be at least 11 for a test at level 0.001, but is 10$"):
        PredictionSettings(sigma=1.0, abstain=0.001, n=10)
    with pytest.raises(InvalidValue, match="^n must be at least 3 for a test at level 0.25, but is 2$"):
        PredictionSettings(sigma=1.0, abstain=0.25, n=2)


MISTAKES: dict[str, tuple[dict[str, Any], type[FedcertError], str]] = {
    "even votes": ({"votes": 10}, InvalidValue, "votes must be an odd number from 1 to 9999, or null, but is 10"),
    "no votes": ({"votes": 0}, InvalidValue, "votes must be an odd number from 1 to 9999, or null, but is 0"),
    "half a vote": ({"votes": 1.5}, InvalidValue, "votes must be an odd number"),
    "no noise": ({"sigma": 0}, InvalidValue, "sigma must be a finite number above 0"),
    "negative noise": ({"sigma": -0.25}, InvalidValue, "sigma must be a finite number above 0"),
    "votes and abstain": ({"votes": 11, "abstain": 0.001}, CallError, "votes and abstain exclude one another: give"),
    "n of a vote": ({"n": 1000}, CallError, "n (--n) goes with abstain (--abstain); votes (--votes) say how many"),
    "a level that is none": ({"abstain": 1.0}, InvalidValue, "abstain must be a finite number above 0 and below 1"),
    "a noise that is none": ({"noise": "pink"}, InvalidValue, "noise must be 'gaussian' or 'uniform', but is 'pink'"),
    "a lattice that is none": ({"lattice": -1}, InvalidValue, "lattice must be a whole number from 1 to 65535"),
    "a precision that is none": ({"precision": "int8"}, InvalidValue, "precision must be 'float32', 'tf32' or"),
    "a class twice": ({"classes": ("a", "a")}, InvalidValue, "classes[1] must be different from those before it"),
    "an empty batch": ({"batch_size": 0}, InvalidValue, "batch_size must be a whole number from 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence(name: str) -> None:
    given, kind, sentence = MISTAKES[name]
    with pytest.raises(kind) as caught:
        PredictionSettings(**{"sigma": 0.25, **given})
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)
