"""Small files that unpack to gigabytes, made in milliseconds; and what reads them, each in a process of its own."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import struct
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 2**24
MOST = 3 * 2**30
"""Bytes of address space of a process that reads a bomb, above what it has: none of them fills this machine."""


def deflated(start: bytes, zeros: int) -> Iterator[bytes]:
    """Some bytes and many zeros, packed a thousandfold: the same packed block again and again."""
    first = zlib.compressobj(9, zlib.DEFLATED, -15)
    yield first.compress(start) + first.flush(zlib.Z_FULL_FLUSH)
    again = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = again.compress(bytes(BLOCK)) + again.flush(zlib.Z_FULL_FLUSH)
    yield from (block for _ in range(zeros // BLOCK))
    last = zlib.compressobj(9, zlib.DEFLATED, -15)
    yield last.compress(bytes(zeros % BLOCK)) + last.flush()


def wrapped(zeros: int) -> bytes:
    """Many zeros as a zlib stream, with their checksum (Adler-32)."""
    return b"\x78\x9c" + b"".join(deflated(b"", zeros)) + struct.pack(">L", zeros % 65_521 << 16 | 1)


WAYS = (
    *(f"certify {name}.npz" for name in ("labels", "groups", "columns", "example", "examples", "bzip", "directory")),
    *(f"predict {name}.npz" for name in ("columns", "example", "examples")),
    *(
        f"{way} {name}.csv"
        for way in ("certify", "predict")
        for name in ("colours", "bits", "tile", "postscript", "pipe", "line", "header")
    ),
    *(
        f"{way} {name}.parquet"
        for way in ("estimate", "collect", "read")
        for name in ("lists", "rows", "texts", "page")
    ),
    "load reports", "trace trace.parquet", "audit trace.parquet", "train idx", "weights overlap.safetensors",
    "model nested.onnx", "document objects.json",
)  # fmt: skip
"""Who reads what."""


def npy_header(shape: tuple[int, ...], dtype: str, by_columns: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": by_columns, "shape": shape})
    return buffer.getvalue()


def zipped(path: Path, **arrays: tuple[tuple[int, ...], str, bool]) -> Path:
    """An .npz file of zeros, with each array's shape, type, and whether it is stored by columns."""
    body, directory = b"", b""
    for name, (shape, dtype, by_columns) in arrays.items():
        start, zeros = npy_header(shape, dtype, by_columns), int(np.prod(shape)) * np.dtype(dtype).itemsize
        packed = b"".join(deflated(start, zeros))
        entry, offset = f"{name}.npy".encode(), len(body)
        crc = zlib.crc32(start + bytes(zeros)) if zeros < BLOCK else 0  # which is looked at when all is unpacked
        sizes = (crc, len(packed), len(start) + zeros)
        body += struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 33, *sizes, len(entry), 0) + entry + packed
        directory += struct.pack(
            "<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 8, 0, 33, *sizes, len(entry), 0, 0, 0, 0, 0, offset
        ) + entry  # fmt: skip
    count = len(arrays)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), len(body), 0)
    path.write_bytes(body + directory + end)
    return path


def bzipped(path: Path) -> Path:
    """An .npz file whose labels are packed in a way that numpy does not use, and Python unpacks without a limit."""
    import zipfile

    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("x.npy", npy_header((1, 1), "<f4") + bytes(4))
        archive.writestr("y.npy", npy_header((2**24,), "|i1") + bytes(2**24))
    return path


def png(path: Path, width: int, height: int, depth: int = 8, colour: int = 2) -> Path:
    """A black image; colour 2 has three channels, 0 one."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">L", len(data)) + kind + data + struct.pack(">L", zlib.crc32(kind + data))

    row = 1 + (width * depth * (3 if colour == 2 else 1) + 7) // 8
    data = wrapped(row * height)
    header = struct.pack(">2L5B", width, height, depth, colour, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b""))
    return path


def tiled_tiff(path: Path, tile: int, kind: int = 4) -> Path:
    """An image of 10 x 10 pixels in one tile of another size, whose width is a number of some kind: 4 is a whole one."""
    data = wrapped(tile * tile)
    tags = [(256, 10), (257, 10), (258, 8), (259, 8), (262, 1), (277, 1), (322, tile), (323, tile), (324, 8)]
    tags.append((325, len(data)))
    directory = b"".join(struct.pack("<HHLL", tag, kind if tag == 322 else 4, 1, value) for tag, value in tags)
    start = b"II*\0" + struct.pack("<L", 8 + len(data)) + data
    path.write_bytes(start + struct.pack("<H", len(tags)) + directory + bytes(4))
    return path


def image_list(folder: Path, name: str) -> Path:
    path = folder / f"{Path(name).stem}.csv"
    path.write_text(f"path,label\n{name},0\n")
    return path


HEADER = {"schema": "fedcert/table/1", "model": "m", "radii": [0.0], "classes": ["a"], "smoothing": {"sigma": 0.5}}


def table(path: Path, groups: int = 1, header: dict[str, Any] = HEADER, **columns: Any) -> Path:
    """A Parquet table of reports from arrow arrays, so many times."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    whole = arrow.table(columns)
    plain = {"compression": "zstd", "store_schema": False, "use_dictionary": True}
    with parquet.ParquetWriter(path, whole.schema, **plain) as writer:
        writer.add_key_value_metadata({"fedcert": json.dumps(header)})
        for _ in range(groups):
            writer.write_table(whole, row_group_size=len(whole))
    return path


