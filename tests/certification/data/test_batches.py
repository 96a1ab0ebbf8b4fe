"""Examples as apps have them: DataLoaders, data sets, batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from fedcert import CallError, DataProblem, Report, certify
from fedcert.certification.data.batches import examples_in, holds_labels

X = torch.rand(6, 3, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 0, 1, 1, 0])
SET = TensorDataset(X, Y)


class Mapped(Dataset[dict[str, Any]]):
    """A data set of mappings, as Hugging Face's are."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"label": int(Y[index]), "image": X[index].numpy()}


FORMS: dict[str, Any] = {
    "tensors": (X, Y),
    "arrays": (X.numpy(), Y.numpy()),
    "batches": [(X[:4], Y[:4]), (X[4:], Y[4:])],
    "mappings": [{"img": X[:4], "label": Y[:4]}, {"img": X[4:], "label": Y[4:]}],
    "label first": [{"label": Y, "img": X}],
    "loader": DataLoader(SET, batch_size=4),
    "loader of mappings": DataLoader(Mapped(), batch_size=4),
    "loader of single examples": DataLoader(SET, batch_size=None),
    "set": SET,
    "set of mappings": Mapped(),
    "gradients": (X.clone().requires_grad_(), Y),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_examples(form: str) -> None:
    assert holds_labels(FORMS[form])
    x, y = examples_in(FORMS[form])
    assert np.array_equal(x, X.numpy())
    assert np.array_equal(y, Y.numpy())


def test_a_generator_is_read_once() -> None:
    x, _ = examples_in((X[i : i + 2], Y[i : i + 2]) for i in (0, 2, 4))
    assert np.array_equal(x, X.numpy())


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (5, "data must be .x, y., a DataLoader or a data set of images with labels, but is int"),
        ("data.npz", "a data set of images with labels, but is str"),
        ([], "there are no test examples: the data gives none"),
        ([(X,)], "must hold an image and a label for each example, but has 1 parts"),
        ([(X, Y, Y)], "but has 3 parts"),
        ([(X, Y), (X[:, :2], Y)], r"one shape, but there are \(2,\) and \(3,\); resize or crop"),
    ],
)
def test_what_cannot_be_used_is_named(wrong: Any, sentence: str) -> None:
    with pytest.raises(DataProblem, match=sentence):
        examples_in(wrong)


def rule(batch: np.ndarray) -> np.ndarray:
    return (batch[:, 0] > 0.5).astype(int)


def certified(*data: Any, **options: Any) -> Report:
    return certify(rule, *data, sigma=0.25, client="a", model_id="rule", classes=["no", "yes"], seed=1, **options)


@pytest.mark.parametrize("form", ["loader", "set", "batches", "tensors"])
def test_certify_takes_loaders_and_data_sets(form: str) -> None:
    expected = certified(X.numpy(), Y.numpy())
    report = certified(FORMS[form])
    assert report.correct_counts == expected.correct_counts
    assert report.label_counts == expected.label_counts == (3, 3)


def test_a_shuffled_loader_gives_the_same_counts() -> None:
    assert certified(DataLoader(SET, batch_size=2, shuffle=True)).correct_counts == certified(SET).correct_counts


@pytest.mark.parametrize("x", [X.numpy(), X, X.tolist()])
def test_labels_may_not_be_missing(x: Any) -> None:
    with pytest.raises(CallError, match="^x must be the examples themselves, but is the path 'data.npz': load them"):
        certified("data.npz")
    with pytest.raises(CallError, match="^y is missing: give the class index of each example as y, or a DataLoader"):
        certified(x)


def test_labels_are_not_given_twice() -> None:
    with pytest.raises(CallError, match="^a DataLoader gives the labels too: leave y out$"):
        certified(DataLoader(SET), Y)
