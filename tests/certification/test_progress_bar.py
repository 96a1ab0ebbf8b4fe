"""Who sees a progress bar, and what it shows."""

from __future__ import annotations

import io
import sys
import types
from typing import Any

import numpy as np
import pytest

from fedcert import CallError, ProgressListener, certify
from fedcert.certification import progress_bar

pytestmark = pytest.mark.filterwarnings("default::fedcert.FedcertWarning")  # models that guess are warned of

X, Y = np.random.default_rng(0).random((20, 4)).astype(np.float32), [0, 1] * 10


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, **options: Any) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    certify(
        lambda batch: (batch[:, 0] > 0.5).astype(int), X, Y, sigma=0.25, client="a", model_id="m", seed=1, **options
    )
    return stream.getvalue()


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_shows_a_forecast_and_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal())
    assert "640 noisy samples at " in text
    assert " noisy samples at " in text
    assert "certifying" in text


def test_the_sequential_procedure_says_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal(), procedure="sequential", n=100)
    assert "Up to 4,000 noisy samples at " in text
    assert "at worst" in text


def test_a_script_and_ci_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO()) == ""
    assert shown(monkeypatch, Terminal(), progress=False) == ""
    monkeypatch.setenv("CI", "true")
    assert shown(monkeypatch, Terminal()) == ""
    assert "noisy samples at" in shown(monkeypatch, Terminal(), progress=True)


def test_a_notebook_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    assert progress_bar.in_notebook()
    assert progress_bar.is_watched()
    monkeypatch.setattr(progress_bar, "find_spec", lambda name: None if name == "ipywidgets" else object())
    assert "certifying" in shown(monkeypatch, io.StringIO())
    shell.kernel = None  # IPython on a terminal
    assert not progress_bar.in_notebook()


def test_a_listener_is_called_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(ProgressListener):
        samples = examples = 0

        def advance(self, samples: int) -> None:
            self.samples += samples

        def finished(self, examples: int) -> None:
            self.examples += examples

    listener = Counting()
    assert shown(monkeypatch, Terminal(), progress=listener) == ""
    assert (listener.samples, listener.examples) == (640, 20)


def test_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CallError, match="^progress must be True, False, None or a fedcert.ProgressListener, but is 7$"):
        shown(monkeypatch, Terminal(), progress=7)


def test_the_accuracy_without_noise_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    right = int(np.sum((X[:, 0] > 0.5) == Y))
    said = " ".join(shown(monkeypatch, io.StringIO(), progress=True).split())
    assert (
        f"Accuracy without noise: {right / 20:.1%} of 20 examples (shown here only; it is not in the report)." in said
    )
    assert "without noise:" not in shown(monkeypatch, io.StringIO(), progress=False)
