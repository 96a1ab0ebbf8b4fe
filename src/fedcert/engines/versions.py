"""Which releases of an engine are known to work."""

from __future__ import annotations

from importlib import metadata

from fedcert.errors import CallError, MissingExtra


def check_version(package: str, name: str, extra: str, supported: tuple[int, int]) -> None:
    """Check that an engine is installed, in a release that is known to work.

    Args:
        package: its package.
        name: what people call it.
        extra: the extra of fedcert that brings it.
        supported: major and minor number.

    Raises:
        MissingExtra: it is not installed.
        CallError: it is another release.
    """
    try:
        installed = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise MissingExtra(f"Certification on {name}", package, extra) from None
    if tuple(int(part) for part in installed.split(".")[:2] if part.isdigit()) != supported:
        wanted = ".".join(map(str, supported))
        raise CallError(
            f"this fedcert works with {name} {wanted}, but {installed} is installed; "
            f"install it with: pip install '{package}~={wanted}.0'"
        )
