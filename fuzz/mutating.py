"""Changes to JSON that stay JSON: bytes changed at random hardly ever get past the parser."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from boundaries import at_boundaries

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53, 2**53 + 1, 2**64, 10**400, 0.5, -0.0, 1e308, 5e-324, "", " ", "a",
    "A" * 201, "\u202e", "\x1b[2J", "\ud800", "sha256:" + "0" * 64, "AAAA", "A" * 43 + "=", "2026-11-15T06:12:00Z",
    [], {}, [[]], [{}], {"": None},
)  # fmt: skip


def mutated(data: bytes, seed: int) -> bytes | None:
    """The document with some places changed, half the time to boundary values; None where it is no JSON."""
    generator = random.Random(seed)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if generator.random() < 0.5:
        document = at_boundaries(document, generator)
    else:
        for _ in range(generator.randint(1, 3)):
            document = _changed(document, generator)
    try:
        return json.dumps(document).encode()
    except (ValueError, RecursionError):
        return None


def _changed(document: Any, generator: random.Random) -> Any:
    holders = list(_holders(document))
    if not holders:
        return copy.deepcopy(generator.choice(ODD))
    holder = generator.choice(holders)
    places = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    if not places:
        return document
    place, way = generator.choice(places), generator.randrange(6)
    if way == 0:
        del holder[place]
    elif way == 1:
        holder[place] = copy.deepcopy(generator.choice(ODD))
    elif way == 2 and isinstance(holder, dict):
        holder[generator.choice(["", "x-a", "schema", str(place)[:-1], str(place) + "s"])] = holder[place]
    elif way == 3 and isinstance(holder, list):
        holder.insert(generator.randrange(len(holder) + 1), copy.deepcopy(holder[place]))
    elif way == 4 and isinstance(holder[place], (int, float)) and abs(holder[place]) < 2**70:
        holder[place] = holder[place] + generator.choice((-1, 1, 0.5, 1e-12, 10**6))
    else:
        holder[place] = copy.deepcopy(_any(document, generator))
    return document


def _holders(value: Any, depth: int = 0) -> Any:
    """Objects and lists, outer and inner."""
    if isinstance(value, (dict, list)) and depth < 20:
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _holders(item, depth + 1)


def _any(document: Any, generator: random.Random) -> Any:
    holder = generator.choice(list(_holders(document)))
    items = list(holder.values()) if isinstance(holder, dict) else holder
    return generator.choice(items) if items else None
