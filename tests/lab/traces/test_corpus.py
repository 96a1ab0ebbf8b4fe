"""The traces that come with the project: every setting of the paper, trained and certified as it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedcert.lab.paper.published import TABLE_1, Setting, settings
from fedcert.lab.paper.tables import trace_path
from fedcert.lab.traces.trace import read_trace

TRACES = Path(__file__).parents[3] / "traces"


@pytest.mark.parametrize("setting", settings(), ids=lambda setting: setting.name)
def test_each_trace_is_of_the_setting_in_its_name(setting: Setting) -> None:
    path = trace_path(TRACES, setting)
    assert path.stat().st_size < 400_000
    trace = read_trace(path)
    assert trace.experiment == setting.experiment(trace.rounds, on_gpu=True)
    assert trace.rounds >= (300 if setting in {row.setting for row in TABLE_1} else 200)
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


def test_nothing_else_lies_among_the_traces() -> None:
    assert {path.name for path in TRACES.iterdir()} == {f"{setting.name}.parquet" for setting in settings()}
