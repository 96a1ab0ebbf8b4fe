"""The same integer reports, in this process and through files that people carry."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from factories import ask_clients
from fedcert import Report, Request, Smoothing, certify
from fedcert._files.documents import read_record
from fedcert.certification.models.classifiers import classifier_of
from fedcert.engines.files import take_files
from fedcert.rounds import CertificationRound, make_request

pytestmark = pytest.mark.filterwarnings("default::fedcert.FedcertWarning")  # models that guess are warned of

RANDOM = np.random.default_rng(0)
NAMES = [f"site-{number}" for number in range(10)]
DATA = {name: (RANDOM.random((12, 3), dtype=np.float32), RANDOM.integers(0, 2, 12)) for name in NAMES}
NETWORK = nn.Sequential(nn.Linear(3, 2)).eval()


SMOOTHINGS = {
    "sequential": Smoothing(sigma=0.25, n=300, procedure="sequential", tolerance=0.005),
    "population": Smoothing(sigma=0.25, procedure="population"),
}


def asked(procedure: str = "sequential") -> Request:
    smoothing = SMOOTHINGS[procedure]
    return make_request(classifier_of(NETWORK).identity, smoothing, ["low", "high"], roster=NAMES, seconds=600)


def answered(name: str, request: Request) -> Report:
    x, y = DATA[name]
    return certify(NETWORK, x, y, client=name, request=request, class_counts=True, seed=0)


def counts(report: Report) -> tuple[object, ...]:
    return (report.label_counts, report.procedure_counts, report.class_procedure_counts, report.abstained)


@pytest.mark.parametrize("procedure", SMOOTHINGS)
def test_in_process_and_through_files_the_counts_are_the_same(tmp_path: Path, procedure: str) -> None:
    request = asked(procedure)
    one = CertificationRound(request)
    ask_clients(one, {name: lambda req, name=name: answered(name, req) for name in NAMES})  # type: ignore[misc]
    assert one.missing == {}

    (tmp_path / "request.json").write_text(request.dumps())
    carried: Request = read_record(tmp_path / "request.json", Request)
    assert carried.digest == request.digest
    back = tmp_path / "reports"
    back.mkdir()
    for name in NAMES:
        (back / f"{name}.json").write_text(answered(name, carried).dumps())
    other = CertificationRound(carried)
    assert take_files(other, [back]) == {}
    assert {name: counts(one.reports[name]) for name in NAMES} == {name: counts(other.reports[name]) for name in NAMES}
    assert one.conclude().certified_accuracy == other.conclude().certified_accuracy
    if procedure == "population":  # 32 passes, and radii to two sigma
        assert {sum(report.correct_counts or ()) for report in one.reports.values()} == {12}
        assert {len(report.correct_counts or ()) for report in one.reports.values()} == {33}
        assert request.radii == tuple(round(0.025 * step, 9) for step in range(21))


def test_a_client_that_raises_is_missing_and_the_others_count() -> None:
    request = asked()
    one = CertificationRound(request)

    def broken(_: Request) -> Report:
        raise MemoryError("no more")

    clients = {name: (lambda req, name=name: answered(name, req)) for name in NAMES}  # type: ignore[misc]
    ask_clients(one, {**clients, "site-3": broken, "site-4": lambda req: answered("site-5", req)})
    assert one.missing["site-3"] == "MemoryError: no more"
    assert "came from 'site-4', who may only answer for itself" in one.missing["site-4"]
    assert one.conclude().clients == 8
    asked_again: list[str] = []
    ask_clients(one, {name: lambda req, name=name: asked_again.append(name) for name in NAMES})  # type: ignore[misc]
    assert asked_again == ["site-3", "site-4"]


def test_another_model_is_found_out_at_the_client() -> None:
    other = nn.Sequential(nn.Linear(3, 2)).eval()
    one = CertificationRound(asked())
    x, y = DATA["site-0"]
    ask_clients(one, {"site-0": lambda req: certify(other, x, y, client="site-0", request=req)})
    assert one.missing["site-0"].startswith("the request asks for the model sha256:")


def test_broken_files_hide_no_others(tmp_path: Path) -> None:
    request = asked()
    one = CertificationRound(request)
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text(answered("site-0", request).dumps())
    (tmp_path / "c.ndjson").write_text(
        json.dumps(answered("site-1", request).to_json())
        + "\nnull\n"
        + json.dumps(answered("site-2", request).to_json())
        + "\n"
    )
    (tmp_path / "request.json").write_text(request.dumps())
    stranger = answered("site-3", request).to_json() | {"client": "site-99"}
    (tmp_path / "d.json").write_text(json.dumps(stranger))
    refused = take_files(one, [tmp_path])
    assert sorted(one.reports) == ["site-0", "site-1", "site-2"]
    assert [Path(place.split(",")[0].strip("'")).name for place in refused] == ["a.json", "c.ndjson", "d.json"]
    assert "'site-99' is not among the 10 clients that were asked" in list(refused.values())[-1]


def test_a_report_that_says_it_is_late_is_refused(tmp_path: Path) -> None:
    request = asked()
    report = answered("site-0", request).to_json() | {"created": "2999-01-01T00:00:00Z"}
    (tmp_path / "late.json").write_text(json.dumps(report))
    (why,) = take_files(CertificationRound(request), [tmp_path / "late.json"]).values()
    assert "came after the deadline" in why


def test_a_table_of_reports_is_taken(tmp_path: Path) -> None:
    parquet = pytest.importorskip("fedcert.report.table.parquet")
    request = asked()
    parquet.write_parquet(tmp_path / "all.parquet", (answered(name, request) for name in NAMES[:3]))
    one = CertificationRound(request)
    refused = take_files(one, [tmp_path / "all.parquet"])
    assert (sorted(one.reports), refused) == (NAMES[:3], {})
