"""Many reports at once: the same rules and the same sentences as for one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factories import population_document, report_document
from fedcert import (
    CannotCombine,
    FedcertError,
    FedcertWarning,
    FileProblem,
    InvalidValue,
    MissingExtra,
    Report,
    Sums,
    read_reports,
)
from fedcert.report import Table, load
from fedcert.report.table import parquet as tables
from fedcert.report.table.bulk import tables_of
from fedcert.report.table.parquet import read_parquet, write_parquet

PLAIN = {"signature": None, "class_certified_counts": None, "design_effect": None, "largest_group": None}


def documents(count: int, **changes: Any) -> list[dict[str, Any]]:
    """Reports of so many clients, with nothing odd about them."""
    return [report_document(client=f"site {index:03d}", **{**PLAIN, **changes}) for index in range(count)]


def in_lines(path: Path, made: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(document) + "\n" for document in made))
    return path


def in_parquet(path: Path, made: list[dict[str, Any]]) -> Path:
    write_parquet(path, [Report.from_json(document) for document in made])
    return path


def same(first: Table, second: Table) -> bool:
    for name in Table.__dataclass_fields__:
        one, other = getattr(first, name), getattr(second, name)
        equal = np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other
        if not equal:
            return False
    return True


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"class_certified_counts": [[11, 7, 3], [7, 3, 0]]},
        {"design_effect": [1.75, 1.75, 1.75], "largest_group": 4},
        {"abstained": None, "samples": None, "created": None, "software": None, "request": None},
        {"x-ward": "B"},
        {"request": "sha256:" + "cd" * 32},
    ],
)
def test_lines_and_parquet_give_the_table_of_the_single_reports(tmp_path: Path, changes: dict[str, Any]) -> None:
    made = documents(20, **changes)
    reports = [Report.from_json(document) for document in made]
    expected = Table.of(reports)
    assert same(load(in_lines(tmp_path / "all.ndjson", made)).reports, expected)  # type: ignore[arg-type]
    file = in_parquet(tmp_path / "all.parquet", made)
    assert same(load(file).reports, expected)  # type: ignore[arg-type]
    assert read_reports(file) == tuple(reports)  # nothing is lost on the way


def test_a_plain_batch_is_checked_in_bulk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = documents(50)
    lines, file = in_lines(tmp_path / "a.ndjson", made), in_parquet(tmp_path / "a.parquet", made)
    read: list[str] = []
    whole = Report.from_json.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(Report, "from_json", classmethod(lambda cls, *rest: (read.append("one"), whole(cls, *rest))[1]))
    assert len(load(lines).reports or ()) == 50
    assert len(read) == 1  # the header's
    assert len(load(file).reports or ()) == 50
    assert len(read) == 1


DEFECTS: dict[str, dict[str, Any]] = {
    "negative": {"label_counts": [-1, 21]},
    "rising": {"certified_counts": [10, 11, 3]},
    "above its total": {"certified_counts": [21, 10, 3]},
    "out of reach": {"radii": [0.0, 0.25, 0.7]},
    "too many labels": {"label_counts": [12, 8, 1]},
    "no counts": {"label_counts": []},
    "a flag": {"label_counts": [True, 19]},
    "a huge number": {"label_counts": [2**60, 8]},
    "beyond any number": {"label_counts": [10**30, 8]},
    "the sum": {"label_counts": [2**53, 8]},
    "null": {"certified_counts": None},
    "a null count": {"certified_counts": [18, None, 3]},
    "not whole": {"certified_counts": [18, 9.5, 3]},
    "abstained": {"abstained": 3},
    "abstained, negative": {"abstained": -1},
    "samples": {"samples": -1},
    "a hostile name": {"client": "a\u202eb"},
    "no name": {"client": ""},
    "a name of another type": {"client": 7},
    "a time": {"created": "yesterday"},
    "rows that do not add up": {"class_certified_counts": [[11, 6, 3], [7, 3, 0]]},
    "ragged rows": {"class_certified_counts": [[11, 7, 3, 1], [7, 3]]},
    "a group": {"largest_group": 99},
    "an effect": {"design_effect": [0.0, 1.0, 1.0]},
    "settings": {"smoothing": {"sigma": 0.25, "n": 0}},
    "the schema": {"schema": "fedcert/report/2"},
}


@pytest.mark.parametrize("name", DEFECTS)
@pytest.mark.parametrize("place", [0, 7, 19])
def test_a_broken_line_among_many_is_named_as_if_it_were_alone(tmp_path: Path, name: str, place: int) -> None:
    made = documents(20)
    made[place] |= DEFECTS[name]
    path = in_lines(tmp_path / "all.ndjson", made)
    with pytest.raises(FedcertError) as alone:
        Report.from_json(made[place], f"{path}, line {place + 1}")
    with pytest.raises(InvalidValue) as among:
        load(path)
    assert str(among.value) == str(alone.value)


ROW_DEFECTS = [
    name
    for name in DEFECTS
    if name
    not in ("out of reach", "the schema", "a name of another type", "a flag", "not whole", "beyond any number", "null")
]


@pytest.mark.parametrize("name", ROW_DEFECTS)
def test_a_broken_row_of_a_parquet_table_is_named(tmp_path: Path, name: str) -> None:
    made = documents(20)
    path = in_parquet(tmp_path / "all.parquet", made)
    whole = parquet.read_table(path)
    rows = whole.to_pylist()
    changes = dict(DEFECTS[name])
    rows[7] |= changes.pop("smoothing", changes)
    rows[7].pop("sigma", None)
    parquet.write_table(arrow.Table.from_pylist(rows, schema=_loose(whole.schema)), path)
    with pytest.raises(FedcertError) as alone:
        Report.from_json(made[7] | DEFECTS[name], f"{path}, row 8")
    with pytest.raises(InvalidValue) as among:
        load(path)
    assert str(among.value) == str(alone.value)


def _loose(schema: arrow.Schema) -> arrow.Schema:
    return arrow.schema([field.with_nullable(True) for field in schema], metadata=schema.metadata)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_bulk_and_single_reading_agree_on_anything(data: st.DataObject) -> None:
    """Counts drawn at random, mostly near the rules' limits: both ways take them, or both refuse in the same words."""
    made = documents(12)
    for document in made:
        document["label_counts"] = data.draw(st.lists(st.integers(-1, 9), min_size=2, max_size=2))
        document["certified_counts"] = sorted(data.draw(st.lists(st.integers(0, 9), min_size=3, max_size=3)))[::-1]
        document["abstained"] = data.draw(st.sampled_from([0, 1, None]))
    pieces = [(f"line {index}", document) for index, document in enumerate(made)]

    def told(read: Callable[[], Table]) -> Any:
        try:
            return read()
        except InvalidValue as error:
            return str(error)

    bulk = told(lambda: next(tables_of(pieces)))
    single = told(lambda: Table.of([Report.from_json(document, place) for place, document in pieces]))
    assert same(bulk, single) if isinstance(bulk, Table) and isinstance(single, Table) else bulk == single


