"""What a round's messages hold: one record of text, and the weights.

server -> client    {"fedcert": {"ask": "name"}}
client -> server    {"fedcert": {"name": …}}
server -> client    {"fedcert": {"ask": "report", "request": …}, "arrays": weights}
client -> server    {"fedcert": {"name": …, "report": …}}  or  {"fedcert": {"name": …, "trouble": …}}

in a private sum:
server -> client    {"fedcert": {"ask": "private", "request": …}, "arrays": weights}
server -> client    {"fedcert": {"ask": "private", "request": …, "told": …}}
client -> server    {"fedcert": {"name": …, "said": …}}  or  {"fedcert": {"name": …, "trouble": …}}
"""

from __future__ import annotations

from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict

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
