"""How messages travel between the coordinator and the clients: one interface for reports and for private sums."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from fedcert._schema.readable import deceives
from fedcert.report import Request

_LONGEST_REASON = 500
"""Characters of a reason that are kept: some sentences, and no flood in logs and estimates."""


@dataclass(frozen=True)
class Reply:
    """What a transport delivers from, or about, a client.

    Attributes:
        client: who it is from, as the transport knows.
        answer: the client's message (a report as JSON, in a round for reports); None where there is none.
        failure: why there is none.
        conflict: why it is unclear which sender is this client, which has answered.
        rejoined: it was lost, is back, and has been sent its message again.
    """

    client: str
    answer: str | bytes | None = None
    failure: str | None = None
    conflict: str | None = None
    rejoined: bool = False


class Transport(Protocol):
    """Moves the messages of a round, and decides nothing.

    A round has stages. In each, the coordinator sends every client one message and the client answers with one. A round
    for reports is the case of a single stage, 0, whose message is the request and whose answers are reports. A private
    sum has five stages for each secure aggregation, numbered on; its first message is the request, too. The model's
    weights go with the messages of stage 0.
    """

    def names(self, seconds: float) -> tuple[set[str], bool]:
        """Clients that are present by now, and whether all who are present have given their names.

        Args:
            seconds: how long answers are waited for; 0 asks nothing new.
        """
        ...

    def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
        """Begin a stage: hand over a message for each client. Clients that are not present get theirs when they come.

        It may be called again with the same messages by a coordinator that was restarted.
        """
        ...

    def poll(self, waiting_for: Collection[str]) -> Iterable[Reply]:
        """Replies since the last call.

        Args:
            waiting_for: clients whose answer of this stage is still awaited; one that has come or come back since is
                sent its message now.
        """
        ...


def single_line(reason: object) -> str:
    """A reason in a client's own words, as one short line without characters that a terminal would act on."""
    text = str(reason)[: 10 * _LONGEST_REASON].replace("\n", " ")
    line = " ".join("".join("�" if deceives(character) else character for character in text).split())
    return (line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…") or "it gave no reason"
