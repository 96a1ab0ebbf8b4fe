"""fedcert.collect: the command's abilities as a function."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import fedcert
from factories import answer, request
from fedcert.cli.main import run

ASKED = request(seconds=None, now=None)
CLIENTS = ("site-a", "site-b", "site-c")
ANSWERS = [answer(ASKED, client) for client in CLIENTS]


def test_reports_in_memory() -> None:
    result = fedcert.collect(ANSWERS[:2], request=ASKED, confidence=0.9)
    assert (result.clients, dict(result.excluded)) == (2, {"site-c": "it has not answered"})
    assert result.confidence == 0.9
    assert fedcert.collect(ANSWERS[0], request=ASKED, quorum=1).clients == 1


def test_files_and_folders(tmp_path: Path) -> None:
    ASKED.save(tmp_path / "request.json")
    folder = tmp_path / "back"
    folder.mkdir()
    for report in ANSWERS[:2]:
        report.save(folder / f"{report.client}.json")
    result = fedcert.collect(
        [folder, ANSWERS[2]], request=tmp_path / "request.json", page=tmp_path / "page.html", title="Ward 7"
    )
    assert (result.clients, dict(result.excluded)) == (3, {})
    assert "Ward 7" in (tmp_path / "page.html").read_text()
    assert fedcert.collect(str(folder), request=str(tmp_path / "request.json")).clients == 2


def test_a_run_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(fedcert.EstimationProblem, match="at least 2 are needed"):
        fedcert.collect(ANSWERS[0], request=ASKED, run=run)
    assert fedcert.collect(ANSWERS[1], run=run).clients == 2
    assert fedcert.collect(ANSWERS[2], run=str(run)).clients == 3
    again = fedcert.collect(run=run)
    assert again.clients == 3
    assert fedcert.Estimate.load(run / "estimate.json") == again
    without = fedcert.collect(run=run, withdraw=["site-b"])
    assert without.clients == 2
    assert "site-b" in without.excluded


def test_reports_in_memory_are_corrected_like_files(tmp_path: Path) -> None:
    """The newer one counts, by its time; --replace takes the older one after all."""
    early, late = "2026-11-01T10:00:00Z", "2026-11-02T10:00:00Z"
    first = answer(ASKED, "site-a", created=early)
    counts = (first.procedure_counts[0] - 1, *first.procedure_counts[1:])
    second = answer(ASKED, "site-a", certified_counts=counts, class_certified_counts=None, created=late)
    fedcert.collect([first, ANSWERS[1]], request=ASKED, run=tmp_path)
    corrected = fedcert.collect(second, run=tmp_path)
    named = {check.name: check.sentence for check in corrected.checks}["corrected reports"]
    assert f"the report given now (created {late}) replaces the report in " in named
    asked_again = {check.name: check.sentence for check in fedcert.collect(run=tmp_path).checks}
    assert asked_again["corrected reports"] == named  # it stays with the run
    with pytest.warns(fedcert.FedcertWarning, match="'site-a' has a newer report, .*; the newer one counts"):
        assert fedcert.collect(first, run=tmp_path).clients == 2
    back = fedcert.collect(first, run=tmp_path, replace="site-a")
    assert "corrected reports" in {check.name for check in back.checks}
    with pytest.raises(fedcert.CallError, match="hold no report of 'site-b' that could replace the kept one"):
        fedcert.collect(first, run=tmp_path, replace=["site-b"])


def test_a_run_remembers_what_its_page_said(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    fedcert.collect(ANSWERS, request=ASKED, run=tmp_path / "run", page=page, unit="in pixels", context="A grey level.")
    page.unlink()
    fedcert.collect(run=tmp_path / "run", page=page)
    assert "in pixels" in page.read_text()
    assert "A grey level." in page.read_text()


def test_a_run_does_not_remember_questions(tmp_path: Path) -> None:
    """Radius, radii and votes ask one thing of the same counts: the next estimate is for what the request names."""
    asked = fedcert.request("demo", 0.25, ["cat", "dog"])
    report = fedcert.Report(
        client="a", model="demo", request=asked.digest, smoothing=asked.smoothing, radii=asked.radii,
        classes=asked.classes, label_counts=[80, 20], correct_counts=[*[0] * 32, 100],
    )  # fmt: skip
    plain = fedcert.collect(report, request=asked, run=tmp_path)
    other = fedcert.collect(run=tmp_path, radii=(0, 0.3), votes=31, radius=0.3)
    assert (other.radii, other.votes, other.headline_radius) == ((0, 0.3), 31, 0.3)
    again = fedcert.collect(run=tmp_path)
    assert (again.radii, again.votes, again.headline_radius) == (plain.radii, 11, None)


def test_what_is_not_taken_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "torn.json").write_text("{")
    odd = answer(ASKED, "site-x")
    with pytest.warns(fedcert.FedcertWarning) as caught:
        result = fedcert.collect([*ANSWERS, odd, tmp_path / "torn.json"], request=ASKED)
    sentences = [str(each.message) for each in caught]
    assert any(
        one.startswith("not taken: the report of 'site-x': 'site-x' is not among the 3 clients") for one in sentences
    )
    assert any("torn.json" in one for one in sentences)
    assert result.clients == 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        many = [answer(ASKED, f"site-{number}") for number in range(14)]
        assert fedcert.collect([*ANSWERS, *many], request=ASKED).clients == 3


def test_a_worst_case_and_a_target() -> None:
    result = fedcert.collect(ANSWERS[:2], request=ASKED, worst_case=50, target={"cat": 1}, target_name="cats only")
    assert result.worst_case is not None
    assert result.worst_case.examples_each == 50
    assert result.target.name == "cats only"


def test_signatures_count(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from fedcert.privacy.keys.identity import Identity
    from fedcert.privacy.keys.keyring import Keyring
    from fedcert.privacy.keys.signing import sign

    keys = Identity.new("site-a")
    ring = Keyring.of([keys.card])
    (tmp_path / "ring.json").write_text(ring.dumps())
    for trusted in (ring, tmp_path / "ring.json"):
        result = fedcert.collect([sign(ANSWERS[0], keys), *ANSWERS[1:]], request=ASKED, trusted=trusted)
        assert result.screened is not None  # those without a signature are screened
    with pytest.warns(fedcert.FedcertWarning, match="site-a"):
        assert fedcert.collect(ANSWERS, request=ASKED, trusted=ring).clients == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, r"^give the request \(--request\), or the folder of a run that has it \(--run\)$"),
        ({"request": "gone.json"}, "gone.json"),
        ({"request": ASKED, "page": "page.txt"}, "the name must end in .html or .htm"),
        ({"request": ASKED, "quorum": 9}, "quorum must be at most the 3 clients"),
        ({"request": 7}, "^request must be a path, but is 7"),
        ({"request": ASKED, "run": 7}, "^run must be a path, but is 7"),
    ],
)
def test_calls_that_are_wrong(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(fedcert.CallError, match=sentence):
        fedcert.collect(ANSWERS, **options)


def test_an_unknown_setting_is_refused_before_anything_is_kept(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'konfidence'"):
        fedcert.collect(ANSWERS, request=ASKED, run=tmp_path / "run", konfidence=0.9)
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("default::fedcert.FedcertWarning")
def test_reports_in_the_folder_of_an_earlier_version_never_make_a_wrong_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Digests of requests have changed since: each report is named, and there is no estimate."""
    asked = fedcert.request("demo", 0.25, ["cat", "dog"], procedure="fixed", radii=[0, 0.5])
    report = fedcert.Report(
        client="a", model="demo", request=asked.digest, smoothing=asked.smoothing, radii=asked.radii,
        classes=asked.classes, label_counts=[80, 20], certified_counts=[90, 50],
    )  # fmt: skip
    fedcert.collect(report, request=asked, run=tmp_path)
    (file,) = (tmp_path / "reports").glob("*.json")
    file.write_text(file.read_text().replace(asked.digest, "sha256:" + "ab" * 32))
    assert run(["collect", "--run", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "a report in" in said.err
    assert (
        "does not count: the report of 'a' answers another request (sha256:abababababab…), perhaps an older one"
        in said.err
    )
    assert "error: 0 clients answered, and at least 1 is needed: there is no estimate" in said.err
    assert said.out == ""
    assert not (tmp_path / "estimate.json").exists()
