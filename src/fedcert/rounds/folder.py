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

Who has it on a drive that others write to may find links in it: nothing below it is followed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from fedcert._files.documents import parse
from fedcert._files.line_log import LineLog
from fedcert._files.open_folder import PlantedFile
from fedcert._files.paths import display_path
from fedcert._files.shared import SharedFolder
from fedcert._schema.record import Record
from fedcert.errors import CallError, FedcertError, FedcertWarning, FileProblem, preview
from fedcert.estimation.files import write_estimate
from fedcert.estimation.result import Estimate
from fedcert.report import Report, Request, Sums

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
        self.path, self._files = path, SharedFolder(path)
        self.reports_path = path / "reports"
        self.estimate_path = path / "estimate.json"
        self._messages_path = path / messages
        if request is None and not self._files.has_file(path / "request.json"):
            raise CallError(f"{display_path(path)} holds no request to go on with")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileProblem(f"cannot use the folder {display_path(path)}: {error.strerror or error}") from None
        self._log = LineLog(self._files, path / "log.ndjson")
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
        if path is None or not SharedFolder(path).has_file(path / "request.json"):
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
        if request is not None and not self._files.has_file(file):
            self._files.write(file, request.dumps())
            self.log("asked", clients=None if request.roster is None else len(request.roster), request=request.digest)
            return request
        kept: Request = self._record(file, Request)
        if request is not None and request.digest != kept.digest:
            if request.private is not None:
                raise CallError(f"{display_path(self.path)} is the folder of another private sum; name another")
            raise CallError(
                f"{display_path(self.path)} is the folder of another request; name another folder for this one"
            )
        self.log("resumed", request=kept.digest)
        return kept

    def _record(self, file: Path, kind: type[Record]) -> Any:
        """The record that a file holds."""
        return kind.from_json(self._files.document(file, many_names=True), display_path(file))

    def keep_report(self, report: Report, correction: str = "") -> None:
        """Keep an answer; it is on the disk when this returns. One that it replaces is put aside.

        Args:
            report: the answer.
            correction: what it replaces, in words.
        """
        file = self.reports_path / file_name(report.client)
        if self._files.has_file(file):
            self._put_aside(file, "replaced")
            self.log("corrected", client=report.client, what=correction)
        self._files.write(file, report.dumps())
        self.log("answered", client=report.client, examples=report.examples)

    def keep_sums(self, sums: Sums) -> None:
        """Keep the result of a private sum; it is on the disk when this returns."""
        self._files.write(self.path / "sums.json", sums.dumps())

    def keep_estimate(self, estimate: Estimate) -> list[Path]:
        """Keep the estimate; it is on the disk when this returns.

        Returns:
            The files that were written.
        """
        self._archive_estimate(estimate)
        written = write_estimate(estimate, self.estimate_path, self._files.writing)
        self.log("estimated", clients=estimate.clients, missing=sorted(estimate.excluded))
        return written

    def set_aside(self, reason: str) -> None:
        """Put an earlier estimate among the earlier ones: the answers lead to none now."""
        self._archive_estimate(None)
        self.log("no estimate", reason=reason)

    def _archive_estimate(self, following: Estimate | None) -> None:
        """Put the estimate that is there among the earlier ones, unless the one that follows says the same."""
        if not self._files.has_file(self.estimate_path):
            return
        with contextlib.suppress(FedcertError):  # one that cannot be read is put aside as it is
            earlier: Estimate = self._record(self.estimate_path, Estimate)
            if following is not None and replace(earlier, created=None) == replace(following, created=None):
                return
        numbers = [Path(name).stem for name in self._files.names(self.path / "estimates") if name.endswith(".json")]
        number = max((int(each) for each in numbers if each.isdigit()), default=0) + 1
        for suffix in (".png", ".json"):  # in this order: work that stops in between is done again with the same number
            if self._files.has_file(file := self.estimate_path.with_suffix(suffix)):
                self._files.move(file, self.path / "estimates" / f"{number:04d}{suffix}")

    def keep_settings(self, settings: Mapping[str, Any]) -> None:
        """Keep the target and settings of an estimate, for the next one."""
        self._files.write(self.path / "settings.json", json.dumps(settings, indent=2, sort_keys=True) + "\n")

    def settings(self) -> dict[str, Any]:
        """The target and settings of the last estimate; none where there was none.

        Raises:
            FileProblem: the file cannot be read, or holds something else.
        """
        file = self.path / "settings.json"
        if not self._files.has_file(file):
            return {}
        document = self._files.document(file, many_names=True)
        if not isinstance(document, dict):
            raise FileProblem(
                f"{display_path(file)} must be an object of settings, but is {type(document).__name__}; remove the "
                "file and give the settings again"
            )
        return document

    def withdraw(self, report: Report) -> None:
        """Put a report aside that its client has withdrawn."""
        file = self.reports_path / file_name(report.client)
        self._files.write(self.path / "withdrawn" / file.name, report.dumps())
        self.log("withdrawn", client=report.client)
        self._files.remove(file)  # last: until then the report counts, and can be withdrawn again

    def withdrawn(self) -> dict[str, Report]:
        """Reports that were withdrawn, of clients without another one since."""
        kept: dict[str, Report] = {}
        for name in self._files.names(self.path / "withdrawn"):
            if name.endswith(".json") and not self._files.has_file(self.reports_path / name):
                report: Report = self._record(self.path / "withdrawn" / name, Report)
                kept[report.client] = report
        return kept

    def _put_aside(self, file: Path, folder: str) -> None:
        """Copy a file to a folder of earlier ones, under a number."""
        count = sum(name.startswith(f"{file.stem}-") for name in self._files.names(self.path / folder))
        earlier = self._files.read(file, many_names=True)
        self._files.write(self.path / folder / f"{file.stem}-{count + 1}.json", earlier)

    def reports(self) -> list[Report]:
        """Reports that were kept, by whichever process; a broken one is warned of, and does not hide the others.

        Raises:
            FileProblem: the system does not let us read one: without it another might count in its place.
        """
        kept = []
        for path in [self.reports_path / name for name in self._files.names(self.reports_path)]:
            try:
                content = self._files.read(path, many_names=True)
            except PlantedFile as error:
                self._warn_of(error)
                continue
            try:
                report = Report.from_json(parse(content, display_path(path)), display_path(path))
                if path.name != file_name(report.client):
                    raise FileProblem(f"{display_path(path)} is not the name of {report.client!r}'s file")
                kept.append(report)
            except FedcertError as error:
                self._warn_of(error)
        return kept

    def _warn_of(self, error: FedcertError) -> None:
        where = display_path(self.reports_path)
        warnings.warn(f"a file in {where} does not count: {error}", FedcertWarning, stacklevel=5)

    def keep_message(self, part: str, stage: int, client: str, text: str) -> None:
        """Keep a client's message of a private sum; it is on the disk when this returns.

        Args:
            part: which of the request's secure aggregations; "" for that of counts.
            stage: of that aggregation.
            client: the sender.
            text: the message as JSON.
        """
        self._files.write(self._messages_path / part / f"{stage}-{file_name(client)}", text)
        self.log("sent", client=client, stage=stage)

    def close_stage(self, part: str, stage: int, names: Iterable[str]) -> None:
        """Keep with whom a stage ended."""
        self._files.write(self._messages_path / part / f"{stage}-over.json", json.dumps(sorted(names)))

    def messages(self, part: str, stage: int) -> tuple[dict[str, Any], set[str] | None]:
        """Messages of a stage that were kept (place -> document), and with whom it ended; None where it has not.

        Raises:
            FileProblem: a file cannot be parsed.
        """
        folder = self._messages_path / part
        names = [name for name in self._files.names(folder) if name.startswith(f"{stage}-") and name.endswith(".json")]
        documents = {name: self._files.document(folder / name, many_names=True) for name in names}
        over = documents.pop(f"{stage}-over.json", None)
        if over is not None and not (isinstance(over, list) and all(isinstance(name, str) for name in over)):
            place = display_path(folder / f"{stage}-over.json")
            raise FileProblem(f"{place} must be a list of names, but is {preview(over)}; remove it to go on")
        placed = {display_path(folder / name): document for name, document in documents.items()}
        return placed, None if over is None else set(over)

    def corrections(self) -> dict[str, str]:
        """Which reports were replaced by which, as earlier processes noted it; the last of each client."""
        return {
            event["client"]: event["what"]
            for event in self._log.events()
            if event.get("event") == "corrected"
            and all(isinstance(event.get(name), str) and event[name] for name in ("client", "what"))
        }

    def failures(self) -> dict[str, str]:
        """Why clients did not answer, as earlier processes noted it; of a client that answered later, nothing."""
        failures: dict[str, str] = {}
        for event in self._log.events():
            client, reason = event.get("client"), event.get("reason")
            if event.get("event") in ("answered", "sent"):
                failures.pop(str(client), None)
            elif isinstance(client, str) and isinstance(reason, str):
                if event.get("event") == "failed":
                    failures[client] = reason
                elif event.get("event") == "refused" and event.get("known"):
                    failures[client] = f"its answer was refused: {reason}"
        return failures

    def log(self, event: str, **facts: Any) -> None:
        """Note what happened."""
        self._log.append({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts})

    def close(self) -> None:
        """Let other processes use it."""
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def file_name(client: str) -> str:
    """A file's name for a client: readable, safe on every system, and its own even where case does not count."""
    readable = quote(client, safe=" ")[:_LONGEST].translate(str.maketrans("% .", "___"))
    return f"{readable}-{hashlib.sha256(client.encode()).hexdigest()[:12]}.json"