def lists(rows: int, length: int) -> Any:
    """Lists of zeros, of one length."""
    import pyarrow as arrow

    offsets = np.arange(rows + 1, dtype=np.int32) * length
    return arrow.ListArray.from_arrays(offsets, np.zeros(rows * length, dtype=np.int32))


def long_lists(path: Path) -> Path:
    """A report with 30 million labels."""
    return table(path, client=["a"], label_counts=lists(1, 3 * 10**7), certified_counts=lists(1, 1))


def many_rows(path: Path) -> Path:
    """One report, repeated 1.8 million times."""
    import pyarrow as arrow

    one, rows = lists(3 * 10**5, 30), 3 * 10**5
    header = HEADER | {"radii": [index / 100 for index in range(30)], "classes": [f"c{index}" for index in range(30)]}
    names = arrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["a"])
    return table(path, 6, header, client=names, label_counts=one, certified_counts=one)


def long_texts(path: Path) -> Path:
    """A thousand reports with the same further key, of a megabyte of lists."""
    text = json.dumps({"x-note": [[]] * 300_000})
    import pyarrow as arrow

    names = [f"c{index}" for index in range(1000)]
    one = lists(1000, 1)
    texts = arrow.DictionaryArray.from_arrays(np.zeros(1000, np.int32), [text])
    return table(path, client=names, label_counts=one, certified_counts=one, extra=texts)


def large_page(path: Path) -> Path:
    """Ten thousand reports over a thousand classes, whose labels are in one page of 80 MB."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    header = HEADER | {"classes": [f"c{index}" for index in range(1000)]}
    names = [f"c{index}" for index in range(10_000)]
    labels = arrow.ListArray.from_arrays(np.arange(10_001, dtype=np.int32) * 1000, np.zeros(10**7, np.int64))
    whole = arrow.table({"client": names, "label_counts": labels, "certified_counts": lists(10_000, 1)})
    whole = whole.replace_schema_metadata({"fedcert": json.dumps(header)})
    pages = {"data_page_size": 2**30, "max_rows_per_page": 10**6, "write_batch_size": 10**8}
    parquet.write_table(whole, path, compression="zstd", use_dictionary=False, **pages)
    return path


def trace_rows(path: Path) -> Path:
    """A trace of 24 million examples that are all the same."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    rows = 6 * 10**6
    names = ("client", "index", "label", "predicted", "radius", "samples")
    columns = {"split": arrow.DictionaryArray.from_arrays(np.zeros(rows, np.int8), ["client", "target"])}
    columns |= {name: np.zeros(rows, np.float32 if name == "radius" else np.int32) for name in names}
    whole = arrow.table(columns)
    with parquet.ParquetWriter(path, whole.schema, compression="zstd") as writer:
        for _ in range(4):
            writer.write_table(whole, row_group_size=rows)
    return path


def gzipped(path: Path, start: bytes, zeros: int) -> None:
    crc = 0
    data = b"".join(deflated(start, zeros))
    path.write_bytes(gzip.compress(b"")[:10] + data + struct.pack("<2L", crc, (len(start) + zeros) % 2**32))


