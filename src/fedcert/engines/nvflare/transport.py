"""Messages between a server and NVFlare's clients, as a round's replies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Self

from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.workflows.model_controller import ModelController

from fedcert.engines.client import PRIVATE
from fedcert.engines.nvflare.client import ASK, KEY, MESSAGE
from fedcert.errors import EngineStopped
from fedcert.report import Request
from fedcert.rounds import Reply
from fedcert.rounds.requests import seconds_left

_TASK = "certify"
_SHORTEST_STAGE = 60
"""Seconds that a message after the first stage lives at least, though the request's deadline may have passed."""


class NVFlareTransport:
    """Sends messages as tasks of a controller.

    NVFlare keeps a result with an error code to itself. So while a round lasts, this listens where it decides on them.

    Args:
        controller: NVFlare's.
        model: the module whose weights go with the first messages.
    """

    def __init__(self, controller: ModelController, model: Any) -> None:
        self.controller = controller
        self.weights = {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
        self._results: SimpleQueue[tuple[int, FLModel] | Reply] = SimpleQueue()
        self._sent: set[str] = set()
        self._stage, self._messages = 0, dict[str, str]()
        self._request: Request  # of the round, from when the first messages are sent

    def __enter__(self) -> Self:
        accept = self.controller._accept_train_result

        def listening(client_name: str, result: Any, fl_ctx: Any, **rest: Any) -> Any:
            accepted = accept(client_name=client_name, result=result, fl_ctx=fl_ctx, **rest)
            if not accepted:
                code = result.get_return_code()
                self._results.put(Reply(client_name, failure=f"NVFlare says that its script failed ({code})"))
            return accepted

        self.controller._accept_train_result = listening
        return self

    def __exit__(self, *_: object) -> None:
        del self.controller._accept_train_result  # the class's own is in force again

    def names(self, seconds: float) -> tuple[set[str], bool]:  # noqa: ARG002
        """See `Transport.names`."""
        return {client.name for client in self.controller.engine.get_clients()}, True

    def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
        """See `Transport.send`; messages leave when they are polled for."""
        self._request, self._stage, self._messages, self._sent = request, stage, dict(messages), set()

    def poll(self, waiting_for: Collection[str]) -> Iterator[Reply]:
        """See `Transport.poll`."""
        if self.controller.abort_signal.triggered:
            raise EngineStopped("the job was aborted; what was answered is kept, where the round has a folder")
        self._deliver((self.names(0.0)[0] & set(waiting_for) & set(self._messages)) - self._sent)
        while True:
            try:
                result = self._results.get_nowait()
            except Empty:
                return
            if isinstance(result, Reply):
                yield result
            elif result[0] == self._stage:  # an answer that came after its stage was over is of no use
                yield self._reply(result[1])

    def _deliver(self, names: set[str]) -> None:
        """Send clients their messages, those with the same one together."""
        stage, same = self._stage, defaultdict[str, list[str]](list)
        for name in sorted(names):
            same[self._messages[name]].append(name)
        for text, targets in same.items():
            meta = {KEY: self._request.dumps()}
            if self._request.private is not None:
                meta |= {ASK: PRIVATE} | ({MESSAGE: text} if stage else {})
            # NVFlare sends no model without parameters or metrics.
            content = {"metrics": {"stage": float(stage)}} if stage else {"params": dict(self.weights)}
            self.controller.send_model(
                task_name=_TASK, data=FLModel(**content, meta=meta), targets=targets, timeout=self._timeout,
                callback=lambda model: self._results.put((stage, model)),
            )  # fmt: skip
        self._sent |= names

    @property
    def _timeout(self) -> int:
        """Whole seconds that a task lives; 0 is no limit to NVFlare."""
        if self._request.deadline is None:
            return 0
        return max(_SHORTEST_STAGE if self._stage else 1, round(seconds_left(self._request)))

    @staticmethod
    def _reply(model: FLModel) -> Reply:
        # The name is what NVFlare knows of the sender, never what the sender says.
        name, reply = model.meta["client_name"], model.meta.get(KEY)
        texts = {key: text for key, text in reply.items() if isinstance(text, str)} if isinstance(reply, dict) else {}
        answer = texts.get("report", texts.get("answer"))
        return Reply(name, answer, texts.get("trouble", "its reply holds no report"))
