"""What columns of Parquet files unpack to, by their pages: the same as the metadata of honest files says."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

import bombs
from fedcert import DataProblem, FileProblem
from fedcert._files.parquet_pages import (
    ColumnSize,
    ParquetFooter,
    StrangePages,
    bytes_of_file,
    check_columns_fit,
    text_columns,
)
from fedcert.report import load

TABLE = arrow.table(
    {
        "text": [f"name {index % 100}" for index in range(5000)],
        "lists": [list(range(index % 7)) for index in range(5000)],
        "rows": [[[index, 1], []] for index in range(5000)],
        "number": np.arange(5000) / 7,
        "flag": [index % 3 == 0 for index in range(5000)],
        "missing": [None if index % 2 else index for index in range(5000)],
    }
)


def sizes_in(file: io.BytesIO, columns: list[str]) -> list[ColumnSize]:
    return ParquetFooter.of(file).sizes(file, columns)


def written(**options: Any) -> io.BytesIO:
    file = io.BytesIO()
    parquet.write_table(TABLE, file, **options)
    return file


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd", "snappy"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_pages_add_up_to_what_the_metadata_of_an_honest_file_says(
    version: str, compression: str, dictionary: bool
) -> None:
    file = written(
        data_page_version=version, compression=compression, use_dictionary=dictionary, row_group_size=1200,
        data_page_size=1000, write_page_checksum=True,
    )  # fmt: skip
    metadata = parquet.read_metadata(file)
    sizes = sizes_in(file, TABLE.column_names)
    chunks = [metadata.row_group(group).column(index) for group in range(5) for index in range(len(TABLE.columns))]
    assert [size.values for size in sizes] == [chunk.num_values for chunk in chunks]
    assert [size.name for size in sizes] == TABLE.column_names * 5
    for size, chunk in zip(sizes, chunks, strict=True):
        headers = 100 * (1 + size.values // 20)  # which the metadata counts too
        assert chunk.total_uncompressed_size - headers <= size.unpacked
        assert size.unpacked <= max(chunk.total_uncompressed_size, 8 * size.values)
    assert [size.name for size in sizes_in(file, ["rows"])] == ["rows"] * 5
    assert text_columns(metadata) == ["text"]


def test_a_page_that_is_larger_than_the_metadata_says_is_noticed(tmp_path: Path) -> None:
    """The metadata has the size of an honest page, the page itself another: readers go by the page."""
    path = bombs.large_page(tmp_path / "page.parquet")
    with pytest.raises(FileProblem, match="a page unpacks to 80 MB and 10,000,000 values, and may to 67 MB"):
        load(path)


def test_texts_that_repeat_each_other_are_refused() -> None:
    file = written(use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})
    with pytest.raises(StrangePages, match="stored as the beginnings of others"):
        sizes_in(file, TABLE.column_names)


def test_values_whose_length_the_schema_names_are_refused() -> None:
    file = io.BytesIO()
    parquet.write_table(arrow.table({"text": arrow.array([b"ab"], arrow.binary(2))}), file)
    with pytest.raises(StrangePages, match="the column 'text' has values whose length the schema names"):
        sizes_in(file, ["text"])


@pytest.mark.parametrize("damage", range(40))
def test_damaged_pages_end_in_an_error(damage: int) -> None:
    file = written(data_page_size=1000)
    metadata = parquet.read_metadata(file)
    data = bytearray(file.getvalue())
    generator = np.random.default_rng(damage)
    end = len(data) if damage % 2 else len(data) - metadata.serialized_size - 8  # the footer, or the pages alone
    for place in generator.integers(4, end, size=30 if damage % 2 == 0 else 3):
        data[place] = generator.integers(256)
    try:
        sizes_in(io.BytesIO(bytes(data)), TABLE.column_names)
    except StrangePages as error:
        assert str(error)


def test_what_is_made_of_rows_counts() -> None:
    file = written()
    sizes = sizes_in(file, ["number", "text"])
    check_columns_fit(sizes, "a.parquet", bytes_of_file(file), DataProblem, "make it again")
    with pytest.raises(DataProblem, match=r"a\.parquet unpacks to 5\.0 GB from .* kB; above 134 MB .*; make it again"):
        check_columns_fit(sizes, "a.parquet", bytes_of_file(file), DataProblem, "make it again", 10**6)


def test_rows_beyond_all_clients_and_parts_that_do_not_add_up_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = bombs.lists(30, 1)
    path = bombs.table(tmp_path / "a.parquet", client=[f"c{index}" for index in range(30)], label_counts=one,
                       certified_counts=one)  # fmt: skip
    assert len(load(path).reports or ()) == 30
    monkeypatch.setattr("fedcert.report.table.limits.MOST_CLIENTS", 20)
    with pytest.raises(FileProblem, match="says that it has 30 rows, where 20 are the most, and its parts have 30"):
        load(path)


def test_too_many_counts_per_class_are_refused_by_the_header(tmp_path: Path) -> None:
    header = bombs.HEADER | {
        "radii": [index / 10**4 for index in range(200)],
        "classes": [f"c{k}" for k in range(60_000)],
    }
    path = bombs.table(tmp_path / "a.parquet", 1, header, client=["a"], label_counts=bombs.lists(1, 1),
                       certified_counts=bombs.lists(1, 1))  # fmt: skip
    with pytest.raises(Exception, match=r"a\.parquet: 60,000 classes with 200 radii each must be at most 10,000,000"):
        load(path)


def test_a_client_that_repeats_is_named_before_the_rest_is_read(tmp_path: Path) -> None:
    one = bombs.lists(3, 1)
    path = bombs.table(tmp_path / "a.parquet", client=["a", "b", "a"], label_counts=one, certified_counts=one)
    with pytest.raises(Exception, match="'a'"):
        load(path)
    assert json.loads(parquet.read_metadata(path).metadata[b"fedcert"])["schema"] == "fedcert/table/1"
