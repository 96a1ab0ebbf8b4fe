"""A field of a report is declared in one place, and is then everywhere: JSON, schema, tables, comparisons."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as arrow
import pytest

import fedcert
from factories import report_document
from fedcert import Report
from fedcert._schema.declare import TablePlace, optional
from fedcert._schema.field_types import MappingOf, Number, Text, Whole
from fedcert.report.table.layout import columns_of, fields_at, header_type
from fedcert.report.table.parquet import arrow_schema
from fedcert.rounds.validation import same_counts

SOURCE = Path(fedcert.__file__).parent
LAST_LINE = "    created: str | None = optional(Timestamp(), place=NOTED)\n"

END_TO_END = """
import json, sys
from dataclasses import replace
from pathlib import Path

import pytest

import fedcert
from fedcert import InvalidValue, Report, read_reports
from fedcert.cli.main import run
from fedcert.report import load
from fedcert.rounds.validation import same_counts

folder, place = Path(sys.argv[1]), sys.argv[2]
document = dict(schema="fedcert/report/1", model="demo", smoothing={"sigma": 0.25}, radii=[0, 0.5],
                classes=["cat", "dog"], label_counts=[60, 40], certified_counts=[90, 50])
reports = [Report.from_json({**document, "client": f"site-{n:02d}", "scanner": "Aera"}) for n in range(20)]
first = reports[0]

assert first.scanner == "Aera" and first.to_json()["scanner"] == "Aera"
plain = Report.from_json({**document, "client": "old"})
assert plain.scanner is None and "scanner" not in plain.to_json()  # older documents stay as they are
assert "scanner" in Report.json_schema()["properties"]
assert same_counts(first, replace(first, scanner="Other")) is (place != "COUNTED")

lines = folder / "all.ndjson"
lines.write_text("".join(json.dumps(report.to_json()) + "\\n" for report in reports))
assert run(["merge", str(lines), "--out", str(folder / "all.parquet")]) == 0
assert read_reports(folder / "all.parquet") == tuple(reports)
for file in (lines, folder / "all.parquet"):
    table = load(file).reports
    assert len(table) == 20
    if place == "SHARED":
        assert table.header["scanner"] == "Aera"

broken = [report.to_json() for report in reports]
broken[7]["scanner"] = ""
lines.write_text("".join(json.dumps(each) + "\\n" for each in broken))
with pytest.raises(InvalidValue, match=r"report 'site-07' in .*, line 8: scanner must be a text"):
    load(lines)

if place == "SHARED":
    broken[7]["scanner"] = "Other"
    lines.write_text("".join(json.dumps(each) + "\\n" for each in broken))
    with pytest.raises(fedcert.CannotCombine, match="'site-07' has scanner 'Other' where the rest has 'Aera'"):
        load(lines)
assert run(["schema", "report"]) == 0
"""


@pytest.mark.parametrize("place", [place.name for place in TablePlace])
def test_a_field_added_in_one_line_is_everywhere(tmp_path: Path, place: str) -> None:
    """A line is added to a copy of fedcert's source, nothing else: JSON, bulk, Parquet, schema, comparisons."""
    copy = tmp_path / "fedcert"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    module = copy / "report" / "report.py"
    line = f"    scanner: str | None = optional(Text(), later=True, place={place})\n"
    text = module.read_text()
    assert LAST_LINE in text
    module.write_text(text.replace(LAST_LINE, LAST_LINE + line))
    script = tmp_path / "script.py"
    script.write_text(END_TO_END)
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(
        [sys.executable, str(script), str(work), place],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, cwd=work,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"scanner"' in done.stdout  # the exported schema


def test_a_field_without_its_place_is_refused() -> None:
    with pytest.raises(TypeError, match=r"the field Half\.scanner must say its place in tables of reports \(SHARED, "):

        @dataclass(frozen=True, kw_only=True)
        class Half(Report):
            scanner: str | None = optional(Text())


def test_a_field_without_a_type_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"the field Half\.scanner must be declared by required, defaulting or optional"
    ):

        @dataclass(frozen=True, kw_only=True)
        class Half(Report):
            scanner: str | None = None


def test_a_column_of_a_type_that_tables_do_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match=r"the field Half\.scanner cannot be a column: MappingOf has no Arrow type"):

        @dataclass(frozen=True, kw_only=True)
        class Half(Report):
            scanner: object = optional(MappingOf(Number(), "names to numbers"), place=TablePlace.NOTED)


def test_a_subclass_has_the_columns_of_its_fields() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Longer(Report):
        retries: int | None = optional(Whole(), later=True, place=TablePlace.NOTED)
        ward: str | None = optional(Text(), later=True, place=TablePlace.SHARED)

    assert columns_of(Longer)[-1].name == "retries"
    assert header_type(Longer, "a/b/1", "header", "").field_types().keys() == {
        *fields_at(Report, TablePlace.SHARED),
        "ward",
    }


def test_what_a_client_counted_is_compared_all_of_it() -> None:
    report = Report.from_json(report_document(signature=None))
    other = Report.from_json(report_document(signature=None, largest_group=None))
    assert report.largest_group != other.largest_group
    assert not same_counts(report, other)
    assert same_counts(report, Report.from_json(report_document(signature=None, created=None, samples=None)))


def test_the_columns_of_parquet_files_stay_as_they_were() -> None:
    counts, whole, text = arrow.list_(arrow.int64()), arrow.int64(), arrow.string()
    written = arrow_schema(arrow)
    assert {field.name: field.type for field in written} == {
        "client": text, "label_counts": counts, "certified_counts": counts,
        "class_certified_counts": arrow.list_(counts), "correct_counts": counts,
        "class_correct_counts": arrow.list_(counts), "abstained": whole,
        "design_effect": arrow.list_(arrow.float64()), "largest_group": whole, "samples": whole,
        "seed": text, "time_budget": arrow.float64(), "input_range": arrow.list_(arrow.float64()),
        "n0": whole, "n": whole, "failure_probability": arrow.float64(),
        "request": text, "software": text, "created": text, "extra": text,
    }  # fmt: skip
    # Which counts a row has, follows from the procedure.
    assert [field.name for field in written if not field.nullable] == ["client", "label_counts"]
