"""The commands on good input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from factories import request
from fedcert import Estimate, Report, Request, WhatIf, certify, estimate
from fedcert.certification.journal import Journal
from fedcert.certification.progress import duration
from fedcert.certification.seeds import Seed
from fedcert.cli.certify import _ProgressBar
from fedcert.cli.inputs import radii_of
from fedcert.cli.main import run
from fedcert.version import __version__

RANDOM = np.random.default_rng(0)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, data and class names, entered."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ward.py").write_text(
        "import numpy as np\n"
        "def make():\n    return lambda batch: (batch[:, 0] > 0.5).astype(int)\n"
        "def slow():\n    import time\n    return lambda batch: (time.sleep(0.2), np.zeros(len(batch), int))[1]\n"
    )
    monkeypatch.delitem(sys.modules, "ward", raising=False)
    x = RANDOM.random((30, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=(x[:, 0] > 0.5).astype(int))
    (tmp_path / "classes.txt").write_text("below\nabove\n")
    return tmp_path


CERTIFY = ["certify", "ward:make", "data.npz", "--model-id", "threshold", "--client", "site-07"]


def test_certify_writes_a_report_and_shows_it(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sequential = ["--sigma", "0.25", "--n", "200", "--procedure", "sequential"]
    assert run([*CERTIFY, *sequential, "--classes", "classes.txt", "--out", "report.json"]) == 0
    shown = capsys.readouterr()
    report = Report.from_json(json.loads((site / "report.json").read_text()))
    assert report.classes == ("below", "above")
    assert report.smoothing.n == 200
    assert "up to 9,000 noisy samples at " in shown.err
    assert f"site-07: {report.certified_accuracy[0]:.1%} of 30 examples certified correct at radius 0." in shown.out
    assert "Wrote report.json, which is all that needs to leave this machine." in shown.out
    assert "\x1b" not in shown.out + shown.err


def test_certify_counts_right_answers_without_options(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*CERTIFY, "--sigma", "0.25", "--classes", "classes.txt", "--out", "report.json"]) == 0
    shown = capsys.readouterr()
    report = Report.from_json(json.loads((site / "report.json").read_text()))
    assert (report.smoothing.procedure, report.smoothing.n, sum(report.procedure_counts)) == ("population", 32, 30)
    assert f"{30 * 32} noisy samples at " in shown.err
    begin = "site-07: the majority vote of 11 noisy copies is proven right on "
    assert begin in shown.out
    assert (
        "fedcert predict --sigma 0.25 --votes 11), on average over the population, not for the bare model"
        in " ".join(shown.out.split())
    )


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--n0", "30"], "--n0 must be left out (null) with the population procedure, which selects no class"),
        (["--n", "10000"], "--n must be at most 2000 passes with the population procedure, but is 10000"),
        (["--votes", "10"], "--votes must be an odd number from 1 to 9999, but is 10"),
        (["--procedure", "fixed", "--votes", "11"], "--votes must be left out (null) with the fixed procedure"),
        (["--procedure", "vote"], "--procedure must be 'fixed', 'sequential' or 'population', but is 'vote'"),
    ],
)
def test_settings_of_another_procedure_are_refused(
    site: Path, capsys: pytest.CaptureFixture[str], given: list[str], why: str
) -> None:
    assert run([*CERTIFY, "--sigma", "0.25", *given, "--out", "report.json"]) == 2
    assert why in " ".join(capsys.readouterr().err.split())
    assert not (site / "report.json").exists()


def test_a_dry_run_shows_exactly_what_would_leave_and_writes_no_report(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(site.iterdir())
    assert run([*CERTIFY, "--sigma", "0.25", "--n", "200", "--dry-run", "--out", "report.json"]) == 0
    shown = capsys.readouterr()
    assert Report.from_json(json.loads(shown.out)).dumps() == shown.out
    assert (
        "this is exactly what would leave; no report was written, and report.json.journal keeps the work" in shown.err
    )
    kept = {site / "__pycache__", site / "report.json.journal"}
    assert sorted(set(site.iterdir()) - kept) == before


def test_json_goes_to_standard_output_alone(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*CERTIFY, "--sigma", "0.25", "--n", "200", "--out", "report.json", "--json"]) == 0
    assert capsys.readouterr().out == (site / "report.json").read_text()


def test_a_request_travels_to_the_site_and_back(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "roster.json").write_text('["site-07", "site-08"]')
    command = [
        "request",
        "--model-id",
        "threshold",
        "--sigma",
        "0.25",
        "--n",
        "300",
        "--procedure",
        "sequential",
        "--classes",
        "classes.txt",
        "--target",
        "below=3,above=1",
    ]
    command += [
        "--roster",
        "roster.json",
        "--radii",
        "0:0.5:0.1",
        "--class-counts",
        "--deadline",
        "2099-01-01T00:00:00Z",
        "--out",
        "request.json",
    ]
    assert run(command) == 0
    shown = capsys.readouterr().out
    assert "Wrote request.json: asks 2 clients to certify threshold" in shown
    assert "These settings can certify radii up to" in shown
    asked = Request.from_json(json.loads((site / "request.json").read_text()))
    assert asked.radii == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    assert asked.target is not None
    assert asked.target.distribution == {"below": 0.75, "above": 0.25}
    assert run([*CERTIFY, "--request", "request.json", "--out", "report.json"]) == 0
    assert (
        "the request asks for counts per class, so the report has them (--no-class-counts omits them)"
        in capsys.readouterr().err
    )
    report = Report.from_json(json.loads((site / "report.json").read_text()))
    assert report.request == asked.digest
    assert report.class_certified_counts is not None
    assert run([*CERTIFY, "--request", "request.json", "--no-class-counts", "--out", "report.json"]) == 0
    assert "resuming: 30 examples are done already" in capsys.readouterr().err
    without = Report.from_json(json.loads((site / "report.json").read_text()))
    assert (without.class_certified_counts, without.certified_counts) == (None, report.certified_counts)


def test_a_request_without_options_asks_for_right_answers(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["request", "--model-id", "threshold", "--sigma", "0.25", "--classes", "classes.txt"]
    assert run([*command, "--out", "request.json"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "32 noisy passes per example, for the majority vote of 11 noisy copies" in shown
    asked = Request.from_json(json.loads((site / "request.json").read_text()))
    assert (asked.smoothing.procedure, asked.smoothing.n, asked.smoothing.votes) == ("population", 32, 11)
    assert asked.radii == tuple(round(0.025 * step, 9) for step in range(21))
    assert run([*CERTIFY, "--request", "request.json", "--class-counts", "--out", "report.json"]) == 0
    reports = ["estimate", "report.json"]
    assert run([*reports, "--out", "estimate.json"]) == 0
    capsys.readouterr()
    assert run([*reports, "--votes", "31", "--radii", "0,0.1", "--json"]) == 0
    other = json.loads(capsys.readouterr().out)
    assert (other["votes"], other["radii"]) == (31, [0.0, 0.1])
    assert "any choice of radii to 3 sigma" in other["guarantee"]
    sample = [*CERTIFY[: CERTIFY.index("--client")], "--settings-of", "request.json", "--client", "sample"]
    assert run([*sample, "--out", "sample.json"]) == 0
    assert run([*reports, "--truth", "sample.json"]) == 0
    assert run([*reports, "--truth", "report.json"]) == 2
    assert "which is also among the reports: a sample of the target must be no client's" in capsys.readouterr().err
    collecting = ["collect", "report.json", "--request", "request.json", "--votes", "31", "--page", "page.html"]
    capsys.readouterr()
    assert run([*collecting, "--quorum", "1", "--json"]) == 0
    collected = json.loads(capsys.readouterr().out)
    assert collected["votes"] == 31
    assert collected["lower"] == list(estimate(site / "report.json", votes=31).lower or ())


def test_two_requests_are_never_the_same(site: Path) -> None:
    command = ["request", "--model-id", "m", "--sigma", "0.25", "--classes", "classes.txt", "--out"]
    assert run([*command, "a.json"]) == run([*command, "b.json"]) == 0
    first, second = (json.loads((site / name).read_text())["nonce"] for name in ("a.json", "b.json"))
    assert first != second


@pytest.fixture
def reports(tmp_path: Path, make_report: Callable[..., Report]) -> Path:
    """A folder of ten reports."""
    folder = tmp_path / "reports"
    folder.mkdir()
    for index in range(10):
        report = make_report(f"site {index}", [10 + index, 20 - index], [20, 10 + index % 3])
        (folder / f"{index}.json").write_text(report.dumps())
    return folder


@pytest.mark.parametrize("method", ["vw", "ap", "ga"])
def test_estimate_writes_and_shows_an_estimate(
    reports: Path, tmp_path: Path, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, figure = tmp_path / "estimate.json", tmp_path / "curve.png"
    truth = str(tmp_path / "truth.json")
    Path(truth).write_text((reports / "3.json").read_text().replace('"site 3"', '"sample"'))
    command = ["estimate", str(reports), "--method", method, "--target", "class 0=1,class 1=1", "--truth", truth]
    assert run([*command, "--out", str(out), "--figure", str(figure), "--seed", "5", "--verbose"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("On unchanged inputs (radius 0), an estimated 66.7% of target examples (95% CI ")
    assert "Target 'custom': class 0 50%, class 1 50%." in shown
    assert f"Method: {method.upper()}." in shown
    for words in (
        "RMSE",
        "MAPE",
        "weight",
        "Class-mix mismatch: ",
        "These settings can certify all of the radii (up to 0.616).",
        "Wrote",
    ):
        assert words in shown
    result = Estimate.from_json(json.loads(out.read_text()))
    assert (result.method, result.clients) == (method, 10)
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert run([*command, "--json"]) == 0
    printed = Estimate.from_json(json.loads(capsys.readouterr().out))
    assert printed.method == method
    assert set(printed.details["comparison"]) == {"rmse", "mape", "radii", "left_out"}


def test_validate_counts_and_says_whether_reports_go_together(
    reports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], make_report: Callable[..., Report]
) -> None:
    assert run(["validate", str(reports)]) == 0
    shown = capsys.readouterr().out
    assert "10 valid, 0 invalid." in shown
    assert "The 10 reports go together: 300 examples." in shown
    other = tmp_path / "other.json"
    other.write_text(make_report("other", [1, 2], [1, 1], smoothing={"sigma": 1}).dumps())
    assert run(["validate", str(reports), str(other)]) == 1
    assert "'other' has sigma 1.0 where the rest has 0.25" in capsys.readouterr().out
    other.write_text("{")
    assert run(["validate", str(reports), str(other), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [finding["valid"] for finding in found["findings"]] == [True] * 10 + [False]


def test_validate_knows_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    golden = Path(__file__).parent.parent / "golden"
    assert run(["validate", *(str(file) for file in sorted(golden.glob("*.json")))]) == 0
    assert "5 valid, 0 invalid." in capsys.readouterr().out


def test_hostile_names_do_nothing_in_the_terminal(
    tmp_path: Path, make_report: Callable[..., Report], capsys: pytest.CaptureFixture[str]
) -> None:
    """Joiners are allowed in names, and rich's markup is text like any other."""
    name = "[bold red]ward[/] \u200d [link=http://x]"
    (tmp_path / "a.json").write_text(make_report(name, [5, 0], [5], classes=["[blink]a", "b"]).dumps())
    assert run(["estimate", str(tmp_path / "a.json"), "--method", "vw"]) == 0
    shown = capsys.readouterr().out
    assert "[bold red]ward[/] \\u200d [link=http://x]" in shown


