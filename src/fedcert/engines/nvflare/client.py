"""The client's side: what a script of NVFlare's client API sends back.

Messages of a round are in the meta data of an `FLModel`:

server -> client    {"fedcert": request}, with the weights as parameters
client -> server    {"fedcert": {"name": …, "report": …}}  or  {"fedcert": {"name": …, "trouble": …}}

in a private sum:
server -> client    {"fedcert": request, "fedcert-ask": "private"}, with the weights as parameters
server -> client    {"fedcert": request, "fedcert-ask": "private", "fedcert-message": …}
client -> server    {"fedcert": {"name": …, "answer": …}}  or  {"fedcert": {"name": …, "trouble": …}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import nvflare.client as flare
from nvflare.app_common.abstract.fl_model import FLModel

from fedcert.engines.client import REPORT, ReplyTexts, reply_to, unable
from fedcert.engines.credentials import Credentials
from fedcert.errors import FedcertError

if TYPE_CHECKING:
    from pathlib import Path

    from fedcert.privacy.keys.identity import Identity
    from fedcert.privacy.keys.keyring import Keyring
    from fedcert.privacy.policy import Policy
    from fedcert.secagg.participant import ParticipantConfig

KEY, ASK, MESSAGE = "fedcert", "fedcert-ask", "fedcert-message"


def answer(
    received: FLModel,
    model: Any,
    data: Any,
    *,
    client: str | None = None,
    keys: Identity | str | Path | None = None,
    trusted: Keyring | str | Path | None = None,
    class_counts: bool | None = None,
    participant: ParticipantConfig | None = None,
    policy: Policy | None = None,
    **options: Any,
) -> FLModel | None:
    """Answer a server's certification message: send what this gives. None where the message asks for no certification.

    Args:
        received: what `flare.receive()` gave.
        model: a torch module of the right architecture.
        data: this client's test examples: (x, y), a DataLoader, or a function that gives either.
        client: this client's name; its site's where None, which is the only one that the server takes.
        keys: this client's own, in its site's name, or their file (`fedcert keys new`): it signs its report with them.
        trusted: whose requests for reports it answers: a keyring, or its file; anyone's where None.
        class_counts: give counts per class too; where None, if the request asks for them and the policy allows.
        participant: this client's keys and memory; with them it takes part in private sums, and in nothing else. Its
            keys are in its site's name.
        policy: this client's rules about what leaves it (`fedcert.privacy.policy.Policy`); with a participant, in place
            of the participant's own.
        options: of `fedcert.certify`.
    """
    meta = received.meta or {}
    request = meta.get(KEY)
    if not isinstance(request, str):
        return None

    def weights() -> Any:
        import torch

        arrays = received.params
        return {name: torch.as_tensor(value) for name, value in arrays.items()} if arrays else None

    name = participant.identity.name if participant is not None else client or flare.get_site_name()
    try:
        own = Credentials.given(name, keys, trusted, participant)
    except FedcertError as error:
        return _message(unable(name, error))
    reply = reply_to(
        meta.get(ASK, REPORT), request, meta.get(MESSAGE), model, weights, data, name,
        credentials=own, class_counts=class_counts, participant=participant, policy=policy, **options,
    )  # fmt: skip
    return _message(reply)


def _message(reply: ReplyTexts) -> FLModel:
    # NVFlare wants numbers to look at; the texts are in the meta data.
    return FLModel(metrics={"certified": float("trouble" not in reply)}, meta={KEY: reply})
