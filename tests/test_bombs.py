"""Small files that unpack to gigabytes, and what would hang: one sentence each, and no memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bombs
from fedcert import DataProblem
from fedcert._files import unpacking
from fedcert.certification.data.sources import load_data

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux does")
MOST_MEMORY = 10**9
MOST_SECONDS = 10
SENTENCES = {
    "labels.npz": r"y in .* unpacks to 2\.9 GB from 2\.8 MB; above 134 MB that may be 100 times the file's size at most; "
    r"if it is what it should be, save it without compression: numpy\.savez",
    "groups.npz": "groups in .* unpacks to 2.9 GB from 2.8 MB",
    "certify columns.npz": "x in .* unpacks to 2.9 GB from 2.8 MB; above 134 MB",
    "certify example.npz": "x in .* unpacks to 2.9 GB from 2.8 MB; above 1.1 GB",
    "predict columns.npz": "x in .* has examples of shape 240000000, 240,000,000 numbers each, and may have 33,554,432",
    "predict example.npz": "x in .* has examples of shape 240000000, 240,000,000 numbers each, and may have 33,554,432",
    "examples.npz": "x in .* unpacks to 3.2 GB from 3.1 MB; above 1.1 GB",
    "bzip.npz": "y in .* is packed in a way that numpy does not use; save it with numpy.savez again",
    "directory.npz": "directory.npz lists more arrays than any data has",
    "colours.csv": "colours.png has 121,000,000 pixels, and may have 33,554,432 numbers at most; make it smaller",
    "bits.csv": "bits.png has 178,200,000 pixels, and may have 33,554,432 numbers at most",
    "tile.csv": "tile.tif is stored in tiles of 32,768 x 32,768 pixels, which would fill the memory; save it as PNG",
    "postscript.csv": "postscript.png is damaged, or of none of the formats that are read .*; save it as PNG",
    "pipe.csv": "pipe.png cannot be read: it is a pipe, not a file",
    "line.csv": "line.csv, line 2 has more than 16,777,216 characters; is that file a CSV",
    "header.csv": "header.csv has 200,001 columns, and may have 100,000 at most",
    "lists.parquet": "the column 'label_counts' must hold 1 values for 1 rows, but holds 30,000,000; make it with",
    "rows.parquet": "rows.parquet unpacks to 1.1 GB from .*kB; above 134 MB that may be 100 times the file's size",
    "texts.parquet": "the column 'extra' holds more than 67,108,864 characters in 1,000 rows",
    "page.parquet": "cannot be read as a Parquet table: a page unpacks to 80 MB and 10,000,000 values, and may to 67 MB",
    "load reports": "the column 'label_counts' must hold 1 values for 1 rows, but holds 30,000,000",
    "trace trace.parquet": "trace.parquet unpacks to 1.3 GB from .*kB; above 134 MB .*; make it with 'fedcert lab",
    "audit trace.parquet": "trace.parquet unpacks to .* MB from .*; give the file that 'fedcert certify --examples'",
    "idx": "train-images-idx3-ubyte.gz unpacks to 1.5 GB from 1.5 MB",
    "overlap.safetensors": "is not a safetensors file, or is cut off",
    "objects.json": "holds more than 1,048,576 lists, objects and keys, which no fedcert document does; not read",
}
"""What is said, of each file or of each way in with it."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("bombs")
    bombs.make_all(folder)
    arguments = [sys.executable, bombs.__file__, str(folder)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=300)
    yield json.loads(done.stdout)
    (folder / "line.csv").unlink()


@pytest.mark.parametrize("way", bombs.WAYS)
def test_a_bomb_ends_in_one_sentence_with_little_memory_and_time(outcomes: dict[str, dict[str, Any]], way: str) -> None:
    seen = outcomes[way]
    if way == "model nested.onnx":  # a model like any other: it has a digest
        assert seen["kind"] == "nothing"
    else:
        assert seen["kind"] == "sentence", seen
        expected = SENTENCES.get(way) or SENTENCES[way.split()[1]]
        said = seen["warnings"] if way.startswith("collect") else seen["sentence"]  # the round goes on without it
        assert re.search(expected, said), said
        assert "\n" not in seen["sentence"]
    assert seen["memory"] < MOST_MEMORY
    assert seen["seconds"] < MOST_SECONDS


def test_large_data_that_hardly_shrinks_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sizes decide with 10 kB in place of gigabytes."""
    monkeypatch.setattr(unpacking, "STREAMED", 10_000)
    monkeypatch.setattr(unpacking, "HELD", 10_000)
    x, y = np.random.default_rng(0).random((2000, 8)).astype(np.float32), np.zeros(2000, int)
    for save, data in ((np.savez_compressed, x), (np.savez, x), (np.savez, x * 0), (np.savez, np.asfortranarray(x))):
        save(tmp_path / "d.npz", x=data, y=y)
        assert sum(len(images) for _, images in load_data(str(tmp_path / "d.npz")).pieces()) == 2000
    np.savez_compressed(tmp_path / "d.npz", x=np.zeros((20_000, 8), np.float32), y=np.zeros(20_000, int))
    with pytest.raises(DataProblem, match="unpacks to .* kB from .* kB; above 10 kB"):
        load_data(str(tmp_path / "d.npz"))


def test_what_does_not_fit_into_memory_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "d.npz", x=np.asfortranarray(np.ones((2000, 8))), y=np.zeros(2000, int))
    monkeypatch.setattr(unpacking, "most_held", lambda: 100_000)
    with pytest.raises(DataProblem, match="x in .* takes 128 kB of memory, and may take 100 kB here, half of what is"):
        load_data(str(tmp_path / "d.npz"))


def test_a_csv_takes_no_more_memory_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d.csv").write_text("age,label\n" + "1,0\n" * 20_000)
    assert len(load_data(str(tmp_path / "d.csv"))) == 20_000
    monkeypatch.setattr("fedcert.certification.data.csv_rows.most_held", lambda: 200_000)
    with pytest.raises(DataProblem, match=r"d\.csv, up to line 16385, takes more than 200 kB of memory, half of what"):
        load_data(str(tmp_path / "d.csv"))


def test_memory_that_a_container_or_the_process_leaves_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(unpacking, "_CGROUP", tmp_path)
    for name, text in (
        ("memory.max", "4000000000"),
        ("memory.current", "3000000000"),
        ("memory.stat", "inactive_file 1000000000\n"),
    ):
        (tmp_path / name).write_text(text)
    assert unpacking.most_held() <= 10**9
    (tmp_path / "memory.max").write_text("max")
    assert unpacking.most_held() > 0
