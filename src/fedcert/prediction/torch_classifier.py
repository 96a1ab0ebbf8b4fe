"""The smoothed classifier of a torch module, itself a torch module."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fedcert._arrays import Images, Integers
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.models.answers import NAN_SCORES, check_width
from fedcert.certification.models.classifiers import TorchClassifier
from fedcert.certification.models.torch_module import channels_last, device_errors, largest_activation, scores_of
from fedcert.certification.perturbation import Perturbation
from fedcert.certification.samplers.blocks import NoiseBlock, fitting_batch
from fedcert.certification.samplers.fusion import fused, scores_match
from fedcert.errors import FedcertWarning, ModelProblem
from fedcert.prediction.rounded_noise import deployed_perturbation
from fedcert.prediction.settings import PredictionSettings
from fedcert.prediction.vote import Vote
from fedcert.prediction.voting import inputs_of, joined, noisy_copies, secret_key, units_checked, voted

_DEVICE_BATCH = 16_000
"""Samples per call on a GPU at most, as in certification: enough to fill it."""
_DEVICE_FLOATS = 2**26
"""Numbers in the noisy inputs of a call on a GPU at most, as in certification: 256 MB."""
_COMPARED = 64
"""Noisy copies on which a fused network is compared with the original, as in certification."""

_MODES = threading.RLock()
# A module's mode and a GPU's rounding belong to the whole process: an answer that ends must not switch them back while
# another thread's is under way.


class SmoothedModule(torch.nn.Module):
    """A torch module, smoothed: labels in place of scores.

    The module is run in evaluation mode and in the stated precision, whatever mode it is in; its mode is put back
    afterwards. It is moved like any other (`.to(device)`).

    Args:
        model: float32 batch -> scores.
        settings: how it answers.

    Attributes:
        model: the module.
        settings: how it answers.
    """

    def __init__(self, model: torch.nn.Module, settings: PredictionSettings) -> None:
        super().__init__()
        self.model = model
        self.settings = settings
        self._fusion: _Fusion | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fusion": None}  # which knows the tensors of this process alone

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The label of each input, on the input's device: a class index, or -1 where PREDICT abstains.

        Raises:
            CallError: the module cannot run in the precision that was asked for.
            DataProblem: x cannot be used.
            ModelProblem: the module fails.
        """
        labels = torch.from_numpy(self.vote(x).labels.copy())
        return labels.to(x.device) if isinstance(x, torch.Tensor) else labels

    def vote(self, x: Any) -> Vote:
        """The labels, with the counts that they come from, as arrays.

        Args:
            x: a tensor on any device, or an array.

        Raises:
            CallError: the module cannot run in the precision that was asked for.
            DataProblem: x cannot be used.
            ModelProblem: the module fails.
        """
        return joined(self.votes_on(units_checked(inputs_of(_array(x)), self.settings)), self.settings)

    def votes_on(self, data: LocalData) -> Iterator[Vote]:
        """The votes on data that is read in pieces, by the device that the module is on."""
        first: Any = next(iter([*self.model.parameters(), *self.model.buffers()]), None)
        device = torch.device("cpu") if first is None else first.device
        classifier = TorchClassifier(self.model, "", device)
        smoothing = self.settings.smoothing(data.lattice, classifier.default_precision)
        classifier.running(smoothing.precision)  # refuses what the device cannot run in
        labels = _ModuleLabels(self, deployed_perturbation(smoothing), classifier, smoothing.precision)
        return voted(data, self.settings, labels)

    def network(self, images: Images, perturbation: Perturbation, device: torch.device, precision: str) -> Any:
        """The module as certification runs it: below float32 on a GPU, with its layers fused where that is the same.

        It is fused anew when its weights have changed.

        Args:
            images: some inputs, to compare on.
            perturbation: what is done to them.
            device: where it is.
            precision: its arithmetic.
        """
        if device.type == "cpu" or precision == "float32":
            return self.model
        if self._fusion is None or not self._fusion.is_of(self.model):
            self._fusion = _Fusion.of(self.model, self._fused(images, perturbation, device, precision))
        return self._fusion.network or self.model

    def _fused(
        self, images: Images, perturbation: Perturbation, device: torch.device, precision: str
    ) -> torch.nn.Module | None:
        network = fused(self.model, torch.bfloat16 if precision == "bfloat16" else torch.float32)
        if network is None:
            return None
        blocks = [NoiseBlock(number % len(images), secret_key(), 1) for number in range(_COMPARED)]
        batch = channels_last(torch.from_numpy(noisy_copies(images, blocks, perturbation)).to(device))
        try:
            return network if scores_match(scores_of(self.model, batch), scores_of(network, batch)) else None
        except ModelProblem:  # the network as it is says what is wrong with it, if anything is
            return None


