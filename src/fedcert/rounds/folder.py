"""A run on disk: nothing that arrived is lost, whichever process dies.

run/
  request.json      what was asked
  reports/          each report that was taken, as it arrived
  sum/              each client's messages of a private sum, and which stages are over
  sums.json         the result of a private sum
  replaced/         reports that corrected ones replaced
  withdrawn/        reports that were withdrawn
  settings.json     the target and the settings of the estimate, for the next one
  estimate.json     the estimate
  estimate.png      its figure
  estimates/        earlier estimates and their figures, numbered
  log.ndjson        what happened, line by line
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import quote

from fedcert._files.documents import parse
from fedcert._files.locks import take_lock
from fedcert._files.paths import display_path, kind_of_path
from fedcert.errors import CallError, FedcertError, FedcertWarning, FileProblem
from fedcert.estimation.files import write_estimate
from fedcert.estimation.result import Estimate
from fedcert.report import Report, Request, Sums, read_record, write_whole

_LONGEST = 80
"""Characters of a client's name in a file's name; with hash and suffix that stays below every system's limit."""


class RunFolder:
    """A run's folder, held by one process at a time.

    Args:
        path: the folder; made if need be.
        request: what is asked; None goes on with the request that is there.
        messages: the subfolder for messages of private sums; "" puts them beside the request.

    Raises:
        CallError: another process holds the folder, it has another request, or none where one is needed.
        FileProblem: it cannot be made, read or written.
    """

    def __init__(self, path: Path, request: Request | None = None, *, messages: str = "sum") -> None:
        self.path = path
        self.reports_path = path / "reports"
        self.estimate_path = path / "estimate.json"
        self._messages_path = path / messages
        if request is None and kind_of_path(path / "request.json") is None:
            raise CallError(f"{display_path(path)} holds no request to go on with")
        try:
            path.mkdir(parents=True, exist_ok=True)
            # Unbuffered: a full disk shows at once.
            self._log: IO[bytes] = (path / "log.ndjson").open("ab", buffering=0)
            free = take_lock(self._log)
        except OSError as error:
            raise FileProblem(f"cannot use the folder {display_path(path)}: {error.strerror or error}") from None
        if not free:
            self._log.close()
            raise CallError(
                f"another run is using the folder {display_path(path)}; wait for it to end, or name another"
            )
        try:
            self.request = self._settle(request)
        except BaseException:
            self._log.close()
            raise

    @classmethod
    def resume(cls, path: Path | None, wanted: Mapping[str, Any]) -> RunFolder | None:
        """The folder of an earlier run that asked the same, held; None where there was no such run.

        Args:
            path: the folder; None where nothing is kept.
            wanted: fields of the request that must be as they were; a roster counts as a set, and any one where None.

        Raises:
            CallError: the earlier run asked something else.
        """
        if path is None or kind_of_path(path / "request.json") is None:
            return None
        folder = cls(path)
        kept = {name: getattr(folder.request, name) for name in wanted}
        other = [name for name in wanted if name != "roster" and kept[name] != wanted[name]]
        if wanted.get("roster") is not None and set(kept["roster"] or ()) != set(wanted["roster"]):
            other.append("roster")
        if other:
            folder.close()
            raise CallError(
                f"the folder {str(path)!r} is of a round with another {', '.join(other)}; name another folder"
            )
        return folder

    def _settle(self, request: Request | None) -> Request:
        file = self.path / "request.json"
        if request is not None and kind_of_path(file) is None:
            write_whole(file, request.dumps())
            self.log("asked", clients=None if request.roster is None else len(request.roster), request=request.digest)
            return request
        kept: Request = read_record(file, Request)
        if request is not None and request.digest != kept.digest:
            if request.private is not None:
                raise CallError(f"{display_path(self.path)} is the folder of another private sum; name another")
            raise CallError(
                f"{display_path(self.path)} is the folder of another request; name another folder for this one"
            )
        self.log("resumed", request=kept.digest)
        return kept

    def keep_report(self, report: Report, correction: str = "") -> None:
        """Keep an answer; it is on the disk when this returns. One that it replaces is put aside.

        Args:
            report: the answer.
            correction: what it replaces, in words.
        """
        file = self.reports_path / file_name(report.client)
        if kind_of_path(file) is not None:
            self._put_aside(file, "replaced")
            self.log("corrected", client=report.client, what=correction)
        _write(self.reports_path, file_name(report.client), report.dumps())
        self.log("answered", client=report.client, examples=report.examples)

    def keep_sums(self, sums: Sums) -> None:
        """Keep the result of a private sum; it is on the disk when this returns."""
        write_whole(self.path / "sums.json", sums.dumps())

    def keep_estimate(self, estimate: Estimate) -> list[Path]:
        """Keep the estimate; it is on the disk when this returns.

        Returns:
            The files that were written.
        """
        self._archive_estimate(estimate)
        written = write_estimate(estimate, self.estimate_path)
        self.log("estimated", clients=estimate.clients, missing=sorted(estimate.excluded))
        return written

    def set_aside(self, reason: str) -> None:
        """Put an earlier estimate among the earlier ones: the answers lead to none now."""
        self._archive_estimate(None)
        self.log("no estimate", reason=reason)

    def _archive_estimate(self, following: Estimate | None) -> None:
        """Put the estimate that is there among the earlier ones, unless the one that follows says the same."""
        if kind_of_path(self.estimate_path) is None:
            return
        with contextlib.suppress(FedcertError):  # one that cannot be read is put aside as it is
            earlier: Estimate = read_record(self.estimate_path, Estimate)
            if following is not None and replace(earlier, created=None) == replace(following, created=None):
                return
        numbers = [int(file.stem) for file in (self.path / "estimates").glob("*.json") if file.stem.isdigit()]
        number = max(numbers, default=0) + 1
        for suffix in (".json", ".png"):
            file = self.estimate_path.with_suffix(suffix)
            with contextlib.suppress(OSError):  # there may be no figure
                (self.path / "estimates").mkdir(exist_ok=True)
                file.replace(self.path / "estimates" / f"{number:04d}{suffix}")

    def keep_settings(self, settings: Mapping[str, Any]) -> None:
        """Keep the target and settings of an estimate, for the next one."""
        write_whole(self.path / "settings.json", json.dumps(settings, indent=2, sort_keys=True) + "\n")

    def settings(self) -> dict[str, Any]:
        """The target and settings of the last estimate; none where there was none.

        Raises:
            FileProblem: the file cannot be read, or holds something else.
        """
        file = self.path / "settings.json"
        if kind_of_path(file) is None:
            return {}
        document = parse(file.read_bytes(), display_path(file))
        if not isinstance(document, dict):
            raise FileProblem(
                f"{display_path(file)} must be an object of settings, but is {type(document).__name__}; remove the "
                "file and give the settings again"
            )
        return document

    def withdraw(self, report: Report) -> None:
        """Put a report aside that its client has withdrawn."""
        file = self.reports_path / file_name(report.client)
        _write(self.path / "withdrawn", file.name, report.dumps())
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
        self.log("withdrawn", client=report.client)

    def withdrawn(self) -> dict[str, Report]:
        """Reports that were withdrawn, of clients without another one since."""
        kept: dict[str, Report] = {}
        for file in sorted((self.path / "withdrawn").glob("*.json")):
            if kind_of_path(self.reports_path / file.name) is None:
                report: Report = read_record(file, Report)
                kept[report.client] = report
        return kept

    def _put_aside(self, file: Path, folder: str) -> None:
        """Copy a file to a folder of earlier ones, under a number."""
        count = len(list((self.path / folder).glob(f"{file.stem}-*.json")))
        _write(self.path / folder, f"{file.stem}-{count + 1}.json", file.read_text())

    def reports(self) -> list[Report]:
        """Reports that were kept, by whichever process; a broken one is warned of, and does not hide the others.

        Raises:
            FileProblem: the folder cannot be read.
        """
        if kind_of_path(self.reports_path) is None:
            return []
        try:
            paths = sorted(path for path in self.reports_path.iterdir() if not path.name.startswith("."))
        except OSError as error:
            raise FileProblem(f"cannot read {display_path(self.reports_path)}: {error.strerror or error}") from None
        kept = []
        for path in paths:
            try:
                report: Report = read_record(path, Report)
                if path.name != file_name(report.client):
                    raise FileProblem(f"{display_path(path)} is not the name of {report.client!r}'s file")
                kept.append(report)
            except FedcertError as error:
                warnings.warn(
                    f"a file in {display_path(self.reports_path)} does not count: {error}", FedcertWarning, stacklevel=4
                )
        return kept

    def keep_message(self, part: str, stage: int, client: str, text: str) -> None:
        """Keep a client's message of a private sum; it is on the disk when this returns.

        Args:
            part: which of the request's secure aggregations; "" for that of counts.
            stage: of that aggregation.
            client: the sender.
            text: the message as JSON.
        """
        _write(self._messages_path / part, f"{stage}-{file_name(client)}", text)
        self.log("sent", client=client, stage=stage)

    def close_stage(self, part: str, stage: int, names: Iterable[str]) -> None:
        """Keep with whom a stage ended."""
        _write(self._messages_path / part, f"{stage}-over.json", json.dumps(sorted(names)))

    def messages(self, part: str, stage: int) -> tuple[dict[str, Any], set[str] | None]:
        """Messages of a stage that were kept (place -> document), and with whom it ended; None where it has not.

        Raises:
            FileProblem: a file cannot be parsed.
        """
        files = {file.name: file for file in sorted((self._messages_path / part).glob(f"{stage}-*.json"))}
        over = files.pop(f"{stage}-over.json", None)
        documents = {display_path(file): parse(file.read_bytes(), display_path(file)) for file in files.values()}
        return documents, None if over is None else set(parse(over.read_bytes(), display_path(over)))

    def corrections(self) -> dict[str, str]:
        """Which reports were replaced by which, as earlier processes noted it; the last of each client."""
        return {
            event["client"]: event["what"]
            for event in self._events()
            if event.get("event") == "corrected"
            and all(isinstance(event.get(name), str) and event[name] for name in ("client", "what"))
        }

    def failures(self) -> dict[str, str]:
        """Why clients did not answer, as earlier processes noted it; of a client that answered later, nothing."""
        failures: dict[str, str] = {}
        for event in self._events():
            client, reason = event.get("client"), event.get("reason")
            if event.get("event") in ("answered", "sent"):
                failures.pop(str(client), None)
            elif isinstance(client, str) and isinstance(reason, str):
                if event.get("event") == "failed":
                    failures[client] = reason
                elif event.get("event") == "refused" and event.get("known"):
                    failures[client] = f"its answer was refused: {reason}"
        return failures

    def _events(self) -> Iterator[dict[str, Any]]:
        """What the log holds; a line that was cut off is passed over."""
        for line in (self.path / "log.ndjson").read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event

    def log(self, event: str, **facts: Any) -> None:
        """Note what happened."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            self._log.write(json.dumps({"time": time, "event": event, **facts}).encode() + b"\n")
            os.fsync(self._log.fileno())
        except OSError as error:
            raise FileProblem(f"cannot write the log in {display_path(self.path)}: {error.strerror or error}") from None

    def close(self) -> None:
        """Let other processes use it."""
        with contextlib.suppress(OSError):  # nothing is waiting to be written
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _write(folder: Path, name: str, text: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileProblem(f"cannot use the folder {display_path(folder)}: {error.strerror or error}") from None
    write_whole(folder / name, text)


def file_name(client: str) -> str:
    """A file's name for a client: readable, safe on every system, and its own even where case does not count."""
    readable = quote(client, safe=" ")[:_LONGEST].translate(str.maketrans("% .", "___"))
    return f"{readable}-{hashlib.sha256(client.encode()).hexdigest()[:12]}.json"
