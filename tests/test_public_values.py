"""What people meet of values: their names in `dir`, their files, their short answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import fedcert
from factories import population_report, report_document, request
from fedcert._files.saved import SavedRecord
from fedcert._schema.record import Record

REPORT = fedcert.Report.from_json(report_document())
POPULATION = population_report("site-b", [[0, 1, 0, 2], [1, 1, 0, 0]])
ESTIMATE = fedcert.estimate(REPORT)
WHAT_IF = fedcert.what_if(REPORT, ["uniform", {"cat": 1}])
VALUES: dict[str, SavedRecord] = {
    "report": REPORT,
    "population report": POPULATION,
    "request": request(),
    "sums": fedcert.Sums.of([REPORT]),
    "estimate": ESTIMATE,
    "what-if": WHAT_IF,
}
OF_ALL = {"dumps", "extra", "from_json", "load", "save", "to_json"}
OF_EACH = {
    fedcert.Report: {"certified_accuracy", "class_procedure_counts", "examples", "procedure_counts"},
    fedcert.Request: {"digest", "late"},
    fedcert.Sums: {"examples", "merged", "of", "procedure_counts"},
    fedcert.Estimate: {"at", "to_frame", "used_method", "verdict"},
    fedcert.WhatIf: {"at", "to_frame", "verdict"},
}


def public(value: object) -> set[str]:
    return {name for name in dir(value) if not name.startswith("_")}


def kinds_of(kind: type[Record]) -> set[type[Record]]:
    below = kind.__subclasses__()
    return {kind, *below, *(each for one in below for each in kinds_of(one))}


@pytest.mark.parametrize("name", VALUES)
def test_dir_shows_fields_and_what_can_be_done(name: str) -> None:
    value = VALUES[name]
    fields = {field.name for field in dataclasses.fields(value)}
    assert public(value) == fields | OF_ALL | OF_EACH[type(value)]


def test_no_record_shows_what_its_class_declares() -> None:
    internal = {"SCHEMA", "NOUN", "REMEDY", "check_consistency", "field_types", "required", "json_schema", "shared"}
    for kind in kinds_of(Record):
        assert not internal & public(kind), kind
        assert kind.NOUN


def test_dir_of_the_package_lists_the_public_names() -> None:
    assert dir(fedcert) == sorted(fedcert.__all__)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_saved_and_loaded(name: str, tmp_path: Path) -> None:
    value = VALUES[name]
    file = value.save(tmp_path / "value.json")
    assert file == tmp_path / "value.json"
    assert type(value).load(file) == value
    assert type(value).load(str(file)) == value
    assert file.read_text() == value.dumps()
    assert [path.name for path in tmp_path.iterdir()] == ["value.json"]
    value.save(str(file))  # an earlier file is replaced


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("value.txt", "the name must end in .json"),
        ("nowhere/value.json", "does not exist; make it first"),
        (7, "^path must be a path, but is 7$"),
    ],
)
@pytest.mark.parametrize("name", VALUES)
def test_a_value_cannot_be_saved_everywhere(
    name: str, path: Any, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fedcert.CallError, match=sentence):
        VALUES[name].save(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "content", "error", "sentence"),
    [
        (fedcert.Estimate, REPORT.dumps(), fedcert.InvalidValue, r"schema must be 'fedcert/estimate/1', but is 'fedcert/report/1'; give an estimate"),
        (fedcert.Report, ESTIMATE.dumps(), fedcert.InvalidValue, "give a report"),
        (fedcert.Request, "{", fedcert.FileProblem, "value.json is not valid JSON"),
        (fedcert.Sums, "[]", fedcert.InvalidValue, "the sums must be a JSON object"),
        (fedcert.WhatIf, None, fedcert.CallError, "there is no file .*value.json; check the name"),
    ],
)  # fmt: skip
def test_loading_is_strict(
    kind: type[SavedRecord], content: str | None, error: type[Exception], sentence: str, tmp_path: Path
) -> None:
    file = tmp_path / "value.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(error, match=sentence):
        kind.load(file)


def test_loading_wants_a_json_file(tmp_path: Path) -> None:
    (tmp_path / "reports.ndjson").write_text(REPORT.dumps())
    with pytest.raises(fedcert.CallError, match=r"\.json"):
        fedcert.Report.load(tmp_path / "reports.ndjson")
    with pytest.raises(fedcert.CallError, match="^path must be a path, but is"):
        fedcert.Report.load(b"report.json")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", VALUES)
def test_text_and_repr_are_short(name: str) -> None:
    value = VALUES[name]
    lines = str(value).splitlines()
    assert 2 <= len(lines) <= 20
    assert all(len(line) <= 100 for line in lines)
    assert repr(value).startswith(f"<{type(value).__name__}: ")
    assert len(repr(value)) < 200
    assert "\n" not in repr(value)
    page = value._repr_html_()  # type: ignore[operator]
    assert page.startswith("<div><p><strong>")
    assert page.endswith("</div>")


@pytest.mark.parametrize("kind", [fedcert.Report, fedcert.Estimate])
def test_names_of_others_are_text_in_a_notebook(kind: type) -> None:
    report = fedcert.Report.from_json(report_document(client="<script>alert(1)</script>", signature=None))
    value = report if kind is fedcert.Report else fedcert.estimate(report, {"cat": 1, "dog": 1})
    if kind is fedcert.Estimate:
        value = dataclasses.replace(value, target={"name": "<img src=x>", "distribution": {"cat": 1.0}})  # type: ignore[arg-type]
    page = value._repr_html_()
    assert "<script" not in page
    assert "<img" not in page


def test_parts_of_values_show_no_empty_extra() -> None:
    assert repr(ESTIMATE.target).startswith("Target(name='uniform', ")
