"""Every parser of what others send, as a function of bytes: it may refuse in one sentence, and do nothing else."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent))
import downstream

from fedcert._files.documents import parse
from fedcert._schema.record import Record
from fedcert.certification.data import images as images_module
from fedcert.certification.data import inputs as inputs_module
from fedcert.certification.data.sources import load_data
from fedcert.certification.journal import Journal
from fedcert.certification.logs import read_log
from fedcert.certification.models.digest import digest_of_onnx, digest_of_safetensors
from fedcert.certification.seeds import Seed
from fedcert.errors import FedcertError, FedcertWarning
from fedcert.estimation.estimate import estimate
from fedcert.estimation.result import Estimate, WhatIf
from fedcert.estimation.target import target_of
from fedcert.lab.datasets.idx import read_idx
from fedcert.lab.experiment import read_experiment
from fedcert.lab.traces.trace import read_trace
from fedcert.privacy.keys.identity import Card, Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.policy import Policy
from fedcert.report import Report, Request, Sums, load
from fedcert.secagg.messages import CLIENT_MESSAGES, SERVER_MESSAGES, Holders, Totals, read_message

Target = Callable[[bytes], None]
CORPUS = Path(__file__).parent / "corpus"
_PLACE = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


@contextlib.contextmanager
def file_of(data: bytes, suffix: str):
    """The bytes as a file, in memory where the system has a place for that."""
    descriptor, name = tempfile.mkstemp(suffix=suffix, dir=_PLACE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def document(kind: type[Record]) -> Target:
    """A JSON document of one kind; what is taken must be written and read again as it is."""

    def target(data: bytes) -> None:
        record = kind.from_json(parse(data, "the file"), "the file")
        again = kind.from_json(parse(record.dumps(), "the text"), "the text")
        if again != record or again.dumps() != record.dumps():
            raise AssertionError("what was written is read as something else")

    return target


def messages(data: bytes) -> None:
    """What sites and server say in a private sum, and keys."""
    read_message(
        data, (*CLIENT_MESSAGES, *SERVER_MESSAGES, Holders, Totals, Card, Identity, Keyring, Policy), "the message"
    ).dumps()


def lines(data: bytes) -> None:
    """Reports, one in each line, and an estimate from them."""
    with file_of(data, ".ndjson") as path:
        estimate(load(path), method="vw")


def table(data: bytes) -> None:
    """A Parquet table of reports."""
    with file_of(data, ".parquet") as path:
        load(path)


def arrays(data: bytes) -> None:
    """Local data in an .npz file."""
    with file_of(data, ".npz") as path:
        for _ in load_data(str(path)).pieces():
            pass


def images(data: bytes) -> None:
    """A CSV of labels and image paths, or of labels and numbers."""
    with file_of(data, ".csv") as path:
        for _ in load_data(str(path)).pieces():
            pass


def pictures(data: bytes) -> None:
    """An image file, whatever is in it. Small ones: arrays that are compared under atheris are never freed."""
    with contextlib.ExitStack() as stack:
        for module in (images_module, inputs_module):
            stack.enter_context(patch.object(module, "LARGEST_EXAMPLE", 4096))
        image = stack.enter_context(file_of(data, ".png"))
        path = stack.enter_context(file_of(f"path,label\n{image.name},0\n".encode(), ".csv"))
        for _ in load_data(str(path)).pieces():
            pass


def onnx(data: bytes) -> None:
    """An ONNX model, for its digest."""
    with file_of(data, ".onnx") as path:
        digest_of_onnx(path)


def safetensors(data: bytes) -> None:
    """Weights, for their digest."""
    with file_of(data, ".safetensors") as path:
        digest_of_safetensors(path)


def log(data: bytes) -> None:
    """A log of Cohen et al.'s code."""
    with file_of(data, ".tsv") as path:
        read_log(path)


def journal(data: bytes) -> None:
    """A journal of certification."""
    with file_of(data, ".journal") as path:
        journal = Journal(path, {"a": 1}, Seed.fixed(0))
        journal._file.close()


def mix(data: bytes) -> None:
    """A target, as somebody writes it."""
    target_of(data.decode(errors="replace"), ("cat", "dog"))


def trace(data: bytes) -> None:
    """A trace of an experiment."""
    with file_of(data, ".parquet") as path:
        read_trace(path)


def experiment(data: bytes) -> None:
    """An experiment's settings."""
    with file_of(data, ".toml") as path:
        read_experiment(path)


def idx(data: bytes) -> None:
    """Four files of MNIST's format, all with the same bytes except for the length, which the first byte gives."""
    with tempfile.TemporaryDirectory(dir=_PLACE) as folder:
        cut = data[0] if data else 0
        for kind in ("train", "t10k"):
            Path(folder, f"{kind}-images-idx3-ubyte").write_bytes(data[1 + cut :])
            Path(folder, f"{kind}-labels-idx1-ubyte").write_bytes(data[1 : 1 + cut])
        read_idx(Path(folder))


TARGETS: dict[str, Target] = {
    "report": document(Report),
    "request": document(Request),
    "sums": document(Sums),
    "estimate": document(Estimate),
    "what-if": document(WhatIf),
    "messages": messages,
    "lines": lines,
    "table": table,
    "arrays": arrays,
    "images": images,
    "pictures": pictures,
    "onnx": onnx,
    "safetensors": safetensors,
    "log": log,
    "journal": journal,
    "mix": mix,
    "trace": trace,
    "experiment": experiment,
    "idx": idx,
    **downstream.TARGETS,
}


def tried(name: str, data: bytes) -> None:
    """Try a target; a sentence of fedcert's is a fine end, and warnings of its own are.

    Raises:
        Exception: anything else.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FedcertWarning)
        try:
            TARGETS[name](data)
        except FedcertError as error:
            if not str(error).strip():
                raise AssertionError("an error without a sentence") from error


def kept(name: str) -> Iterator[tuple[str, bytes]]:
    """The seeds of a target, and what fuzzing has found to reach new code."""
    for file in sorted((CORPUS / downstream.STARTS.get(name, name)).iterdir()):
        yield file.name, file.read_bytes()
    archived = CORPUS / f"{name}.zip"
    if archived.exists():
        with zipfile.ZipFile(archived) as archive:
            for inside in archive.namelist():
                yield inside, archive.read(inside)
