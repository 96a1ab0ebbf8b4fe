"""The form of what a client keeps of an aggregation. A file that was changed by others ends in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedcert._schema.encoding import Encoded, decoded
from fedcert._schema.field_types import FieldType, MappingOf, Pattern, Text
from fedcert.errors import FileProblem, InvalidValue
from fedcert.privacy.state_store import State
from fedcert.secagg.messages import COMMON_BYTES, Join
from fedcert.secagg.shamir import SHARE_BYTES

KEY_BYTES = 32
"""Of an X25519 key, of a seed, and of each of the three secrets that a pair shares."""
_KEY = Encoded(KEY_BYTES)
_DIGESTS = MappingOf(Pattern("a SHA-256 digest", "[0-9a-f]{64}"), "steps to digests")
_PARTS = MappingOf(Encoded(2 * SHARE_BYTES), "names to shares")
_AGREEMENTS = MappingOf(_KEY, "cards to secrets")


def check_kept(state: State, client: str, steps: Sequence[str], *, checked: bool) -> None:
    """Check what a client keeps of an aggregation.

    Args:
        state: what it keeps; empty before it joined.
        client: its name.
        steps: of the aggregation after joining, in their order.
        checked: whether what checks its total is kept when it is done.

    Raises:
        FileProblem: it is not of the form that `SecAggClient` writes.
    """
    if not state:
        return
    try:
        Join.from_json(state.get("join"))
        done = _DIGESTS.validate(state.get("done", {}), "done")
        if set(done) != set(steps[: len(done)]) or (done and state.get("last") != steps[len(done) - 1]):
            raise InvalidValue("done", "the steps up to the last one", done)
        if done and not isinstance(state.get("answer"), str):
            raise InvalidValue("answer", "a message", state.get("answer"))
        over = _check_names(state.get("over", []), "over")
        if len(done) < len(steps):
            _check(state, "secret", _KEY)
            _check(state, "seed", _KEY)
        if len(done) < len(steps) and done:
            _check_secrets(state, client, over)
        elif done and checked:
            _check(state, "common", Encoded(COMMON_BYTES))
    except InvalidValue as error:  # a secret may be in its sentence
        raise FileProblem(
            f"the memory of this sum is not as fedcert wrote it ({error.field}); ask for a new sum"
        ) from None


def _check(state: State, name: str, kind: FieldType) -> Any:
    return kind.validate(state.get(name), name)


def _check_secrets(state: State, client: str, over: Sequence[str]) -> None:
    """Check secrets that are shared with the others."""
    pairs = state.get("pairs")
    if not isinstance(pairs, dict):
        raise InvalidValue("pairs", "an object", pairs)
    others = _check_names(pairs.get("with"), "pairs.with")
    keys = _check(pairs, "keys", Encoded())
    if len(decoded(keys)) != 3 * KEY_BYTES * len(others) or client in others:
        raise InvalidValue("pairs.keys", "three for each other client", None)
    parts = _check(state, "parts", _PARTS)
    if client not in parts or not set(parts) <= {client, *others}:
        raise InvalidValue("parts", "of this client and others", None)
    _check(state, "common", Encoded(COMMON_BYTES))
    if not set(over) <= set(parts):
        raise InvalidValue("over", "among those with parts", None)


def _check_names(names: Any, field: str) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InvalidValue(field, "a list of names", names)
    return [Text().validate(name, field) for name in names]


def kept_agreements(kept: State | None, card: str) -> dict[str, str]:
    """The secrets that a client has with other cards; none where they are of another card of its own.

    Raises:
        FileProblem: they are not of the form that `SecAggClient` writes.
    """
    if kept is None or kept.get("card") != card:
        return {}
    try:
        return dict(_AGREEMENTS.validate(kept.get("with"), "with"))
    except InvalidValue:
        raise FileProblem(
            "the memory's agreements.json is not as fedcert wrote it; remove it: it can be made again"
        ) from None
