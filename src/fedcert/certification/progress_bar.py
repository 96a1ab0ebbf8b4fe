"""A progress bar for `certify`: shown to people, on a terminal and in a notebook; never in a pipe or on CI."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fedcert.certification.clean_pass import accuracy_sentence
from fedcert.certification.progress import ProgressListener, approximately, duration
from fedcert.errors import CallError, preview

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_NOTEBOOK_WIDTH = 100
"""Characters of a bar in a notebook's cell, whose width is not known."""


class BarListener(ProgressListener):
    """Moves a bar of rich's: by samples, or by examples where fewer samples may do.

    Attributes:
        bar: where the task is shown; set before the work starts.
    """

    bar: Progress

    def __init__(self) -> None:
        self._task: TaskID | None = None
        self._by_examples = False
        self._drawn = 0

    def start(self, total: int, *, by_examples: bool = False) -> None:
        """Show the bar."""
        self._by_examples = by_examples
        self._task = self.bar.add_task("certifying", total=total, rate="")

    def finished(self, examples: int) -> None:
        """See `ProgressListener.finished`."""
        if self._task is not None and self._by_examples:
            self.bar.update(self._task, advance=examples)

    def advance(self, samples: int) -> None:
        """See `ProgressListener.advance`."""
        self._drawn += samples
        if self._task is not None:
            elapsed = self.bar.tasks[0].elapsed or 0.0
            rate = f"{self._drawn / elapsed:,.0f} samples/s" if elapsed > 0 else ""
            self.bar.update(self._task, advance=0 if self._by_examples else samples, rate=rate)


class ProgressBar(BarListener):
    """What `certify` shows: the accuracy without noise, a forecast, and a bar with the time that is left."""

    def without_noise(self, right: int, examples: int, of: int) -> None:
        """See `ProgressListener.without_noise`."""
        self.bar.console.print(accuracy_sentence(right, examples, of))

    def forecast(self, samples: int, rate: float) -> None:
        """See `ProgressListener.forecast`."""
        self.bar.console.print(f"{samples:,} noisy samples at {rate:,.0f}/s: {approximately(samples / rate)}")
        self.start(samples)

    def forecast_at_most(self, samples: int, rate: float, examples: int) -> None:
        """See `ProgressListener.forecast_at_most`."""
        at_worst = duration(samples / rate)
        self.bar.console.print(f"Up to {samples:,} noisy samples at {rate:,.0f}/s: {at_worst} at worst")
        self.start(examples, by_examples=True)

    def forecast_typical(self, least: float, most: float) -> None:
        """See `ProgressListener.forecast_typical`."""
        self.bar.console.print(typical_sentence(least, most))

    def late(self, done: int, of: int, waiting: int) -> None:
        """See `ProgressListener.late`."""
        self.bar.console.print(late_sentence(done, of, waiting))


def late_sentence(done: int, of: int, waiting: int) -> str:
    """What a report that was cut short is about.

    Examples:
        >>> late_sentence(216, 6000, 0)
        'The time budget is used up: the report is about 216 of 6,000 examples'
        >>> late_sentence(216, 6000, 519).split("; ")[1]
        '519 more are done and count once those before them are, in an order that is fixed beforehand'
    """
    more = f"; {waiting:,} more are done and count once those before them are, in an order that is fixed beforehand"
    return f"The time budget is used up: the report is about {done:,} of {of:,} examples{more if waiting else ''}"


def typical_sentence(least: float, most: float) -> str:
    """How long the rest will typically take.

    Examples:
        >>> typical_sentence(5.2, 14.8), typical_sentence(100, 101)
        ('By the first examples, typically 5 s to 15 s are left', 'By the first examples, typically 2 min is left')
    """
    first, last = duration(least), duration(most)
    left = f"{first} is left" if first == last else f"{first} to {last} are left"
    return f"By the first examples, typically {left}"


@contextmanager
def listening(progress: ProgressListener | bool | None) -> Iterator[ProgressListener]:
    """The listener that `certify` is to call, and the bar for as long as it is shown.

    Args:
        progress: see `certify`.

    Raises:
        CallError: it is something else.
    """
    if isinstance(progress, ProgressListener):
        yield progress
    elif progress is None or isinstance(progress, bool):
        shown = is_watched() if progress is None else progress
        if not shown or find_spec("rich") is None:
            yield ProgressListener()
            return
        listener = ProgressBar()
        with rich_progress(**_console_options()) as listener.bar:
            yield listener
    else:
        raise CallError(f"progress must be True, False, None or a fedcert.ProgressListener, but is {preview(progress)}")


def is_watched() -> bool:
    """Whether a person is looking: standard error is a terminal, or this is a notebook, and it is not a CI's."""
    if os.environ.get("CI"):
        return False
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook; IPython is not imported to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def rich_progress(*, disable: bool = False, **console: Any) -> Progress:
    """A bar on standard error that goes when the work is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    rate = TextColumn("{task.fields[rate]}")
    shown = Console(stderr=True, highlight=False, **console)
    return Progress(*columns, rate, console=shown, transient=True, disable=disable)


def _console_options() -> dict[str, Any]:
    """A notebook without widgets shows what a terminal would, which rich does not do by itself."""
    if in_notebook() and find_spec("ipywidgets") is None:
        return {"force_jupyter": False, "force_terminal": True, "width": _NOTEBOOK_WIDTH}
    return {}
