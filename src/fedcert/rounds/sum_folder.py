"""A private sum on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedcert._files.paths import display_path, kind_of_path
from fedcert._files.strict_json import parse
from fedcert.errors import CallError, FileProblem
from fedcert.report import write_whole
from fedcert.rounds.folder import file_name
from fedcert.secagg.messages import ClientMessage
from fedcert.secagg.server import STAGES, SecAggServer

_TROUBLES = "troubles.json"


class SumFolder:
    """A private sum on disk, so that a coordinator that dies goes on: what sites said, and which stages are over.

    Args:
        path: the folder; made if need be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileProblem(f"cannot use the folder {display_path(path)}: {error.strerror or error}") from None

    def keep(self, stage: int, message: ClientMessage) -> None:
        """Keep what a site said; it is on the disk when this returns."""
        write_whole(self.path / f"{stage}-{file_name(message.client)}", message.dumps())

    def close(self, stage: int, names: Iterable[str], troubles: Mapping[str, str]) -> None:
        """Keep with whom a stage ended, and why not with others."""
        write_whole(self.path / _TROUBLES, json.dumps(dict(troubles)))
        write_whole(self.path / f"{stage}-over.json", json.dumps(sorted(names)))

    def troubles(self) -> dict[str, str]:
        """Why some sites were left out before."""
        file = self.path / _TROUBLES
        return {} if kind_of_path(file) is None else dict(parse(file.read_bytes(), display_path(file)))

    def restore(self, summing: SecAggServer) -> None:
        """Bring a sum to where it was.

        Raises:
            CallError: the folder is of another sum.
        """
        for stage, kind in enumerate(STAGES):
            for file in sorted(self.path.glob(f"{stage}-*.json")):
                if file.name == f"{stage}-over.json":
                    continue
                message = kind.from_json(parse(file.read_bytes(), display_path(file)), display_path(file))
                if message.session != summing.session:
                    raise CallError(f"{display_path(self.path)} is the folder of another private sum; name another")
                summing.take(message)
            over = self.path / f"{stage}-over.json"
            if kind_of_path(over) is None:
                return
            names = set(parse(over.read_bytes(), display_path(over)))
            summing.came[stage] = {name: one for name, one in summing.came[stage].items() if name in names}
            summing.close()
