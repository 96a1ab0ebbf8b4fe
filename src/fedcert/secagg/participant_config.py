"""What a client needs to take part in private sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fedcert.privacy.keys.identity import Identity, read_identity
from fedcert.privacy.keys.keyring import Keyring, read_keyring
from fedcert.privacy.policy import Policy, read_policy
from fedcert.privacy.state_store import FolderStore
from fedcert.report import Report, Request
from fedcert.secagg.client import MIN_CLIENTS
from fedcert.secagg.participant import Participant


@dataclass(frozen=True)
class ParticipantConfig:
    """A client's keys, memory and rules.

    Attributes:
        identity: its keys.
        keyring: whom it trusts: the other clients and the coordinator.
        memory: a folder of its own, for what it must remember.
        fewest: the fewest clients that it lets a sum be over.
        policy: its rules about what leaves it.
    """

    identity: Identity
    keyring: Keyring
    memory: Path
    fewest: int = MIN_CLIENTS
    policy: Policy = field(default_factory=Policy)

    @classmethod
    def read(
        cls,
        keys: str | Path,
        trusted: str | Path,
        memory: str | Path,
        fewest: int = MIN_CLIENTS,
        policy: str | Path | None = None,
    ) -> ParticipantConfig:
        """From the files that `fedcert keys` made, and the client's rules (.json).

        Raises:
            CallError: a file is not there, or secret keys can be read by others.
            FileProblem: a file cannot be read.
            InvalidValue: it holds something else.
        """
        rules = read_policy(None if policy is None else Path(policy))
        return cls(read_identity(Path(keys)), read_keyring(Path(trusted)), Path(memory), fewest, rules)

    @contextmanager
    def at_work(self, request: Request, report: Callable[[], Report]) -> Iterator[Participant]:
        """The client in a sum; its memory is held meanwhile.

        Raises:
            Refused: it does not take part; the sentence says why.
        """
        memory = FolderStore(self.memory)
        try:
            yield Participant(
                request, self.identity, self.keyring, memory, report, policy=self.policy, fewest=self.fewest
            )
        finally:
            memory.close()
