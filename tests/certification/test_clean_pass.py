"""What predictions without noise point to."""

from __future__ import annotations

import numpy as np
import pytest

from fedcert.certification.clean_pass import CleanPass, warnings_before

CLASSES = ["edged", "normal", "spotted", "striped"]
LABELS = np.arange(200) % 4


def said(predicted: np.ndarray, labels: np.ndarray = LABELS, classes: int = 4) -> list[str]:
    return list(warnings_before(CleanPass(predicted, labels, classes), CLASSES[:classes]))


def often(order: list[int], right: float = 0.9) -> np.ndarray:
    """Predictions of a model whose outputs are in another order, and which is right so often."""
    generator = np.random.default_rng(0)
    return np.where(generator.random(len(LABELS)) < right, np.array(order)[LABELS], generator.integers(4, size=200))


def test_a_good_model_is_not_warned_of() -> None:
    assert said(often([0, 1, 2, 3])) == []
    assert said(often([0, 1, 2, 3], 0.5)) == []


def test_labels_that_are_mixed_up_are_named_with_their_classes() -> None:
    (sentence,) = said(often([1, 2, 0, 3]))
    assert sentence.startswith("labels look mixed up: without noise the model predicts ")
    assert sentence.endswith(
        "% of the labels here, but 'normal' for most labelled 'edged'; 'spotted' for most labelled 'normal'; 'edged' "
        "for most labelled 'spotted'; check y and the order of --classes"
    )
    (sentence,) = said(often([3, 2, 1, 0]))
    assert "'striped' for most labelled 'edged'" in sentence


@pytest.mark.parametrize(("order", "which"), [([1, 2, 3, 0], "after"), ([3, 0, 1, 2], "before")])
def test_labels_that_are_shifted_are_called_so(order: list[int], which: str) -> None:
    (sentence,) = said(often(order))
    assert sentence.startswith("labels look shifted by one: ")
    assert f"but the class {which} it for " in sentence


def test_two_classes_that_are_swapped_are_called_so() -> None:
    (sentence,) = said(often([0, 2, 1, 3]))
    assert sentence.startswith("labels 'normal' and 'spotted' look swapped: ")


@pytest.mark.parametrize("answer", [0, 3])
def test_a_model_with_one_answer_does_not_look_mixed_up(answer: int) -> None:
    (sentence,) = said(np.full(200, answer))
    assert "no more than chance (25.0%)" in sentence


def test_guesses_do_not_look_mixed_up() -> None:
    generator = np.random.default_rng(1)
    for size in (10, 30, 100, 1000):
        for _ in range(200):
            labels = generator.integers(4, size=size)
            assert not any("mixed up" in sentence for sentence in said(generator.integers(4, size=size), labels))