def test_schema_prints_what_validators_understand(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "report"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "fedcert/report/1"


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"fedcert {__version__}"
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for name in (
        "demo",
        "request",
        "certify",
        "import-log",
        "validate",
        "merge",
        "plan",
        "estimate",
        "what-if",
        "schema",
    ):
        assert name in shown


def hears_ctrl_c() -> None:
    """Whoever runs the tests in the background makes their processes ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_ctrl_c_ends_with_130_and_leaves_nothing_but_the_journal(site: Path) -> None:
    command = [sys.executable, "-m", "fedcert", "certify", "ward:slow", "data.npz", "--model-id", "m", "--client", "a"]
    process = subprocess.Popen(
        [*command, "--sigma", "0.2", "--batch-size", "100", "--out", "report.json"], preexec_fn=hears_ctrl_c,
        cwd=site, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stderr is not None
    assert "without noise the model answers '0' for all 30 examples" in process.stderr.readline()
    assert "noisy samples at " in process.stderr.readline()
    journal = site / "report.json.journal"
    while not journal.exists() or journal.stat().st_size < 200:  # more than a header
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == (
        "fedcert: note: what was done is kept in report.json.journal; run the same command again to resume\n"
        "fedcert: interrupted; no partial result was written\n"
    )
    assert [file.name for file in site.iterdir() if "report" in file.name] == ["report.json.journal"]


def test_a_reader_that_closes_the_pipe_early_is_no_error_worth_a_traceback(reports: Path) -> None:
    command = f"{sys.executable} -m fedcert estimate {reports} --json | head -c 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_for_standard_output_is_one_sentence(reports: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "fedcert", "estimate", str(reports), "--json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "fedcert: error: cannot use standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("text", "radii"),
    [
        ("0", (0.0,)),
        ("0,0.5,1", (0.0, 0.5, 1.0)),
        ("0:1:0.25", (0, 0.25, 0.5, 0.75, 1)),
        ("0:0.3:0.1", (0, 0.1, 0.2, 0.3)),
        ("0.1:0.1:1", (0.1,)),
    ],
)
def test_radii(text: str, radii: tuple[float, ...]) -> None:
    assert radii_of(text) == radii


def test_durations_are_for_people() -> None:
    assert [duration(seconds) for seconds in (0.2, 45, 400, 10_000)] == ["less than a second", "45 s", "7 min", "2.8 h"]


def test_ctrl_c_while_loading_is_no_traceback(reports: Path) -> None:
    command = [sys.executable, "-m", "fedcert", "estimate", str(reports)]
    for delay in (0.15, 0.3, 0.5):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hears_ctrl_c
        )
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        # Before Python has come to our first line, it is killed by the signal itself.
        assert process.returncode in (0, 130, -signal.SIGINT), errors
        assert process.returncode == -signal.SIGINT or "Traceback" not in errors


def test_closed_streams_and_foreign_scripts_are_no_traceback(
    tmp_path: Path, make_report: Callable[..., Report]
) -> None:
    (tmp_path / "a.json").write_text(make_report("病院", [5, 5], [8]).dumps())
    for command, environment in (
        ("estimate a.json >&-", {}),
        ("estimate none.json 2>&-", {}),
        ("estimate a.json", {"PYTHONIOENCODING": "cp1252"}),
        ("estimate a.json", {"PYTHONIOENCODING": "ascii"}),
    ):
        done = subprocess.run(
            f"{sys.executable} -m fedcert {command}", shell=True, cwd=tmp_path, capture_output=True, check=False,
            env={**os.environ, **environment},
        )  # fmt: skip
        assert b"Traceback" not in done.stderr
        assert done.returncode == (2 if "none" in command else 0)


def test_a_bare_call_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "Usage: fedcert" in capsys.readouterr().out


def test_validate_looks_at_every_document(
    tmp_path: Path, make_report: Callable[..., Report], capsys: pytest.CaptureFixture[str]
) -> None:
    for index in range(4):
        (tmp_path / f"{index}.json").write_text(
            "{" if index in (0, 2) else make_report(f"s{index}", [5, 5], [8]).dumps()
        )
    good = make_report("line", [5, 5], [8]).dumps().replace("\n", " ")
    (tmp_path / "lines.ndjson").write_text(f"{good}\nbroken\n{good.replace('line', 'other')}\n")
    assert run(["validate", str(tmp_path)]) == 1
    assert "4 valid, 3 invalid." in capsys.readouterr().out
    (tmp_path / "empty.ndjson").write_text("")
    assert run(["validate", str(tmp_path / "empty.ndjson")]) == 1
    assert "empty.ndjson holds no document" in capsys.readouterr().out


def test_class_names_from_a_windows_editor(site: Path) -> None:
    (site / "bom.txt").write_bytes("\ufefflow\r\nhigh\r\n".encode())
    assert run([*CERTIFY, "--sigma", "0.25", "--n", "100", "--classes", "bom.txt", "--out", "report.json"]) == 0
    assert json.loads((site / "report.json").read_text())["classes"] == ["low", "high"]


def test_progress_comes_with_every_batch(site: Path) -> None:
    from fedcert.certification.progress import ProgressListener

    class Noting(ProgressListener):
        calls = 0

        def advance(self, samples: int) -> None:
            self.calls += 1

    watcher = Noting()
    certify(
        lambda batch: np.zeros(len(batch), int),
        RANDOM.random((50, 4)),
        np.zeros(50, int),
        sigma=0.2,
        n=1000,
        procedure="fixed",
        client="a",
        model_id="m",
        classes=["a", "b"],
        progress=watcher,
        batch_size=1000,
    )
    assert watcher.calls >= 50


def test_a_long_target_is_no_file_name(reports: Path, tmp_path: Path) -> None:
    target = "class 0=1,class 1=" + "0" * 400 + "1"
    assert run(["estimate", str(reports), "--target", target, "--out", str(tmp_path / "e.json")]) == 0


def test_a_report_is_never_overwritten_by_its_estimate(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", str(reports), "--out", str(reports / "3.json")]) == 2
    assert "it is one of the files to read; name another" in capsys.readouterr().err


def test_merge_makes_sums_tables_and_lines_that_estimate_alike(
    reports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = len(list(reports.iterdir()))
    curves = []
    for name in ("all.parquet", "all.ndjson", "sums.json"):
        out = tmp_path / name
        assert run(["merge", str(reports), "--out", str(out)]) == 0
        assert f"Wrote {out}: " in capsys.readouterr().out.replace("\n", "")
        assert run(["validate", str(out)]) == 0
        assert "1 valid, 0 invalid." in capsys.readouterr().out or name == "all.ndjson"
        assert run(["estimate", str(out), "--method", "vw", "--json"]) == 0
        curves.append(json.loads(capsys.readouterr().out))
    first, second, third = curves
    assert first["certified_accuracy"] == second["certified_accuracy"] == pytest.approx(third["certified_accuracy"])
    assert first["clients"] == third["clients"] <= count
    assert first["weights"] == second["weights"]
    assert third["weights"] is None
    assert third["weights_note"] == "sums tell no client apart"


def test_sums_of_sums_are_the_sums_of_all(reports: Path, tmp_path: Path) -> None:
    files = sorted(reports.iterdir())
    for name, part in (("a.json", files[:2]), ("b.json", files[2:]), ("all.json", files)):
        assert run(["merge", *map(str, part), "--out", str(tmp_path / name)]) == 0
    assert run(["merge", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--out", str(tmp_path / "both.json")]) == 0
    both, whole = (json.loads((tmp_path / name).read_text()) for name in ("both.json", "all.json"))
    assert {**both, "created": None} == {**whole, "created": None}


def test_what_if_writes_a_table(reports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    targets = tmp_path / "targets.json"
    targets.write_text('{"winter": {"class 0": 3, "class 1": 1}, "summer": {"class 1": 1}}')
    command = ["what-if", str(reports), "--targets", str(targets), "--target", "uniform"]
    assert run([*command, "--out", str(tmp_path / "table.csv")]) == 0
    shown = capsys.readouterr().out
    assert "Certified accuracy of 3 targets by " in shown
    assert "winter" in shown
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0] == "target,radius,certified_accuracy,lower,upper"
    assert lines[1].startswith("winter,0.0,")
    assert run([*command, "--out", str(tmp_path / "table.json"), "--json"]) == 0
    made = WhatIf.from_json(json.loads(capsys.readouterr().out))
    assert made == WhatIf.from_json(json.loads((tmp_path / "table.json").read_text()))
    assert [curve.target.name for curve in made.targets] == ["winter", "summer", "uniform"]


def test_estimate_shows_the_curves_of_the_classes(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", str(reports), "--by-class"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "class, at radius" in shown
    assert "Each interval holds for a class chosen in advance, not for one picked by its estimate" in shown
    assert run(["estimate", str(reports), "--all-classes"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "class, at radius" in shown
    assert "The per-class intervals hold for all classes at once, the weakest included." in shown
    assert run(["estimate", str(reports), "--by-class", "--method", "vw"]) == 0
    assert "VW gives no curves of single classes." in capsys.readouterr().out


def test_many_weights_go_to_a_file_of_their_own(
    reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.parquet as parquet

    for module in ("fedcert.estimation.result", "fedcert.estimation.files"):
        monkeypatch.setattr(f"{module}.MOST_WEIGHTS", 1)
    out = tmp_path / "estimate.json"
    assert run(["estimate", str(reports), "--method", "vw", "--out", str(out)]) == 0
    assert "estimate.weights.parquet" in capsys.readouterr().out.replace("\n", "")
    made = Estimate.from_json(json.loads(out.read_text()))
    assert made.weights is None
    assert made.weights_file == "estimate.weights.parquet"
    assert "weights are too many for this document" in (made.weights_note or "")
    rows = parquet.read_table(tmp_path / "estimate.weights.parquet").to_pylist()
    assert sum(row["weight"] for row in rows) == pytest.approx(1)
    assert [row["client"] for row in rows] == sorted(row["client"] for row in rows)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "estimate.weights.parquet").unlink()
    assert run(["estimate", str(reports), "--method", "vw", "--out", str(out)]) == 0
    assert not (tmp_path / "estimate.weights.parquet").exists()
    assert json.loads(out.read_text())["weights_file"] is None


def test_a_request_may_ask_for_the_sequential_procedure(site: Path) -> None:
    ask = ["request", "--model-id", "threshold", "--sigma", "0.25", "--classes", "classes.txt", "--out", "request.json"]
    assert run([*ask, "--procedure", "sequential", "--n", "3000", "--tolerance", "0.02", "--noise", "uniform"]) == 0
    asked = Request.from_json(json.loads((site / "request.json").read_text()))
    assert (asked.smoothing.procedure, asked.smoothing.tolerance, asked.smoothing.norm) == ("sequential", 0.02, "l1")
    assert run([*CERTIFY, "--request", "request.json", "--out", "report.json"]) == 0
    report = Report.from_json(json.loads((site / "report.json").read_text()))
    assert report.smoothing == asked.smoothing
    assert report.samples is not None
    assert report.samples < 30 * 3100
    assert [file.name for file in site.glob("*.journal")] == ["report.json.journal"]


def test_certificates_of_single_examples_stay_here(site: Path) -> None:
    import pyarrow.parquet as parquet

    command = [*CERTIFY, "--sigma", "0.25", "--classes", "classes.txt", "--out", "report.json"]
    assert run([*command, "--examples", "examples.parquet"]) == 0
    assert parquet.read_table(site / "examples.parquet").num_rows == 30


def test_a_dry_run_writes_no_examples_either(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*CERTIFY, "--sigma", "0.25", "--dry-run", "--examples", "e.parquet"]) == 2
    assert "--dry-run writes nothing: leave --examples out" in capsys.readouterr().err
    assert not (site / "e.parquet").exists()


def test_a_run_that_fails_at_once_leaves_another_ones_journal_alone(site: Path) -> None:
    """Even while it is still empty: it belongs to a run that has just begun."""
    with Journal(site / "report.json.journal", {"another": "run"}, Seed.drawn()):
        given = [*CERTIFY, "--sigma", "0.25", "--out", "report.json"]
        assert run([*given, "--precision", "bfloat16"]) == 2
        assert (site / "report.json.journal").exists()
        assert run(given) == 2
        assert (site / "report.json.journal").exists()


def test_a_journals_name_that_is_taken_is_refused_before_any_work(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "report.json.journal").mkdir()
    assert run([*CERTIFY, "--sigma", "0.25", "--out", "report.json"]) == 1
    error = capsys.readouterr().err
    assert "report.json.journal must be a file, but is a folder; remove it, or find out who put it there" in error
    assert "what was done is kept" not in error


def test_work_that_outlasts_the_deadline_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    watcher = _ProgressBar(request(now=None, seconds=60.0))
    watcher._check_deadline(30.0, "may take")
    assert capsys.readouterr().err == ""
    watcher._check_deadline(90.0, "may take")
    assert capsys.readouterr().err.startswith(
        "fedcert: note: that may take longer than the request's deadline allows, 20"
    )


def test_a_report_that_is_late_is_told_of(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model takes longer than the deadline allows."""
    (site / "slowly.py").write_text(
        "import time\ndef make():\n    return lambda batch: (time.sleep(0.05), (batch[:, 0] > 0.5).astype(int))[1]\n"
    )
    soon = (datetime.now(UTC) + timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ask = ["request", "--model-id", "m", "--sigma", "0.25", "--classes", "classes.txt", "--deadline", soon]
    assert run([*ask, "--n", "50", "--procedure", "fixed", "--out", "request.json"]) == 0
    call = ["certify", "slowly:make", "data.npz", "--model-id", "m", "--client", "a", "--request", "request.json"]
    assert run([*call, "--batch-size", "50", "--out", "report.json"]) == 0
    told = capsys.readouterr().err
    assert f"note: that takes longer than the request's deadline allows, {soon}" in told
    assert f"note: the request's deadline, {soon}, has passed: the coordinator will not take this report" in told
