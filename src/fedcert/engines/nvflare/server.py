"""The server's side: a round that any model controller can hold, and a controller that does nothing else."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.workflows.model_controller import ModelController

from fedcert.certification.models.classifiers import digest_of_module
from fedcert.certification.models.loading import module_of
from fedcert.engines.client import loaded
from fedcert.engines.figure import draw_estimate
from fedcert.engines.nvflare.client import KEY
from fedcert.errors import EngineStopped, FedcertError
from fedcert.estimation.result import Estimate
from fedcert.report import Request
from fedcert.rounds import Reply, run_round

_TASK = "certify"


def certify_round(controller: ModelController, model: Any, params: Any = None, **settings: Any) -> Estimate:
    """Have the sites certify a model, and estimate its certified accuracy on a target population.

    For use in a controller's `run`. Give the weights that were trained: `load_model()` of another controller gives the
    initial ones.

    Args:
        controller: NVFlare's; it should ignore errors in results (`ignore_result_error=True`), else it ends the job
            when one site fails.
        model: a torch module; it is not changed.
        params: its weights by name (`FLModel.params`); the module's own where None.
        settings: `classes`, `smoothing` and the others of `fedcert.rounds.reports.carry_round`.

    Raises:
        QuorumMissed: too few answered; there is no number.
        CallError: settings that do not go together, a folder of another request.
        EstimationProblem: no estimate follows from the answers.
        EngineStopped: the job was aborted; the same folder goes on later.
    """
    import torch

    if params is not None:
        model = loaded(copy.deepcopy(model), {name: torch.as_tensor(value) for name, value in params.items()})
    with NVFlareTransport(controller, model) as post:
        made = run_round(post, digest_of_module(model), **settings)
    return draw_estimate(made, settings.get("run"))


class NVFlareTransport:
    """NVFlare's messages as a round's replies.

    NVFlare keeps a result with an error code to itself. So while a round lasts, this listens where it decides on them.
    """

    def __init__(self, controller: ModelController, model: Any) -> None:
        self.controller = controller
        self.weights = {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
        self._came: SimpleQueue[FLModel | Reply] = SimpleQueue()
        self._asked: set[str] = set()

    def __enter__(self) -> Self:
        decide = self.controller._accept_train_result

        def listening(client_name: str, result: Any, fl_ctx: Any, **rest: Any) -> Any:
            taken = decide(client_name=client_name, result=result, fl_ctx=fl_ctx, **rest)
            if not taken:
                code = result.get_return_code()
                self._came.put(Reply(client_name, trouble=f"NVFlare says that its script failed ({code})"))
            return taken

        self.controller._accept_train_result = listening
        return self

    def __exit__(self, *_: object) -> None:
        del self.controller._accept_train_result  # the class's own is there again

    def names(self, seconds: float) -> tuple[set[str], bool]:  # noqa: ARG002
        """See `Transport.names`."""
        return {client.name for client in self.controller.engine.get_clients()}, True

    def poll(self, request: Request, missing: set[str]) -> Iterator[Reply]:
        """See `Transport.poll`."""
        if self.controller.abort_signal.triggered:
            raise EngineStopped("the job was aborted; what was answered is kept, where the round has a folder")
        due = sorted((self.names(0.0)[0] & missing) - self._asked)
        self._asked.update(due)
        if due:
            message = FLModel(params=dict(self.weights), meta={KEY: request.dumps()})
            self.controller.send_model(
                task_name=_TASK, data=message, targets=due, callback=self._came.put, timeout=seconds_left(request)
            )
        while True:
            try:
                came = self._came.get_nowait()
            except Empty:
                return
            yield came if isinstance(came, Reply) else self._reply(came)

    @staticmethod
    def _reply(model: FLModel) -> Reply:
        # The name is what NVFlare knows of the sender, never what the sender says.
        name, said = model.meta["client_name"], model.meta.get(KEY)
        texts = {key: value for key, value in said.items() if isinstance(value, str)} if isinstance(said, dict) else {}
        return Reply(name, texts.get("report"), texts.get("trouble", "its reply holds no report"))


class Certification(ModelController):
    """A controller that certifies weights from a file, and nothing else.

    Args:
        model: the architecture, as package.module:factory.
        weights: a .safetensors file.
        folder: for request, reports, estimate and log.
        settings: `classes`, `smoothing` and the others of `run_round`.
    """

    def __init__(self, model: str, weights: str, folder: str, settings: dict[str, Any]) -> None:
        super().__init__(persistor_id="", ignore_result_error=True)
        # NVFlare writes a job from the attributes that have the arguments' names.
        self.model, self.weights, self.folder, self.settings = model, weights, folder, settings

    def run(self) -> None:
        """Certify; what goes wrong is one sentence, and the job fails."""
        try:
            module = module_of(self.model, Path(self.weights))
            made = certify_round(self, module, run=self.folder, **self.settings)
        except FedcertError as error:
            self.error(f"no certification: {error}")
            self.panic(str(error))
            return
        for radius, accuracy in zip(made.radii, made.certified_accuracy, strict=True):
            self.info(f"certified accuracy at radius {radius:g}: {accuracy:.1%}")


def seconds_left(request: Request) -> int:
    """Whole seconds until the request's deadline; 0, which is no limit to NVFlare, where it has none."""
    if request.deadline is None:
        return 0
    return max(1, round((datetime.fromisoformat(request.deadline) - datetime.now(UTC)).total_seconds()))
