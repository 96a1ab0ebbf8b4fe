"""JSON text from untrusted files, parsed strictly."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from fedcert.errors import FileProblem, preview

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # where a surrogate is written, a lone one may be


def parse(text: str | bytes, place: str) -> Any:
    """Parse one JSON document strictly: no NaN, no infinity, no key twice.

    Raises:
        FileProblem: it is not such a document.
    """
    try:
        document = json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_key_twice)
        if _HALF.search(text if isinstance(text, bytes) else text.encode()):
            json.dumps(document, ensure_ascii=False).encode()
        return document
    except RecursionError:
        reason = "it is nested too deeply"
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except UnicodeEncodeError:
        reason = "it holds half of a character (a lone surrogate)"
    except json.JSONDecodeError as error:
        words = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        reason = f"{words} at line {error.lineno}, column {error.colno}"
    except ValueError as error:
        reason = str(error)
    remedy = (
        "each line must hold one whole document" if ", line " in place else "it may be cut off or edited: get it again"
    )
    raise FileProblem(f"{place} is not valid JSON: {reason}; {remedy}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON has")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:40]} is too large a number")
    return number


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {preview(key)} stands twice in one object")
            seen.add(key)
    return document
