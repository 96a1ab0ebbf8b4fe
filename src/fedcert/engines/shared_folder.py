"""Private sums over a folder that coordinator and sites share, or whose files people carry.

shared/
  to/<site>/<stage>.json        what a site is told
  from/<site>/<stage>.json      what it says; or <stage>-trouble.json, why it says nothing
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from fedcert._files.documents import LARGEST_DOCUMENT
from fedcert._files.paths import display_path, kind_of_path
from fedcert._files.strict_json import parse
from fedcert.errors import CallError, FedcertError, FileProblem
from fedcert.report import Request, write_whole
from fedcert.rounds.folder import file_name
from fedcert.rounds.waiting import Reply
from fedcert.secagg.participant import CLIENT_MESSAGES, Participant, public_reason

_PAUSE = 0.5
_TORN = 30.0
"""Seconds after which a file that is no JSON will not become one."""


class FolderTransport:
    """The coordinator's side: a courier.

    Args:
        path: the shared folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names: set[str] = set()
        self._heard: set[Path] = set()

    def tell(self, stage: int, letters: Mapping[str, str]) -> None:
        """See `SecAggTransport.tell`."""
        self._names = set(letters)
        for name, text in letters.items():
            if stage:  # the request travels by itself
                _write(_place(self.path, "to", name) / f"{stage}.json", text)

    def poll(self, stage: int) -> Iterator[Reply]:
        """See `SecAggTransport.poll`."""
        for name in sorted(self._names):
            folder = _place(self.path, "from", name)
            said, trouble = folder / f"{stage}.json", folder / f"{stage}-trouble.json"
            if said not in self._heard and _arrived(said):
                self._heard.add(said)
                yield Reply(name, answer=_read(said))
            elif trouble not in self._heard and _arrived(trouble):
                self._heard.add(trouble)
                yield Reply(name, trouble=_why(trouble))


def take_part(
    path: Path,
    name: str,
    begin: Callable[[], Participant],
    *,
    seconds: float = 3600.0,
    once: bool = False,
    told: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """A site's side: say what is to be said, until the sum is done.

    A site that starts again goes on where it was.

    Args:
        path: the shared folder.
        name: this site's.
        begin: makes the site ready; may take its time.
        seconds: how long to wait for each next step.
        once: do what can be done now, and come back later.
        told: called with what is going on.
        sleep: how to pause.

    Returns:
        Whether this site has done its part.

    Raises:
        Refused: the site does not go on; the coordinator is told why.
        FileProblem: the folder cannot be used, or the coordinator was silent for too long.
    """
    coming, going = _place(path, "to", name), _place(path, "from", name)
    stage = 0
    try:
        site = begin()
        _check_folder(going / "0.json", site.session)
        for stage in range(_stages(site.request)):
            said = going / f"{stage}.json"
            if kind_of_path(said) is not None:
                continue
            question = coming / f"{stage}.json"
            if stage and not _there(question, 0.0 if once else seconds, sleep):
                if once:
                    told(f"waiting for {display_path(question)}")
                    return False
                raise _Silent(
                    f"the coordinator did not write {display_path(question)} within {seconds:g} s; run the same "
                    "command again "
                    "to go on"
                )
            _write(said, site.join() if stage == 0 else site.reply(_read(question)))
            (going / f"{stage}-trouble.json").unlink(missing_ok=True)  # of an earlier try
            told(f"wrote {display_path(said)}")
    except (_Silent, _OtherSum):  # nothing is wrong with this site
        raise
    except FedcertError as error:
        _write(going / f"{stage}-trouble.json", json.dumps({"trouble": public_reason(error)}))
        raise
    return True


class _Silent(FileProblem):
    """The coordinator has not said what comes next."""


def _check_folder(first: Path, session: str) -> None:
    """Check that what this site said before is of this sum.

    Raises:
        CallError: the folder is of another one.
    """
    if kind_of_path(first) == "a file":
        found = parse(_read(first), display_path(first))
        if not isinstance(found, dict) or found.get("session") != session:
            raise _OtherSum(f"{display_path(first)} is of another private sum; use an empty folder for each")


class _OtherSum(CallError):
    """The folder holds another sum."""


def _stages(request: Request) -> int:
    """Messages that a site sends: as many for each of the request's sums."""
    private = request.private
    sums = 1 if private is None else 1 + (private.fewest_holders is not None) + private.spread
    return len(CLIENT_MESSAGES) * sums


def _there(file: Path, seconds: float, sleep: Callable[[float], None]) -> bool:
    until = time.monotonic() + seconds
    while not _arrived(file):
        if time.monotonic() >= until:
            return False
        sleep(_PAUSE)
    return True


def _arrived(file: Path) -> bool:
    """Whether a file is there as a whole: drives that synchronise show the beginning of one for a while."""
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


def _why(file: Path) -> str:
    try:
        found = parse(_read(file), display_path(file))
    except FedcertError:
        return "it gave no reason"
    why = found.get("trouble") if isinstance(found, dict) else None
    return why if isinstance(why, str) and why else "it gave no reason"
