"""Signatures over records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedcert._schema.canonical import canonical_json
from fedcert._schema.declare import required
from fedcert._schema.field_types import Pattern
from fedcert._schema.record import Record


@dataclass(frozen=True, kw_only=True)
class Signature(Record):
    """An Ed25519 signature.

    Attributes:
        key: the public key that checks it, in base64.
        value: the signature, in base64.
    """

    NOUN: ClassVar[str] = "signature"

    key: str = required(Pattern("32 bytes as base64", "[A-Za-z0-9+/]{43}="))
    value: str = required(Pattern("64 bytes as base64", "[A-Za-z0-9+/]{86}=="))


def signed_text(value: Record) -> bytes:
    """The bytes that are signed: the value's schema and all of its fields but the signature, as canonical JSON."""
    return b"fedcert signature 1\n" + canonical(value)


def canonical(value: Record) -> bytes:
    """A value without its signature as canonical JSON (RFC 8785)."""
    document = value.to_json()
    document.pop("signature", None)
    return canonical_json(document)
