"""fedcert collect: a round carried by files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from factories import answer, request
from fedcert import Estimate, Request
from fedcert.cli.main import run

CLIENTS = ("site-a", "site-b", "site-c")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    """A coordinator's folder with a request and two of three answers, entered."""
    monkeypatch.chdir(tmp_path)
    asked = request(seconds=None, now=None)
    Path("request.json").write_text(asked.dumps())
    Path("back").mkdir()
    for client in CLIENTS[:2]:
        Path(f"back/{client}.json").write_text(answer(asked, client).dumps())
    return asked


def test_it_estimates_and_names_who_is_missing(desk: Request, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["collect", "back", "--request", "request.json", "--out", "estimate.json"]) == 0
    shown = capsys.readouterr().out
    assert "Excluded: site-c: it has not answered." in shown
    assert "1 of the 3 clients that were asked is missing: 'site-c'." in " ".join(shown.split())
    made = Estimate.from_json(json.loads(Path("estimate.json").read_text()))
    assert (made.clients, dict(made.excluded)) == (2, {"site-c": "it has not answered"})


def test_a_run_folder_goes_on_as_more_arrives(desk: Request, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["collect", "back/site-a.json", "--request", "request.json", "--run", "run"]) == 1
    assert "error: 1 of the 3 clients that were asked answered, and at least 2 are needed: there is no estimate" in (
        capsys.readouterr().err
    )
    assert not Path("run/estimate.json").exists()
    assert run(["collect", "back/site-b.json", "--run", "run"]) == 0
    assert Path("run/estimate.json").exists()
    assert Path("run/estimate.png").exists()
    Path("c.json").write_text(answer(desk, "site-c").dumps())
    assert run(["collect", "c.json", "--run", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.rpartition("Wrote run/estimate.json.\n")[2])["excluded"] == {}
    assert run(["collect", "--run", "run"]) == 0  # nothing new: the same estimate
    events = [json.loads(line)["event"] for line in Path("run/log.ndjson").read_text().splitlines()]
    assert events.count("answered") == 3


def test_what_is_not_taken_is_named(desk: Request, capsys: pytest.CaptureFixture[str]) -> None:
    Path("back/x.json").write_text(answer(desk, "site-x").dumps())
    Path("back/torn.json").write_text("{")
    old = answer(desk, "site-c", request="sha256:" + "0" * 64)
    Path("back/old.json").write_text(old.dumps())
    assert run(["collect", "back", "--request", "request.json"]) == 0
    told = capsys.readouterr().err
    assert "'site-x' is not among the 3 clients that were asked" in told
    assert "back/torn.json" in told
    assert "the report of 'site-c' answers another request" in told


def test_a_file_that_breaks_the_schema_leaves_a_trace(desk: Request, capsys: pytest.CaptureFixture[str]) -> None:
    broken = answer(desk, "site-c").to_json() | {"certified_counts": [-1, 0]}
    Path("back/c.json").write_text(json.dumps(broken))
    Path("back/lines.ndjson").write_text("{\n" * 12)
    assert run(["collect", "back", "--request", "request.json", "--run", "run", "--json"]) == 0
    seen = capsys.readouterr()
    why = json.loads(seen.out)["excluded"]["site-c"]
    assert why.startswith("a report in its name was refused: report 'site-c' in back/c.json: certified_counts[0] must")
    assert "not taken: 3 more; all are in run/log.ndjson" in seen.err
    log = [json.loads(line) for line in Path("run/log.ndjson").read_text().splitlines()]
    assert sum(event["event"] == "refused" for event in log) == 13


def test_an_inbox_may_be_empty_once_there_are_answers(desk: Request, capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    assert run(["collect", "empty", "--request", "request.json", "--run", "run"]) == 2
    assert "empty holds no .json" in capsys.readouterr().err
    assert run(["collect", "back", "--request", "request.json", "--run", "run"]) == 0
    assert run(["collect", "empty", "--run", "run"]) == 0


def test_the_runs_own_folder_is_no_inbox(desk: Request, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["collect", "back", "--request", "request.json", "--run", "back"]) == 2
    assert "back is the folder of --run, which has what it took already" in capsys.readouterr().err


def test_names_that_look_the_same_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = request(roster=("Klinik M\u00fcnchen",), seconds=None, now=None)
    Path("request.json").write_text(asked.dumps())
    document = answer(asked, "x").to_json() | {"client": "Klinik Mu\u0308nchen"}
    Path("a.json").write_text(json.dumps(document))
    assert run(["collect", "a.json", "--request", "request.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["excluded"] == {}


def test_a_worst_case_on_request(desk: Request, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["collect", "back", "--request", "request.json", "--worst-case", "50"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "If each of the 1 missing clients held up to 50 examples, of whatever kind: between " in shown


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["back"], 2, "give the request (--request), or the folder of a run that has it (--run)"),
        (["back", "--run", "new"], 2, "there is no folder new of an earlier run; check the name, or give --request"),
        (["back", "--request", "gone.json"], 2, "gone.json"),
        (["gone", "--request", "request.json"], 2, "gone"),
        (["back", "--request", "back/site-a.json"], 1, "schema"),
        (["back", "--request", "request.json", "--quorum", "many"], 2, "--quorum must be a number, but is 'many'"),
        (["back", "--request", "request.json", "--quorum", "inf"], 2, "quorum must be a number of clients"),
        (["back", "--request", "request.json", "--quorum", "1.0"], 1, "at least 3 are needed"),
        (["back", "--request", "request.json", "--worst-case", "9" * 20], 2, "must be at most 2^53"),
        (["back", "--request", "request.json", "--worst-case", "5", "--screen"], 2, "leave screening out"),
        (["back", "--request", "request.json", "--run", "run", "--out", "run/x.json"], 2, "is in the folder of --run"),
        (["back", "--request", "request.json", "--quorum", "4"], 2, "quorum must be at most the 3 clients"),
        (["back", "--request", "request.json", "--method", "best"], 2, "method"),
        (["back", "--request", "request.json", "--out", "back/site-a.json"], 2, "it is one of the files to read"),
        (["back", "--request", "request.json", "--target", "cow=1"], 2, "cow"),
        (["--request", "request.json"], 2, "give the reports to collect, files or folders"),
    ],
)
def test_calls_that_are_wrong(
    desk: Request, arguments: list[str], code: int, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in Path().rglob("*.json")}
    assert run(["collect", *arguments]) == code
    told = capsys.readouterr().err
    assert why in told
    assert "Traceback" not in told
    assert all(path.read_bytes() == content for path, content in before.items())


def corrected(asked: Request, client: str, created: str, certified: int) -> str:
    counts = (certified, *answer(asked, client).procedure_counts[1:])
    return answer(asked, client, certified_counts=counts, class_certified_counts=None, created=created).dumps()


def test_a_site_corrects_its_report(desk: Request, capsys: pytest.CaptureFixture[str]) -> None:
    Path("back/site-a.json").write_text(corrected(desk, "site-a", "2026-11-01T10:00:00Z", 40))
    assert run(["collect", "back", "--request", "request.json", "--run", "run"]) == 0
    Path("back/a-site-a-new.json").write_text(corrected(desk, "site-a", "2026-11-02T10:00:00Z", 41))
    capsys.readouterr()
    assert run(["collect", "back", "--run", "run"]) == 0
    noted = capsys.readouterr().err
    assert "site-a: back/a-site-a-new.json (created 2026-11-02T10:00:00Z) replaces the report in run" in noted
    assert "back/site-a.json (created 2026-11-01T10:00:00Z); the newer one counts" in noted
    # The older one after all, by name.
    assert run(["collect", "back/site-a.json", "--run", "run", "--replace", "site-a"]) == 0
    kept = json.loads(next(Path("run/reports").glob("site-a-*")).read_text())
    assert kept["certified_counts"][0] == 40
    assert run(["collect", "--run", "run", "--withdraw", "site-a", "--quorum", "1"]) == 0
    assert "Excluded: site-a: its report was withdrawn." in capsys.readouterr().out
    assert run(["collect", "back", "--request", "request.json", "--replace", "site-a"]) == 2
    assert (
        "replace (--replace) is about the reports of a run: give its folder (--run FOLDER)" in capsys.readouterr().err
    )


def test_a_run_remembers_its_target_and_settings(desk: Request, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["collect", "back", "--request", "request.json", "--run", "run"]
    options = ["--target", "cat=0.9,dog=0.1", "--target-name", "the clinic", "--interval", "hoeffding"]
    assert run([*base, *options, "--confidence", "0.9", "--method", "vw"]) == 0
    first = Estimate.from_json(json.loads(Path("run/estimate.json").read_text()))
    assert first.target.name == "the clinic"
    capsys.readouterr()
    assert run(["collect", "--run", "run"]) == 0
    again = Estimate.from_json(json.loads(Path("run/estimate.json").read_text()))
    assert (again.target, again.lower, again.method, again.confidence) == (first.target, first.lower, "vw", 0.9)
    assert (
        "as in the last estimate of run: target the clinic (cat 90%, dog 10%), confidence 0.9, interval hoeffding, "
        "method vw\n"
    ) in capsys.readouterr().err
    assert not Path("run/estimates").exists()  # it says the same
    assert run(["collect", "--run", "run", "--target", "uniform"]) == 0
    other = Estimate.from_json(json.loads(Path("run/estimate.json").read_text()))
    assert (other.target.name, other.method) == ("uniform", "vw")
    earlier = Estimate.from_json(json.loads(Path("run/estimates/0001.json").read_text()))
    assert earlier.target == first.target
    assert Path("run/estimates/0001.png").exists()


@pytest.mark.parametrize("text", ["[1]", '{"target": 7}', '{"colour": "red"}', "{"])
def test_settings_that_were_changed_are_one_sentence(
    desk: Request, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["collect", "back", "--request", "request.json", "--run", "run"]) == 0
    Path("run/settings.json").write_text(text)
    capsys.readouterr()
    assert run(["collect", "--run", "run"]) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert "settings.json" in line


def test_collect_has_every_option_of_estimate() -> None:
    from inspect import signature

    from fedcert.cli.collect import collect
    from fedcert.cli.estimate import estimate

    assert set(signature(estimate).parameters) <= set(signature(collect).parameters)


def test_a_quorum_in_percent(desk: Request, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["collect", "back", "--request", "request.json", "--quorum", "100%"]) == 1
    assert "2 of the 3 clients that were asked answered, and at least 3 are needed" in capsys.readouterr().err
    assert run(["collect", "back", "--request", "request.json", "--quorum", "60%"]) == 0


def test_the_page_has_the_coordinators_unit_and_context(desk: Request) -> None:
    words = ["--unit", "in pixel values", "--context", "A quarter is a grey level."]
    assert run(["collect", "back", "--request", "request.json", "--page", "page.html", *words]) == 0
    text = Path("page.html").read_text()
    assert '"unit":"in pixel values"' in text
    assert '<p id="context" class="context">A quarter is a grey level.</p>' in text
