"""How local data comes in, good and bad."""

from __future__ import annotations

import os
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bombs
from fedcert import CallError, DataProblem
from fedcert.certification.data.sources import data_of, load_data

X = np.random.default_rng(0).random((50, 3, 4)).astype(np.float32)
Y = np.arange(50) % 3


def save(path: Path, **arrays: Any) -> str:
    """An .npz file."""
    np.savez(path, **arrays)
    return str(path)


@pytest.mark.parametrize(
    "x", [X, np.asfortranarray(X), X.astype(np.float64), (X * 255).astype(np.uint8), X.astype(">f4"), X > 0.5]
)
def test_an_npz_file_holds_what_was_saved(tmp_path: Path, x: np.ndarray) -> None:
    data = load_data(save(tmp_path / "d.npz", x=x, y=Y))
    images = np.concatenate([images for _, images in data.pieces()])
    assert images.dtype == np.float32
    eight = x.dtype == np.uint8 and x.ndim > 2  # images of 8 bits are numbers from 0 to 1
    assert data.lattice == (255 if eight else None)
    assert np.array_equal(images, x.astype(np.float32) / np.float32(255) if eight else x.astype(np.float32))
    assert data.labels.tolist() == Y.tolist()


def test_every_kth_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcert.certification.data.local_data._BYTES_PER_PIECE", 4 * 12 * 4)  # pieces of four examples
    data = load_data(save(tmp_path / "d.npz", x=X, y=Y))
    pieces = list(data.pieces(every=7))
    assert len(pieces) == 8
    assert [index for indices, _ in pieces for index in indices] == list(range(0, 50, 7))
    assert np.array_equal(np.concatenate([images for _, images in pieces]), X[::7])


def test_a_file_larger_than_the_pieces_is_not_read_whole(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "d.npz", x=np.zeros((12_000, 64, 64), np.float32), y=np.zeros(12_000, int))
    tracemalloc.start()
    count = sum(len(indices) for indices, _ in load_data(str(tmp_path / "d.npz")).pieces(every=1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 12_000
    assert peak < 12_000 * 64 * 64 * 4 / 2


def test_a_users_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "ward_data.py").write_text(
        "import numpy as np\ndef load():\n    return np.ones((4, 2)), [0, 1, 0, 1]\n"
    )
    (tmp_path / "bad_data.py").write_text("def load():\n    return 7\ndef fail():\n    raise OSError('no disk')\n")
    assert len(load_data("ward_data:load")) == 4
    with pytest.raises(
        DataProblem,
        match="DATA bad_data:load must be a function that returns x and y, or x, y and groups, but returned int",
    ):
        load_data("bad_data:load")
    with pytest.raises(DataProblem, match="but failed: OSError: no disk"):
        load_data("bad_data:fail")


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (X, Y[:-1], "x and y must have the same length, but x has 50 examples and y 49"),
        (X, Y - 1, r"y\[0\] must be a class index \(a whole number from 0\), but is -1"),
        (X, Y + 0.5, r"y\[0\] must be a class index .* but is 0.5"),
        (X, np.where(Y == 1, np.nan, Y), r"y\[1\] must be a class index .* but is nan"),
        (
            X,
            Y[:, None],
            r"y must be a list of class indices \(whole numbers from 0\), or of class names, but is int64 of shape \(50, 1\)",
        ),
        (
            X,
            np.array(["cat"] * 50),
            r"y holds names, such as 'cat': name the classes too, in the order of the model's outputs",
        ),
        (X.astype(str), Y, "x must hold numbers, but holds <U"),
        (X.astype(complex), Y, "x must hold numbers, but holds complex128"),
        (X[:, 0, 0], Y, r"x must have one row per example, at least 2 axes and no empty one, but has shape \(50,\)"),
    ],
)
def test_data_that_cannot_be_used_is_named(tmp_path: Path, x: np.ndarray, y: np.ndarray, sentence: str) -> None:
    with pytest.raises(DataProblem, match=sentence):
        list(data_of(x, y).pieces())
    with pytest.raises(DataProblem, match=sentence):
        list(load_data(save(tmp_path / "d.npz", x=x, y=y)).pieces())


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_finite_is_named_by_its_index(wrong: float) -> None:
    x = X.copy()
    x[17, 1, 2] = wrong
    with pytest.raises(DataProblem, match=r"x\[17\] must hold finite numbers, but holds NaN or infinity"):
        list(data_of(x, Y).pieces())


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (pytest.fail, ("it was unpickled",))

    for arrays in ({"x": X, "y": np.array([Trap()] * 50, dtype=object)}, {"x": np.array([[Trap()]] * 50), "y": Y}):
        with pytest.raises(DataProblem, match="holds Python objects, which are never unpickled"):
            load_data(save(tmp_path / "d.npz", **arrays))


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-30], lambda data: data[: len(data) // 2], lambda _: b"", lambda _: b"PK\x03\x04nonsense"],
)
def test_a_damaged_file_is_named(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "d.npz"
    save(path, x=X, y=Y)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(
        DataProblem, match=r"d\.npz cannot be read: not an \.npz file, or cut off; save it with numpy\.savez again"
    ):
        list(load_data(str(path)).pieces())


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    save(path, x=X, y=Y)
    data = bytearray(path.read_bytes())
    data[400] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataProblem, match=r"d\.npz cannot be read"):
        list(load_data(str(path)).pieces())


