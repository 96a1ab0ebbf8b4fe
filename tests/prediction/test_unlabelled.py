"""Inputs without labels: what `certify` reads, and the same files without their labels."""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedcert import CallError, DataProblem
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.data.sources import load_data
from fedcert.prediction.unlabelled import load_inputs

X = np.random.default_rng(0).random((50, 3, 4)).astype(np.float32)


def save(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return str(path)


def held(data: LocalData) -> np.ndarray:
    return np.concatenate([images for _, images in data.pieces()])


@pytest.mark.parametrize(
    "x", [X, np.asfortranarray(X), X.astype(np.float64), (X * 255).astype(np.uint8), X.astype(">f4"), X > 0.5]
)
def test_an_npz_file_is_read_as_certify_reads_it(tmp_path: Path, x: np.ndarray) -> None:
    data = load_inputs(save(tmp_path / "d.npz", x=x))
    labelled = load_data(save(tmp_path / "l.npz", x=x, y=np.zeros(50, int)))
    assert np.array_equal(held(data), held(labelled))
    assert data.lattice == labelled.lattice
    assert len(data) == 50


def test_labels_that_are_there_are_not_looked_at(tmp_path: Path) -> None:
    assert len(load_inputs(save(tmp_path / "d.npz", x=X, y=["?"]))) == 50


def test_a_file_larger_than_the_pieces_is_not_read_whole(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "d.npz", x=np.zeros((12_000, 64, 64), np.float32))
    tracemalloc.start()
    count = sum(len(indices) for indices, _ in load_inputs(str(tmp_path / "d.npz")).pieces())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 12_000
    assert peak < 12_000 * 64 * 64 * 4 / 2


def test_a_table_with_and_without_labels(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("a,b\n0.5,1\n2,3\n")
    (tmp_path / "labelled.csv").write_text("a,label,b\n0.5,who knows,1\n2,,3\n")
    for name in ("plain.csv", "labelled.csv"):
        data = load_inputs(str(tmp_path / name))
        assert held(data).tolist() == [[0.5, 1.0], [2.0, 3.0]]
        assert data.lattice is None


def test_image_files(tmp_path: Path) -> None:
    Image.fromarray(np.full((2, 2), 51, np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "images.csv").write_text("path\na.png\n")
    data = load_inputs(str(tmp_path / "images.csv"))
    assert held(data) == pytest.approx(np.full((1, 1, 2, 2), 0.2))
    assert data.lattice == 255


def test_a_folder_in_cifars_layout(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(bytes([7]) + bytes([51]) * 3072)
    assert held(load_inputs(str(tmp_path))) == pytest.approx(np.full((1, 3, 32, 32), 0.2))


def test_a_users_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "unlabelled_ward.py").write_text(
        "import numpy as np\n"
        "def alone():\n    return np.ones((3, 2))\n"
        "def both():\n    return np.ones((3, 2)), [0, 1, 0]\n"
        "def fails():\n    raise OSError('no disk')\n"
    )
    for name in ("alone", "both"):
        assert held(load_inputs(f"unlabelled_ward:{name}")).tolist() == [[1.0, 1.0]] * 3
    with pytest.raises(
        DataProblem, match="must be a function that returns x, or x and y, but failed: OSError: no disk"
    ):
        load_inputs("unlabelled_ward:fails")


FILES: dict[str, tuple[str, type[Exception], str]] = {
    "none.npz": ("", CallError, "there is no file none.npz; check the name"),
    "none.csv": ("", CallError, "there is no file none.csv; check the name"),
    "none.txt": ("", CallError, "DATA must be a file that ends in .npz (array x) or .csv (path, or columns of numbers)"),
    "some.txt": ("words", CallError, "or package.module:function, but is 'some.txt'"),
    "torn.npz": ("no zip", DataProblem, "torn.npz cannot be read: not an .npz file, or cut off; save it with"),
    "empty.csv": ("", DataProblem, "empty.csv must have the column 'path' (images) or columns of numbers (a table), but"),
    "label.csv": ("label\n1\n", DataProblem, "but its first line has 'label'"),
    "twice.csv": ("a,a\n1,2\n", DataProblem, "twice.csv has the column 'a' more than once; name each once"),
    "short.csv": ("a,b\n1\n", DataProblem, "short.csv, line 2: must have 2 columns, as the first line has"),
    "text.csv": ("a,b\n1,x\n", DataProblem, "text.csv, line 2: 'b' must be a finite number, but is 'x'"),
    "path.csv": ("path,b\n,1\n", DataProblem, "path.csv, line 2: path must be given"),
    "latin.csv": ("a\n\udcff\n", DataProblem, "latin.csv is not UTF-8 text; save it as CSV UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_does_not_go_is_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content, kind, sentence = FILES[name]
    if not name.startswith("none"):
        (tmp_path / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(kind) as caught:
        load_inputs(name)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "no x": ({"images": X}, "must hold the array 'x', but holds 'images'; save it with numpy.savez"),
    "text": ({"x": np.array([["a"]])}, "x must hold numbers, but holds <U1"),
    "objects": ({"x": np.array([[None]])}, "x must hold numbers, but holds Python objects, which are never unpickled"),
    "a list": ({"x": np.zeros(3)}, "x must have one row per input, at least 2 axes and no empty one, but has shape"),
    "a number": ({"x": np.float32(1)}, "x must have one row per input"),
    "too much": (
        {"x": np.zeros((0, 2**20, 2**20))},
        "has examples of shape 1048576x1048576, 1,099,511,627,776 numbers each, and may have 33,554,432 at most",
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_does_not_go_is_one_sentence(name: str, tmp_path: Path) -> None:
    arrays, sentence = ARRAYS[name]
    with pytest.raises(DataProblem) as caught:
        load_inputs(save(tmp_path / "d.npz", **arrays))
    assert sentence in str(caught.value)


def test_a_file_that_is_cut_off_inside(tmp_path: Path) -> None:
    save(tmp_path / "d.npz", x=X)
    with zipfile.ZipFile(tmp_path / "d.npz") as archive:
        data = archive.read("x.npy")
    with zipfile.ZipFile(tmp_path / "cut.npz", "w") as archive:
        archive.writestr("x.npy", data[:-10])
    with pytest.raises(
        DataProblem, match="x in .*cut.npz says that it is .*, which takes 2,400 bytes, but has 2,390; save it"
    ):
        held(load_inputs(str(tmp_path / "cut.npz")))