def idx_folder(folder: Path, zeros: int) -> Path:
    """MNIST's four files, whose training images unpack to so many bytes."""
    folder.mkdir()
    images, labels = struct.pack(">4L", 0x803, zeros // 784, 28, 28), struct.pack(">2L", 0x801, 1)
    gzipped(folder / "train-images-idx3-ubyte.gz", images, zeros // 784 * 784)
    gzipped(folder / "train-labels-idx1-ubyte.gz", labels, 1)
    gzipped(folder / "t10k-images-idx3-ubyte.gz", struct.pack(">4L", 0x803, 1, 28, 28), 784)
    gzipped(folder / "t10k-labels-idx1-ubyte.gz", labels, 1)
    return folder


def overlapping(path: Path) -> Path:
    """Weights of 4 MB, described 20,000 times."""
    size = 4 * 2**20
    entry = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    header = json.dumps({f"w{index}": entry for index in range(20_000)}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))
    return path


def nested_onnx(path: Path) -> Path:
    """A model of 10 MB whose graph is in a graph, 200 times."""

    def field(number: int, data: bytes) -> bytes:
        length, size = b"", len(data)
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + data

    graph = field(2, bytes(10**7))
    for _ in range(200):
        graph = field(1, field(5, field(6, graph)))
    path.write_bytes(field(7, graph))
    return path


def outcomes(calls: dict[str, Callable[[], Any]]) -> dict[str, dict[str, Any]]:
    """What becomes of some calls: each in a fork of this process, whose memory and time are its own."""
    seen = {}
    for name, call in calls.items():
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            os.write(write, json.dumps(_outcome(call)).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as answer:
            text = answer.read()
        _, status, used = os.wait4(child, 0)
        seen[name] = json.loads(text) if text else {"kind": f"status {status}", "sentence": ""}
        seen[name] |= {"memory": used.ru_maxrss * 1024, "seconds": used.ru_utime + used.ru_stime}
    return seen


def _outcome(call: Callable[[], Any]) -> dict[str, str]:
    from fedcert import FedcertError

    with open("/proc/self/statm") as sizes:  # noqa: PTH123
        here = int(sizes.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (here + MOST, here + MOST))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            call()
            kind, words = "nothing", ""
        except FedcertError as error:
            kind, words = "sentence", str(error)
        except BaseException as error:  # noqa: BLE001
            kind, words = type(error).__name__, str(error)
    return {"kind": kind, "sentence": words, "warnings": " | ".join(str(each.message) for each in said)}


def calls_in(folder: Path) -> dict[str, Callable[[], Any]]:
    """Every way in, with the bombs that lie in a folder."""
    import PIL.Image  # noqa: F401  what is imported here is no part of a call's memory
    import pyarrow.parquet  # noqa: F401

    import fedcert
    from fedcert._files.documents import parse
    from fedcert.certification.data.sources import load_data
    from fedcert.certification.examples import read_examples
    from fedcert.certification.models.digest import digest_of_onnx, digest_of_safetensors
    from fedcert.lab.datasets.idx import read_idx
    from fedcert.lab.traces.trace import read_trace
    from fedcert.prediction.unlabelled import load_inputs
    from fedcert.report import Report, load

    asked = fedcert.request("m", 0.5, ["a"], procedure="fixed", radii=[0])
    ways: dict[str, Callable[[Path], Any]] = {
        "certify": lambda path: [images.sum() for _, images in load_data(str(path)).pieces()],
        "predict": lambda path: [images.sum() for _, images in load_inputs(str(path)).pieces()],
        "estimate": fedcert.estimate,
        "collect": lambda path: fedcert.collect(path, request=asked),
        "load": load,
        "read": fedcert.read_reports,
        "trace": read_trace,
        "audit": read_examples,
        "train": read_idx,
        "weights": digest_of_safetensors,
        "model": digest_of_onnx,
        "document": lambda path: Report.from_json(parse(path.read_bytes(), path.name)),
    }
    return {f"{way} {name}": partial(ways[way], folder / name) for way, name in (row.split() for row in WAYS)}


def make_all(folder: Path) -> None:
    """Every bomb."""
    few = ((3,), "<i8", False)
    zipped(folder / "labels.npz", x=((3, 1), "<f4", False), y=((36 * 10**7,), "<i8", False))
    zipped(folder / "groups.npz", x=((3, 1), "<f4", False), y=few, groups=((36 * 10**7,), "<i8", False))
    zipped(folder / "columns.npz", x=((3, 24 * 10**7), "<f4", True), y=few)
    zipped(folder / "example.npz", x=((3, 24 * 10**7), "<f4", False), y=few)
    zipped(folder / "examples.npz", x=((200_000, 4000), "<f4", False), y=((200_000,), "<i8", False))
    bzipped(folder / "bzip.npz")
    many = b"".join(
        struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0) + b"%04d" % (k % 10_000)
        for k in range(50_000)
    )  # fmt: skip
    many *= 20
    (folder / "directory.npz").write_bytes(
        many + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65_535, 65_535, len(many), 0, 0)
    )
    png(folder / "colours.png", 11_000, 11_000)
    png(folder / "bits.png", 18_000, 9_900, depth=1, colour=0)
    tiled_tiff(folder / "tile.tif", 32_768)
    (folder / "postscript.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    )
    os.mkfifo(folder / "pipe.png")
    for name in ("colours.png", "bits.png", "tile.tif", "postscript.png", "pipe.png"):
        image_list(folder, name)
    with (folder / "line.csv").open("wb") as file:
        file.write(b"age,label\n")
        file.truncate(2 * 2**30)
    (folder / "header.csv").write_text("label," + ",".join(f"a{index}" for index in range(200_000)) + "\n")
    long_lists(folder / "lists.parquet")
    many_rows(folder / "rows.parquet")
    long_texts(folder / "texts.parquet")
    large_page(folder / "page.parquet")
    (folder / "reports").mkdir()
    (folder / "reports" / "lists.parquet").write_bytes((folder / "lists.parquet").read_bytes())
    trace_rows(folder / "trace.parquet")
    idx_folder(folder / "idx", 15 * 10**8)
    overlapping(folder / "overlap.safetensors")
    nested_onnx(folder / "nested.onnx")
    golden = json.loads((Path(__file__).parent / "golden" / "report-1.json").read_text())
    objects = "[" + '{"":0},' * 4_700_000 + "{}]"
    (folder / "objects.json").write_text(json.dumps(golden | {"x-all": "@"}).replace('"@"', objects))


if __name__ == "__main__":
    print(json.dumps(outcomes(calls_in(Path(sys.argv[1])))))
