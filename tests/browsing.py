"""A page that was opened in a browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


class Opened:
    """A page that was opened from a file, and all that it did."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab
        self.said: list[str] = []
        self.asked: list[str] = []
        tab.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        tab.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        tab.on("dialog", lambda dialog: (self.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        tab.on("request", lambda request: self.asked.append(request.url))

    def curve(self) -> dict[str, list[float | None]]:
        """What the page's table tells, to the last digit."""
        rows = self.tab.eval_on_selector_all(
            "#curve-table tbody tr",
            "rows => rows.map(row => [...row.querySelectorAll('data')].map(one => one.value === '' ? null : +one.value))",
        )
        point, lower, upper = (list(column) for column in zip(*rows, strict=True))
        return {"certified_accuracy": point, "lower": lower, "upper": upper}

    def mix(self) -> dict[str, float]:
        """The class mix that the page shows, to the last digit."""
        found: dict[str, float] = json.loads(self.tab.input_value("#mix-json"))
        return found

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that the page does by itself. (Its policy forbids Playwright's own way, by eval.)"""
        for _ in range(100):
            if condition():
                return
            self.tab.wait_for_timeout(50)
        raise AssertionError("the page did not do what it should within 5 s")

    def settled(self) -> None:
        """Wait until what was asked for is shown."""
        self.tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.until(lambda: self.tab.locator("#curve[aria-busy=true]").count() == 0)
