"""Digests that say which weights were really certified.

A torch module and its safetensors file have the same digest, so that a server without torch can name the
model it asks for. Code around the weights (preprocessing, the network's wiring) is outside of it.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedcert._files.paths import check_is_file
from fedcert.errors import FileProblem, ModelProblem, preview

if TYPE_CHECKING:
    import torch

_LARGEST_HEADER = 16 * 2**20
"""Bytes: a hundred thousand tensors with long names. As objects in memory they take twenty times as much."""
_WRAPPERS = ("module.", "_orig_mod.")
"""Before the real names: DataParallel's and torch.compile's prefixes."""
_CHUNK = 2**22
"""Bytes read at a time: 4 MiB, so that weights need not fit in memory."""


class Tensor(NamedTuple):
    """A named array: its type in safetensors' spelling, its shape, its little-endian bytes in pieces."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: Iterator[bytes]


def digest_of_tensors(tensors: list[Tensor]) -> str:
    """SHA-256 over tensors in the order of their names, wrapper prefixes left off."""
    total = hashlib.sha256(b"fedcert tensors 1\n")
    for tensor in sorted(tensors, key=lambda tensor: bare_name(tensor.name)):
        head = json.dumps([bare_name(tensor.name), tensor.dtype, list(tensor.shape)], ensure_ascii=False)
        body = hashlib.sha256()
        for piece in tensor.data:
            body.update(piece)
        total.update(head.encode() + b"\n" + body.digest())
    return f"sha256:{total.hexdigest()}"


def bare_name(name: str) -> str:
    """A parameter's name without the prefixes that wrappers put before it."""
    while name.startswith(_WRAPPERS):
        name = name.removeprefix("module.").removeprefix("_orig_mod.")
    return name


