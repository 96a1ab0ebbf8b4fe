"""What the commands print. Results go to standard output; notes, progress and errors to standard error."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import Progress

from fedcert._schema.record import Record
from fedcert.certification.progress_bar import rich_progress
from fedcert.errors import FedcertNote, FedcertWarning
from fedcert.show.terminal import printable

_PATIENCE = 2.0
"""Seconds after which people want to know what a program is doing."""


def results() -> Console:
    """Where results go."""
    # In a pipe rich would wrap at 80 columns and break tables; 120 holds all of ours.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def print_result(content: RenderableType, soft_wrap: bool = False) -> None:
    """Print a sentence, as harmless text, or a table of a result."""
    results().print(printable(content) if isinstance(content, str) else content, soft_wrap=soft_wrap)


_quiet = False


def set_quiet(quiet: bool) -> None:
    """Print results and errors only from now on, or notes and progress too."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Whether only results and errors are printed."""
    return _quiet


def print_status(sentence: str) -> None:
    """Print what is going on, on standard error, as one line of harmless text; nothing with --quiet."""
    if not _quiet:
        _print_line(sentence)


def print_note(sentence: str) -> None:
    """Print what a user should know, like `print_status`."""
    print_status(f"note: {sentence}")


def print_warning(sentence: str) -> None:
    """Print what looks like a mistake, on standard error, as one line of harmless text; with --quiet too."""
    _print_line(f"warning: {sentence}")


def print_error(sentence: str) -> None:
    """Print an error, on standard error, as one line of harmless text."""
    _print_line(f"error: {sentence}")


def _print_line(sentence: str) -> None:
    sys.stderr.write(f"fedcert: {printable(sentence).plain}\n")
    sys.stderr.flush()


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what is being done, on a terminal, if it takes longer than two seconds."""
    if _quiet or not sys.stderr.isatty():
        yield
        return
    status = Console(stderr=True).status(printable(what))
    lock, over = threading.Lock(), threading.Event()

    def show() -> None:
        with lock:
            if not over.is_set():
                status.start()

    timer = threading.Timer(_PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        over.set()
        timer.cancel()
        with lock:
            status.stop()


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Show fedcert's warnings; others belong to the libraries, and are their users' business."""
    if issubclass(category, FedcertWarning):
        (print_note if issubclass(category, FedcertNote) else print_warning)(f"{message}")


def print_json(value: Record | list[Any] | dict[str, Any]) -> None:
    """A value for a program to read."""
    sys.stdout.write(value.dumps() if isinstance(value, Record) else json.dumps(value, indent=2) + "\n")


def progress() -> Progress:
    """A progress bar on a terminal; nothing in a pipe, and nothing with --quiet."""
    return rich_progress(disable=_quiet or not sys.stderr.isatty())
