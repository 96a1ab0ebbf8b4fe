"""Private sums over a folder that coordinator and clients share, or whose files people carry.

shared/
  to/<client>/<stage>.json      the coordinator's message to a client
  from/<client>/<stage>.json    the client's answer; or `<stage>-trouble.json`, why there is none
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from fedcert._files.documents import LARGEST_DOCUMENT, parse
from fedcert._files.paths import display_path, kind_of_path
from fedcert.errors import CallError, FedcertError, FileProblem
from fedcert.report import Request, write_whole
from fedcert.rounds.folder import file_name
from fedcert.rounds.transport import Reply
from fedcert.secagg.messages import CLIENT_MESSAGES
from fedcert.secagg.participant import Participant, public_reason

_PAUSE = 0.5
"""Seconds between two looks into the folder, which may be on a network drive."""
_TORN = 30.0
"""Seconds after which a file that is no JSON will not become one: a drive that synchronises takes less for a file."""


class FolderTransport:
    """The coordinator's side.

    Args:
        path: the shared folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stage, self._names = 0, set[str]()
        self._taken: set[Path] = set()

    def names(self, seconds: float) -> tuple[set[str], bool]:  # noqa: ARG002
        """See `Transport.names`: of the clients that were sent a message, those that have written something."""
        return {name for name in self._names if kind_of_path(_place(self.path, "from", name)) is not None}, True

    def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:  # noqa: ARG002
        """See `Transport.send`."""
        self._stage, self._names = stage, set(messages)
        for name, message in messages.items():
            if stage:  # the request reaches clients by another way
                _write(_place(self.path, "to", name) / f"{stage}.json", message)

    def poll(self, waiting_for: Collection[str]) -> Iterator[Reply]:
        """See `Transport.poll`."""
        for name in sorted(self._names & set(waiting_for)):
            folder = _place(self.path, "from", name)
            answer, failure = folder / f"{self._stage}.json", folder / f"{self._stage}-trouble.json"
            if answer not in self._taken and _arrived(answer):
                self._taken.add(answer)
                yield Reply(name, answer=_read(answer))
            elif failure not in self._taken and _arrived(failure):
                self._taken.add(failure)
                yield Reply(name, failure=_reason_in(failure))


def take_part(
    path: Path,
    name: str,
    begin: Callable[[], Participant],
    *,
    seconds: float = 3600.0,
    once: bool = False,
    notify: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """A client's side: answer each message, until the sum is done.

    A client that starts again goes on where it was.

    Args:
        path: the shared folder.
        name: this client's.
        begin: makes the client ready; may take its time.
        seconds: how long to wait for each next step.
        once: do what can be done now, and come back later.
        notify: called with what is going on.
        sleep: how to pause.

    Returns:
        Whether this client has done its part.

    Raises:
        Refused: the client does not go on; the reason is in the folder for the coordinator.
        FileProblem: the folder cannot be used, or the coordinator was silent for too long.
    """
    incoming, outgoing = _place(path, "to", name), _place(path, "from", name)
    stage = 0
    try:
        site = begin()
        _check_folder(outgoing / "0.json", site.session)
        for stage in range(_stages(site.request)):
            answer = outgoing / f"{stage}.json"
            if kind_of_path(answer) is not None:
                continue
            question = incoming / f"{stage}.json"
            if stage and not _comes(question, 0.0 if once else seconds, sleep):
                if once:
                    notify(f"waiting for {display_path(question)}")
                    return False
                raise _Silent(
                    f"the coordinator did not write {display_path(question)} within {seconds:g} s; run the same "
                    "command again to go on"
                )
            _write(answer, site.join() if stage == 0 else site.reply(_read(question)))
            (outgoing / f"{stage}-trouble.json").unlink(missing_ok=True)  # of an earlier try
            notify(f"wrote {display_path(answer)}")
    except (_Silent, _OtherSum):  # nothing is wrong with this client
        raise
    except FedcertError as error:
        _write(outgoing / f"{stage}-trouble.json", json.dumps({"trouble": public_reason(error)}))
        raise
    return True


class _Silent(FileProblem):
    """The coordinator has not written the next message."""


def _check_folder(first: Path, session: str) -> None:
    """Check that what this client wrote before is of this sum.

    Raises:
        CallError: the folder is of another one.
    """
    if kind_of_path(first) == "a file":
        message = parse(_read(first), display_path(first))
        if not isinstance(message, dict) or message.get("session") != session:
            raise _OtherSum(f"{display_path(first)} is of another private sum; use an empty folder for each")


class _OtherSum(CallError):
    """The folder holds another sum."""


def _stages(request: Request) -> int:
    """Messages that a client sends: as many for each of the request's secure aggregations."""
    private = request.private
    sums = 1 if private is None else 1 + (private.fewest_holders is not None) + private.spread
    return len(CLIENT_MESSAGES) * sums


def _comes(file: Path, seconds: float, sleep: Callable[[float], None]) -> bool:
    until = time.monotonic() + seconds
    while not _arrived(file):
        if time.monotonic() >= until:
            return False
        sleep(_PAUSE)
    return True


def _arrived(file: Path) -> bool:
    """Whether a file is complete: drives that synchronise show the beginning of one for a while."""
    if kind_of_path(file) != "a file":
        return False
    try:
        parse(_read(file), display_path(file))
    except FedcertError:
        return time.time() - file.stat().st_mtime > _TORN
    return True


def _place(path: Path, way: str, name: str) -> Path:
    if kind_of_path(path) != "a folder":
        raise CallError(f"there is no folder {display_path(path)}; make it, where coordinator and sites can reach it")
    return path / way / Path(file_name(name)).stem


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileProblem(f"cannot make the folder {display_path(file.parent)}: {error.strerror or error}") from None
    write_whole(file, text)


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(LARGEST_DOCUMENT).decode(errors="replace")
    except OSError as error:
        raise FileProblem(f"cannot read {display_path(file)}: {error.strerror or error}") from None


def _reason_in(file: Path) -> str:
    try:
        document = parse(_read(file), display_path(file))
    except FedcertError:
        return "it gave no reason"
    reason = document.get("trouble") if isinstance(document, dict) else None
    return reason if isinstance(reason, str) and reason else "it gave no reason"
