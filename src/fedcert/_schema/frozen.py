"""A mapping that cannot be changed, and that can be copied, pickled and compared like a dict."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Any


def frozen(value: Any) -> Any:
    """Plain JSON types with every object and list in them frozen."""
    if isinstance(value, Mapping):
        return FrozenMapping({key: frozen(item) for key, item in value.items()})
    return tuple(frozen(item) for item in value) if isinstance(value, (list, tuple)) else value


class FrozenMapping(Mapping[str, Any]):
    """A read-only mapping. (`types.MappingProxyType` can neither be pickled nor copied.)"""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> ItemsView[str, Any]:
        """As of a dict, and as fast."""
        return self._items.items()

    def values(self) -> ValuesView[Any]:
        """As of a dict, and as fast."""
        return self._items.values()

    def __hash__(self) -> int:
        return hash(frozenset(self._items))

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[type[FrozenMapping], tuple[dict[str, Any]]]:
        return FrozenMapping, (self._items,)
