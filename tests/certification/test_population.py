"""Right answers among a few noisy copies: counted by every engine alike, binomial, and the same however they come."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from scipy import stats

from fedcert import CallError, DataProblem, InvalidValue, Report, Request, certify
from fedcert.certification.audit import AuditResult, audit_report
from fedcert.certification.certificate import CorrectTable, ExampleState, InFlight, in_flight
from fedcert.certification.data.local_data import data_of
from fedcert.certification.dataset_run import CertificationResult, certify_dataset
from fedcert.certification.examples import read_examples, write_examples
from fedcert.certification.journal import _RECORD, _SUM
from fedcert.certification.models.classifiers import ArrayClassifier, Classifier, classifier_of
from fedcert.certification.models.loading import onnx_classifier
from fedcert.certification.perturbation import Gaussian
from fedcert.certification.plan import CertificationPlan
from fedcert.certification.procedures import Certify, CountCorrect, procedure_of
from fedcert.certification.progress import ProgressListener
from fedcert.certification.samplers.torch_cpu import CpuSampler
from fedcert.certification.samplers.torch_gpu import DeviceSampler
from fedcert.certification.seeds import Seed
from fedcert.certification.streams import Phase, Streams, key_of
from fedcert.report import Smoothing

pytestmark = pytest.mark.filterwarnings("default::fedcert.FedcertWarning")  # models that guess are warned of

RANDOM = np.random.default_rng(5)
X = RANDOM.random((60, 4)).astype(np.float32)
WEIGHT = RANDOM.normal(size=(4, 3)).astype(np.float32)
Y = (X @ WEIGHT).argmax(axis=1)
Y[::7] = (Y[::7] + 1) % 3  # some that are mostly answered wrong
SIGMA = 0.25
CLASSES = ("a", "b", "c")


def scores(batch: np.ndarray) -> np.ndarray:
    return batch @ WEIGHT


def module() -> torch.nn.Module:
    made = torch.nn.Linear(4, 3, bias=False)
    with torch.no_grad():
        made.weight.copy_(torch.from_numpy(WEIGHT.T))
    return made


def onnx_file(path: Path) -> Path:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in ("x", "scores")]
    weight = numpy_helper.from_array(WEIGHT, "weight")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["scores"])], "m", values[:1], values[1:], [weight]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def plan(n: int = 32, **changes: Any) -> CertificationPlan:
    smoothing = Smoothing(sigma=SIGMA, procedure="population", n=n, **changes.pop("smoothing", {}))
    return CertificationPlan("site", smoothing, classes=CLASSES, **{"seed": 0, **changes})


def counted(
    plan_: CertificationPlan, classifier: Classifier | None = None, x: np.ndarray = X, y: np.ndarray = Y, **rest: Any
) -> CertificationResult:
    data = data_of(x, y, rest.pop("groups", None))
    made = certify_dataset(plan_, classifier or ArrayClassifier(scores, "m"), data, ProgressListener(), **rest)
    assert isinstance(made.certificates, CorrectTable)
    return made


def correct(result: CertificationResult) -> list[int]:
    assert isinstance(result.certificates, CorrectTable)
    return list(result.certificates.correct.tolist())


def as_document(result: CertificationResult) -> dict[str, Any]:
    return {**result.report.to_json(), "created": None, "model": None}


@pytest.mark.parametrize("n", [1, 7, 32, 250])
def test_function_torch_and_onnx_count_the_same(tmp_path: Path, n: int) -> None:
    expected = counted(plan(n))
    for classifier in (classifier_of(module()), onnx_classifier(onnx_file(tmp_path / "m.onnx"))):
        assert as_document(counted(plan(n), classifier)) == as_document(expected)
    report = expected.report
    assert report.samples == 60 * n
    assert len(report.procedure_counts) == n + 1
    assert sum(report.procedure_counts) == 60
    assert np.bincount(correct(expected), minlength=n + 1).tolist() == list(report.procedure_counts)
    assert report.abstained is report.certified_counts is report.class_correct_counts is None


@pytest.mark.parametrize(("n", "batch_size"), [(1, 100), (7, 64), (32, 64), (250, 100), (250, 1000)])
def test_the_devices_way_of_counting_right_answers(n: int, batch_size: int) -> None:
    """The path that a GPU takes, run on the CPU, where only its noise is another one: rows add up, means agree."""
    streams = Streams(Seed.fixed(3), "site", min(n, 100))
    device = DeviceSampler(module(), 3, Gaussian(SIGMA), streams, torch.device("cpu"), batch_size)
    plain = CpuSampler(module(), 3, Gaussian(SIGMA), streams, batch_size)
    images = np.repeat(X[:6], 400, axis=0)
    with torch.inference_mode():
        counts = [
            sampler.counts(in_flight(images, range(len(images)), Phase.COUNTING, n)) for sampler in (device, plain)
        ]
    for made in counts:
        assert made.sum(axis=1).tolist() == [n] * len(images)
    own, other = (made[np.arange(len(images)), np.repeat(Y[:6], 400)].reshape(6, 400) for made in counts)
    for first, second in zip(own, other, strict=True):
        answers = np.array([[each.sum(), n * 400 - each.sum()] for each in (first, second)])
        if answers.sum(axis=0).min() > 10:
            assert stats.chi2_contingency(answers).pvalue > 1e-4


@pytest.mark.parametrize("n", [1, 7, 32, 130])
def test_right_answers_are_binomial_with_the_exact_probability(n: int) -> None:
    """A linear model of two classes: K is binomial(n, Φ(margin / sigma)); by a chi-square test for each margin."""
    direction = np.array([0.6, -0.8, 0.0, 0.0], dtype=np.float32)
    margins = np.array([-0.3, -0.05, 0.0, 0.1, 0.25, 0.6])
    repeats = 1500
    # In the two coordinates that the model ignores, so that no example is another one's copy.
    other = RANDOM.random((len(margins) * repeats, 2)).astype(np.float32)
    images = np.repeat(margins, repeats)[:, None] * direction
    images[:, 2:] = other
    model = ArrayClassifier(lambda batch: (batch @ direction > 0).astype(np.int64), "linear")
    smoothing = Smoothing(sigma=SIGMA, procedure="population", n=n)
    made = certify_dataset(
        CertificationPlan("site", smoothing, classes=("no", "yes"), seed=11),
        model,
        data_of(images.astype(np.float32), np.ones(len(images), dtype=np.int64)),
        ProgressListener(),
    )
    rows = np.array(correct(made)).reshape(len(margins), repeats)
    for row, margin in zip(rows, margins, strict=True):
        chance = stats.binom.pmf(np.arange(n + 1), n, stats.norm.cdf(margin / SIGMA)) * repeats
        seen = np.bincount(row, minlength=n + 1).astype(float)
        cells = [(seen[chance >= 5][place], chance[chance >= 5][place]) for place in range(int((chance >= 5).sum()))]
        cells.append((seen[chance < 5].sum(), chance[chance < 5].sum()))
        found, expected = np.array([cell for cell in cells if cell[1] > 0]).T
        assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-4, margin


def test_right_answers_of_different_examples_and_blocks_are_independent() -> None:
    """Of n = 200 passes the two blocks have noise of their own, and so has each of two equal images."""
    streams = Streams(Seed.fixed(1), "site", 100)
    sampler = ArrayClassifier(scores, "m").sampler(3, Gaussian(SIGMA), streams, None)
    images = np.repeat(X[:1], 2000, axis=0)
    halves = [sampler.counts(in_flight(images, range(2000), Phase.COUNTING, 100, first))[:, Y[0]] for first in (0, 100)]
    assert abs(stats.pearsonr(*halves).statistic) < 0.09  # four standard deviations
    assert abs(stats.pearsonr(halves[0][:-1], halves[0][1:]).statistic) < 0.09


@pytest.mark.parametrize("n", [1, 7, 32, 250])
@pytest.mark.parametrize("kind", ["function", "torch"])
def test_batch_size_order_company_and_workers_change_nothing(kind: str, n: int) -> None:
    classifier = ArrayClassifier(scores, "m") if kind == "function" else classifier_of(module())
    whole = correct(counted(plan(n), classifier))
    for batch_size in (1, 33, 64, 1000):
        assert correct(counted(plan(n, batch_size=batch_size), classifier)) == whole
    turned = counted(plan(n), classifier, X[::-1].copy(), Y[::-1].copy())
    assert correct(turned)[::-1] == whole
    for few in ([7], [3, 40, 41, 59]):
        assert correct(counted(plan(n), classifier, X[few], Y[few])) == [whole[index] for index in few]
    if kind == "torch":
        before = torch.get_num_threads()
        try:
            for threads in (1, 3):
                torch.set_num_threads(threads)
                assert correct(counted(plan(n, batch_size=50), classifier)) == whole
        finally:
            torch.set_num_threads(before)
    assert correct(counted(plan(n, seed=1), classifier)) != whole or n == 1


@pytest.mark.parametrize("n", [16, 32])
def test_few_passes_waste_no_samples(n: int) -> None:
    """All rows that the model is called with are noisy copies, but for less than one call."""
    rows: list[int] = []

    def model(batch: np.ndarray) -> np.ndarray:
        rows.append(len(batch))
        return scores(batch)

    streams = plan(n).streams(Seed.fixed(0))
    sampler = ArrayClassifier(model, "m").sampler(3, Gaussian(SIGMA), streams, 64)
    counts = sampler.counts(in_flight(X, range(60), Phase.COUNTING, n))
    assert counts.sum() == 60 * n
    assert set(rows) == {64}
    assert 60 * n <= sum(rows) < 60 * n + 64


@pytest.mark.parametrize(("n", "share"), [(7, 63 / 64), (20, 60 / 64), (50, 50 / 64), (64, 1.0)])
def test_passes_that_do_not_divide_a_call_leave_less_than_a_block_of_it_empty(n: int, share: float) -> None:
    rows: list[int] = []

    def model(batch: np.ndarray) -> np.ndarray:
        rows.append(len(batch))
        return scores(batch)

    sampler = ArrayClassifier(model, "m").sampler(3, Gaussian(SIGMA), plan(n).streams(Seed.fixed(0)), 64)
    sampler.counts(in_flight(X, range(60), Phase.COUNTING, n))
    assert sum(rows) - 64 < 60 * n / share <= sum(rows)


def test_blocks_of_few_passes_are_as_long_as_they_are_many() -> None:
    for n, block in ((1, 1), (32, 32), (100, 100), (250, 100)):
        assert plan(n).streams(Seed.fixed(0)).block_size((3, 32, 32)) == block
    certify_plan = CertificationPlan("site", Smoothing(sigma=0.25, n=20))
    assert certify_plan.streams(Seed.fixed(0)).block_size((3, 32, 32)) == 100  # what a seed of CERTIFY meant
    assert plan(32).streams(Seed.fixed(0)).block_size((3, 2000, 2000)) == 1


def test_samples_are_planned_in_blocks_and_counted_as_they_come() -> None:
    procedure = procedure_of(plan(250).smoothing, (0.0,), 100)
    assert procedure == CountCorrect(250)
    assert isinstance(procedure_of(Smoothing(sigma=0.25), (0.0,), 100), Certify)
    example = InFlight(X[0], ExampleState(4, key=9), key_of(4), label=2)
    assert procedure.most_needed(example.state) == 250
    for first, most, samples in ((0, 100, 100), (100, 100, 100), (200, 1000, 50)):
        procedure.plan_samples(example, most)
        assert (example.phase, example.first, example.samples) == (Phase.COUNTING, first, samples)
        (example.state,) = procedure.advance([example], np.array([[samples - 30, 0, 30]]))
        assert example.state.done == (first == 200)
    assert (example.state.correct, example.state.samples, example.state.drawn) == (90, 250, 250)
    assert procedure.most_needed(example.state) == 0


@pytest.mark.parametrize("n", [32, 250])
def test_a_run_that_breaks_off_goes_on_and_ends_the_same(
    tmp_path: Path, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedcert.certification.scheduler._SECONDS_PER_ITERATION", 0.0)  # as little as possible
    calls = 0

    def breaks(batch: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls % 19 == 0:
            raise KeyboardInterrupt
        return scores(batch)

    undisturbed, broken = counted(plan(n)), 0
    for _ in range(400):
        try:
            done = counted(plan(n, batch_size=500), ArrayClassifier(breaks, "m"), journal=tmp_path / "j")
            break
        except KeyboardInterrupt:
            broken += 1
    else:
        pytest.fail("it never ended")
    assert broken > 1
    assert correct(done) == correct(undisturbed)
    assert as_document(done) == as_document(undisturbed)
    # What was done, is not done again.
    rows: list[int] = []

    def counting(batch: np.ndarray) -> np.ndarray:
        rows.append(len(batch))
        return scores(batch)

    again = counted(plan(n), ArrayClassifier(counting, "m"), journal=tmp_path / "j")
    assert sum(rows) < 60 * n / 2  # a look at the model, and no example
    assert as_document(again) == as_document(undisturbed)


def test_a_journal_belongs_to_its_number_of_passes_and_votes(tmp_path: Path) -> None:
    counted(plan(16), journal=tmp_path / "j")
    unfinished = (tmp_path / "j").read_bytes()[: -_RECORD.size - _SUM.size]
    (tmp_path / "j").write_bytes(unfinished)
    for other in (plan(17), plan(16, smoothing={"votes": 3}), plan(16, every=2)):
        with pytest.raises(CallError, match="is the journal of an unfinished run with other settings"):
            counted(other, journal=tmp_path / "j")
    plain = CertificationPlan("site", Smoothing(sigma=SIGMA, n=16), classes=CLASSES, seed=0)
    with pytest.raises(CallError, match="is the journal of an unfinished run with other settings"):
        certify_dataset(plain, ArrayClassifier(scores, "m"), data_of(X, Y), ProgressListener(), tmp_path / "j")


def test_an_example_that_was_changed_is_counted_anew(tmp_path: Path) -> None:
    counted(plan(), journal=tmp_path / "j")
    other = np.roll(X, 1, axis=0)
    other[:5] = X[:5]
    rows: list[int] = []

    def counting(batch: np.ndarray) -> np.ndarray:
        rows.append(len(batch))
        return scores(batch)

    done = counted(plan(), ArrayClassifier(counting, "m"), other, journal=tmp_path / "j")
    assert correct(done) == correct(counted(plan(), x=other))
    assert sum(rows) >= 55 * 32


def test_a_time_budget_ends_in_time_with_whole_examples() -> None:
    def slow(batch: np.ndarray) -> np.ndarray:
        time.sleep(len(batch) * 1e-5)
        return scores(batch)

    x = np.tile(X, (100, 1))
    x[:, 3] += np.repeat(np.arange(100), 60) / 1000
    y = np.tile(Y, 100)
    began = time.monotonic()
    done = counted(plan(time_budget=0.6), ArrayClassifier(slow, "m"), x, y)
    assert time.monotonic() - began < 15
    assert not done.complete
    assert 0 < done.report.examples < 6000
    assert done.report.samples == 32 * done.report.examples
    assert done.report.time_budget == 0.6
    whole = np.array(correct(counted(plan(), x=x, y=y)))
    assert correct(done) == whole[done.certificates.index].tolist()


def test_a_time_budget_that_is_too_short_for_one_example_says_so() -> None:
    def slow(batch: np.ndarray) -> np.ndarray:
        time.sleep(0.004 * len(batch))
        return scores(batch)

    with pytest.raises(
        CallError,
        match=r"is too short: at .* samples a second, 10 examples may need .* s, .* can be used; give more time, or a smaller n",
    ):
        certify(slow, X, Y, client="a", model_id="m", sigma=SIGMA, procedure="population", n=100, time_budget=0.2)


def test_every_groups_and_lattice_are_as_in_certify() -> None:
    whole = np.array(correct(counted(plan())))
    third = counted(plan(every=3))
    assert 8 <= third.report.examples <= 32
    assert correct(third) == whole[third.certificates.index].tolist()
    assert third.report.samples == 32 * third.report.examples
    grouped = counted(plan(class_counts=True), groups=np.array([0] * 3 + [1] + [2] * 56))
    assert grouped.report.design_effect == pytest.approx(((9 + 1 + 56**2) / 60,) * len(grouped.report.radii))
    assert grouped.report.largest_group == 56
    assert correct(grouped) == whole.tolist()
    assert np.sum(grouped.report.class_correct_counts or (), axis=0).tolist() == list(grouped.report.procedure_counts)
    steps = (np.round(X * 255) / 255).astype(np.float32)
    exact = counted(plan(200, smoothing={"lattice": 255}), x=steps)
    free = counted(plan(200), x=steps)
    assert exact.report.smoothing.lattice == 255
    assert correct(exact) != correct(free)  # other noise, of the same law
    difference = (np.array(correct(exact)) - np.array(correct(free))) / 200
    assert abs(difference.mean()) < 4 * np.sqrt(2 * 0.25 / 200 / 60)


def test_uniform_noise_counts_right_answers_too() -> None:
    direction = np.array([1.0, 0, 0, 0], dtype=np.float32)
    model = ArrayClassifier(lambda batch: (batch @ direction > 0.5).astype(np.int64), "threshold")
    images = np.column_stack([np.full(400, 0.6), RANDOM.random((400, 3))]).astype(np.float32)
    smoothing = Smoothing(sigma=SIGMA, noise="uniform", norm="l1", procedure="population", n=32)
    made = CertificationPlan("site", smoothing, classes=("no", "yes"), seed=0)
    result = certify_dataset(made, model, data_of(images, np.ones(400, dtype=np.int64)), ProgressListener())
    chance = 0.5 + 0.1 / (2 * np.sqrt(3) * SIGMA)
    assert stats.binomtest(sum(correct(result)), 400 * 32, chance).pvalue > 1e-4


def test_the_public_function_and_a_request_give_the_same() -> None:
    settings = {"client": "a", "model_id": "m", "class_counts": True, "seed": 4}
    own = certify(scores, X, Y, sigma=SIGMA, procedure="population", classes=CLASSES, lattice=0, **settings)
    assert (own.smoothing.n, own.smoothing.votes) == (32, 11)
    assert own.radii == own.smoothing.default_radii
    asked = Request(
        model="m", smoothing={"sigma": SIGMA, "procedure": "population"}, radii=own.radii, classes=CLASSES,  # type: ignore[arg-type]
        nonce="0f" * 16,
    )  # fmt: skip
    answer = certify(scores, X, Y, request=asked, **settings)
    assert answer.request == asked.digest
    assert answer.class_correct_counts == own.class_correct_counts
    other = certify(scores, X, Y, sigma=SIGMA, procedure="population", n=7, votes=3, **settings)
    assert (other.smoothing.votes, len(other.procedure_counts)) == (3, 8)
    for wrong, words in (
        ({"n0": 100}, "n0 must be left out .* which selects no class"),
        ({"failure_probability": 0.01}, "failure_probability must be left out"),
        ({"tolerance": 0.01}, "tolerance must be left out .* draws n samples of every example"),
        ({"votes": 10}, "votes must be an odd number from 1 to 9999, or null, but is 10"),
        ({"n": 2001}, "n must be at most 2000 passes with the population procedure, but is 2001"),
    ):
        with pytest.raises(InvalidValue, match=words):
            certify(scores, X, Y, sigma=SIGMA, procedure="population", **{**settings, **wrong})
    with pytest.raises(InvalidValue, match="votes must be left out .* about single examples, not about a vote"):
        certify(scores, X, Y, sigma=SIGMA, procedure="sequential", votes=11, **settings)


def test_a_client_without_examples_reports_zeros() -> None:
    report = certify(
        scores, X[:0], Y[:0], client="a", sigma=SIGMA, procedure="population", n=4, model_id="m", classes=CLASSES
    )
    assert (report.label_counts, report.correct_counts, report.samples) == ((0, 0, 0), (0,) * 5, 0)


def test_the_forecast_is_exact_and_the_samples_add_up() -> None:
    events: list[tuple[str, int]] = []

    class Noting(ProgressListener):
        def forecast(self, samples: int, rate: float) -> None:
            assert rate > 0
            events.append(("forecast", samples))

        def advance(self, samples: int) -> None:
            events.append(("advance", samples))

    certify_dataset(plan(), ArrayClassifier(scores, "m"), data_of(X, Y), Noting())
    assert events[0] == ("forecast", 60 * 32)
    assert sum(samples for kind, samples in events if kind == "advance") == 60 * 32


def test_right_answers_of_single_examples_go_to_parquet_and_come_back(tmp_path: Path) -> None:
    done = counted(plan(7))
    write_examples(tmp_path / "e.parquet", done, Y)
    rows = parquet.read_table(tmp_path / "e.parquet").to_pylist()
    assert rows[0].keys() == {"index", "label", "correct", "samples"}
    assert [row["correct"] for row in rows] == correct(done)
    assert [row["label"] for row in rows] == Y.tolist()
    assert sum(row["samples"] for row in rows) == done.report.samples
    kept = read_examples(tmp_path / "e.parquet")
    assert isinstance(kept.certificates, CorrectTable)
    for name in ("index", "correct", "samples"):
        assert np.array_equal(getattr(kept.certificates, name), getattr(done.certificates, name))
    assert kept.header["smoothing"] == done.report.smoothing.to_json()


AUDITED = ArrayClassifier(scores, "m")


def kept_run(path: Path, n: int = 20, **changes: Any) -> CertificationResult:
    """A run whose right answers of single examples are kept."""
    done = counted(plan(n, **{"seed": None, **changes}))
    write_examples(path, done, Y)
    return done


def audited(report: Report, done: CertificationResult, **options: Any) -> AuditResult:
    return audit_report(report, AUDITED, data_of(X, Y), done.seed, **options)


def test_an_audit_of_right_answers_agrees_or_says_what_does_not(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    done = kept_run(path, class_counts=True)
    assert done.report.seed == done.seed.commitment
    assert audited(done.report, done) == AuditResult(60, 0, True)
    assert audited(done.report, done, examples=path, sample=7) == AuditResult(7, 0, True)
    rows = np.array(done.report.class_correct_counts)
    label, place = np.argwhere(rows[:, :-1])[0]
    rows[label, place] -= 1
    rows[label, 20] += 1  # one example better than it was, and nothing wrong with the report by itself
    better = replace(
        done.report, class_correct_counts=tuple(map(tuple, rows.tolist())), correct_counts=rows.sum(axis=0).tolist()
    )
    assert audited(better, done) == AuditResult(60, 0, False)
    assert audited(better, done, examples=path) == AuditResult(60, 0, False)
    assert not audited(replace(done.report, samples=1201), done).agrees
    third = kept_run(tmp_path / "third.parquet", every=3)
    assert audited(third.report, third, every=3) == AuditResult(third.report.examples, 0, True)
    with pytest.raises(DataProblem, match="give the data, and --every, as they were then"):
        audited(third.report, third, examples=tmp_path / "third.parquet")


def test_an_audit_under_a_time_budget_needs_what_was_kept(tmp_path: Path) -> None:
    done = kept_run(tmp_path / "e.parquet", time_budget=100.0)
    with pytest.raises(CallError, match="give the certificates that certify --examples kept"):
        audited(done.report, done)
    assert audited(done.report, done, examples=tmp_path / "e.parquet") == AuditResult(60, 0, True)


def test_an_audit_finds_right_answers_that_were_forged(tmp_path: Path) -> None:
    """The report and what was kept agree with each other, and not with what the model answers."""
    path = tmp_path / "e.parquet"
    done = kept_run(path)
    table = parquet.read_table(path)
    own = table["correct"].to_pylist()
    raised = [min(value + 1, 20) for value in own]
    parquet.write_table(table.set_column(2, "correct", arrow.array(raised, arrow.int32())), path)
    better = replace(done.report, correct_counts=np.bincount(raised, minlength=21).tolist())
    changed = sum(first != second for first, second in zip(raised, own, strict=True))
    assert changed > 10
    assert audited(better, done, examples=path, sample=60) == AuditResult(60, changed, True)


def test_kept_right_answers_that_cannot_be_this_reports_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    done = kept_run(path)
    table = parquet.read_table(path)

    def other(values: list[int | None]) -> arrow.Table:
        return table.set_column(2, "correct", arrow.array(values, arrow.int32()))

    certify_plan = CertificationPlan("site", Smoothing(sigma=SIGMA, n=20), classes=CLASSES, seed=0)
    fixed = certify_dataset(certify_plan, AUDITED, data_of(X, Y), ProgressListener())
    write_examples(tmp_path / "fixed.parquet", fixed, Y)
    certified = parquet.read_table(tmp_path / "fixed.parquet")
    named = {b"fedcert": table.schema.metadata[b"fedcert"].replace(b'"site"', b'"ward"')}
    holds = "must hold certificates of single examples, but does not"
    another = "the certificates are of another report; give those that were kept with this one"
    impossible = "the certificates have right answers that 20 noisy copies cannot have"
    for what, made, words in (
        ("fewer", table.take(list(range(20))), "give the data, and --every, as they were then"),
        ("doubled", table.take([0, 0, *range(2, 60)]), holds),
        ("without a column", table.drop(["correct"]), holds),
        ("with a null", other([None] * 60), holds),
        ("beyond n", other([21] * 60), impossible),
        ("below 0", other([-1] * 60), impossible),
        ("another's", table.replace_schema_metadata(named), another),
        ("CERTIFY's", certified, another),
        ("CERTIFY's under this one's name", certified.replace_schema_metadata(table.schema.metadata), another),
        ("these under CERTIFY's name", table.replace_schema_metadata(certified.schema.metadata), another),
    ):
        parquet.write_table(made, path)
        with pytest.raises(DataProblem) as caught:
            audited(done.report, done, examples=path)
        assert words in str(caught.value), what


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_with_the_same_report(tmp_path: Path) -> None:
    """kill -9 five times: the report is that of an undisturbed run."""
    (tmp_path / "ward.py").write_text(
        "import os, time\n"
        "SECONDS = float(os.environ['SECONDS'])\n"
        "def make():\n"
        "    def predict(batch):\n"
        "        time.sleep(len(batch) * SECONDS)\n"
        "        return (batch[:, 0] > 0.5).astype(int)\n"
        "    return predict\n"
    )
    x = np.tile(X, (30, 1))
    np.savez(tmp_path / "d.npz", x=x, y=(x[:, 0] > 0.5).astype(np.int64))
    command = [
        sys.executable, "-m", "fedcert", "certify", "ward:make", "d.npz", "--model-id", "t", "--client", "site",
        "--sigma", "0.25", "--procedure", "population", "--n", "150", "--json", "--out",
    ]  # fmt: skip

    def start(name: str, seconds: float) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "SECONDS": str(seconds)}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([*command, name], cwd=tmp_path, env=environment, **quiet)

    assert start("plain.json", 0).wait() == 0
    shutil.copy(tmp_path / "plain.seed", tmp_path / "killed.seed")
    chance = np.random.default_rng(0)
    sizes = []
    for _ in range(5):
        process = start("killed.json", 60 / (len(x) * 200))
        time.sleep(chance.uniform(2.0, 9.0))
        assert process.poll() is None, "it ended before it was killed"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        sizes += [path.stat().st_size for path in tmp_path.glob("killed.json.journal")]
    assert len(set(sizes)) > 1  # something was kept, and more and more
    assert sizes == sorted(sizes)
    assert start("killed.json", 0).wait() == 0
    plain, other = (json.loads((tmp_path / name).read_text()) for name in ("plain.json", "killed.json"))
    assert {**plain, "created": 0} == {**other, "created": 0}
