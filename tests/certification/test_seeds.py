"""Seeds: secret, kept at the site, committed to; the same answer twice; audits."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

from factories import drawn_reports, make_report
from fedcert import ModelProblem, Report, certify, estimate
from fedcert.certification.journal import Journal
from fedcert.certification.seeds import Seed, keep_seed, kept_seed, read_seed, seed_file_of
from fedcert.cli.main import run
from fedcert.engines.client import REPORT, reply_to
from fedcert.errors import FileProblem, InvalidValue
from fedcert.report import Request, Smoothing, Table
from fedcert.report.table.bulk import tables_of

MODEL = """
import numpy as np
def make():
    return lambda batch: (batch[:, 0] > 0.5).astype(int)
def other():
    return lambda batch: (batch[:, 1] > 0.5).astype(int)
"""
X = np.random.default_rng(0).random((40, 4)).astype(np.float32)
Y = (X[:, 0] > 0.5).astype(np.int64)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "seed_models.py").write_text(MODEL)
    np.savez(tmp_path / "d.npz", x=X, y=Y)
    return tmp_path


CERTIFY = [
    "certify",
    "seed_models:make",
    "d.npz",
    "--model-id",
    "m",
    "--client",
    "site-07",
    "--sigma",
    "0.25",
    "--n",
    "500",
    "--procedure",
    "sequential",
]
AUDIT = ["audit", "site-07.json", "seed_models:make", "d.npz", "--model-id", "m"]


def report_in(path: Path) -> dict[str, Any]:
    return {**json.loads(path.read_text()), "created": None}


def test_a_seed_is_secret_kept_and_committed_to(site: Path) -> None:
    assert run([*CERTIFY, "--out", "site-07.json"]) == 0
    report, kept = report_in(site / "site-07.json"), read_seed(site / "site-07.seed")
    assert report["seed"] == kept.value.commitment
    assert kept.seed not in (site / "site-07.json").read_text()
    if os.name == "posix":
        assert stat.S_IMODE((site / "site-07.seed").stat().st_mode) == 0o600
    assert run([*CERTIFY, "--out", "other.json"]) == 0  # another seed, other noise
    assert report_in(site / "other.json")["seed"] != report["seed"]


def test_the_same_work_asked_for_again_has_the_same_answer(site: Path) -> None:
    assert run([*CERTIFY, "--out", "site-07.json"]) == 0
    first, seed = report_in(site / "site-07.json"), (site / "site-07.seed").read_text()
    (site / "site-07.json").unlink()
    assert run([*CERTIFY, "--out", "site-07.json"]) == 0
    assert report_in(site / "site-07.json") == first
    assert run([*CERTIFY, "--n0", "50", "--out", "site-07.json"]) == 0  # other work
    assert report_in(site / "site-07.json")["seed"] != first["seed"]
    assert (site / "site-07.seed").read_text() != seed
    (aside,) = site.glob("site-07-*.seed")  # what was sent can still be audited
    assert aside.read_text() == seed


def test_a_seed_that_is_given_is_said_to_be(site: Path) -> None:
    for _ in range(2):
        assert run([*CERTIFY, "--seed", "3", "--out", "site-07.json"]) == 0
        assert report_in(site / "site-07.json")["seed"] == "fixed"
    assert not (site / "site-07.seed").exists()


def test_a_dry_run_keeps_its_work_for_the_real_run(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(site.iterdir())
    assert run([*CERTIFY, "--out", "site-07.json", "--dry-run"]) == 0
    assert {file.name for file in set(site.iterdir()) - before} == {"site-07.json.journal"}
    shown = json.loads(capsys.readouterr().out)
    assert run([*CERTIFY, "--out", "site-07.json"]) == 0
    said = capsys.readouterr().err
    assert f"resuming: {len(X)} examples are done already" in said
    written = json.loads((site / "site-07.json").read_text())
    assert {**written, "created": None} == {**shown, "created": None}


def test_a_dry_run_without_a_place_keeps_nothing(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(site.iterdir())
    assert run([*CERTIFY, "--dry-run"]) == 0
    assert sorted(site.iterdir()) == before
    assert "nothing is kept of this dry run; with --out FILE, the real run reuses its work" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{}", '{"schema": "fedcert/seed/1", "seed": "ab", "work": "x"}', "\x00"])
def test_a_seed_file_that_is_something_else_is_one_sentence(
    site: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "site-07.seed").write_text(content)
    assert run([*CERTIFY, "--out", "site-07.json"]) in (1, 2)
    assert capsys.readouterr().err.count("error: ") == 1
    assert (site / "site-07.seed").read_text() == content


@pytest.mark.parametrize("number", [1, 2])
def test_older_journals_are_refused(number: int, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = f"fedcert journal {number}\n".encode() + b"0" * 64 + b"\n" + bytes(500)
    (site / "site-07.json.journal").write_bytes(content)
    assert run([*CERTIFY, "--out", "site-07.json"]) == 2
    words = (
        "site-07.json.journal is a journal of an earlier fedcert, which kept other figures: it cannot be resumed, give"
    )
    assert words in capsys.readouterr().err
    assert (site / "site-07.json.journal").read_bytes() == content
    (site / "site-07.json.journal").unlink()
    assert run([*CERTIFY, "--out", "site-07.json"]) == 0


def test_an_audit_agrees_or_says_what_does_not(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*CERTIFY, "--class-counts", "--examples", "e.parquet", "--out", "site-07.json"]) == 0
    capsys.readouterr()
    with_seed = [*AUDIT, "--seed-file", "site-07.seed"]
    assert run(with_seed) == 0
    assert "The 40 certificates that were repeated agree with the report of site-07." in capsys.readouterr().out
    assert run([*with_seed, "--examples", "e.parquet", "--sample", "7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"agrees": True, "repeated": 7, "different": 0, "counts_agree": True}
    document = json.loads((site / "site-07.json").read_text())
    last = max(place for place, count in enumerate(document["class_certified_counts"][0]) if count)
    document["class_certified_counts"][0][last] -= 1
    document["certified_counts"][last] -= 1
    (site / "site-07.json").write_text(json.dumps(document))
    assert run(with_seed) == 1
    assert "They do not agree: 0 of 40 repeated certificates came out otherwise, and the report's counts are not" in (
        capsys.readouterr().out
    )
    assert run([*with_seed, "--examples", "e.parquet", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["counts_agree"] is False


def test_an_audit_sees_certificates_that_are_left_out_doubled_or_of_others(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*CERTIFY, "--examples", "e.parquet", "--out", "site-07.json"]) == 0
    table = parquet.read_table("e.parquet")
    with_seed = [*AUDIT, "--seed-file", "site-07.seed", "--examples"]
    metadata = {b"fedcert": table.schema.metadata[b"fedcert"].replace(b"site-07", b"site-08")}
    for name, other in (
        ("fewer", table.take(list(range(20)))),
        ("doubled", table.take([0, 0, *range(2, 40)])),
        ("unsorted", table.take([*range(39, -1, -1)])),
        ("empty", table.slice(0, 0)),
        ("another's", table.replace_schema_metadata(metadata)),
        ("headless", table.replace_schema_metadata(None)),
    ):
        parquet.write_table(other, "other.parquet")
        capsys.readouterr()
        assert run([*with_seed, "other.parquet"]) == 1, name
        assert capsys.readouterr().err.count("error: ") == 1, name
    assert run([*with_seed, "e.parquet", "--every", "4"]) == 1
    assert "give the data, and --every, as they were then" in capsys.readouterr().err
    for field in ("abstained", "samples"):
        document = json.loads((site / "site-07.json").read_text())
        document[field] = 1 if field == "samples" else document[field] + 1
        (site / "forged.json").write_text(json.dumps(document))
        assert run([AUDIT[0], "forged.json", *AUDIT[2:], "--seed-file", "site-07.seed"]) == 1
    assert run([*CERTIFY, "--time-budget", "10m", "--examples", "e.parquet", "--out", "site-07.json"]) == 0
    assert run([*AUDIT, "--seed-file", "site-07.seed"]) == 2
    assert "give the certificates that certify --examples kept" in capsys.readouterr().err
    assert run([*with_seed, "e.parquet"]) == 0


def test_what_an_audit_cannot_do(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*CERTIFY, "--out", "site-07.json"]) == 0
    keep_seed(site / "wrong.seed", Seed.drawn(), "sha256:" + "0" * 64)
    capsys.readouterr()
    for arguments, code, words in (
        ([], 2, "give --seed-file FILE, or --seed NUMBER where the report's seed was fixed"),
        (["--seed-file", "wrong.seed"], 1, "use the seed file that was written with the report"),
        (["--seed", "3"], 1, "but this one is fixed; use the seed file"),
        (["--seed-file", "site-07.seed", "--examples", "d.npz"], 2, "does not end in .parquet"),
        (["--seed-file", "none.seed"], 2, "none.seed"),
    ):
        assert run([*AUDIT, *arguments]) == code, arguments
        assert words in capsys.readouterr().err
    assert run([*AUDIT[:-2], "--model-id", "another", "--seed-file", "site-07.seed"]) == 1
    assert "the report is about the model m, but this one is another" in capsys.readouterr().err
    assert run([*CERTIFY, "--seed", "3", "--out", "site-07.json"]) == 0
    assert run([*AUDIT, "--seed", "3"]) == 0


@pytest.mark.filterwarnings("default::fedcert.FedcertWarning")
def test_an_engines_client_gives_the_same_answer_twice(tmp_path: Path) -> None:
    import torch

    torch.manual_seed(0)
    module = torch.nn.Linear(4, 2)
    from fedcert.certification.models.classifiers import digest_of_module

    asked = Request(
        model=digest_of_module(module), smoothing=Smoothing.defaults(0.25, n=300), classes=["0", "1"], nonce="0f" * 16
    ).dumps()

    def reply(name: str, **options: Any) -> dict[str, Any]:
        answer = reply_to(REPORT, asked, None, module, module.state_dict, (X, Y), name, **options)
        return {**json.loads(answer["report"]), "created": None}

    first = reply("a")
    assert first["seed"].startswith("sha256:")
    assert reply("a") == first
    assert reply("b")["seed"] != first["seed"]
    assert reply("a", seed=0)["seed"] == "fixed"
    kept = tmp_path / "own.seed"
    assert reply("a", seed_file=kept)["seed"] == read_seed(kept).value.commitment


def test_work_that_breaks_off_has_its_seed_kept_already(tmp_path: Path) -> None:
    calls = 0

    def breaks(batch: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls == 20:
            raise KeyboardInterrupt
        return (batch[:, 0] > 0.5).astype(int)

    settings = {"client": "a", "sigma": 0.25, "n": 300, "model_id": "m", "seed_file": tmp_path / "s.seed"}
    with pytest.raises(KeyboardInterrupt):
        certify(breaks, X, Y, **settings)
    kept = read_seed(tmp_path / "s.seed").value
    reports = [certify(breaks, X, Y, **settings) for _ in range(2)]
    assert {report.seed for report in reports} == {kept.commitment}
    assert reports[0].certified_counts == reports[1].certified_counts


def test_a_client_without_a_place_for_its_seed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDCERT_STATE", str(tmp_path / "file"))
    with pytest.raises(
        FileProblem, match="^there is no place to keep a secret seed .*; name a folder in FEDCERT_STATE$"
    ):
        seed_file_of("a", "sha256:" + "0" * 64)


def test_seeds_of_other_work_are_not_used(tmp_path: Path) -> None:
    seed, work = Seed.drawn(), "sha256:" + "a" * 64
    assert kept_seed(tmp_path / "s.seed", work) is None
    keep_seed(tmp_path / "s.seed", seed, work)
    assert kept_seed(tmp_path / "s.seed", work) == seed
    assert kept_seed(tmp_path / "s.seed", "sha256:" + "b" * 64) is None


def test_an_estimate_names_clients_with_fixed_seeds() -> None:
    reports = [
        Report.from_json({**report.to_json(), "seed": "fixed" if place % 2 else "sha256:" + "a" * 64})
        for place, report in enumerate(drawn_reports(6, 3, 4, seed=1))
    ]
    check = next(check for check in estimate(reports).checks if check.name == "secret seeds")
    assert (check.verdict, check.figure) == ("warning", 3)
    assert "'client-1', 'client-3', 'client-5'" in check.sentence or check.sentence.count("'") == 6
    secret = [report for report in reports if report.seed != "fixed"]
    assert all(check.name != "secret seeds" for check in estimate(secret).checks)
    many = [
        ("", make_report(f"c{i}", [5, 5], [6, 4, 2], seed="fixed" if i == 7 else None).to_json()) for i in range(300)
    ]
    (bulk,) = tables_of(many)
    assert bulk.fixed_seeds == ("c7",)
    assert Table.joined([bulk, Table.of(secret[:0] or [make_report("z", [5, 5], [6, 4, 2], seed="fixed")])]).fixed_seeds == (
        "c7", "z",
    )  # fmt: skip


def batch_mean(batch: np.ndarray) -> np.ndarray:
    return (batch[:, 0] > batch[:, 0].mean()).astype(int)


class Counting:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        self.calls += 1
        return np.full(len(batch), self.calls % 2)


def by_majority(batch: np.ndarray) -> np.ndarray:
    """Scores averaged over the batch: all get one answer."""
    return np.full(len(batch), int((batch[:, 0] > batch[:, 1]).mean() > 0.5))


def standardised(batch: np.ndarray) -> np.ndarray:
    scaled = (batch - batch.mean(axis=0)) / (batch.std(axis=0) + 1e-5)
    return (scaled[:, 0] > scaled[:, 1]).astype(int)


def barely_standardised(batch: np.ndarray) -> np.ndarray:
    """Statistics over all values hardly change from one batch of images to another."""
    return ((batch - batch.mean()) / batch.std() @ [1, 1, 0.5, 0.5] > 0.1).astype(int)


def random_answers(batch: np.ndarray) -> np.ndarray:
    return np.random.default_rng().integers(0, 2, len(batch))


@pytest.mark.filterwarnings("default::fedcert.FedcertWarning")
@pytest.mark.parametrize("settings", [{}, {"n": 100}, {"procedure": "sequential"}])
@pytest.mark.parametrize(
    "model", [batch_mean, by_majority, standardised, barely_standardised, Counting(), random_answers]
)
def test_an_answer_must_be_a_function_of_its_own_input(model: Any, settings: dict[str, Any]) -> None:
    order = np.argsort(X[:, 0] > X[:, 1], kind="stable")  # one class after the other, as many files have them
    with pytest.raises(ModelProblem, match="another answer to .* inputs when they are batched differently"):
        certify(model, X[order], Y[order], client="a", sigma=0.25, model_id="m", **settings)


@pytest.mark.parametrize("batch_size", [None, 20, 100])
def test_a_model_may_write_to_its_input(batch_size: int | None) -> None:
    def writes(batch: np.ndarray) -> np.ndarray:
        batch *= 4
        return (batch[:, 0] > batch[:, 1]).astype(int)

    settings = {"client": "a", "sigma": 0.25, "n": 300, "model_id": "m", "seed": 0, "batch_size": batch_size}
    plain = certify(lambda batch: (batch[:, 0] > batch[:, 1]).astype(int), X, Y, **settings)
    before = X.copy()
    assert certify(writes, X, Y, **settings).procedure_counts == plain.procedure_counts
    assert np.array_equal(X, before)


def test_an_existing_journal_is_its_owners_alone(site: Path) -> None:
    if os.name != "posix":
        pytest.skip("modes are POSIX's")
    journal = site / "j"
    journal.touch(mode=0o666)
    journal.chmod(0o666)
    with Journal(journal, {}, Seed.drawn()):
        assert stat.S_IMODE(journal.stat().st_mode) == 0o600


@pytest.mark.parametrize("batch_size", [None, 1, 30, 64])
def test_every_call_has_one_shape(batch_size: int | None) -> None:
    shapes: set[tuple[int, ...]] = set()

    def model(batch: np.ndarray) -> np.ndarray:
        if len(batch) > 1 or batch_size == 1:  # the first one is a look at sizes
            shapes.add(batch.shape)
        return (batch[:, 0] > 0.5).astype(int)

    report = certify(
        model, X, Y, client="a", sigma=0.25, n=170, n0=30, procedure="sequential", model_id="m", batch_size=batch_size
    )
    assert shapes == {(batch_size or 100, 4)}
    assert report.examples == 40


def test_wrong_seeds_are_refused() -> None:
    with pytest.raises(InvalidValue, match="^seed must be a whole number"):
        certify(batch_mean, X, Y, client="a", sigma=0.25, model_id="m", seed=0.5)  # type: ignore[arg-type]
