"""The traces that come with the project: every setting of the paper, trained and certified as it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedcert.lab.paper.published import TABLE_1, Setting, settings
from fedcert.lab.paper.tables import trace_path
from fedcert.lab.traces.trace import Trace, read_trace

TRACES = Path(__file__).parents[3] / "traces"
LONG = TRACES / "1000-rounds"
"""As long as the paper's, as far as they are made."""
LONG_SETTINGS = [setting for setting in settings() if trace_path(LONG, setting).exists()]
LONG = TRACES / "1000-rounds"
"""Runs as long as the paper's, as far as there are any."""


@pytest.mark.parametrize("setting", settings(), ids=lambda setting: setting.name)
def test_each_trace_is_of_the_setting_in_its_name(setting: Setting) -> None:
    trace = check_trace(TRACES, setting)
    assert trace.rounds >= (300 if setting in {row.setting for row in TABLE_1} else 200)


@pytest.mark.parametrize("setting", [each for each in settings() if trace_path(LONG, each).exists()], ids=str)
def test_long_runs_have_right_answers_clean_predictions_and_a_curve(setting: Setting) -> None:
    trace = check_trace(LONG, setting)
    assert trace.rounds == 1000
    assert trace.has_correct
    for examples in (trace.clients, trace.target):
        assert examples.clean is not None
    # float32 in `accuracy`, bfloat16 here: a few images in a thousand lie so near a border that it matters.
    assert (trace.target.clean == trace.target.label).mean() == pytest.approx(trace.accuracy["clean"], abs=0.01)
    curve = trace.about["noisy_accuracy_after_round"]
    assert [int(number) for number in curve] == list(range(50, 1001, 50))
    assert curve["1000"] == trace.accuracy["noisy"]


def check_trace(folder: Path, setting: Setting) -> Trace:
    """A trace, of the setting in its name and whole."""
    path = trace_path(folder, setting)
    assert path.stat().st_size < 400_000
    trace = read_trace(path)
    assert trace.experiment == setting.experiment(trace.rounds, on_gpu=True)
    assert set(trace.accuracy) == {"clean", "noisy"}
    assert "H200" in trace.about["device"]
    assert np.array_equal(np.sort(trace.target.index), np.arange(10_000))
    assert set(np.bincount(trace.target.label)) == {10_000 // len(trace.classes)}
    # Every client certifies a fifth of what it holds: no example twice, some 10,000 in all.
    assert len(np.unique(trace.clients.index)) == len(trace.clients) == pytest.approx(10_000, abs=50)
    assert set(trace.clients.client) <= set(range(100))
    # No radius beyond what the settings can certify, and no more samples than 100 to select and 10,000 to estimate.
    assert max(trace.clients.radius.max(), trace.target.radius.max()) <= trace.experiment.smoothing.largest_radius
    assert max(trace.clients.samples.max(), trace.target.samples.max()) <= 10_100
    return trace


def test_nothing_else_lies_among_the_traces() -> None:
    names = {f"{setting.name}.parquet" for setting in settings()}
    assert {path.name for path in TRACES.iterdir()} == names | {LONG.name}
    assert {path.name for path in LONG.iterdir()} <= names