def test_different_samples_may_stand_in_one_table(tmp_path: Path) -> None:
    made = documents(10)
    for index in (3, 5):
        made[index]["smoothing"] = {**made[index]["smoothing"], "n": 500, "failure_probability": 0.01}
    table = load(in_parquet(tmp_path / "a.parquet", made)).reports
    assert table is not None
    assert [smoothing.n for smoothing in table.smoothings] == [1000, 500]
    assert table.settings.tolist() == [0, 0, 0, 1, 0, 1, 0, 0, 0, 0]
    assert (table.smoothing.n, table.smoothing.failure_probability) == (500, 0.01)


def test_a_client_in_two_files_is_named(tmp_path: Path) -> None:
    in_parquet(tmp_path / "a.parquet", documents(10))
    in_lines(tmp_path / "b.ndjson", documents(3))
    with pytest.raises(
        CannotCombine, match=r"several reports of 'site 000', 'site 001', 'site 002'; keep one report of each"
    ):
        load(tmp_path)


def test_a_table_of_another_model_is_named(tmp_path: Path) -> None:
    in_parquet(tmp_path / "a.parquet", documents(10))
    other = [document | {"client": f"x{index}", "model": "other"} for index, document in enumerate(documents(3))]
    in_parquet(tmp_path / "b.parquet", other)
    with pytest.raises(CannotCombine, match=r"'x0 and 2 more' has model 'other' where the rest has 'sha256:abab"):
        load(tmp_path)


