"""A client's keys, and whose requests it answers: what its name and its report are proven with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fedcert.errors import CallError, preview
from fedcert.privacy.given_keys import given_identity, given_keyring
from fedcert.privacy.keys.name_proof import name_proof

if TYPE_CHECKING:
    from fedcert.privacy.keys.identity import Identity
    from fedcert.privacy.keys.keyring import Keyring
    from fedcert.secagg.participant import ParticipantConfig


@dataclass(frozen=True)
class Credentials:
    """What a client proves its name and signs with, and whose requests it answers.

    Attributes:
        identity: its own keys; it signs nothing where None.
        keyring: whose requests for reports it answers; anyone's where None.
    """

    identity: Identity | None = None
    keyring: Keyring | None = None

    @classmethod
    def given(
        cls,
        name: str | None,
        keys: Identity | str | Path | None,
        trusted: Keyring | str | Path | None,
        participant: ParticipantConfig | None,
    ) -> Self:
        """Credentials as callers have them.

        Args:
            name: the client's, where it has one already.
            keys: its own, or their file.
            trusted: a keyring, or its file.
            participant: has keys of its own.

        Raises:
            CallError: they do not go together, or a file cannot be used.
            MissingExtra: cryptography is not installed.
        """
        if participant is not None:
            if keys is not None or trusted is not None:
                raise CallError("a participant has keys and a keyring of its own; leave keys and trusted out")
            return cls(participant.identity)
        identity = None if keys is None else given_identity(keys, "keys")
        if identity is not None and name is not None and identity.name != name:
            raise CallError(
                f"the keys are those of {preview(identity.name)}, but this client is {preview(name)}; give it keys in "
                "its own name (fedcert keys new)"
            )
        return cls(identity, None if trusted is None else given_keyring(trusted, "trusted"))

    @property
    def name(self) -> str | None:
        """The name of the keys; None where there are none."""
        return None if self.identity is None else self.identity.name

    def proof_of_name(self, challenge: str | None, place: str) -> dict[str, str]:
        """What is added to the reply to the question for this client's name; nothing where there are no keys.

        Args:
            challenge: of the question; None where it has none.
            place: where the question was received.
        """
        if self.identity is None or challenge is None:
            return {}
        return {"proof": name_proof(self.identity, challenge, place)}
