"""Fences and tables as the site renders them.

Code blocks on these pages have words for the test that runs them: `install`, `no-run` and `fails`, and `file=NAME` for
a file that is to be written. Renderers of Markdown ignore words that they do not know; pymdownx.superfences does not
take such a block for code at all. This hook of MkDocs removes the words, and makes a file's name the block's title. It
also makes empty table heads plain cells, because screen readers announce a head, and keeps options in one piece:
browsers break lines after hyphens, so that `--class-counts` would become `-` and `-class-counts`.
"""

from __future__ import annotations

import re
from typing import Any

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?P<words>(?: +(?:install|no-run|fails|file=[\w./-]+))+) *$", re.M
)

CODE = re.compile(r"<code[^>]*>.*?</code>", re.S)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*(?![^<]*>)")


def rendered(fence: re.Match[str]) -> str:
    """The first line of a fence, in the words of pymdownx.superfences."""
    files = re.findall(r"file=(\S+)", fence["words"])
    title = f' title="{files[0]}"' if files else ""
    return f"{fence['indent']}```{fence['language']}{title}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this with the text of each page."""
    return FENCE.sub(rendered, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """MkDocs calls this with what each page was rendered to."""
    html = re.sub(r"<th( [^>]*)?></th>", r"<td\1></td>", html)
    return CODE.sub(lambda code: OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html)