def test_what_is_no_table_of_reports_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(
        FileProblem, match=r"a\.parquet cannot be read as a Parquet table: .*; make it with 'fedcert merge"
    ):
        load(path)
    parquet.write_table(arrow.table({"client": ["a"]}), path)
    with pytest.raises(FileProblem, match=r"must say in its metadata, under the key 'fedcert', what its rows share"):
        load(path)
    in_parquet(path, documents(1))
    whole = parquet.read_table(path)
    parquet.write_table(whole.drop(["label_counts"]), path)
    with pytest.raises(FileProblem, match=r"must have the column 'label_counts', but has not; make it with"):
        load(path)
    parquet.write_table(whole.slice(0, 0), path)
    with pytest.raises(FileProblem, match=r"a\.parquet holds no report"):
        load(path)
    parquet.write_table(whole.replace_schema_metadata({"fedcert": "{"}), path)
    with pytest.raises(FileProblem, match=r"the metadata under the key 'fedcert' is not valid JSON"):
        load(path)
    parquet.write_table(whole.replace_schema_metadata({"fedcert": '{"schema": "fedcert/table/2"}'}), path)
    with pytest.raises(InvalidValue, match=r"schema must be 'fedcert/table/1', .*; a newer fedcert wrote it"):
        load(path)
    half = path.with_name("half.parquet")
    in_parquet(path, documents(50))
    half.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(FileProblem, match="cannot be read as a Parquet table"):
        load(half)


def test_other_integer_and_list_types_are_read(tmp_path: Path) -> None:
    made = documents(9)
    path = in_parquet(tmp_path / "a.parquet", made)
    whole = parquet.read_table(path)
    for kind, count in ((arrow.list_, arrow.int16()), (arrow.large_list, arrow.uint64()), (arrow.list_, arrow.uint8())):
        other = whole
        for name in ("label_counts", "certified_counts"):
            other = other.set_column(other.schema.get_field_index(name), name, other[name].cast(kind(count)))
        parquet.write_table(other, path)
        assert same(load(path).reports, Table.of([Report.from_json(document) for document in made]))  # type: ignore[arg-type]


def test_nothing_half_written(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    reports = [Report.from_json(document) for document in documents(3)]
    with pytest.raises(CannotCombine, match="several reports of 'site 000'"):
        write_parquet(path, [*reports, reports[0]])
    with pytest.raises(CannotCombine, match="there are no reports to combine"):
        write_parquet(path, [])
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = in_parquet(tmp_path / "a.parquet", documents(3))
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fedcert\[parquet\]'"):
        list(read_parquet(path))
    assert tables.SUFFIX == ".parquet"


def test_sums_of_a_table_are_the_sums_of_its_reports(tmp_path: Path) -> None:
    made = documents(30)
    for index, document in enumerate(made):
        document["label_counts"] = [index, 20 - index % 20]
        document["certified_counts"] = [min(index, 5), min(index, 3), 0]
        document["abstained"] = None
    table = load(in_parquet(tmp_path / "a.parquet", made)).reports
    assert table is not None
    assert Sums.of(table) == Sums.of([Report.from_json(document) for document in made])


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("extra", ["[1]"] * 9),
        ("extra", ["5"] * 9),
        ("extra", [3] * 9),
        ("software", [b"\xff"] * 9),
        ("request", [["a"]] * 9),
        ("created", [["a"]] * 9),
        ("n", [[3]] * 9),
        ("abstained", ["many"] * 9),
        ("samples", [True] * 9),
        ("abstained", [{"a": 1}] * 9),
        ("label_counts", ["12"] * 9),
        ("certified_counts", [[1.5, 1.0, 0.0]] * 9),
        ("client", [7] * 9),
    ],
)
def test_columns_of_other_types_end_in_a_sentence(tmp_path: Path, name: str, column: list[Any]) -> None:
    path = in_parquet(tmp_path / "a.parquet", documents(9))
    whole = parquet.read_table(path)
    wrong = whole.set_column(whole.schema.get_field_index(name), name, arrow.array(column))
    parquet.write_table(wrong, path)
    for read in (load, read_reports):
        with pytest.raises((InvalidValue, FileProblem)) as caught:
            read(path)
        assert "a.parquet" in str(caught.value)


