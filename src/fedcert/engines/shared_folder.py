"""Private sums over a folder that coordinator and clients share, or whose files people carry.

shared/
  to/<client>/<stage>.json      the coordinator's message to a client
  from/<client>/<stage>.json    the client's answer; or `<stage>-trouble.json`, why there is none

Anyone who can write to the folder may plant links, or other folders in place of these: nothing below it is followed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from fedcert._files.documents import LARGEST_DOCUMENT, parse
from fedcert._files.open_folder import PlantedFile
from fedcert._files.paths import display_path, kind_of_path
from fedcert._files.shared import SharedFolder
from fedcert.errors import CallError, FedcertError, FileProblem
from fedcert.report import Request
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
        self.path, self._files = path, SharedFolder(path)
        self._stage, self._names = 0, set[str]()
        self._taken: set[Path] = set()
        self._unsent: dict[str, str] = {}
        self._planted: dict[str, str] = {}

    def names(self, seconds: float) -> tuple[set[str], bool]:  # noqa: ARG002
        """See `Transport.names`: of the clients that were sent a message, those that have written something."""
        return {name for name in self._names if self._files.kind(_place(self.path, "from", name)) is not None}, True

    def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:  # noqa: ARG002
        """See `Transport.send`. A client whose place is taken by a link, say, has failed."""
        self._stage, self._names = stage, set(messages)
        self._planted.clear()
        for name, message in messages.items():
            if stage:  # the request reaches clients by another way
                try:
                    self._files.write(_place(self.path, "to", name) / f"{stage}.json", message)
                except PlantedFile as error:
                    self._unsent[name] = str(error)

    def poll(self, waiting_for: Collection[str]) -> Iterator[Reply]:
        """See `Transport.poll`. A client in whose place there is a link, say, has failed until it is gone."""
        for name in sorted(self._names & set(waiting_for)):
            folder = _place(self.path, "from", name)
            answer, failure = folder / f"{self._stage}.json", folder / f"{self._stage}-trouble.json"
            try:
                if answer not in self._taken and _arrived(self._files, answer):
                    self._taken.add(answer)
                    yield Reply(name, answer=_read(self._files, answer))
                elif failure not in self._taken and _arrived(self._files, failure):
                    self._taken.add(failure)
                    yield Reply(name, failure=_reason_in(self._files, failure))
                elif name in self._unsent:
                    yield Reply(name, failure=self._unsent.pop(name))
            except PlantedFile as error:
                if self._planted.get(name) != str(error):  # once, not at every look
                    self._planted[name] = str(error)
                    yield Reply(name, failure=str(error))


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
    files, incoming, outgoing = SharedFolder(path), _place(path, "to", name), _place(path, "from", name)
    stage = 0
    try:
        site = begin()
        _check_folder(files, outgoing / "0.json", site.session)
        for stage in range(_stages(site.request)):
            answer = outgoing / f"{stage}.json"
            if files.has_file(answer):
                continue
            question = incoming / f"{stage}.json"
            if stage and not _comes(files, question, 0.0 if once else seconds, sleep):
                if once:
                    notify(f"waiting for {display_path(question)}")
                    return False
                raise _Silent(
                    f"the coordinator did not write {display_path(question)} within {seconds:g} s; run the same "
                    "command again to go on"
                )
            files.write(answer, site.join() if stage == 0 else site.reply(_read(files, question)))
            files.remove(outgoing / f"{stage}-trouble.json")  # of an earlier try
            notify(f"wrote {display_path(answer)}")
    except (_Silent, _OtherSum):  # nothing is wrong with this client
        raise
    except FedcertError as error:
        with suppress(FileProblem):  # what ended the work is to be read here
            files.write(outgoing / f"{stage}-trouble.json", json.dumps({"trouble": public_reason(error)}))
        raise
    return True


class _Silent(FileProblem):
    """The coordinator has not written the next message."""


def _check_folder(files: SharedFolder, first: Path, session: str) -> None:
    """Check that what this client wrote before is of this sum.

    Raises:
        CallError: the folder is of another one.
    """
    if files.has_file(first):
        message = parse(_read(files, first), display_path(first))
        if not isinstance(message, dict) or message.get("session") != session:
            raise _OtherSum(f"{display_path(first)} is of another private sum; use an empty folder for each")


class _OtherSum(CallError):
    """The folder holds another sum."""


def _stages(request: Request) -> int:
    """Messages that a client sends: as many for each of the request's secure aggregations."""
    private = request.private
    sums = 1 if private is None else 1 + (private.fewest_holders is not None) + private.spread
    return len(CLIENT_MESSAGES) * sums


def _comes(files: SharedFolder, file: Path, seconds: float, sleep: Callable[[float], None]) -> bool:
    until = time.monotonic() + seconds
    while not _arrived(files, file):
        if time.monotonic() >= until:
            return False
        sleep(_PAUSE)
    return True


def _arrived(files: SharedFolder, file: Path) -> bool:
    """Whether a file is complete: drives that synchronise show the beginning of one for a while."""
    if not files.has_file(file):
        return False
    with files.reading(file) as opened:
        content, written = opened.read(LARGEST_DOCUMENT), os.fstat(opened.fileno()).st_mtime
    try:
        parse(content, display_path(file))
    except FedcertError:
        return time.time() - written > _TORN
    return True


def _place(path: Path, way: str, name: str) -> Path:
    if kind_of_path(path) != "a folder":
        raise CallError(f"there is no folder {display_path(path)}; make it, where coordinator and sites can reach it")
    return path / way / Path(file_name(name)).stem


def _read(files: SharedFolder, file: Path) -> str:
    return files.read(file).decode(errors="replace")


def _reason_in(files: SharedFolder, file: Path) -> str:
    text = _read(files, file)
    try:
        document = parse(text, display_path(file))
    except FedcertError:
        return "it gave no reason"
    reason = document.get("trouble") if isinstance(document, dict) else None
    return reason if isinstance(reason, str) and reason else "it gave no reason"
