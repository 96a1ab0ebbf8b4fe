"""Experiments and their traces: made, kept, read back, and federations drawn from them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import torch
from scipy import special

from fedcert import CallError, DataProblem, FileProblem, InvalidValue, Smoothing, certify
from fedcert.estimation.clients import reported as estimation
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.prepared import PreparedClients
from fedcert.estimation.settings import Settings
from fedcert.estimation.target import distribution_of
from fedcert.lab.architectures import build_network
from fedcert.lab.datasets.dataset import Dataset
from fedcert.lab.datasets.digits import read_digits
from fedcert.lab.experiment import Experiment, read_experiment
from fedcert.lab.paper.published import settings
from fedcert.lab.populations.partition import partition_of
from fedcert.lab.traces.certify_trace import make_trace
from fedcert.lab.traces.federations import (
    draw_federation,
    draw_target,
    draw_voting_federation,
    resample_clients,
    table_of,
    vote_smoothing,
)
from fedcert.lab.traces.trace import Examples, Trace, read_trace, write_trace
from fedcert.lab.training.rounds import FederatedTraining
from fedcert.lab.training.settings import Training
from fedcert.population.tables import designs_for

EXPERIMENT = Experiment(
    data="digits", network="small", partition="dirichlet:0.5", clients=12, seed=3,
    training=Training(rounds=15, clients_per_round=6, epochs=2, batch_size=16, learning_rate=0.1, sigma=0.25, padding=0, flip=False),
    smoothing=Smoothing.defaults(0.25, procedure="sequential", n=500), radii=(0.0, 0.1, 0.2, 0.4),
)  # fmt: skip


@pytest.fixture(scope="module")
def data() -> Dataset:
    """The digits."""
    return read_digits()


@pytest.fixture(scope="module")
def network(data: Dataset) -> torch.nn.Module:
    """A network that was trained for real."""
    torch.manual_seed(EXPERIMENT.seed)
    network = build_network(EXPERIMENT.network, data)
    images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
    parts = [train for train, _ in EXPERIMENT.split_clients(data.train_labels)]
    for _ in FederatedTraining(network, images, labels, parts, EXPERIMENT.training).rounds():
        pass
    return network


@pytest.fixture(scope="module")
def trace(data: Dataset, network: torch.nn.Module) -> Trace:
    """A trace of a small experiment, certified for real."""
    return make_trace(
        EXPERIMENT, data, network, rounds=15, accuracy={"clean": 0.9, "noisy": 0.8}, about={"note": "ours"}
    )


def test_every_test_example_is_certified_once_and_belongs_to_its_client(trace: Trace, data: Dataset) -> None:
    holders = [test for _, test in EXPERIMENT.split_clients(data.train_labels)]
    assert len(trace.clients) == sum(map(len, holders))
    for number, held in enumerate(holders):
        assert trace.clients.index[trace.clients.client == number].tolist() == held.tolist()
    assert np.array_equal(trace.clients.label, data.train_labels[trace.clients.index])
    assert trace.target.index.tolist() == list(range(len(data.test_labels)))
    assert set(trace.target.client.tolist()) == {-1}
    assert trace.target.right.mean() > 0.5


def test_a_trace_is_kept_and_read_back(trace: Trace, tmp_path: Path) -> None:
    write_trace(tmp_path / "t.parquet", trace)
    back = read_trace(tmp_path / "t.parquet")
    assert back.experiment == trace.experiment
    assert (back.classes, back.model, back.rounds) == (trace.classes, trace.model, trace.rounds)
    assert (back.accuracy, back.about) == (trace.accuracy, trace.about)
    for mine, other in ((trace.clients, back.clients), (trace.target, back.target)):
        for name in ("client", "index", "label", "predicted", "samples", "correct", "clean"):
            assert np.array_equal(getattr(mine, name), getattr(other, name))
        assert (other.radius <= mine.radius).all()  # rounded down
        assert np.abs(other.radius - mine.radius).max() < 1e-5
        assert np.array_equal(mine.right, other.right)


def test_right_answers_are_counted_among_the_samples_of_selection(
    trace: Trace, data: Dataset, network: torch.nn.Module
) -> None:
    for part in (trace.clients, trace.target):
        assert part.correct is not None
        assert part.correct.min() >= 0
        assert part.correct.max() == 100
        # More than half of the samples are a majority, and a class that was not selected has no more than half.
        assert (part.predicted == part.label)[part.correct > 50].all()
        assert part.correct[part.predicted != part.label].max() <= 50
    # Other noise on the same images: means of 599 binomial counts differ by less than five standard errors.
    smoothing = Smoothing(sigma=0.25, procedure="population", n=100)
    images = data.test_images.astype(np.float32) / np.float32(255)
    report = certify(
        network, images, data.test_labels, client="other", seed=1, sigma=0.25, procedure="population", n=100, lattice=0
    )
    assert report.smoothing == smoothing
    other = np.array(report.correct_counts) @ np.arange(101) / 100 / len(images)
    assert trace.target.correct is not None
    assert trace.target.correct.mean() / 100 == pytest.approx(other, abs=5 * np.sqrt(2 * 0.25 / (100 * len(images))))
    with torch.inference_mode():
        clean = network(torch.from_numpy(images)).argmax(dim=1).numpy()
    assert trace.target.clean is not None
    assert (trace.target.clean == clean).mean() > 0.99  # but for ties in another batch's arithmetic


def test_a_trace_of_an_earlier_version_is_read_without_right_answers(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_trace(path, trace)
    parquet.write_table(parquet.read_table(path).drop(["correct", "clean"]), path)
    back = read_trace(path)
    assert not back.has_correct
    assert (back.target.correct, back.target.clean, back.clients.correct) == (None, None, None)
    assert np.array_equal(table_of(back).procedure_counts, table_of(trace).procedure_counts)
    with pytest.raises(DataProblem, match="the trace has no right answers .* make it anew with 'fedcert lab trace'"):
        draw_voting_federation(back, [0.0], np.random.default_rng(0))
    write_trace(path, back)
    assert "correct" not in parquet.read_schema(path).names


def test_right_answers_leave_a_trace_small(trace: Trace, tmp_path: Path) -> None:
    """20,000 examples, as the traces of CIFAR have; K as uneven as a network's, and radii as the bounds of its p."""
    generator = np.random.default_rng(0)

    def examples(size: int) -> Examples:
        z = generator.normal(0.8, 1.5, size)
        label = generator.integers(0, 10, size).astype(np.int32)
        samples = generator.integers(1, 21, size).astype(np.int32) * 500 + 100
        return Examples(
            client=generator.integers(0, 12, size).astype(np.int32), index=np.arange(size, dtype=np.int32), label=label,
            predicted=np.where(z > 0, label, (label + 1) % 10).astype(np.int32), radius=0.25 * np.maximum(z - 0.1, 0), samples=samples,
            correct=generator.binomial(100, special.ndtr(z)).astype(np.int32), clean=label,
        )  # fmt: skip

    full = replace(trace, clients=examples(10_000), target=examples(10_000))
    older = replace(full, target=replace(full.target, correct=None, clean=None))
    sizes = []
    for name, whole in (("full", full), ("older", older)):
        write_trace(tmp_path / f"{name}.parquet", whole)
        sizes.append((tmp_path / f"{name}.parquet").stat().st_size)
    assert sizes[0] < 400_000
    assert 0 < sizes[0] - sizes[1] < 40_000


