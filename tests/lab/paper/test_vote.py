"""CERTIFY beside the vote, on traces whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from fedcert import CallError, DataProblem
from fedcert.lab.experiment import Experiment
from fedcert.lab.paper.rendering import vote_markdown
from fedcert.lab.paper.vote import RATIOS, compare_with_vote, vote_comparisons
from fedcert.lab.populations.partition import partition_of
from fedcert.lab.traces.trace import Examples, Trace, write_trace
from fedcert.population.vote import vote_accuracy

CLASSES, CLIENTS = 5, 20
CENTRES = np.array([1.6, 0.2, 0.9, -0.4, 2.0])
"""Of z = Φ⁻¹(p) in each class: some easy, some hard."""


def drawn_trace(size: int = 6000, seed: int = 0) -> tuple[Trace, np.ndarray]:
    """A trace of a linear classifier, and what the vote keeps of its target at worst, at each radius."""
    generator = np.random.default_rng(seed)
    experiment = Experiment(partition="dirichlet:0.5", clients=CLIENTS)
    sigma = experiment.smoothing.sigma

    def examples(clients: int) -> tuple[Examples, np.ndarray]:
        label = generator.integers(0, CLASSES, size)
        z = generator.normal(CENTRES[label], 1.3)
        owner = np.full(size, -1, dtype=np.int32)
        if clients:
            for number, part in enumerate(partition_of(experiment.partition).divide(label, clients, generator)):
                owner[part] = number
        # A certificate lies a little below the radius that p has, as CERTIFY's does.
        part = Examples(
            client=owner, index=np.arange(size, dtype=np.int32), label=label.astype(np.int32),
            predicted=np.where(z > 0, label, (label + 1) % CLASSES).astype(np.int32),
            radius=sigma * np.clip(z - 0.1, 0.0, 3.0), samples=np.full(size, 2100, dtype=np.int32),
            correct=generator.binomial(100, special.ndtr(z)).astype(np.int32),
        )  # fmt: skip
        return part, z

    held, _ = examples(CLIENTS)
    target, z = examples(0)
    moved = z[:, None] - np.array(RATIOS)
    kept = vote_accuracy(special.ndtr(moved), special.ndtr(-moved), 11)[0].mean(axis=0)
    names = tuple(f"class {number}" for number in range(CLASSES))
    return Trace(experiment, names, "drawn", 10, {"clean": 0.8, "noisy": 0.7}, {}, held, target), kept


def test_truth_and_estimate_are_what_the_vote_keeps() -> None:
    trace, kept = drawn_trace()
    compared = compare_with_vote(trace)
    sigma = trace.experiment.smoothing.sigma
    assert compared.estimate.radii == pytest.approx([ratio * sigma for ratio in RATIOS], abs=1e-8)
    assert compared.estimate.votes == 11
    # Right answers of 6,000 examples leave these standard errors, by the variance of the scores given p; 100 passes
    # lose 0.6 points at 2.4 sigma here and 0.2 or less before (means over 30 seeds).
    errors = np.array([0.0007, 0.0008, 0.0009, 0.0010, 0.0012, 0.0017, 0.0022])
    assert (compared.truth < kept + 4 * errors).all()
    assert (compared.truth > kept - np.array([0.002] * 6 + [0.006]) - 4 * errors).all()
    assert np.abs(np.array(compared.estimate.certified_accuracy) - kept).max() < 0.03
    assert (np.array(compared.estimate.lower) < kept).all()
    assert (np.array(compared.estimate.upper) > kept).all()
    for ratio, certified in zip(RATIOS, compared.certify, strict=True):
        reached = (trace.target.predicted == trace.target.label) & (trace.target.radius >= round(ratio * sigma, 9))
        assert certified == (reached & (trace.target.radius > 0)).mean()
    assert (compared.certify_passes, compared.vote_passes) == (2100, 100)


def test_a_line_for_each_radius() -> None:
    compared = compare_with_vote(drawn_trace(2000)[0])
    text = vote_markdown(compared)
    assert text.startswith("resnet18, cifar10, dirichlet:0.5, fedavg: 10 rounds, sigma 0.316. Passes of an example: ")
    assert "CERTIFY 2,100 on average, the vote 100." in text
    lines = [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]
    assert lines[0] == ["radius", "radius/sigma", "CERTIFY", "vote of 11", "estimate", "95% interval"]
    assert [line[1] for line in lines[2:]] == ["0", "0.4", "0.8", "1.2", "1.6", "2", "2.4"]
    assert [line[0] for line in lines[2:4]] == ["0.000", "0.126"]
    assert [float(line[3]) for line in lines[2:]] == pytest.approx(compared.truth, abs=6e-4)


def test_traces_without_right_answers_are_left_out_and_one_is_needed(tmp_path: Path) -> None:
    trace, _ = drawn_trace(1000)
    older = replace(trace, clients=replace(trace.clients, correct=None), target=replace(trace.target, correct=None))
    write_trace(tmp_path / "older.parquet", older)
    left_out: list[str] = []
    for where in (tmp_path, tmp_path / "older.parquet"):
        with pytest.raises(DataProblem, match=r"must have right answers \(the column 'correct'\), but none has"):
            list(vote_comparisons(where, []))
    write_trace(tmp_path / "newer.parquet", trace)
    assert len(list(vote_comparisons(tmp_path, left_out))) == 1
    assert left_out == ["older"]
    with pytest.raises(CallError, match="holds no trace; make one with 'fedcert lab trace'"):
        list(vote_comparisons(tmp_path / "nowhere", []))
    empty = Examples(**{name: value[:0] for name, value in vars(trace.target).items() if value is not None})
    write_trace(tmp_path / "newer.parquet", replace(trace, target=empty))
    with pytest.raises(DataProblem, match=r"newer.parquet'?: the trace has no examples of the target"):
        list(vote_comparisons(tmp_path, []))