def distinct_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A module's state without the further names of tied weights.

    Raises:
        ModelProblem: a tensor has no values yet.
    """
    distinct: dict[str, torch.Tensor] = {}
    seen: set[tuple[object, ...]] = set()
    for name, tensor in sorted(module.state_dict().items()):
        if type(tensor).__name__.startswith("Uninitialized") or tensor.is_meta:
            raise ModelProblem(f"the module's tensor {name!r} has no values yet; load its weights first")
        place = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.numel() == 0 or place not in seen:
            distinct[name] = tensor
            seen.add(place)
    return distinct


def tensor_of(name: str, tensor: torch.Tensor) -> Tensor:
    """A tensor of torch as a named array.

    Raises:
        ModelProblem: safetensors does not have its type.
    """
    import torch

    types = {
        torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
        torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
        torch.bool: "BOOL",
    }  # fmt: skip
    if tensor.dtype not in types:
        raise ModelProblem(f"the tensor {name!r} has the type {tensor.dtype}, for which there is no digest")

    def data() -> Iterator[bytes]:
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        if sys.byteorder == "big":
            raw = raw.reshape(-1, tensor.element_size())[:, ::-1]
        yield raw.tobytes()

    return Tensor(name, types[tensor.dtype], tuple(tensor.shape), data())


def digest_of_safetensors(path: Path) -> str:
    """The digest of a safetensors file, read in pieces.

    Raises:
        FileProblem: it cannot be read, or is not such a file.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            (length,) = struct.unpack("<Q", file.read(8))
            if not 2 <= length <= min(size - 8, _LARGEST_HEADER):
                raise ValueError
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            tensors, described = [], 0
            for name, entry in header.items():
                start, end = entry["data_offsets"]
                if not 0 <= start <= end <= size - 8 - length:
                    raise ValueError
                described += end - start
                data = _pieces(path, 8 + length + start, end - start)
                tensors.append(Tensor(name, entry["dtype"], tuple(entry["shape"]), data))
            if described > size - 8 - length:  # tensors that overlap would be read over and over
                raise ValueError
            return digest_of_tensors(tensors)
    except OSError as error:
        raise FileProblem(f"cannot read {preview(str(path), 300)}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError):
        other = f"{preview(str(path), 300)} is not a safetensors file, or is cut off"
        raise FileProblem(f"{other}; save the weights with safetensors again") from None


def digest_of_onnx(path: Path) -> str:
    """The digest of an ONNX model: its file's SHA-256, and that of the weights it keeps in other files.

    Raises:
        FileProblem: one of the files cannot be read.
        ModelProblem: the model names weights outside its own folder, or is not ONNX.
    """
    try:
        content = memoryview(path.read_bytes())
        whole = hashlib.sha256(content)
        for other in sorted(set(_external_files(content))):
            location = Path(other)
            if location.is_absolute() or ".." in location.parts or "\\" in other:
                raise ModelProblem(
                    f"{preview(str(path), 300)} keeps weights in {preview(other)}, outside its own folder; "
                    "export the model again with its weights inside or beside it"
                )
            check_is_file(path.parent / location)
            with (path.parent / location).open("rb") as file:
                part = hashlib.file_digest(file, "sha256")
            whole.update(other.encode() + b"\0" + part.digest())
    except OSError as error:
        unreadable = preview(str(error.filename or path), 300)
        raise FileProblem(f"cannot read {unreadable}: {error.strerror or error}") from None
    except (ValueError, IndexError, RecursionError):
        raise ModelProblem(f"{preview(str(path), 300)} is not an ONNX model, or is cut off; export it again") from None
    return f"sha256:{whole.hexdigest()}"


def _pieces(path: Path, start: int, length: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while length > 0:
            piece = file.read(min(_CHUNK, length))
            if not piece:
                raise ValueError("the file is cut off")
            length -= len(piece)
            yield piece


# Where ONNX's protocol buffers can hold a tensor: message -> field number -> the message in that field.
_ONNX = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "tensor": {13: "entry"},
}


_GRAPH, _INPUTS, _OUTPUTS, _INITIALIZERS = 7, 11, 12, 5
"""Fields of an ONNX model and of its graph."""
_SHAPE_PATH = (2, 1, 2)
"""From an input or output to its shape: type, tensor type, shape."""


def shape_in_onnx(path: Path) -> tuple[int, ...] | None:
    """The shape of one example as an ONNX model states it; None where it leaves an axis open.

    Raises:
        FileProblem: the file cannot be read.
    """
    axes = _axes_in_onnx(path, _INPUTS)
    known = tuple(size for size in axes[1:] if size is not None)
    return known if known and len(known) == len(axes) - 1 else None


def width_in_onnx(path: Path) -> int | None:
    """The number of scores for each example as an ONNX model states it; None where it does not.

    Raises:
        FileProblem: the file cannot be read.
    """
    axes = _axes_in_onnx(path, _OUTPUTS)
    return axes[1] if len(axes) == 2 else None


def _axes_in_onnx(path: Path, field: int) -> list[int | None]:
    """The sizes of the axes of a model's first input or output; None for one that is open. Empty where unknown."""
    try:
        content = memoryview(path.read_bytes())
        graph = next(value for number, value in _wire_fields(content) if number == _GRAPH)
        assert isinstance(graph, memoryview)  # noqa: S101 (ONNX has a message there)
        # Weights may be listed among the inputs too, by the names of initializers.
        weights = {
            dict(_wire_fields(value)).get(8)
            for number, value in _wire_fields(graph)
            if number == _INITIALIZERS and isinstance(value, memoryview)
        }
        entries = [value for number, value in _wire_fields(graph) if number == field and isinstance(value, memoryview)]
        entry = next(value for value in entries if dict(_wire_fields(value)).get(1) not in weights)
        for step in _SHAPE_PATH:
            inner = dict(_wire_fields(entry))[step]
            assert isinstance(inner, memoryview)  # noqa: S101
            entry = inner
        axes = [
            dict(_wire_fields(axis))
            for number, axis in _wire_fields(entry)
            if number == 1 and isinstance(axis, memoryview)
        ]
    except OSError as error:
        raise FileProblem(f"cannot read {preview(str(path), 300)}: {error.strerror or error}") from None
    except (ValueError, IndexError, KeyError, TypeError, StopIteration, AssertionError):
        return []
    sizes = [axis.get(1) for axis in axes]
    return [size if isinstance(size, int) and size > 0 else None for size in sizes]


def _external_files(data: memoryview, message: str = "model") -> Iterator[str]:
    """The files that an ONNX message refers to; a walk of the wire format, for want of a lighter reader."""
    for number, value in _wire_fields(data):
        inner = _ONNX.get(message, {}).get(number)
        if inner == "entry" and isinstance(value, memoryview):
            entry = dict(_wire_fields(value))
            key, location = entry.get(1), entry.get(2)
            if isinstance(key, memoryview) and isinstance(location, memoryview) and bytes(key[:9]) == b"location":
                yield bytes(location).decode()
        elif inner is not None and isinstance(value, memoryview):
            yield from _external_files(value, inner)


def _wire_fields(data: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """The fields of a message; none is copied, however deep messages are inside of messages."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        if tag >> 3 == 0:
            raise ValueError("no field has number 0")
        match tag & 7:
            case 0:
                value, position = _varint(data, position)
                yield tag >> 3, value
            case 1 | 5 as fixed:
                position += 8 if fixed == 1 else 4
            case 2:
                length, position = _varint(data, position)
                if position + length > len(data):
                    raise ValueError("the field is cut off")
                yield tag >> 3, data[position : position + length]
                position += length
            case other:
                raise ValueError(f"wire type {other}")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("the number is too long")
