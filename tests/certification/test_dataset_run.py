"""Long work: journals, kills, time budgets, certificates of single examples."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

from fedcert import CallError, FedcertWarning, FileProblem, certify
from fedcert.certification.certificate import CertificateTable, ExampleState
from fedcert.certification.data.local_data import data_of
from fedcert.certification.dataset_run import certify_dataset
from fedcert.certification.example_loop import _before_the_first_unfinished
from fedcert.certification.examples import write_examples
from fedcert.certification.journal import _RECORD, _SUM, Journal
from fedcert.certification.models.classifiers import ArrayClassifier
from fedcert.certification.plan import CertificationPlan, plan_certification
from fedcert.certification.progress import ProgressListener
from fedcert.certification.seeds import Seed
from fedcert.report import Smoothing

RANDOM = np.random.default_rng(0)
X = RANDOM.random((60, 4)).astype(np.float32)
Y = (X[:, 0] > 0.5).astype(np.int64)
MANY = np.random.default_rng(1).random((3000, 4)).astype(np.float32)
MANY_LABELS = (MANY[:, 0] > 0.5).astype(np.int64)
SEED = Seed.drawn()


def threshold(batch: np.ndarray) -> np.ndarray:
    return (batch[:, 0] > 0.5).astype(np.int64)


def plan(**changes: Any) -> CertificationPlan:
    smoothing = Smoothing(sigma=0.25, **changes.pop("smoothing", {}))
    return CertificationPlan("site", smoothing, classes=("low", "high"), **{"seed": 0, **changes})


def state(index: int, **changes: Any) -> ExampleState:
    values = {"selected": 1, "drawn": 100, "successes": 90, "look": 1, "error_bound": 0.2, "samples": 200, "key": 7}
    return ExampleState(index, **{**values, "estimated": True, "done": False, **changes})


def rows(table: CertificateTable) -> list[tuple[Any, ...]]:
    """A table row by row: index, selected class, radius, samples, whether it was estimated."""
    columns = (table.index, table.selected, table.radius, table.samples, table.estimated)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_journal_remembers_the_last_word_on_each_example(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(path, {"a": 1}, SEED) as journal:
        assert not journal.resumed
        journal.write([state(3), state(5)])
        journal.write([state(3, drawn=300, done=True)])
    with Journal(path, {"a": 1}, SEED) as journal:
        assert journal.resumed
        assert journal.states == {3: state(3, drawn=300, done=True), 5: state(5)}


@pytest.mark.parametrize("cut", range(1, 70, 6))
def test_a_journal_that_is_cut_off_or_damaged_loses_only_its_end(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j"
    with Journal(path, {"a": 1}, SEED) as journal:
        journal.write([state(index) for index in range(4)])
    whole = path.read_bytes()
    size = _RECORD.size + _SUM.size
    path.write_bytes(whole[:-cut])
    with Journal(path, {"a": 1}, SEED) as journal:
        assert set(journal.states) in ({0, 1, 2}, {0, 1})
        journal.write([state(9)])
    with Journal(path, {"a": 1}, SEED) as journal:
        assert 9 in journal.states
    damaged = bytearray(whole)
    damaged[-size - 5 : -size] = b"12345"
    path.write_bytes(damaged)
    with (
        pytest.warns(FedcertWarning, match="1 records of the journal .* are damaged"),
        Journal(path, {"a": 1}, SEED) as journal,
    ):
        assert set(journal.states) == {0, 1, 3}


def test_a_journal_of_other_settings_is_not_thrown_away(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(path, {"a": 1}, SEED) as journal:
        journal.write([state(0)])
    with pytest.raises(
        CallError, match="is the journal of an unfinished run with other settings, model or data; run the same command"
    ):
        Journal(path, {"a": 2}, SEED)
    with Journal(path, {"a": 1}, SEED) as journal:
        assert journal.states == {0: state(0)}
    whole = path.read_bytes()
    path.unlink()
    with Journal(path, {"a": 1}, SEED):
        pass
    assert not path.exists()  # nothing was in it
    for start in (0, 5, 18, 40, 83):  # a header that was cut off, by a crash at the very start
        path.write_bytes(whole[:start])
        with Journal(path, {"a": 2}, SEED) as journal:
            assert journal.states == {}
    path.write_bytes(b"something else entirely")
    with pytest.raises(CallError, match="is no journal of fedcert, or a damaged one, give this one another --out"):
        Journal(path, {"a": 2}, SEED)
    assert path.read_bytes() == b"something else entirely"


def test_two_runs_do_not_share_a_journal(tmp_path: Path) -> None:
    with (
        Journal(tmp_path / "j", {}, SEED),
        pytest.raises(CallError, match="another run is writing to .*; wait for it to end"),
    ):
        Journal(tmp_path / "j", {}, SEED)


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no device that is always full")
    with Journal(tmp_path / "j", {}, SEED) as journal, Path("/dev/full").open("wb", buffering=0) as full:
        journal._file, file = full, journal._file
        with pytest.raises(FileProblem, match="No space left on device; what was written before is kept"):
            journal.write([state(0)])
        journal._file = file


@pytest.mark.parametrize("smoothing", [{"n": 700}, {"n": 5000, "procedure": "sequential"}])
def test_a_run_that_breaks_off_goes_on_and_ends_the_same(
    tmp_path: Path, smoothing: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "fedcert.certification.scheduler._SECONDS_PER_ITERATION", 0.0
    )  # as little at a time as possible
    calls = 0

    def breaks(batch: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls % 53 == 0:
            raise KeyboardInterrupt
        return threshold(batch)

    undisturbed = certify_dataset(
        plan(smoothing=smoothing), ArrayClassifier(threshold, "t"), data_of(X, Y), ProgressListener()
    )
    for _ in range(400):
        try:
            done = certify_dataset(
                plan(smoothing=smoothing, batch_size=500),
                ArrayClassifier(breaks, "t"),
                data_of(X, Y),
                ProgressListener(),
                tmp_path / "j",
            )
            break
        except KeyboardInterrupt:
            continue
    else:
        pytest.fail("it never ended")
    assert rows(done.certificates) == rows(undisturbed.certificates)
    assert {**done.report.to_json(), "created": 0} == {**undisturbed.report.to_json(), "created": 0}
    assert calls > 20


def test_an_example_that_was_changed_is_certified_anew(tmp_path: Path) -> None:
    certify_dataset(plan(), ArrayClassifier(threshold, "t"), data_of(X, Y), ProgressListener(), tmp_path / "j")
    other = np.roll(X, 1, axis=0)
    other[:5] = X[:5]
    calls: list[int] = []

    def counting(batch: np.ndarray) -> np.ndarray:
        calls.append(len(batch))
        return threshold(batch)

    done = certify_dataset(
        plan(), ArrayClassifier(counting, "t"), data_of(other, Y), ProgressListener(), tmp_path / "j"
    )
    plain = certify_dataset(plan(), ArrayClassifier(threshold, "t"), data_of(other, Y), ProgressListener())
    assert rows(done.certificates) == rows(plain.certificates)
    assert sum(calls) >= 55 * 1100


@pytest.mark.slow
def test_killed_twenty_times_at_random_moments_it_ends_with_the_same_report(tmp_path: Path) -> None:
    """kill -9 at random moments: the report is that of an undisturbed run, and little work is done twice."""
    (tmp_path / "ward.py").write_text(
        "import os, time\n"
        "SECONDS = float(os.environ['SECONDS'])\n"
        "def make():\n"
        "    def predict(batch):\n"
        "        time.sleep(len(batch) * SECONDS)\n"
        "        open('calls', 'a').write(f'{len(batch)}\\n')\n"
        "        return (batch[:, 0] > 0.5).astype(int)\n"
        "    return predict\n"
    )
    np.savez(tmp_path / "d.npz", x=MANY[:1200], y=MANY_LABELS[:1200])
    command = [
        sys.executable, "-m", "fedcert", "certify", "ward:make", "d.npz", "--model-id", "t", "--client", "site",
        "--sigma", "0.25", "--n", "4000", "--procedure", "sequential", "--out",
    ]  # fmt: skip

    def samples() -> int:
        return sum(map(int, (tmp_path / "calls").read_text().split()))

    def start(name: str, seconds: float) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "SECONDS": str(seconds)}
        return subprocess.Popen([*command, name], cwd=tmp_path, stderr=subprocess.DEVNULL, env=environment)

    assert start("plain.json", 0).wait() == 0
    once = samples()
    (tmp_path / "calls").unlink()
    assert json.loads((tmp_path / "plain.json").read_text())["seed"].startswith("sha256:")
    shutil.copy(tmp_path / "plain.seed", tmp_path / "killed.seed")  # the same work is asked for again
    chance = np.random.default_rng(0)
    seconds = 75 / once  # the whole work takes longer than the twenty disturbed runs together
    killed = 0
    while killed < 20:
        process = start("killed.json", seconds)
        time.sleep(chance.uniform(0.5, 6.0))
        assert process.poll() is None, "it ended before it was killed twenty times"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        killed += 1
    assert start("killed.json", 0).wait() == 0
    plain, other = (json.loads((tmp_path / name).read_text()) for name in ("plain.json", "killed.json"))
    assert {**plain, "created": 0} == {**other, "created": 0}
    # At most a journal's iteration, and the trial that tells the speed, are done again.
    assert (samples() - once) * seconds / killed < 5
    # Journals outlast the work, for reports with other disclosures; they are for their owner alone.
    assert [stat.S_IMODE(file.stat().st_mode) for file in sorted(tmp_path.glob("*.journal"))] == [0o600, 0o600]


@pytest.mark.parametrize("procedure", ["fixed", "sequential"])
def test_a_time_budget_ends_in_time_with_examples_that_are_wholly_certified(procedure: str) -> None:
    """What each example got is what it gets without a budget, whatever it took: so the part stands for the whole."""

    def slow(batch: np.ndarray) -> np.ndarray:
        time.sleep(len(batch) * 2e-6)
        return threshold(batch)

    smoothing = {"n": 5000, "procedure": procedure}
    x, y = MANY, MANY_LABELS
    began = time.monotonic()
    done = certify_dataset(
        plan(smoothing=smoothing, time_budget=2.0), ArrayClassifier(slow, "t"), data_of(x, y), ProgressListener()
    )
    assert time.monotonic() - began < 20
    assert not done.complete
    assert 0 < len(done.certificates) < 3000
    assert done.report.examples == len(done.certificates)
    plain = certify_dataset(
        plan(smoothing=smoothing), ArrayClassifier(threshold, "t"), data_of(x, y), ProgressListener()
    )
    whole = {row[0]: row for row in rows(plain.certificates)}
    assert all(row == whole[row[0]] for row in rows(done.certificates))


def test_runs_with_a_time_budget_and_a_journal_certify_more_and_more(tmp_path: Path) -> None:
    def slow(batch: np.ndarray) -> np.ndarray:
        time.sleep(len(batch) * 1e-4)
        return threshold(batch)

    smoothing = {"n": 1000, "procedure": "sequential"}
    seen: list[set[int]] = [set()]
    for _ in range(60):
        done = certify_dataset(
            plan(smoothing=smoothing, time_budget=0.8, minimum_examples=1),
            ArrayClassifier(slow, "t"),
            data_of(X, Y),
            ProgressListener(),
            tmp_path / "j",
        )
        seen.append(set(done.certificates.index.tolist()))
        assert seen[-1] >= seen[-2]
        if done.complete:
            break
    assert done.complete
    assert len(seen) > 2
    whole = certify_dataset(
        plan(smoothing=smoothing), ArrayClassifier(threshold, "t"), data_of(X, Y), ProgressListener()
    )
    assert rows(done.certificates) == rows(whole.certificates)


def test_a_time_budget_that_is_too_short_for_one_example_says_so() -> None:
    def slow(batch: np.ndarray) -> np.ndarray:
        time.sleep(0.01 * len(batch))
        return threshold(batch)

    began = time.monotonic()
    with pytest.raises(
        CallError,
        match=r"of 0.5 s is too short: at .* samples a second, 10 examples may need .*; give more",
    ):
        certify(slow, X, Y, client="a", model_id="t", sigma=0.25, time_budget=0.5)
    with pytest.raises(
        CallError, match=r"of 3 s is too short: at .* samples a second, one example may need up to .*; give"
    ):
        certify(slow, X, Y, client="a", model_id="t", sigma=0.25, procedure="sequential", time_budget=3)
    assert time.monotonic() - began < 30


def test_only_examples_before_the_first_unfinished_one_count() -> None:
    made = [state(index, done=True) for index in (7, 2, 9)]
    assert [one.index for one in _before_the_first_unfinished([2, 7, 4, 9], made)] == [2, 7]
    assert _before_the_first_unfinished([4, 2, 7, 9], made) == []


@pytest.mark.parametrize("done", [0, 9])
def test_no_report_is_about_fewer_examples_than_the_least(monkeypatch: pytest.MonkeyPatch, done: int) -> None:
    """However many later examples were finished."""
    few = [state(index, done=True) for index in range(done)]
    monkeypatch.setattr("fedcert.certification.example_loop._before_the_first_unfinished", lambda _order, _done: few)
    words = rf"of 0.5 s is used up after {done} of .* examples, and a report needs at least 10 \(--minimum"
    with pytest.raises(CallError, match=words):
        certify(_slow, MANY, MANY_LABELS, client="a", model_id="t", sigma=0.25, time_budget=0.5)


def test_a_site_with_fewer_examples_reports_on_all_of_them() -> None:
    report = certify(threshold, X[:3], Y[:3], client="a", model_id="t", sigma=0.25, time_budget=60)
    assert report.examples == 3


def _slow(batch: np.ndarray) -> np.ndarray:
    time.sleep(len(batch) * 1e-5)
    return threshold(batch)


def test_a_journal_belongs_to_its_looks_and_its_share_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(**changes: Any) -> None:
        made = plan(smoothing={"n": 3000, "procedure": "sequential"}, **changes)
        certify_dataset(made, ArrayClassifier(threshold, "t"), data_of(X, Y), ProgressListener(), tmp_path / "j")

    work()
    unfinished = (tmp_path / "j").read_bytes()[: -_RECORD.size - _SUM.size]
    (tmp_path / "j").write_bytes(unfinished)
    with pytest.raises(CallError, match="is the journal of an unfinished run with other settings"):
        work(every=2)
    monkeypatch.setattr("fedcert.certification.sequential._GROWTH", 1.5)
    with pytest.raises(CallError, match="is the journal of an unfinished run with other settings"):
        work()


def test_a_finished_journal_gives_its_results_again_and_makes_way_for_other_work(tmp_path: Path) -> None:
    calls: list[int] = []

    def counting(batch: np.ndarray) -> np.ndarray:
        calls.append(len(batch))
        return threshold(batch)

    def work(**changes: Any) -> Any:
        made = plan(**changes)
        return certify_dataset(made, ArrayClassifier(counting, "t"), data_of(X, Y), ProgressListener(), tmp_path / "j")

    first = work()
    certified = sum(calls)
    calls.clear()
    again = work(class_counts=True)
    assert first.report.class_procedure_counts is None
    assert again.report.class_procedure_counts is not None
    assert again.report.procedure_counts == first.report.procedure_counts
    assert sum(calls) < certified / 2  # what is measured before, not the examples
    assert rows(work(every=2).certificates) != rows(first.certificates)  # it was replaced
    assert work().complete


def test_with_a_time_budget_examples_are_spread_over_the_data() -> None:
    budgeted = plan(time_budget=100.0)
    done = certify_dataset(budgeted, ArrayClassifier(threshold, "t"), data_of(X, Y), ProgressListener())
    assert done.certificates.index.tolist() == list(range(60))
    plain = certify_dataset(plan(), ArrayClassifier(threshold, "t"), data_of(X, Y), ProgressListener())
    assert rows(done.certificates) == rows(plain.certificates)  # in whatever order they come


def test_certificates_of_single_examples_go_to_parquet(tmp_path: Path) -> None:
    made = plan(smoothing={"n": 2000, "procedure": "sequential"})
    done = certify_dataset(made, ArrayClassifier(threshold, "t"), data_of(X, Y), ProgressListener())
    write_examples(tmp_path / "e.parquet", done, Y)
    table = parquet.read_table(tmp_path / "e.parquet")
    rows = table.to_pylist()
    assert [row["index"] for row in rows] == list(range(60))
    assert sum(row["correct"] for row in rows) == done.report.certified_counts[0]
    assert sum(row["samples"] for row in rows) == done.report.samples
    wrong = [row for row in rows if row["predicted"] != row["label"]]
    assert all(row["radius"] is None and row["samples"] == 100 for row in wrong)
    header = json.loads(table.schema.metadata[b"fedcert"])
    assert header["smoothing"]["procedure"] == "sequential"


def test_settings_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(CallError, match="precision must be 'float32' for this model, but is 'bfloat16'"):
        certify(threshold, X, Y, client="a", model_id="t", sigma=0.25, precision="bfloat16")
    with pytest.raises(CallError, match="sigma is needed"):
        plan_certification("a", None, {"procedure": "sequential"})


def test_a_watcher_is_told_how_it_goes(tmp_path: Path) -> None:
    told: dict[str, int] = {"finished": 0, "at most": 0, "samples": 0}

    class Telling(ProgressListener):
        def forecast_at_most(self, samples: int, rate: float, examples: int) -> None:
            told["at most"] += samples
            assert rate > 0
            assert examples == 60

        def finished(self, examples: int) -> None:
            told["finished"] += examples

        def advance(self, samples: int) -> None:
            told["samples"] += samples

    done = certify_dataset(
        plan(smoothing={"n": 2000, "procedure": "sequential"}),
        ArrayClassifier(threshold, "t"),
        data_of(X, Y),
        Telling(),
    )
    assert told == {"finished": 60, "at most": 60 * 2100, "samples": done.report.samples}
