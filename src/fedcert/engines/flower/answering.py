"""The client's side: a query handler's whole work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import Context, Message

from fedcert.certification.run import certify
from fedcert.engines.flower.messages import ARRAYS, content_of, loaded, record_of
from fedcert.engines.flower.version import check_version
from fedcert.errors import DataProblem, FedcertError, ModelProblem
from fedcert.report import Request
from fedcert.report.parsing import parse


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
    check_version()
    texts = record_of(message)
    name = client or name_of(context)
    said = {"name": name}
    if texts.get("ask") == "report":
        try:
            request = Request.from_json(parse(texts.get("request", ""), "the request"))
            arrays = message.content.array_records.get(ARRAYS)
            if arrays is None:
                raise ModelProblem("the server's message has no weights")
            loaded(model, arrays).eval()
            x, y = examples_of(data() if callable(data) else data)
            report = certify(model, x, y, client=name, request=request, class_counts=class_counts, **options)
            said["report"] = report.dumps()
        except FedcertError as error:
            said["trouble"] = str(error)
    return Message(content_of(said), reply_to=message)


def name_of(context: Context) -> str:
    """A client's name by its node's configuration."""
    found = context.node_config.get("client")
    if found is not None:
        return str(found)
    return f"client-{context.node_config.get('partition-id', context.node_id)}"


def examples_of(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Test examples as arrays, from arrays or from batches.

    Raises:
        DataProblem: they are neither.
    """
    if isinstance(data, (tuple, list)) and len(data) == 2 and all(hasattr(part, "shape") for part in data):
        return np.asarray(data[0]), np.asarray(data[1])
    if not isinstance(data, Iterable):
        raise DataProblem(f"data must be (x, y) or batches of them, but is {type(data).__name__}")
    images, labels = [], []
    for batch in data:
        parts = list(batch.values()) if isinstance(batch, Mapping) else list(batch)
        if len(parts) != 2:
            raise DataProblem(f"a batch must hold an image and a label for each example, but has {len(parts)} parts")
        first, second = (np.asarray(part) for part in parts)
        if isinstance(batch, Mapping) and first.ndim == 1 < second.ndim:  # a mapping may name the label first
            first, second = second, first
        images.append(first)
        labels.append(second)
    if not images:
        raise DataProblem("there are no test examples: the data has no batch")
    return np.concatenate(images), np.concatenate(labels)