def test_arrays_of_other_names_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataProblem, match="must hold the arrays 'x' and 'y', but holds 'images', 'labels'"):
        load_data(save(tmp_path / "d.npz", images=X, labels=Y))


@pytest.mark.parametrize("name", ["d.txt", "none.csv", "none", "none.npz"])
def test_other_things_are_the_callers_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.txt").write_text("")
    with pytest.raises(CallError, match=r"DATA must be a file that ends in \.npz|there is no file none\."):
        load_data(name)


@pytest.mark.parametrize(("name", "bytes_before"), [("test_batch.bin", 1), ("test.bin", 2)])
def test_a_folder_in_the_binary_layout_is_read(tmp_path: Path, name: str, bytes_before: int) -> None:
    generator = np.random.default_rng(0)
    records = generator.integers(0, 256, size=(7, bytes_before + 3072), dtype=np.uint8)
    records[:, bytes_before - 1] = np.arange(7)
    records.tofile(tmp_path / name)
    data = load_data(str(tmp_path))
    assert data.labels.tolist() == list(range(7))
    ((indices, images),) = data.pieces(every=3)
    assert indices == [0, 3, 6]
    assert np.array_equal(images[1], records[3, bytes_before:].reshape(3, 32, 32).astype(np.float32) / np.float32(255))
    (tmp_path / name).write_bytes(b"123")
    with pytest.raises(DataProblem, match="must hold records of .* bytes, but has 3 bytes; get it again"):
        load_data(str(tmp_path))
    (tmp_path / name).unlink()
    with pytest.raises(DataProblem, match=r"must hold test_batch\.bin .* but holds neither"):
        load_data(str(tmp_path))


def saved_images(folder: Path, sizes: tuple[int, ...] = (8, 8, 8), mode: str = "RGB") -> None:
    from PIL import Image

    for index, size in enumerate(sizes):
        pixels = np.full((size, size, 3) if mode == "RGB" else (size, size), 50 * (index + 1), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.png")


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_csv_of_images_is_read(tmp_path: Path, mode: str) -> None:
    saved_images(tmp_path, mode=mode)
    (tmp_path / "d.csv").write_text("path,label,group\n0.png,ill,a\n1.png,healthy,a\n2.png,0,b\n", encoding="utf-8-sig")
    data = load_data(str(tmp_path / "d.csv"), ("healthy", "ill"))
    assert data.labels.tolist() == [1, 0, 0]
    assert data.shape == ((3, 8, 8) if mode == "RGB" else (1, 8, 8))
    assert data.groups is not None
    assert data.groups.tolist() == [0, 0, 1]
    ((_, images),) = data.pieces()
    assert images[2, 0, 0, 0] == pytest.approx(150 / 255)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("file,kind\n", "must have the column 'label', and 'path' (images) or columns of numbers (a table), but its"),
        ("label,group\n", "first line has 'label', 'group'"),
        ("", "first line has nothing"),
        ("path,label,path\n", "has the column 'path' more than once"),
        ("path,label,more\n0.png,0\n", "line 2: must have 3 columns"),
        ("age,label\n1,0,7\n", "line 2: must have 2 columns"),
        ("age;label\n1;0\n", "but its first line has 'age;label'; separate the columns by commas, not semicolons"),
        ('age,label\n"0,5",0\n', "line 2: 'age' must be a finite number, but is '0,5'; use a decimal point"),
        ("age,label\n1,0\nnan,1\n", "line 3: 'age' must be a finite number, but is 'nan'; noise needs numbers"),
        ("age,label\nold,0\n", "line 2: 'age' must be a finite number, but is 'old'"),
        ("age,label\n1e39,0\n", "line 2: 'age' must be a finite number, but is '1e39'"),
        ("age,label\n1,\n", "line 2: label must be given"),
        ("path,label\n0.png,\n", "line 2: path and label must both be given"),
        (f"path,label\n0.png,{'9' * 40}\n", "line 2: label must be a class index from 0, but is '9999"),
        ("path,label\n0.png,ill\n", "line 2: label must be a class index from 0, but is 'ill'; name the classes"),
        ("path,label\nnone.png,0\n", "none.png cannot be read: there is no such file"),
        (
            "path,label\nd.csv,0\n",
            "is damaged, or of none of the formats that are read (PNG, JPEG, TIFF, BMP, GIF, PPM, WEBP); save",
        ),
    ],
)
def test_a_csv_that_is_wrong_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    saved_images(tmp_path)
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(DataProblem) as caught:
        load_data(str(tmp_path / "d.csv"))
    assert sentence in str(caught.value)