def test_odd_columns_are_told_of(tmp_path: Path) -> None:
    path = in_parquet(tmp_path / "a.parquet", documents(9))
    whole = parquet.read_table(path)
    parquet.write_table(whole.append_column("clients", arrow.array(["x"] * 9)), path)
    with pytest.warns(FedcertWarning, match=r"columns that reports do not have are not read \('clients'\)"):
        assert len(load(path).reports or ()) == 9
    twice = arrow.Table.from_arrays(
        [*whole.columns, whole["client"]], schema=whole.schema.append(whole.schema.field("client"))
    )
    parquet.write_table(twice, path)
    with pytest.raises(FileProblem, match="must have the column 'client' once, but has it 2 times"):
        load(path)


def test_in_a_folder_a_file_of_weights_is_passed_over(tmp_path: Path) -> None:
    in_parquet(tmp_path / "a.parquet", documents(9))
    table = arrow.table({"client": ["a"], "weight": [1.0]})
    table = table.replace_schema_metadata({"fedcert": '{"schema": "fedcert/weights/1"}'})
    parquet.write_table(table, tmp_path / "estimate.weights.parquet")
    with pytest.warns(FedcertWarning, match=r"passed over 1 file\(s\) that are not reports"):
        assert len(load(tmp_path).reports or ()) == 9


def test_sums_beside_the_reports_that_they_add_up_are_told_of(tmp_path: Path) -> None:
    in_parquet(tmp_path / "a.parquet", documents(9))
    (tmp_path / "sums.json").write_text(Sums.of([Report.from_json(one) for one in documents(9)]).dumps())
    with pytest.warns(FedcertWarning, match="a client that is in two of them counts twice"):
        load(tmp_path)


@pytest.mark.parametrize("changes", [{"samples": False}, {"samples": []}, {"abstained": ""}, {"abstained": {}}])
def test_what_is_refused_does_not_depend_on_company(tmp_path: Path, changes: dict[str, Any]) -> None:
    made = documents(20)
    made[11] |= changes
    with pytest.raises(InvalidValue):
        load(in_lines(tmp_path / "a.ndjson", made))
    flags = documents(20)
    flags[11]["smoothing"] = {**flags[11]["smoothing"], "n0": True}
    with pytest.raises(InvalidValue, match=r"smoothing\.n0"):
        load(
            in_lines(
                tmp_path / "b.ndjson",
                [
                    {**one, "smoothing": {**one["smoothing"], "n0": one["smoothing"]["n0"] if one is flags[11] else 1}}
                    for one in flags
                ],
            )
        )


PLAIN_POPULATION = {"design_effect": None, "largest_group": None, "class_correct_counts": None}


def population_documents(count: int, **changes: Any) -> list[dict[str, Any]]:
    """Reports of right answers among four passes, of so many clients."""
    return [
        population_document(client=f"site {index:03d}", **{**PLAIN_POPULATION, **changes}) for index in range(count)
    ]


ROWS = [[1, 1, 2, 3, 5], [2, 1, 1, 2, 2]]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"class_correct_counts": ROWS},
        {"design_effect": [1.75, 1.75, 1.75], "largest_group": 4},
        {"class_correct_counts": ROWS, "design_effect": [1.75, 1.75, 1.75], "largest_group": 4, "x-ward": "B"},
        {"samples": None, "created": None, "software": None, "seed": None},
        {"request": "sha256:" + "cd" * 32, "time_budget": 2.5},
        {"seed": "fixed"},
    ],
)
def test_right_answers_in_files_lines_and_parquet_give_one_table(tmp_path: Path, changes: dict[str, Any]) -> None:
    made = population_documents(20, **changes)
    reports = [Report.from_json(document) for document in made]
    expected = Table.of(reports)
    folder = tmp_path / "single"
    folder.mkdir()
    for index, report in enumerate(reports):
        (folder / f"{index:03d}.json").write_text(report.dumps())
    file = in_parquet(tmp_path / "all.parquet", made)
    for source in (folder, in_lines(tmp_path / "all.ndjson", made), file):
        assert same(load(source).reports, expected)  # type: ignore[arg-type]
        assert read_reports(source) == tuple(reports)
    assert expected.procedure_counts.tolist() == [[3, 2, 3, 5, 7]] * 20
    assert Sums.of(expected) == Sums.of(load(file).reports or ())


