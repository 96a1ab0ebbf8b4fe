"""The commands, by who uses what."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

GROUPS: dict[str, dict[str, str]] = {
    "To see it work": {"demo": "the whole story on handwritten digits, in a minute"},
    "At each site": {
        "certify": "a model, on this site's own test data: counts come out",
        "predict": "labels, by the smoothed classifier that was certified",
        "audit": "whether own certificates come out the same again",
        "import-log": "certificates that exist already, as a report",
        "keys": "who this site is, and whom it trusts",
        "private": "sums in which no site is told apart",
    },
    "At the coordinator": {
        "request": "what every site must agree on before it certifies",
        "plan": "what an estimate could reach, before anybody certifies",
        "collect": "the answers to a request: checked, and estimated from",
        "estimate": "the certified accuracy of a target population",
        "what-if": "the same for many target populations at once",
        "merge": "reports into sums that name no client, or one table",
    },
    "To look at and to pass on": {
        "page": "one HTML file: the answer, other class mixes, the checks",
        "plot": "figures for papers",
    },
    "For research": {"lab": "data, partitions, training, traces, the paper's tables"},
    "About files": {
        "validate": "whether files are right and go together",
        "schema": "the JSON Schema of a file",
    },
}


class Grouped(TyperGroup):
    """A program whose help says who uses what."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the commands, group by group."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(10), words) for name, words in commands.items()])
