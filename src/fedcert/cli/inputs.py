"""Option values that are more than a word: radii, lists of names in files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from fedcert._files.documents import parse
from fedcert._files.paths import check_readable
from fedcert._schema.field_types import FieldType, ListOf
from fedcert.errors import CallError, FileProblem, InvalidValue, preview
from fedcert.report.fields import MOST_RADII, RADII
from fedcert.report.input_range import INPUT_COLUMNS, INPUT_RANGE, INPUT_SHAPE

_LARGEST = 16 * 2**20
"""Bytes of a file of names that are read: 100,000 classes of 160 characters each."""
_READ = {".json", ".npz", ".onnx", ".safetensors", ".txt"}

Value = TypeVar("Value")


def radii_of(text: str | None) -> tuple[float, ...] | None:
    """Radii from "0,0.25,0.5" or from "first:last:step", checked; None where nothing is given.

    Raises:
        CallError: it is neither, or they do not increase.
    """
    if text is None:
        return None
    try:
        if ":" in text:
            first, last, step = (float(part) for part in text.split(":"))
            if not (0 <= first <= last and step > 0 and (last - first) / step < MOST_RADII):
                raise ValueError
            count = int((last - first) / step + 1e-9) + 1
            radii = [round(first + index * step, 9) for index in range(count)]
        else:
            radii = [float(part) for part in text.split(",")]
    except ValueError:
        raise CallError(
            f"--radii must be numbers such as 0,0.25,0.5 or first:last:step such as 0:1:0.05, but is {preview(text)}"
        ) from None
    return tuple(option("--radii", RADII, radii))


def range_of(text: str | None) -> tuple[float, float] | None:
    """The range of inputs from "0,1"; None where nothing is given.

    Raises:
        CallError: it is no such range.
    """
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise CallError(
            f"--input-range must be two numbers, the least and the largest input, such as 0,1, but is {preview(text)}"
        ) from None
    if low > high:
        raise CallError(f"--input-range must be the least input and then the largest, but is {preview(text)}")
    bounds: tuple[float, float] = option("--input-range", INPUT_RANGE, (low, high))
    return bounds


def shape_of(text: str | None) -> tuple[int, ...] | None:
    """The shape of one example from "3,16,16"; None where nothing is given.

    Raises:
        CallError: it is no such shape.
    """
    if text is None:
        return None
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise CallError(
            f"--input-shape must be whole numbers, the axes of one example, such as 3,16,16, but is {preview(text)}"
        ) from None
    return tuple(option("--input-shape", INPUT_SHAPE, sizes))


def input_columns_of(text: str | None) -> tuple[str, ...] | None:
    """Column names from "age,pressure"; None where nothing is given.

    Raises:
        CallError: a name is empty, or stands twice.
    """
    if text is None:
        return None
    return tuple(option("--input-columns", INPUT_COLUMNS, [name.strip() for name in text.split(",")]))


def seconds_of(text: str | None) -> float | None:
    """Seconds from "90s", "45m", "3h" or a bare number of seconds; None where nothing is given.

    Raises:
        CallError: it is none of these.
    """
    if text is None:
        return None
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        seconds = float(number) * unit
        if not 0 < seconds < float("inf"):
            raise ValueError
    except ValueError:
        raise CallError(f"--time-budget must be a time such as 90s, 45m or 3h, but is {preview(text)}") from None
    return seconds


def files_among(*arguments: str | Path | None) -> list[Path]:
    """Those of some arguments that may name files to read; a target such as a=1,b=2 or a Python name does not."""
    given = [str(argument) for argument in arguments if argument is not None]
    return [Path(argument) for argument in given if Path(argument).suffix.lower() in _READ]


def option(name: str, kind: FieldType, value: Any) -> Any:
    """An option's value, checked.

    Raises:
        CallError: it breaks the rule of its kind.
    """
    try:
        return kind.validate(value, name)
    except InvalidValue as error:
        raise CallError(str(error)) from None


def from_options(kind: Callable[..., Value], **options: Any) -> Value:
    """A value whose fields are options of the same names.

    Raises:
        CallError: one of them breaks a rule.
    """
    try:
        return kind(**options)
    except InvalidValue as error:
        raise wrong_option(error) from None


def as_command(function: Callable[..., Value], *arguments: Any, **options: Any) -> Value:
    """Call an API function whose keyword arguments are options of the same names.

    Raises:
        CallError: one of these options breaks a rule; of what is in files, the function's own errors speak.
    """
    try:
        return function(*arguments, **options)
    except InvalidValue as error:
        if error.place is None and re.split(r"[.\[]", error.field)[-1 if "." in error.field else 0] in options:
            raise wrong_option(error) from None
        raise


def wrong_option(error: InvalidValue) -> CallError:
    """The error about a field, worded as one about the option that set it."""
    sentence = str(error).removeprefix(error.field).strip().replace(", or null, but", ", but")
    return CallError(f"--{error.field.replace('_', '-')} {sentence}")


def names_in(path: Path, kind: ListOf, option: str) -> tuple[str, ...]:
    """Names from a text file with one per line, or from a JSON list.

    Raises:
        CallError: there is no such file.
        FileProblem: it cannot be read.
        InvalidValue: a name is empty, too long, deceptive, or stands twice.
    """
    check_readable(path, (".txt", ".json"))
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise FileProblem(f"{path} is larger than {_LARGEST // 2**20} MiB; not read")
        text = data.decode("utf-8-sig")  # Windows editors put a mark before the first name
    except OSError as error:
        raise FileProblem(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FileProblem(f"{path} is not UTF-8 text; save it as UTF-8") from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    names = parse(text, str(path)) if path.suffix == ".json" else lines
    try:
        return tuple(kind.validate(names, option))
    except InvalidValue as error:
        raise error.at(str(path)) from None


def number_of(name: str, text: str) -> int | float:
    """A whole number, or one with a decimal point.

    Raises:
        CallError: it is neither.
    """
    with suppress(ValueError):
        return int(text)
    try:
        return float(text)
    except ValueError:
        raise CallError(f"{name} must be a number, but is {preview(text)}") from None


def quorum_of(text: str | None) -> int | float | None:
    """A quorum from a whole number of clients, or from a share such as 50% or 0.5; None where nothing is given.

    Raises:
        CallError: it is neither.

    Examples:
        >>> quorum_of("3"), quorum_of("50%"), quorum_of("100%"), quorum_of("0.5")
        (3, 0.5, 1.0, 0.5)
    """
    if text is None:
        return None
    number = number_of("--quorum", text.removesuffix("%"))
    return number / 100 if text.endswith("%") else number


def words_of(argument: str | None) -> str | None:
    """An optional argument as text (`text_of`); None where it is not given or blank."""
    return None if argument is None else text_of(argument).strip() or None


def text_of(argument: str) -> str:
    """An argument as text, whatever the locale took its bytes for; what is no UTF-8 becomes a question mark.

    Examples:
        >>> text_of("ward"), text_of("\\udcff")
        ('ward', '\ufffd')
    """
    return os.fsencode(argument).decode("utf-8", "replace")
