"""Which releases of Flower are known to work: its interfaces change between them."""

from __future__ import annotations

from importlib import metadata

from fedcert.errors import CallError, require

SUPPORTED = (1, 41)
"""Major and minor number of the releases that are tested."""


def check_version() -> None:
    """Check that a Flower is installed that is known to work.

    Raises:
        MissingExtra: there is none.
        CallError: it is another one.
    """
    require("flwr", "Flower", "flower")
    found = metadata.version("flwr")
    if tuple(int(part) for part in found.split(".")[:2] if part.isdigit()) != SUPPORTED:
        wanted = ".".join(map(str, SUPPORTED))
        raise CallError(
            f"this fedcert works with Flower {wanted}, but {found} is installed; "
            f"install it with: pip install 'flwr~={wanted}.0'"
        )