def test_a_table_of_numbers_is_read(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("age,label,pressure,group\n0.5,ill,1e-3,a\n -2 ,healthy,7,b\n1,0,0,b\n")
    data = load_data(str(tmp_path / "d.csv"), ("healthy", "ill"))
    assert data.labels.tolist() == [1, 0, 0]
    assert data.shape == (2,)
    assert data.groups is not None
    assert data.groups.tolist() == [0, 1, 1]
    ((_, numbers),) = data.pieces()
    assert np.allclose(numbers, [[0.5, 1e-3], [-2, 7], [1, 0]])
    (tmp_path / "d.csv").write_text("age,label\n")
    assert len(load_data(str(tmp_path / "d.csv"))) == 0


def test_images_whose_tiles_are_not_what_they_say_are_refused(tmp_path: Path) -> None:
    """A tile's width that is a fraction is none: what unpacks tiles may take it for another."""
    for kind, sentence in ((4, "is stored in tiles of 8,192 x 8,192 pixels"), (11, "does not say how large its tiles")):
        bombs.tiled_tiff(tmp_path / "a.tif", 8192, kind)
        with pytest.raises(DataProblem, match=sentence):
            load_data(str(bombs.image_list(tmp_path, "a.tif")))


def test_a_request_states_the_shape_of_images_that_are_unpacked(tmp_path: Path) -> None:
    saved_images(tmp_path)
    (tmp_path / "d.csv").write_text("path,label\n0.png,0\n")
    assert load_data(str(tmp_path / "d.csv"), None, (3, 8, 8)).shape == (3, 8, 8)
    with pytest.raises(
        DataProblem, match="the request states inputs of shape 3x4x4, but each example of x has shape 3x8"
    ):
        load_data(str(tmp_path / "d.csv"), None, (3, 4, 4))


@pytest.mark.parametrize("kind", ["a pipe", "a folder", "a device or socket"])
def test_what_is_no_file_is_not_opened_as_an_image(tmp_path: Path, kind: str) -> None:
    name = {"a pipe": "pipe.png", "a folder": "folder.png", "a device or socket": "/dev/zero"}[kind]
    if kind == "a pipe":
        os.mkfifo(tmp_path / name)
    elif kind == "a folder":
        (tmp_path / name).mkdir()
    (tmp_path / "d.csv").write_text(f"path,label\n{name},0\n")
    with pytest.raises(DataProblem, match=f"cannot be read: it is {kind}, not a file"):
        load_data(str(tmp_path / "d.csv"))


def test_images_of_other_sizes_are_named(tmp_path: Path) -> None:
    saved_images(tmp_path, (8, 9))
    (tmp_path / "d.csv").write_text("path,label\n0.png,0\n1.png,0\n")
    with pytest.raises(DataProblem, match=r"all images must have one size .*1\.png has \(3, 9, 9\); bring them to one"):
        list(load_data(str(tmp_path / "d.csv")).pieces())


def test_examples_from_an_offset_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcert.certification.data.local_data._BYTES_PER_PIECE", 4 * 12 * 4)
    data = load_data(save(tmp_path / "d.npz", x=X, y=Y))
    for every, offset in ((7, 3), (16, 15), (50, 49), (3, 0), (64, 60)):
        found = [index for indices, _ in data.pieces(every, offset) for index in indices]
        assert found == list(range(offset, 50, every))


def test_no_examples_are_fine(tmp_path: Path) -> None:
    assert len(load_data(save(tmp_path / "d.npz", x=X[:0], y=Y[:0]))) == 0


def test_more_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", b"1")
        archive.writestr("y", b"1")
    with pytest.raises(DataProblem, match="must hold the arrays 'x' and 'y'"):
        load_data(str(path))
    save(path, x=np.asfortranarray(X), y=Y)
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataProblem, match=r"d\.npz cannot be read"):
        load_data(str(path))
    for x in (np.zeros((50, 0)), X.astype("timedelta64[s]"), [[1.0], [1.0, 2.0]]):
        with pytest.raises(
            DataProblem, match="x must have one row|x must hold numbers|x and y must be arrays of numbers"
        ):
            data_of(x, Y if len(x) == 50 else [0, 1])


