"""The client's side: a query handler's whole work."""

from __future__ import annotations

from typing import Any

from flwr.app import Context, Message

from fedcert.engines.answering import answered
from fedcert.engines.flower.messages import ARRAYS, content_of, record_of


def answer(
    message: Message,
    context: Context,
    model: Any,
    data: Any,
    *,
    client: str | None = None,
    class_counts: bool = False,
    **options: Any,
) -> Message:
    """Answer a server's certification message; for a handler of `@app.query("certify")`.

    The weights in the message are loaded into the model, and the digest in the report is that of the model as it was
    then certified. What goes wrong is told to the server in one sentence.

    Args:
        message: the server's.
        context: Flower's.
        model: a torch module of the right architecture.
        data: this client's test examples: (x, y), an iterable of batches (a DataLoader) of such pairs or of mappings
            with an image and a label, or a function without arguments that gives either.
        client: this client's name; where None, `client` in the node's configuration, or "client-<partition-id>".
        class_counts: tell counts per class too: more precise, reveals more.
        options: of `fedcert.certify` (seed, device, batch_size, every, …).
    """
    texts = record_of(message)
    name = client or name_of(context)
    if texts.get("ask") != "report":
        return Message(content_of({"name": name}), reply_to=message)

    def weights() -> Any:
        arrays = message.content.array_records.get(ARRAYS)
        return None if arrays is None else arrays.to_torch_state_dict()

    said = answered(texts.get("request", ""), model, weights, data, name, class_counts=class_counts, **options)
    return Message(content_of(said), reply_to=message)


def name_of(context: Context) -> str:
    """A client's name by its node's configuration."""
    found = context.node_config.get("client")
    if found is not None:
        return str(found)
    return f"client-{context.node_config.get('partition-id', context.node_id)}"
