"""The public function `smooth`: the classifier that was certified, for use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedcert.certification.models.classifiers import ArrayClassifier, TorchClassifier, function_of, is_module
from fedcert.certification.models.estimators import input_columns
from fedcert.certification.models.loading import onnx_classifier
from fedcert.prediction.numpy_classifier import SmoothedFunction
from fedcert.prediction.settings import PredictionSettings
from fedcert.prediction.voting import SmoothedClassifier


def smooth(
    model: object,
    sigma: float,
    *,
    votes: int | None = None,
    abstain: float | None = None,
    n: int | None = None,
    noise: str | None = None,
    lattice: int | None = None,
    precision: str | None = None,
    classes: Sequence[str] | None = None,
    batch_size: int | None = None,
) -> SmoothedClassifier:
    """The smoothed classifier of a model: the one that certificates are about, for use.

    For each input it draws fresh secret noise, lets the model classify the noisy copies, and answers with the most
    frequent label; ties go to the lowest class index. With `abstain` it is PREDICT of Cohen et al. (2019) instead,
    which answers -1 where the vote is not clear. The answer to one input is random: asked again, it may differ.

    Called with inputs, it gives their labels; its method `vote` gives them with their counts, as a `Vote`. Of a torch
    module it is a torch module, which takes and gives tensors, and is moved with the model inside (`.to(device)`).

    Guarantee: noise, lattice and precision being those of the certificate, a copy of any input x', attacked or not,
    is classified as the certified base classifier classifies x' + ε, independently of all other copies. Where that is
    right with probability q, a vote is right with probability at least P(Binomial(votes, q) > votes/2). With `abstain`,
    the answer for an input is a class other than the smoothed classifier's with probability at most `abstain`. All of
    this is about one answer: anyone who may ask again until an answer is wrong will succeed in the end.

    Args:
        model: a torch module, the path of an ONNX file, a fitted scikit-learn classifier, or any callable from a
            float32 batch to scores (inputs x classes) or labels.
        sigma: standard deviation of the noise, as certified.
        votes: noisy copies of each input, an odd number (11 where None).
        abstain: the level of PREDICT's two-sided binomial test of the two most frequent classes; not with `votes`.
        n: noisy samples of PREDICT (1,000 where None).
        noise: "gaussian" (where None), "uniform", or another registered one, as certified.
        lattice: m where it was certified on the multiples of 1/m: noise is added to the input, which may lie anywhere,
            and the sum rounded to the lattice. Where None, 255 for images of 8 bits (uint8), which are pixels from 0 to
            1, else no lattice; 0 for none in any case. Images of 8 bits that are given as floats need it said.
        precision: "float32", "tf32" or "bfloat16", as certified. Where None, "bfloat16" for a torch module on a GPU
            that computes in it, and "float32" elsewhere, as in `certify`.
        classes: class names in the order that was certified, whose number is checked. A scikit-learn classifier that
            predicts names needs them: labels are indices in this order.
        batch_size: samples per call of the model, each call filled up to so many, as in `certify` with the same
            number. Where None, as many as fit, and no more than are needed.

    Raises:
        CallError: arguments that do not go together, or a model that is none of those.
        InvalidValue: a setting breaks its rule.
        ModelProblem: the model cannot be loaded.

    Examples:
        >>> import numpy as np
        >>> classifier = smooth(lambda batch: (batch.mean(axis=1) > 0.5).astype(int), sigma=0.1, votes=11)
        >>> classifier(np.array([[0.0, 0.1], [0.9, 1.0]])).tolist()
        [0, 1]
        >>> careful = smooth(lambda batch: (batch.mean(axis=1) > 0.5).astype(int), sigma=0.1, abstain=0.001, n=1000)
        >>> careful(np.array([[0.0, 0.1], [0.9, 1.0]])).tolist()
        [0, 1]
    """
    settings = PredictionSettings(
        sigma=sigma, votes=votes, abstain=abstain, n=n, noise=noise, lattice=lattice, precision=precision,
        classes=None if classes is None else tuple(classes), batch_size=batch_size,
    )  # fmt: skip
    return smoothed_classifier(onnx_classifier(model) if isinstance(model, (str, Path)) else model, settings)


def smoothed_classifier(model: object, settings: PredictionSettings) -> SmoothedClassifier:
    """The same from settings and a model in memory, or a classifier that was loaded.

    Raises:
        CallError: the model is neither a module nor a callable.
    """
    if isinstance(model, TorchClassifier):
        model = model.module
    if is_module(model):
        from fedcert.prediction.torch_classifier import SmoothedModule

        return SmoothedModule(model, settings)
    if isinstance(model, ArrayClassifier):
        return SmoothedFunction(model, settings)
    return SmoothedFunction(ArrayClassifier(function_of(model, settings.classes), "", input_columns(model)), settings)
