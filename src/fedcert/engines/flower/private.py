"""Private sums over Flower: the server learns what all sites have together, and nothing of any one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord
from flwr.serverapp import Grid

from fedcert._files.documents import read_record
from fedcert._files.paths import kind_of_path
from fedcert.engines.figure import draw_estimate
from fedcert.engines.flower.messages import ARRAYS, record_of
from fedcert.engines.flower.server import weights_of
from fedcert.engines.flower.transport import FlowerTransport, seconds_left
from fedcert.errors import CallError, QuorumMissed
from fedcert.estimation.result import Estimate
from fedcert.privacy.keys.identity import Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.keys.signing import sign
from fedcert.report import DEFAULT_RADII, Request, Smoothing, write_whole
from fedcert.report.request import PrivateSum
from fedcert.rounds import Reply, make_request
from fedcert.rounds.private import concluded, private_sums
from fedcert.secagg.threshold import default_threshold


class PrivateFlowerTransport(FlowerTransport):
    """A private round's messages over Flower: a courier.

    Args:
        grid: Flower's.
        weights: of the model.
        request: what is asked.
    """

    def __init__(self, grid: Grid, weights: ArrayRecord, request: Request) -> None:
        super().__init__(grid, weights)
        self.request = request
        self._letters: dict[str, str] = {}
        self._under_way: dict[str, str] = {}

    def tell(self, stage: int, letters: Mapping[str, str]) -> None:
        """See `SecAggTransport.tell`."""
        self._letters, self._under_way = dict(letters), {}
        self._send(stage)

    def poll(self, stage: int) -> Iterator[Reply]:  # type: ignore[override]
        """See `SecAggTransport.poll`."""
        self._send(stage)
        for number, message in self._pull(self._under_way):
            name = self._under_way.pop(number)
            texts = record_of(message)
            if message.has_error():
                reason = " ".join((message.error.reason or f"code {message.error.code}").split())
                yield Reply(name, trouble=f"Flower says that its node failed: {reason}")
            elif "said" in texts:
                yield Reply(name, answer=texts["said"])
            else:
                yield Reply(name, trouble=texts.get("trouble", "its reply holds no message"))

    def _send(self, stage: int) -> None:
        """Send what has not been sent, to those who are there; who comes later gets it then."""
        seconds = max(60.0, seconds_left(self.request))
        self._call_roll(seconds)
        due = {name: node for name in self._letters if (node := self._node(name)) is not None}
        messages = []
        for name, node in due.items():
            texts = {"ask": "private", "request": self.request.dumps()}
            if stage:
                messages.append(self._message(node, {**texts, "told": self._letters[name]}, seconds))
            else:
                messages.append(self._message(node, texts, seconds, **{ARRAYS: self.weights}))
        for name, number in zip(due, self._push(messages), strict=True):
            self._under_way[number] = name
            del self._letters[name]


def certify_privately(
    grid: Grid,
    model: Any,
    arrays: ArrayRecord | None = None,
    *,
    classes: Sequence[str],
    smoothing: Smoothing | float,
    roster: Sequence[str],
    keys: Identity,
    trusted: Keyring,
    threshold: int | None = None,
    moments: bool = False,
    spread: bool = False,
    fewest_holders: int | None = None,
    seconds: float = 600.0,
    patience: float = 120.0,
    run: str | Path | None = None,
    target: object = None,
    method: str = "auto",
    radii: Sequence[float] = DEFAULT_RADII,
    **settings: Any,
) -> Estimate:
    """Have the clients certify a model, and estimate from the sums of their counts alone.

    The server gets each client's counts under masks, which cancel in the sum; it never has one client's own.

    Args:
        grid: Flower's, as a ServerApp gets it.
        model: the global model, a torch module; it is not changed.
        arrays: its weights; the module's own where None.
        classes: names in index order.
        smoothing: how to smooth and certify; a number is sigma.
        roster: the clients' names, as in their keys.
        keys: the coordinator's, which sign the request.
        trusted: public keys of everybody on the roster.
        threshold: the fewest clients that the sum may be over; where None, more than two thirds.
        moments: sum what BLUP needs, too.
        spread: a second sum, for an interval that allows for clients that differ.
        fewest_holders: leave classes out that fewer clients hold; a sum before tells how many do.
        seconds: for certification.
        patience: seconds for each exchange after it.
        run: a folder that keeps what is needed to go on after a stop, the sums and the estimate.
        target, method, settings: of `fedcert.estimate`.
        radii: at which radii to count.

    Raises:
        QuorumMissed: too few took part or stayed; nothing is known of anybody's numbers.
        CallError: settings that do not go together, a folder of another request.
        EstimationProblem: no estimate follows from the sums.
    """
    weights, digest = weights_of(model, arrays)
    wanted = smoothing if isinstance(smoothing, Smoothing) else Smoothing.defaults(smoothing)
    private = PrivateSum(
        threshold=threshold or default_threshold(len(roster), squares=moments or spread),
        moments=moments,
        spread=spread,
        fewest_holders=fewest_holders,
    )
    folder = None if run is None else Path(run)
    asked = make_request(digest, wanted, classes, radii=radii, roster=roster, seconds=seconds, private=private)
    request = _kept(folder, asked)
    if request is None:
        request = sign(asked, keys)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / "request.json", request.dumps())
    mail = PrivateFlowerTransport(grid, weights, request)
    sums, missing = private_sums(
        mail, request, trusted, folder=None if folder is None else folder / "sum", patience=patience, sleep=time.sleep,
    )  # fmt: skip
    if sums is None:
        raise QuorumMissed("the private sum is not done")
    made = concluded(sums, request, missing, target, method, **settings)
    if folder is not None:
        write_whole(folder / "sums.json", sums.dumps())
        write_whole(folder / "estimate.json", made.dumps())
    return draw_estimate(made, folder)


def _kept(folder: Path | None, asked: Request) -> Request | None:
    """The request of an earlier run that asked the same."""
    if folder is None or kind_of_path(folder / "request.json") is None:
        return None
    found: Request = read_record(folder / "request.json", Request)
    for name in ("model", "roster", "classes", "smoothing", "radii", "private"):
        if getattr(found, name) != getattr(asked, name):
            raise CallError(f"the folder {str(folder)!r} is of a round with another {name}; name another folder")
    return found