def test_population_reports_and_truth_are_what_the_examples_say(trace: Trace) -> None:
    radii = (0.0, 0.1, 0.2, 0.3)
    drawn = draw_voting_federation(trace, radii, np.random.default_rng(0))
    reports, smoothing = drawn.reports, vote_smoothing(trace)
    assert (smoothing.n, smoothing.votes, smoothing.sigma, smoothing.precision) == (100, 11, 0.25, "float32")
    assert reports.smoothing == smoothing
    assert reports.radii == radii
    assert trace.clients.correct is not None
    for client in range(12):
        for label in range(10):
            held = (trace.clients.client == client) & (trace.clients.label == label)
            cells = np.bincount(trace.clients.correct[held], minlength=101)
            assert reports.class_rows[client, label].tolist() == cells.tolist()
            assert reports.label_counts[client, label] == held.sum()
    # The truth: mean scores of the target's own examples.
    assert trace.target.correct is not None
    scores = np.array([design.lower for design in designs_for("gaussian", 100, 11, np.array(radii) / 0.25)])
    assert drawn.truth == pytest.approx(scores[:, trace.target.correct].mean(axis=1), abs=1e-12)
    for class_counts, method in ((True, "poststratified"), (False, "blup")):
        federation = draw_voting_federation(trace, radii, np.random.default_rng(0), class_counts=class_counts)
        prepared = PreparedClients.of(ReportedClients.of(federation.reports), Settings())
        made = estimate_of(prepared, federation.target, method)
        assert made.votes == 11
        assert np.abs(np.array(made.certified_accuracy) - drawn.truth).max() < 0.15
        assert (np.array(made.lower) < drawn.truth).all()
        assert (np.array(made.upper) > drawn.truth).all()


