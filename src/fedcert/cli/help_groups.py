"""The commands, by who uses what."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

GROUPS: dict[str, dict[str, str]] = {
    "To see it work": {"demo": "the whole pipeline on handwritten digits, in a minute"},
    "At each site": {
        "certify": "certify a model on this site's own test data",
        "predict": "predict with the smoothed classifier that was certified",
        "audit": "repeat own certificates and compare",
        "import-log": "turn existing certificates into a report",
        "keys": "make and list keys for signatures",
        "private": "secure aggregation: only totals are revealed",
    },
    "At the coordinator": {
        "request": "write the settings that every site must use",
        "plan": "forecast the interval before anyone certifies",
        "collect": "check the reports that answer a request, and estimate",
        "estimate": "estimate the certified accuracy of a target population",
        "what-if": "estimate for many target populations at once",
        "merge": "merge reports into anonymous sums or one table",
    },
    "To look at and to pass on": {
        "page": "write one HTML file: the answer, other class mixes, checks",
        "plot": "draw figures for papers",
    },
    "For research": {"lab": "data, partitions, training, traces, the paper's tables"},
    "About files": {
        "validate": "check files, and whether reports belong together",
        "schema": "print the JSON Schema of a file",
    },
}


class Grouped(TyperGroup):
    """A program whose help says who uses what."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the commands, group by group."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(10), words) for name, words in commands.items()])