def test_a_plain_batch_of_right_answers_is_checked_in_bulk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = population_documents(50, class_correct_counts=ROWS)
    lines, file = in_lines(tmp_path / "a.ndjson", made), in_parquet(tmp_path / "a.parquet", made)
    read: list[str] = []
    whole = Report.from_json.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(Report, "from_json", classmethod(lambda cls, *rest: (read.append("one"), whole(cls, *rest))[1]))
    assert len(load(lines).reports or ()) == 50
    assert len(read) == 1  # the header's
    assert len(load(file).reports or ()) == 50
    assert len(read) == 1


POPULATION_DEFECTS: dict[str, dict[str, Any]] = {
    "negative": {"correct_counts": [-1, 6, 3, 5, 7]},
    "a negative label": {"label_counts": [-1, 21]},
    "an example too many": {"correct_counts": [4, 2, 3, 5, 7]},
    "a count too few": {"correct_counts": [3, 2, 3, 12]},
    "a count too many": {"correct_counts": [3, 2, 3, 5, 7, 0]},
    "another number of passes": {"smoothing": {**population_document()["smoothing"], "n": 3}},
    "no counts": {"correct_counts": []},
    "a flag": {"correct_counts": [3, True, 4, 5, 7]},
    "a huge number": {"correct_counts": [2**60, 2, 3, 5, 7]},
    "beyond any number": {"correct_counts": [10**30, 2, 3, 5, 7]},
    "the sum": {"label_counts": [2**53, 8]},
    "a null count": {"correct_counts": [3, None, 3, 5, 7]},
    "not whole": {"correct_counts": [3, 1.5, 3.5, 5, 7]},
    "abstained": {"abstained": 0},
    "CERTIFY's counts too": {"certified_counts": [18, 10, 3]},
    "CERTIFY's rows too": {"class_certified_counts": [[11, 7, 3], [7, 3, 0]]},
    "null for CERTIFY's counts": {"certified_counts": None},
    "null": {"correct_counts": None},
    "rows that do not add up": {"class_correct_counts": [[2, 0, 2, 3, 5], [2, 1, 1, 2, 2]]},
    "rows above the labels": {"class_correct_counts": [[1, 1, 2, 3, 6], [2, 1, 1, 2, 1]]},
    "ragged rows": {"class_correct_counts": [[1, 1, 2, 3, 5], [2, 1, 5]]},
    "a huge cell": {"class_correct_counts": [[2**62, 2**62, 2**62, 2**62, 12], [2, 1, 1, 2, 2]]},
    "a group": {"largest_group": 99},
}


@pytest.mark.parametrize("name", POPULATION_DEFECTS)
@pytest.mark.parametrize("place", [0, 7])
def test_a_broken_line_among_right_answers_is_named_as_if_it_were_alone(tmp_path: Path, name: str, place: int) -> None:
    made = population_documents(20)
    made[place] |= POPULATION_DEFECTS[name]
    path = in_lines(tmp_path / "all.ndjson", made)
    with pytest.raises(FedcertError) as alone:
        Report.from_json(made[place], f"{path}, line {place + 1}")
    with pytest.raises(InvalidValue) as among:
        load(path)
    assert str(among.value) == str(alone.value)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in POPULATION_DEFECTS
        if name
        not in ("a flag", "not whole", "beyond any number", "null for CERTIFY's counts", "another number of passes")
    ],
)
def test_a_broken_row_of_right_answers_in_parquet_is_named(tmp_path: Path, name: str) -> None:
    made = population_documents(20)
    path = in_parquet(tmp_path / "all.parquet", made)
    whole = parquet.read_table(path)
    rows = whole.to_pylist()
    rows[7] |= POPULATION_DEFECTS[name]
    parquet.write_table(arrow.Table.from_pylist(rows, schema=_loose(whole.schema)), path)
    with pytest.raises(FedcertError) as alone:
        Report.from_json(made[7] | POPULATION_DEFECTS[name], f"{path}, row 8")
    with pytest.raises(InvalidValue) as among:
        load(path)
    assert str(among.value) == str(alone.value)


