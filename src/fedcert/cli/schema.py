"""fedcert schema."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from typer import Argument

from fedcert.cli.console import print_json
from fedcert.cli.validate import KINDS

Name = StrEnum("Name", {kind.NOUN: kind.NOUN for kind in KINDS})  # type: ignore[misc]


def schema(kind: Annotated[Name, Argument(metavar="KIND", help="report, request, sums, estimate or what-if.")]) -> None:
    """Print the JSON Schema of a file that fedcert reads or writes."""
    print_json(next(value for value in KINDS if kind.value == value.NOUN).json_schema())