def test_groups_come_from_files_and_functions_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = np.array([f"patient {index // 5}" for index in range(50)])
    data = load_data(save(tmp_path / "d.npz", x=X, y=Y, groups=groups))
    assert data.groups is not None
    assert data.groups.tolist() == groups.tolist()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grouped_data.py").write_text(
        "import numpy as np\ndef load():\n    return np.ones((4, 2)), [0, 1, 0, 1], [1, 1, 2, 2]\n"
    )
    made = load_data("grouped_data:load")
    assert made.groups is not None
    assert made.groups.tolist() == [1, 1, 2, 2]
    with pytest.raises(
        DataProblem, match="groups must hold numbers, but holds Python objects|groups holds Python objects"
    ):
        load_data(save(tmp_path / "o.npz", x=X, y=Y, groups=np.array([{}] * 50)))


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_grey_images_of_sixteen_bits_keep_their_range(tmp_path: Path, ending: str) -> None:
    from PIL import Image

    ramp = np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16)
    Image.fromarray(ramp).save(tmp_path / f"a.{ending}")
    (tmp_path / "d.csv").write_text(f"path,label\na.{ending},0\n")
    data = load_data(str(tmp_path / "d.csv"))
    ((_, images),) = data.pieces()
    assert data.shape == (1, 8, 8)
    assert np.array_equal(images[0, 0], ramp.astype(np.float32) / np.float32(65535))


@pytest.mark.parametrize(("mode", "channels"), [("1", 1), ("LA", 1), ("P", 3), ("RGBA", 3), ("CMYK", 3)])
def test_other_images_become_grey_or_coloured(tmp_path: Path, mode: str, channels: int) -> None:
    from PIL import Image

    Image.new("L", (4, 4), 255).convert(mode).save(tmp_path / ("a.tif" if mode == "CMYK" else "a.png"))
    (tmp_path / "d.csv").write_text(f"path,label\n{'a.tif' if mode == 'CMYK' else 'a.png'},0\n")
    ((_, images),) = load_data(str(tmp_path / "d.csv")).pieces()
    assert images.shape == (1, channels, 4, 4)
    assert images.max() == 1.0


def test_images_whose_range_is_unknown_are_refused(tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.ones((4, 4), dtype=np.float32)).save(tmp_path / "a.tif")
    (tmp_path / "d.csv").write_text("path,label\na.tif,0\n")
    with pytest.raises(DataProblem, match=r"a\.tif has pixels of 32 bits \(mode F\), whose range is unknown"):
        load_data(str(tmp_path / "d.csv"))


def test_a_group_is_given_in_every_row_or_in_none(tmp_path: Path) -> None:
    saved_images(tmp_path)
    (tmp_path / "d.csv").write_text("path,label,group\n0.png,0,\n1.png,0,p1\n2.png,0,p1\n")
    with pytest.raises(DataProblem, match=r"d\.csv, line 2: group must be given in every row or in none"):
        load_data(str(tmp_path / "d.csv"))
    (tmp_path / "d.csv").write_text("path,label,group\n0.png,0,\n1.png,0,\n2.png,0,\n")
    assert load_data(str(tmp_path / "d.csv")).groups is None


def test_only_the_wanted_images_are_opened(tmp_path: Path) -> None:
    saved_images(tmp_path)
    (tmp_path / "d.csv").write_text("path,label\n0.png,0\n1.png,0\n2.png,0\n")
    data = load_data(str(tmp_path / "d.csv"))
    (tmp_path / "1.png").unlink()
    ((indices, _),) = data.pieces(every=2)
    assert indices == [0, 2]


@pytest.mark.parametrize("name", ["y", "groups", "x"])
def test_a_small_file_that_claims_to_unpack_to_anything_is_refused(tmp_path: Path, name: str) -> None:
    """A header that names a huge shape: the size is refused before anything is read."""
    arrays = {"x": np.ones((3, 2), np.float32), "y": np.array([0, 1, 1]), "groups": np.array([1, 2, 2])}
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w") as file:
                shape = (3, 2**40) if key == name == "x" else (2**40,) if key == name else array.shape
                header = {"descr": array.dtype.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                file.write(array.tobytes() + bytes(10_000_000 if key == name else 0))
    assert path.stat().st_size < 100_000
    with pytest.raises(
        DataProblem, match=rf"{name} in .* says that it is .* of shape \(.*1099511627776.*, but has 10,0"
    ):
        load_data(str(path))
