"""Where a record comes from: the software that wrote it, and when."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fedcert.version import __version__

SOFTWARE = f"fedcert {__version__}"


def timestamp(moment: datetime | None = None) -> str:
    """A time in UTC, to the second, as records hold it; now where none is given.

    Examples:
        >>> timestamp(datetime(2026, 11, 15, 6, 12, tzinfo=UTC))
        '2026-11-15T06:12:00Z'
    """
    return (moment or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def provenance() -> dict[str, Any]:
    """The fields `software` and `created` of a record that is written now."""
    return {"software": SOFTWARE, "created": timestamp()}