def test_passes_of_rows_that_differ_are_refused(tmp_path: Path) -> None:
    """A column of n may say for each row what the header says for all, and no row may say otherwise."""
    path = in_parquet(tmp_path / "all.parquet", population_documents(20))
    whole = parquet.read_table(path)
    rows = whole.to_pylist()
    rows[7] |= {"n": 3}
    parquet.write_table(arrow.Table.from_pylist(rows, schema=whole.schema), path)
    with pytest.raises(InvalidValue, match=r"row 8: correct_counts must be 4 counts, as n is 3: from none to all"):
        load(path)
    rows[7] |= {"correct_counts": [3, 2, 3, 12]}
    parquet.write_table(arrow.Table.from_pylist(rows, schema=whole.schema), path)
    with pytest.raises(CannotCombine, match=r"'site 007' has n 3 where the rest has 4"):
        load(path)
    for name, wrong in (("n0", 100), ("failure_probability", 0.001)):
        rows[7] = {**rows[6], "client": "site 007", name: wrong}
        parquet.write_table(arrow.Table.from_pylist(rows, schema=whole.schema), path)
        with pytest.raises(InvalidValue, match=rf"row 8: smoothing\.{name} must be left out \(null\) with the popul"):
            load(path)


@pytest.mark.parametrize("kind", ["certify", "population"])
def test_a_table_without_the_procedures_counts_says_so(tmp_path: Path, kind: str) -> None:
    made = documents(9) if kind == "certify" else population_documents(9)
    name = "certified_counts" if kind == "certify" else "correct_counts"
    path = in_parquet(tmp_path / "a.parquet", made)
    whole = parquet.read_table(path)
    assert set(whole.schema.names) >= {"certified_counts", "correct_counts"}
    parquet.write_table(whole.drop([name]), path)
    with pytest.raises(InvalidValue, match=rf"row 1: {name} must be a list of 1 to .*, but is missing"):
        load(path)
    others = [
        "correct_counts",
        "class_correct_counts",
        "class_certified_counts",
        "abstained",
        "n",
        "n0",
        "certified_counts",
    ]
    parquet.write_table(whole.drop([other for other in others if other != name]), path)
    table = (
        Table.of([Report.from_json({**document, "abstained": None}) for document in made])
        if kind == "certify"
        else (Table.of([Report.from_json(document) for document in made]))
    )
    assert same(load(path).reports, table)  # type: ignore[arg-type]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_bulk_and_single_reading_of_right_answers_agree_on_anything(data: st.DataObject) -> None:
    """Counts drawn at random, mostly near the rules' limits: both ways take them, or both refuse in the same words."""
    made = population_documents(12)
    rarely = st.sampled_from([0] * 40 + [1, -1])
    discloses = data.draw(st.booleans())
    for document in made:
        cells = np.array(
            data.draw(st.lists(st.lists(st.integers(0, 6), min_size=5, max_size=5), min_size=2, max_size=2))
        )
        document["label_counts"] = [int(count) + data.draw(rarely) for count in cells.sum(axis=1)]
        document["correct_counts"] = [int(count) + data.draw(rarely) for count in cells.sum(axis=0)]
        cells[0, 0] += data.draw(rarely)
        document["class_correct_counts"] = cells.tolist() if discloses else None
    pieces = [(f"line {index}", document) for index, document in enumerate(made)]

    def told(read: Callable[[], Table]) -> Any:
        try:
            return read()
        except InvalidValue as error:
            return str(error)

    bulk = told(lambda: next(tables_of(pieces)))
    single = told(lambda: Table.of([Report.from_json(document, place) for place, document in pieces]))
    assert same(bulk, single) if isinstance(bulk, Table) and isinstance(single, Table) else bulk == single


def test_a_null_where_a_field_may_only_be_left_out_is_refused_in_any_company(tmp_path: Path) -> None:
    made = documents(20)
    made[11] |= {"correct_counts": None}
    with pytest.raises(InvalidValue, match=r"line 12: correct_counts must be a list of .*, but is null"):
        load(in_lines(tmp_path / "a.ndjson", made))


def test_tables_of_both_kinds_are_refused(tmp_path: Path) -> None:
    in_parquet(tmp_path / "a.parquet", documents(10))
    in_parquet(tmp_path / "b.parquet", [one | {"client": f"x{n}"} for n, one in enumerate(population_documents(3))])
    with pytest.raises(
        CannotCombine, match=r"^CERTIFY's counts and population certificates cannot be combined: 'x0 and"
    ):
        load(tmp_path)
    with pytest.raises(CannotCombine, match=r"^CERTIFY's counts and population certificates cannot be combined"):
        load(in_lines(tmp_path / "c.ndjson", [*documents(10), population_document(client="odd", **PLAIN_POPULATION)]))
