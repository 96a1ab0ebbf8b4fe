"""Which releases of an engine are known to work."""

from __future__ import annotations

from importlib import metadata

from fedcert.errors import CallError, MissingExtra


def check_version(package: str, name: str, extra: str, *supported: tuple[int, int]) -> None:
    """Check that an engine is installed, in a release that is known to work.

    Args:
        package: its package.
        name: what people call it.
        extra: the extra of fedcert that brings it.
        supported: major and minor number of each release that works, the oldest first, without gaps.

    Raises:
        MissingExtra: it is not installed.
        CallError: it is another release.
    """
    try:
        installed = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise MissingExtra(f"Certification on {name}", package, extra) from None
    if tuple(int(part) for part in installed.split(".")[:2] if part.isdigit()) not in supported:
        releases = [f"{major}.{minor}" for major, minor in supported]
        major, minor = supported[-1]
        raise CallError(
            f"this fedcert works with {name} {' and '.join(releases)}, but {installed} is installed; "
            f"install it with: pip install '{package}>={releases[0]},<{major}.{minor + 1}'"
        )
