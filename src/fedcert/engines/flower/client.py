"""The client's side: a query handler's whole work.

Messages of a round hold one record of text, and the weights:

server -> client    {"fedcert": {"ask": "name", "challenge": …}}
client -> server    {"fedcert": {"name": …}}  or, with keys,  {"fedcert": {"name": …, "proof": …}}
server -> client    {"fedcert": {"ask": "report", "request": …}, "arrays": weights}
client -> server    {"fedcert": {"name": …, "report": …}}  or  {"fedcert": {"name": …, "trouble": …}}

in a private sum:
server -> client    {"fedcert": {"ask": "private", "request": …}, "arrays": weights}
server -> client    {"fedcert": {"ask": "private", "request": …, "step": …}}
client -> server    {"fedcert": {"name": …, "answer": …}}  or  {"fedcert": {"name": …, "trouble": …}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flwr.app import ConfigRecord, Context, Message, RecordDict

from fedcert.engines.client import PRIVATE, REPORT, reply_to, unable
from fedcert.engines.credentials import Credentials
from fedcert.errors import FedcertError

if TYPE_CHECKING:
    from pathlib import Path

    from fedcert.privacy.keys.identity import Identity
    from fedcert.privacy.keys.keyring import Keyring
    from fedcert.privacy.policy import Policy
    from fedcert.secagg.participant import ParticipantConfig

KEY, ARRAYS, KIND = "fedcert", "arrays", "query.certify"


def answer(
    message: Message,
    context: Context,
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
) -> Message:
    """Answer a server's certification message; for a handler of `@app.query("certify")`.

    The weights in the message are loaded into the model, and the digest in the report is that of the model as it was
    then certified. What goes wrong reaches the server in one sentence.

    Args:
        message: the server's.
        context: Flower's.
        model: a torch module of the right architecture.
        data: this client's test examples: (x, y), an iterable of batches (a DataLoader) of such pairs or of mappings
            with an image and a label, or a function without arguments that gives either.
        client: this client's name; where None, that of its keys, `client` in the node's configuration, or
            "client-<partition-id>".
        keys: this client's own, or their file (`fedcert keys new`): it proves its name and signs its report with them.
        trusted: whose requests for reports it answers: a keyring, or its file; anyone's where None.
        class_counts: give counts per class too; where None, if the request asks for them and the policy allows.
        participant: this client's keys and memory; with them it takes part in private sums, and in nothing else.
        policy: this client's rules about what leaves it; with a participant, in place of the participant's own.
        options: of `fedcert.certify` (seed, device, batch_size, every, …).
    """
    texts = record_of(message)
    try:
        own = Credentials.given(client, keys, trusted, participant)
    except FedcertError as error:
        return Message(content_of(unable(client or name_of(context), error)), reply_to=message)
    name, asked = own.name or client or name_of(context), texts.get("ask")
    if asked not in (REPORT, PRIVATE):
        proof = own.proof_of_name(texts.get("challenge"), str(message.metadata.dst_node_id))
        return Message(content_of({"name": name} | proof), reply_to=message)

    def weights() -> Any:
        arrays = message.content.array_records.get(ARRAYS)
        return None if arrays is None else arrays.to_torch_state_dict()

    reply = reply_to(
        asked, texts.get("request", ""), texts.get("step"), model, weights, data, name,
        credentials=own, class_counts=class_counts, participant=participant, policy=policy, **options,
    )  # fmt: skip
    return Message(content_of(reply), reply_to=message)


def name_of(context: Context) -> str:
    """A client's name by its node's configuration."""
    name = context.node_config.get("client")
    return f"client-{context.node_config.get('partition-id', context.node_id)}" if name is None else str(name)


def record_of(message: Message) -> dict[str, str]:
    """The texts of a message; empty where it has none."""
    if not message.has_content():
        return {}
    record = message.content.config_records.get(KEY, {})
    return {str(name): value for name, value in record.items() if isinstance(value, str)}


def content_of(texts: dict[str, str], **records: Any) -> RecordDict:
    """A message's content."""
    return RecordDict({KEY: ConfigRecord(dict(texts)), **records})