def test_voting_federations_are_redrawn_and_targets_shifted(trace: Trace) -> None:
    generator = np.random.default_rng(1)
    parts = resample_clients(trace, partition_of("pareto:2"), 30, generator)
    mix = np.array([4, 1, 1, 1, 1, 1, 1, 1, 1, 4]) / 16
    made = draw_voting_federation(trace, (0.0, 0.3), generator, votes=31, parts=parts, mix=mix)
    assert len(made.reports) == 30
    assert made.reports.smoothing.votes == 31
    assert trace.clients.correct is not None
    whole = made.reports.class_rows.sum(axis=(0, 1), dtype=np.int64)
    assert whole.tolist() == np.bincount(trace.clients.correct, minlength=101).tolist()
    assert np.abs(np.array(list(made.target.distribution.values())) - mix).max() < 0.01
    assert 1 >= made.truth[0] > made.truth[1] >= 0


def test_reports_and_truth_are_what_the_examples_say(trace: Trace) -> None:
    reports = table_of(trace)
    assert len(reports) == 12
    whole = trace.clients.certified(EXPERIMENT.radii).sum(axis=0)
    assert reports.procedure_counts.sum(axis=0).tolist() == whole.tolist()
    assert reports.label_counts.sum(axis=0).tolist() == np.bincount(trace.clients.label).tolist()
    for client in range(12):
        held = trace.clients.client == client
        certified = trace.clients.certified(EXPERIMENT.radii)[held]
        assert reports.clients[client] == f"client-{client:03d}"
        assert reports.procedure_counts[client].tolist() == certified.sum(axis=0).tolist()
        for label in range(10):
            of_class = trace.clients.label[held] == label
            assert reports.label_counts[client, label] == of_class.sum()
            assert reports.class_rows[client, label].tolist() == certified[of_class].sum(axis=0).tolist()
    target, truth = draw_target(trace, None, np.random.default_rng(0))
    assert truth.tolist() == trace.target.certified(EXPERIMENT.radii).mean(axis=0).tolist()
    pool = estimation.ReportedClients.of(reports)
    made = estimator("poststratified")(pool, distribution_of(target, pool.classes), Settings())
    assert np.abs(made.certified_accuracy - truth).max() < 0.15
    assert not table_of(trace, class_counts=False).has_class_counts.any()


def test_federations_are_redrawn_and_targets_shifted(trace: Trace) -> None:
    generator = np.random.default_rng(1)
    parts = resample_clients(trace, partition_of("pareto:2"), 30, generator)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(trace.clients)))
    mix = np.array([4, 1, 1, 1, 1, 1, 1, 1, 1, 4]) / 16
    made = draw_federation(trace, generator, parts=parts, mix=mix)
    assert len(made.reports) == 30
    shares = np.array(list(made.target.distribution.values()))
    assert np.abs(shares - mix).max() < 0.01
    assert made.truth[0] > made.truth[-1]


def with_header(table: arrow.Table, **changes: object) -> arrow.Table:
    """A trace's table that tells other things about itself."""
    header = json.loads(table.schema.metadata[b"fedcert"]) | changes
    return table.replace_schema_metadata({"fedcert": json.dumps(header)})


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (lambda table: table.drop(["radius"]), DataProblem, "lacks radius; make it anew"),
        (lambda table: table.replace_schema_metadata({}), FileProblem, "is no trace of fedcert"),
        (lambda table: table.replace_schema_metadata({"fedcert": "[1"}), FileProblem, "cannot read the trace"),
        (
            lambda table: table.set_column(3, "label", arrow.array(np.full(len(table), 10), arrow.int16())),
            DataProblem,
            "out of their range",
        ),
        (
            lambda table: table.set_column(5, "radius", arrow.array(np.full(len(table), np.nan), arrow.float32())),
            DataProblem,
            "must hold numbers",
        ),
        (
            lambda table: table.set_column(3, "label", arrow.array(np.full(len(table), 3.5), arrow.float64())),
            DataProblem,
            "must hold numbers",
        ),
        (
            lambda table: table.set_column(1, "client", arrow.array(np.full(len(table), 10**6), arrow.int32())),
            DataProblem,
            "out of their range",
        ),
        (lambda table: table.append_column("label", table["label"]), DataProblem, "has a column twice"),
        (
            lambda table: table.set_column(7, "correct", arrow.array(np.full(len(table), 101), arrow.int16())),
            DataProblem,
            "out of their range",
        ),
        (
            lambda table: table.set_column(7, "correct", arrow.array([None] * len(table), arrow.int16())),
            DataProblem,
            "must hold numbers",
        ),
        (
            lambda table: table.set_column(8, "clean", arrow.array(np.full(len(table), 10), arrow.int16())),
            DataProblem,
            "out of their range",
        ),
        (
            lambda table: with_header(table, accuracy={}),
            DataProblem,
            "for accuracy, which a trace of fedcert never does",
        ),
        (
            lambda table: with_header(table, experiment={"foo": 1}),
            DataProblem,
            "the trace .*t.parquet.*: there is no setting foo",
        ),
    ],
)
def test_files_that_are_no_traces_are_refused(
    trace: Trace, tmp_path: Path, change: object, error: type[Exception], sentence: str
) -> None:
    path = tmp_path / "t.parquet"
    write_trace(path, trace)
    parquet.write_table(change(parquet.read_table(path)), path)  # type: ignore[operator]
    with pytest.raises(error, match=sentence):
        read_trace(path)


