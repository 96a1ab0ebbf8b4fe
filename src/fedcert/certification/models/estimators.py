"""Classifiers in scikit-learn's manner, known by what they can do: `predict_proba`, or `predict` and `classes_`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Images
from fedcert.errors import CallError, preview


def is_estimator(model: object) -> bool:
    """Whether a model is a classifier of scikit-learn, or behaves like one; scikit-learn is not imported."""
    if callable(getattr(model, "predict_proba", None)):
        return True
    return callable(getattr(model, "predict", None)) and getattr(model, "classes_", None) is not None


def estimator_function(model: Any, classes: Sequence[str] | None = None) -> Callable[[Images], object]:
    """The function from a float32 batch to scores, or to labels where the classifier has no probabilities.

    Columns follow the class indices: labels that are whole numbers are these indices, and texts are class names.

    Args:
        model: a fitted classifier.
        classes: class names in index order, where they are known.

    Raises:
        CallError: the classifier is not fitted, or its classes are not those that are named.
    """
    if getattr(model, "classes_", None) is None:
        if hasattr(model, "fit"):
            raise CallError(f"the classifier {type(model).__name__} is not fitted: call its fit before it is certified")
        return lambda batch: _called(model.predict_proba, _rows(model, batch))
    known = np.asarray(model.classes_)
    places = _places(known, classes)
    width = max(int(places.max()) + 1, len(classes or ()))
    order = np.argsort(known)

    def scores(batch: Images) -> object:
        given = np.asarray(_called(model.predict_proba, _rows(model, batch)))
        if given.ndim != 2 or given.shape[1] != len(places):  # what does not fit is refused where answers are checked
            return given
        all_scores = np.zeros((len(given), width), dtype=given.dtype)
        all_scores[:, places] = given
        return all_scores

    def labels(batch: Images) -> object:
        given = np.asarray(_called(model.predict, _rows(model, batch)))
        return places[order[np.searchsorted(known, given, sorter=order)]]

    return scores if callable(getattr(model, "predict_proba", None)) else labels


def input_columns(model: object) -> tuple[str, ...] | None:
    """The names of the columns that a classifier was fitted with, in order; None where it does not know them."""
    names = getattr(model, "feature_names_in_", None) if is_estimator(model) else None
    return None if names is None else tuple(map(str, names))


def _called(method: Callable[[Images], object], rows: Images) -> object:
    """A classifier's answer; that it was fitted with column names, which arrays do not have, is checked before."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return method(rows)


def _places(known: npt.NDArray[Any], classes: Sequence[str] | None) -> npt.NDArray[np.int64]:
    """The class index of each of the classifier's own labels."""
    if known.ndim == 1 and known.dtype.kind in "iub" and (known.astype(np.int64) >= 0).all():
        indices = known.astype(np.int64)
        if classes is not None and indices.max() >= len(classes):
            raise CallError(
                f"the classifier predicts the labels {_listed(indices.tolist())}, but class indices go from 0 to "
                f"{len(classes) - 1}; fit it with such labels, or with class names"
            )
        return indices
    names = [str(name) for name in known.tolist()] if known.ndim == 1 else []
    if not names or known.dtype.kind not in "OUS":
        raise CallError(
            "the classifier's classes_ must be class indices from 0 or class names, but are "
            f"{_listed(known.ravel().tolist())}; fit it with such labels"
        )
    if classes is None:
        raise CallError(
            f"the classifier predicts names ({_listed(names)}): name the classes too (classes=…, --classes FILE), in "
            "the order of the class indices, which is that of the certificates"
        )
    unknown = [name for name in names if name not in classes]
    if unknown:
        raise CallError(
            f"the classifier predicts {preview(unknown[0])}, which is not among the classes "
            f"({_listed(classes)}); give the names that it was fitted with"
        )
    return np.array([list(classes).index(name) for name in names])


def _listed(labels: Sequence[object]) -> str:
    return ", ".join(preview(label) for label in labels[:10]) + (", …" if len(labels) > 10 else "")


def _rows(model: Any, batch: Images) -> Images:
    """A batch as rows of features where the classifier wants so many; its shape else."""
    features = getattr(model, "n_features_in_", None)
    if batch.ndim > 2 and features is not None and features == int(np.prod(batch.shape[1:])):
        return batch.reshape(len(batch), -1)
    return batch