@dataclass(frozen=True)
class _Fusion:
    """A fused copy of a network.

    Attributes:
        network: None where the network cannot be fused.
        tensors: what it was made of, each with its place in memory and how often it was written to.
    """

    network: torch.nn.Module | None
    tensors: list[tuple[weakref.ref[torch.Tensor], int, int]]

    @classmethod
    def of(cls, model: torch.nn.Module, network: torch.nn.Module | None) -> _Fusion:
        """Of a model's tensors as they are now."""
        return cls(network, [(weakref.ref(tensor), *_state(tensor)) for tensor in _tensors(model)])

    def is_of(self, model: torch.nn.Module) -> bool:
        """Whether the model's tensors are still those."""
        now = list(_tensors(model))
        return len(now) == len(self.tensors) and all(
            known() is tensor and (place, version) == _state(tensor)
            for tensor, (known, place, version) in zip(now, self.tensors, strict=True)
        )


def _tensors(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def _state(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


class _ModuleLabels:
    """Labels of noisy copies by a module."""

    def __init__(
        self, smoothed: SmoothedModule, perturbation: Perturbation, classifier: TorchClassifier, precision: str
    ) -> None:
        self._smoothed, self._perturbation, self._precision = smoothed, perturbation, precision
        self._classifier, self._device = classifier, classifier.device
        self._filled = smoothed.settings.batch_size is not None
        self._batch_size = smoothed.settings.batch_size

    def batch(self, shape: tuple[int, ...]) -> int:
        """Samples of a call: as many as certification takes at most."""
        if self._batch_size is None and self._device.type == "cpu":
            with self._as_certified():
                activation = largest_activation(self._smoothed.model, torch.zeros((1, *shape)))
            self._batch_size = fitting_batch(shape, activation)
        elif self._batch_size is None:
            self._batch_size = max(1, min(_DEVICE_BATCH, _DEVICE_FLOATS // max(1, int(np.prod(shape)))))
        return self._batch_size

    @contextmanager
    def _as_certified(self) -> Iterator[None]:
        """The module in evaluation mode and in its precision, for this thread alone."""
        with _MODES, self._classifier.running(self._precision), device_errors(self._device), torch.inference_mode():
            yield

    def __call__(self, images: Images, blocks: Sequence[NoiseBlock]) -> tuple[Integers, int]:
        """See `NoisyLabels`; with fewer copies at a time where a GPU's memory runs out."""
        with self._as_certified():
            network = self._smoothed.network(images, self._perturbation, self._device, self._precision)
            while True:
                size = self.batch(images.shape[1:])
                try:
                    calls = torch.split(self._copies(images, blocks), size)
                    scores = torch.cat([self._scores(network, call, size) for call in calls])
                    return np.asarray(scores.argmax(dim=1).cpu(), dtype=np.int64), scores.shape[1]
                except torch.cuda.OutOfMemoryError:
                    self._batch_size = _halved(size)

    def _copies(self, images: Images, blocks: Sequence[NoiseBlock]) -> torch.Tensor:
        """Noisy copies; on a GPU by its own generator, elsewhere never by torch's, which keeps 32 bits of a seed."""
        if self._device.type != "cuda":
            return torch.from_numpy(noisy_copies(images, blocks, self._perturbation)).to(self._device)
        rows = {block.row: torch.from_numpy(images[block.row]).to(self._device) for block in blocks}
        sizes = [block.samples for block in blocks]
        copies = torch.empty((sum(sizes), *images.shape[1:]), dtype=torch.float32, device=self._device)
        streams = [block.stream for block in blocks]
        self._perturbation.perturb_tensors([rows[block.row] for block in blocks], streams, sizes, copies)
        return copies

    def _scores(self, network: Any, batch: torch.Tensor, size: int) -> torch.Tensor:
        missing = size - len(batch) if self._filled else 0
        call = torch.cat([batch, batch[:1].expand(missing, *batch.shape[1:])]) if missing else batch
        scores = scores_of(network, channels_last(call))[: len(batch)]
        check_width(scores.shape[1], self._smoothed.settings.class_count)
        if bool(scores.isnan().any()):
            raise ModelProblem(NAN_SCORES)
        return scores


def _halved(size: int) -> int:
    """Half as many samples at a time, after a GPU's memory ran out."""
    if size <= 1:
        raise ModelProblem(
            "the device's memory does not hold one noisy input and the model; use a larger device or the CPU"
        )
    torch.cuda.empty_cache()
    full = f"the device's memory does not hold {size} samples at a time"
    warnings.warn(f"{full}; going on with {size // 2}", FedcertWarning, stacklevel=2)
    return size // 2


def _array(x: Any) -> Any:
    """A tensor as an array on the CPU; types that numpy does not have become float32, which the model takes anyway."""
    if not isinstance(x, torch.Tensor):
        return x
    host = x.detach().cpu()
    return (host.float() if host.is_floating_point() else host).numpy()
