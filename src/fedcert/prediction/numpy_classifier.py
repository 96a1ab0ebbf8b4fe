"""The smoothed classifier of a function of arrays: an ONNX session, or any callable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Images, Integers
from fedcert.certification.data.inputs import check_columns
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.models.answers import guarded, labels_of
from fedcert.certification.models.classifiers import ArrayClassifier
from fedcert.certification.perturbation import Perturbation
from fedcert.certification.samplers.blocks import NoiseBlock, filled_up, fitting_batch
from fedcert.certification.streams import block_size
from fedcert.prediction.rounded_noise import deployed_perturbation
from fedcert.prediction.settings import PredictionSettings
from fedcert.prediction.vote import Vote
from fedcert.prediction.voting import inputs_of, joined, noisy_copies, units_checked, voted


class SmoothedFunction:
    """A function from a float32 batch to scores or labels, smoothed.

    Args:
        classifier: the model.
        settings: how it answers.

    Attributes:
        settings: how it answers.

    Raises:
        CallError: another precision than float32 is asked for.
    """

    def __init__(self, classifier: ArrayClassifier, settings: PredictionSettings) -> None:
        classifier.running(settings.precision or classifier.default_precision)  # refuses what a function cannot run in
        self.settings = settings
        self._classifier = classifier

    def __call__(self, x: npt.ArrayLike) -> Integers:
        """The label of each input: a class index, or -1 where PREDICT abstains.

        Raises:
            DataProblem: x cannot be used.
            ModelProblem: the model fails.
        """
        return self.vote(x).labels

    def vote(self, x: npt.ArrayLike) -> Vote:
        """The labels, with the counts that they come from.

        Raises:
            DataProblem: x cannot be used.
            ModelProblem: the model fails.
        """
        return joined(self.votes_on(units_checked(inputs_of(x), self.settings)), self.settings)

    def votes_on(self, data: LocalData) -> Iterator[Vote]:
        """The votes on data that is read in pieces."""
        check_columns(data.columns, self._classifier.input_columns, "the model was fitted with")
        smoothing = self.settings.smoothing(data.lattice, self._classifier.default_precision)
        model = _FunctionLabels(self._classifier, deployed_perturbation(smoothing), self.settings)
        return voted(data, self.settings, model)


@dataclass(frozen=True)
class _FunctionLabels:
    """Labels of noisy copies by a function."""

    classifier: ArrayClassifier
    perturbation: Perturbation
    settings: PredictionSettings

    def batch(self, shape: tuple[int, ...]) -> int:
        """A block of certification where the size of calls is open, for what a function takes is unknown."""
        return self.settings.batch_size or min(block_size(shape), fitting_batch(shape))

    def __call__(self, images: Images, blocks: Sequence[NoiseBlock]) -> tuple[Integers, int]:
        """See `NoisyLabels`."""
        copies = noisy_copies(images, blocks, self.perturbation)
        call = filled_up(copies, self.settings.batch_size or 1)
        answer = np.asarray(guarded(partial(self.classifier.function, call), call.shape))
        labels = labels_of(answer, len(call), self.settings.class_count)[: len(copies)]
        return labels, max(int(labels.max()) + 1, answer.shape[1] if answer.ndim == 2 else 0)
