"""What a round's messages hold: one record of text, and the weights.

server -> client    {"fedcert": {"ask": "name"}}
client -> server    {"fedcert": {"name": …}}
server -> client    {"fedcert": {"ask": "report", "request": …}, "arrays": weights}
client -> server    {"fedcert": {"name": …, "report": …}}  or  {"fedcert": {"name": …, "trouble": …}}
"""

from __future__ import annotations

from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from fedcert.errors import ModelProblem

KEY = "fedcert"
ARRAYS = "arrays"
KIND = "query.certify"


def record_of(message: Message) -> dict[str, str]:
    """The texts of a message; empty where it has none."""
    if not message.has_content():
        return {}
    record = message.content.config_records.get(KEY, {})
    return {str(name): value for name, value in record.items() if isinstance(value, str)}


def content_of(texts: dict[str, str], **records: Any) -> RecordDict:
    """A message's content."""
    return RecordDict({KEY: ConfigRecord(dict(texts)), **records})


def loaded(model: Any, arrays: ArrayRecord) -> Any:
    """A torch module with weights loaded into it.

    Raises:
        ModelProblem: they do not fit.
    """
    try:
        model.load_state_dict(arrays.to_torch_state_dict(), strict=True)
    except (RuntimeError, AttributeError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelProblem(f"the weights do not fit the model: {reason}") from None
    return model
