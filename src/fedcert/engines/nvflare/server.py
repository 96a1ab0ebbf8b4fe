"""The server's side: rounds that any model controller can hold, and a controller that does nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nvflare.app_common.workflows.model_controller import ModelController

from fedcert.certification.models.classifiers import digest_of_module
from fedcert.certification.models.loading import module_of
from fedcert.engines.client import loaded
from fedcert.engines.figure import draw_estimate
from fedcert.engines.nvflare.transport import NVFlareTransport
from fedcert.errors import CallError, FedcertError
from fedcert.estimation.result import Estimate
from fedcert.rounds import run_round


def certify_round(controller: ModelController, model: Any, params: Any = None, **settings: Any) -> Estimate:
    """Have the clients certify a model, and estimate its certified accuracy on a target population.

    For use in a controller's `run`. Give the weights that were trained: `load_model()` of another controller gives the
    initial ones.

    Args:
        controller: NVFlare's; it should ignore errors in results (`ignore_result_error=True`), else it ends the job
            when one client fails.
        model: a torch module; it is not changed.
        params: its weights by name (`FLModel.params`); the module's own where None.
        settings: `classes`, `smoothing` and the others of `fedcert.rounds.run_round`; among them `keys` (the
            coordinator's, which sign the request) and `trusted` (whose signatures count). A client's name is that of
            its site, which NVFlare itself checks by certificates.

    Raises:
        QuorumMissed: too few answered; there is no number.
        CallError: settings that do not go together, a folder of another request.
        EstimationProblem: no estimate follows from the answers.
        EngineStopped: the job was aborted; the same folder goes on later.
    """
    return _run(run_round, controller, model, params, settings)


def certify_privately(controller: ModelController, model: Any, params: Any = None, **settings: Any) -> Estimate:
    """Have the clients certify a model, and estimate from the sums of their counts alone.

    The server gets each client's counts under masks, which cancel in the sum; it never has one client's own.

    Args:
        controller, model, params: see `certify_round`.
        settings: `classes`, `smoothing`, `roster` (names of sites), `keys` (the coordinator's, which sign the request),
            `trusted` (public keys of all clients on the roster) and the others of
            `fedcert.rounds.private.run_private_round`.

    Raises:
        QuorumMissed: too few took part or stayed; nothing is known of any client's numbers.
        CallError: settings that do not go together, a folder of another request.
        EstimationProblem: no estimate follows from the sums.
        EngineStopped: the job was aborted; the same folder goes on later.
    """
    from fedcert.rounds.private import run_private_round

    return _run(run_private_round, controller, model, params, settings)


def _run(
    round_: Callable[..., Estimate], controller: ModelController, model: Any, params: Any, settings: Mapping[str, Any]
) -> Estimate:
    """Hold a round over the controller, with the weights loaded if any are given."""
    if params is not None:
        import torch

        model = loaded(copy.deepcopy(model), {name: torch.as_tensor(value) for name, value in params.items()})
    with NVFlareTransport(controller, model) as transport:
        estimate = round_(transport, digest_of_module(model), **settings)
    return draw_estimate(estimate, settings.get("run"))


class Certification(ModelController):
    """A controller that certifies weights from a file, and nothing else.

    Args:
        model: the architecture, as package.module:factory.
        weights: a .safetensors file.
        folder: for request, reports, estimate and log.
        settings: `classes`, `smoothing` and the others of `fedcert.rounds.run_round`; `keys` and `trusted` as files on
            the server's machine, since a job's settings are stored and sent.

    Raises:
        CallError: keys themselves are in the settings.
    """

    def __init__(self, model: str, weights: str, folder: str, settings: dict[str, Any]) -> None:
        for name in ("keys", "trusted"):
            if not isinstance(settings.get(name, ""), str):
                raise CallError(
                    f"{name} must be the path of a file on the server's machine, as text, but is "
                    f"{type(settings[name]).__name__}: a job's settings are stored and sent"
                )
        super().__init__(persistor_id="", ignore_result_error=True)
        # NVFlare writes a job from the attributes that have the arguments' names.
        self.model, self.weights, self.folder, self.settings = model, weights, folder, settings

    def run(self) -> None:
        """Certify; what goes wrong is one sentence, and the job fails."""
        try:
            module = module_of(self.model, Path(self.weights))
            estimate = certify_round(self, module, run=self.folder, **self.settings)
        except FedcertError as error:
            self.error(f"no certification: {error}")
            self.panic(str(error))
            return
        proven = "certified" if estimate.votes is None else f"by the vote of {estimate.votes}, proven"
        for radius, accuracy in zip(estimate.radii, estimate.certified_accuracy, strict=True):
            self.info(f"{proven} accuracy at radius {radius:g}: {accuracy:.1%}")