def test_an_experiment_comes_from_toml_and_defaults_to_the_papers(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text("")
    paper = read_experiment(path)
    assert (paper.data, paper.network, paper.partition, paper.clients) == ("cifar10", "resnet18", "dirichlet:0.1", 100)
    assert (paper.training.rounds, paper.training.clients_per_round, paper.training.learning_rate) == (1000, 10, 0.01)
    assert paper.smoothing.largest_radius == pytest.approx(1.0, abs=0.02)
    assert paper.radii[-1] == 1.0
    path.write_text(
        'data = "digits"\nnetwork = "small"\npartition = "pareto:3"\n[training]\nalgorithm = "fedprox"\n'
        "figures = {proximal = 0.1}\n[smoothing]\nsigma = 0.25\nn = 700\n"
    )
    made = read_experiment(path)
    assert made.training.figures == {"proximal": 0.1}
    assert (made.smoothing.sigma, made.smoothing.n, made.smoothing.procedure) == (0.25, 700, "sequential")
    assert Experiment.of(made.to_tables()) == made


def test_experiments_certify_as_the_paper_does_whatever_the_default_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedcert.report.smoothing.DEFAULT_PROCEDURE", "population")
    (tmp_path / "e.toml").write_text("[smoothing]\nsigma = 0.25\n")
    (tmp_path / "fixed.toml").write_text('[smoothing]\nprocedure = "fixed"\n')
    read = read_experiment(tmp_path / "e.toml").smoothing
    assert (read.procedure, read.n, read.n0, read.sigma) == ("sequential", 10_000, 100, 0.25)
    fixed = read_experiment(tmp_path / "fixed.toml").smoothing
    assert (fixed.procedure, fixed.n, fixed.sigma) == ("fixed", 1000, 0.1**0.5)
    assert Experiment().smoothing == settings()[0].experiment().smoothing == Experiment.of({}).smoothing
    assert Experiment().smoothing.procedure == "sequential"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rounds = 3\n", "there is no setting rounds; the settings are clients, data"),
        ("[training]\nround = 3\n", "there is no setting training.round; the settings are algorithm"),
        ("[smoothing]\nsigm = 0.5\n", "there is no setting smoothing.sigm; the settings are failure_probability"),
        ("partition = 5\n", "partition must be a text of 1 to 200 characters"),
        ("[training]\nfigures = 5\n", "figures must be an object from names to numbers, but is 5"),
        ("training = 3\n", "training must be a table of settings, but is 3"),
        ('partition = "zipf"\n', "partition must be iid"),
        ('partition = "pareto:0.001"\n', "the partition's shape must be a finite number of at least 0.1"),
        ('partition = "limited:2:0.001"\n', "the partition's shape must be a finite number of at least 0.1"),
        ('[smoothing]\nprocedure = "population"\n', "smoothing.procedure must be 'sequential' or 'fixed', since exper"),
        ("[training]\nsigma = -1\n", "training.sigma must be a finite number"),
        ("[smoothing]\nsigma = -1\n", "smoothing.sigma must be a finite number"),
        (
            "[training]\nlearning_rate = 1e300\n",
            "training.learning_rate must be a finite number above 0 and of at most",
        ),
        ("[training]\nbatch_size = 100000000000\n", "training.batch_size must be a whole number"),
        ("[training]\npadding = 100000\n", "training.padding must be a whole number"),
    ],
)
def test_settings_that_are_none_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "e.toml"
    path.write_text(text)
    with pytest.raises((CallError, InvalidValue), match=sentence) as caught:
        read_experiment(path)
    assert "e.toml" in str(caught.value)
    path.write_text("a == 1")
    with pytest.raises(DataProblem, match="must be TOML, but is not"):
        read_experiment(path)


def test_a_network_for_colours_does_not_take_grey(data: Dataset) -> None:
    with pytest.raises(CallError, match="the network resnet18 takes images of 3 channels, but those of digits have 1"):
        build_network("resnet18", data)
    colours = replace(data, train_images=np.repeat(data.train_images, 3, axis=1))
    assert build_network("mobilenet_v2", colours)(torch.rand(2, 3, 32, 32)).shape == (2, 10)
