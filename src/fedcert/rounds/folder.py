"""A run on disk: nothing that arrived is lost, whoever dies.

run/
  request.json      what was asked
  reports/          each answer that was taken, as it arrived
  estimate.json     what follows
  estimate.png      the same as a picture; both are called estimate-before when the answers lead to none any more
  log.ndjson        what happened, line by line
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import quote

from fedcert._files.locks import take_lock
from fedcert._files.paths import display_path, kind_of_path
from fedcert.errors import CallError, FedcertError, FedcertWarning, FileProblem
from fedcert.estimation.files import write_estimate
from fedcert.estimation.result import Estimate
from fedcert.report import Report, Request, read_record, write_whole

_LONGEST = 80


class RunFolder:
    """A run's folder, held by one process at a time.

    Args:
        path: the folder; made if need be.
        request: what is asked; None goes on with the request that is there.

    Raises:
        CallError: another process holds the folder, it has another request, or none where one is needed.
        FileProblem: it cannot be made, read or written.
    """

    def __init__(self, path: Path, request: Request | None = None) -> None:
        self.path = path
        self.reports_path = path / "reports"
        self.estimate_path = path / "estimate.json"
        if request is None and kind_of_path(path / "request.json") is None:
            raise CallError(f"{display_path(path)} holds no request to go on with")
        try:
            self.reports_path.mkdir(parents=True, exist_ok=True)
            self._log: IO[bytes] = (path / "log.ndjson").open("ab", buffering=0)  # a full disk is told at once
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

    def _settle(self, request: Request | None) -> Request:
        file = self.path / "request.json"
        if request is not None and kind_of_path(file) is None:
            write_whole(file, request.dumps())
            self.log("asked", clients=None if request.roster is None else len(request.roster), request=request.digest)
            return request
        found: Request = read_record(file, Request)
        if request is not None and request.digest != found.digest:
            raise CallError(
                f"{display_path(self.path)} is the folder of another request; name another folder for this one"
            )
        self.log("resumed", request=found.digest)
        return found

    def keep(self, report: Report) -> None:
        """Keep an answer; it is on the disk when this returns."""
        write_whole(self.reports_path / file_name(report.client), report.dumps())
        self.log("answered", client=report.client, examples=report.examples)

    def keep_estimate(self, made: Estimate) -> list[Path]:
        """Keep what follows from the answers; it is on the disk when this returns.

        Returns:
            The files that were written.
        """
        written = write_estimate(made, self.estimate_path)
        self.log("estimated", clients=made.clients, missing=sorted(made.excluded))
        return written

    def set_aside(self, why: str) -> None:
        """Put an earlier estimate aside: the answers lead to none now."""
        for suffix in (".json", ".png"):
            file = self.estimate_path.with_suffix(suffix)
            with contextlib.suppress(OSError):  # there may be none
                file.replace(file.with_name(f"estimate-before{suffix}"))
        self.log("no estimate", reason=why)

    def reports(self) -> list[Report]:
        """Answers that were kept, by whichever process; what is broken is told of, and does not hide the others.

        Raises:
            FileProblem: the folder cannot be read.
        """
        try:
            found = sorted(path for path in self.reports_path.iterdir() if not path.name.startswith("."))
        except OSError as error:
            raise FileProblem(f"cannot read {display_path(self.reports_path)}: {error.strerror or error}") from None
        kept = []
        for path in found:
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

    def troubles(self) -> dict[str, str]:
        """Why clients did not answer, as earlier processes noted it."""
        found: dict[str, str] = {}
        for line in (self.path / "log.ndjson").read_bytes().splitlines():
            with contextlib.suppress(ValueError, AttributeError):  # a line may be cut off
                event = json.loads(line)
                client, why = event.get("client"), event.get("reason")
                if isinstance(client, str) and isinstance(why, str):
                    if event.get("event") == "failed":
                        found[client] = why
                    elif event.get("event") == "refused" and event.get("known"):
                        found[client] = f"its answer was refused: {why}"
        return found

    def log(self, event: str, **facts: Any) -> None:
        """Note what happened."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            self._log.write(json.dumps({"time": time, "event": event, **facts}).encode() + b"\n")
            os.fsync(self._log.fileno())
        except OSError as error:
            raise FileProblem(f"cannot write the log in {display_path(self.path)}: {error.strerror or error}") from None

    def close(self) -> None:
        """Let others use it."""
        with contextlib.suppress(OSError):  # nothing is waiting to be written
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def file_name(client: str) -> str:
    """A file's name for a client: readable, safe on every system, and its own even where case does not count."""
    readable = quote(client, safe=" ")[:_LONGEST].translate(str.maketrans("% .", "___"))
    return f"{readable}-{hashlib.sha256(client.encode()).hexdigest()[:12]}.json"
