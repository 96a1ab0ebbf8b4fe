"""A value's short answer: a few sentences, a small table, and what is wrong; as text and as HTML."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

_WIDTH = 100
"""Characters of a line of text: what a terminal and a notebook's cell show without a scroll bar."""


@dataclass(frozen=True)
class Summary:
    """The short answer.

    Attributes:
        sentences: the answer, most important first.
        table: rows of cells, the first row the header; empty where there is none.
        problems: what is wrong, a sentence each.
    """

    sentences: tuple[str, ...]
    table: tuple[tuple[str, ...], ...] = ()
    problems: tuple[str, ...] = ()

    def text(self) -> str:
        """For `print`."""
        parts = ["\n".join(_filled(sentence) for sentence in self.sentences)]
        if self.table:
            parts.append(_aligned(self.table))
        if self.problems:
            parts.append("\n".join(_filled(problem, "- ") for problem in self.problems))
        return "\n\n".join(parts)

    def html(self) -> str:
        """For a notebook. Names come from other people's files, so all of it is text."""
        first, *rest = (html.escape(sentence) for sentence in self.sentences)
        parts = [f"<p><strong>{first}</strong></p>", *(f"<p>{sentence}</p>" for sentence in rest)]
        if self.table:
            head, *rows = self.table
            parts.append(f"<table><thead>{_row(head, 'th')}</thead><tbody>")
            parts += [*(_row(row, "td") for row in rows), "</tbody></table>"]
        if self.problems:
            items = "".join(f"<li>{html.escape(problem)}</li>" for problem in self.problems)
            parts.append(f"<ul>{items}</ul>")
        return f"<div>{''.join(parts)}</div>"


def spread(count: int, most: int, including: int = 0) -> list[int]:
    """At most so many of `count` indices, spread evenly, both ends and one that matters among them.

    Examples:
        >>> spread(3, 5), spread(21, 5, including=6)
        ([0, 1, 2], [0, 6, 10, 15, 20])
    """
    if count <= most:
        return list(range(count))
    even = {round(step * (count - 1) / (most - 1)) for step in range(most)}
    inner = even - {0, count - 1}
    if including not in even and inner:
        even.remove(min(inner, key=lambda index: abs(index - including)))
    return sorted({*even, including})


def _filled(sentence: str, bullet: str = "") -> str:
    return textwrap.fill(
        sentence, _WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_long_words=False
    )


def _aligned(table: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    lines = []
    for name, *cells in table:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join((name.ljust(widths[0]), *numbers)).rstrip())
    return "\n".join(lines)


def _row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
