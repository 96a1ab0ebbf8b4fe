"""How much a file may unpack to: a small one can claim any size, while large data is large for a reason.

Two sizes are looked at before memory is taken. What is read in pieces, or is small, is read at any ratio. What is
larger must be no more than 100 times as large as its file, and what is held whole must fit into the machine's memory.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fedcert.errors import FedcertError

LARGEST_RATIO = 100
"""Times a file's own size. Measured and natural data shrinks to a half, images of few colours to a thirtieth, and
zeros to a thousandth (zip) or far less (Parquet); what does shrink more can be saved without compression."""
STREAMED = 2**30
"""Bytes that are read in pieces, whatever the ratio: a second's work, and no memory."""
HELD = 2**27
"""Bytes that are held whole, whatever the ratio: 128 MiB, which a few copies keep below a gigabyte."""
_SHARE = 0.5
"""Of the free memory that a file's content may take: checks and sums make copies of it."""
_UNKNOWN = 2**33
"""Bytes that are taken to be free where the system does not say: 8 GiB."""
_UNITS = (("kB", 10**3), ("MB", 10**6), ("GB", 10**9))
"""In which sizes are written."""
_CGROUP = Path("/sys/fs/cgroup")


def check_ratio(what: str, unpacked: int, packed: int, problem: type[FedcertError], remedy: str, free: int) -> None:
    """Check that something large is not out of proportion to its file.

    Args:
        what: what is unpacked, of which file, as the subject of a sentence.
        unpacked: bytes, as the file's own directory or header has them.
        packed: bytes of the file.
        problem: the error.
        remedy: what to do about it.
        free: bytes that may be unpacked at any ratio: `STREAMED` of what is read in pieces.

    Raises:
        FedcertError: it is.
    """
    if unpacked > free and unpacked > LARGEST_RATIO * packed:
        raise problem(
            f"{what} unpacks to {bytes_in_words(unpacked)} from {bytes_in_words(packed)}; above {bytes_in_words(free)} "
            f"that may be {LARGEST_RATIO} times the file's size at most; {remedy}"
        )


def check_held(what: str, unpacked: int, packed: int, problem: type[FedcertError], remedy: str) -> None:
    """Check the same of something that is held whole, and that it fits into the memory that is free.

    Raises:
        FedcertError: it is out of proportion, or does not fit.
    """
    check_ratio(what, unpacked, packed, problem, remedy, HELD)
    if unpacked > (most := most_held()):
        raise problem(
            f"{what} takes {bytes_in_words(unpacked)} of memory, and may take {bytes_in_words(most)} here, half of "
            "what is free; give it in parts, or use a machine with more memory"
        )


def most_held() -> int:
    """Bytes that may be held of a file's content: half of the free memory, and `HELD` at least."""
    free = min(_stated(), default=_UNKNOWN)
    return max(HELD, int(_SHARE * free))


def bytes_in_words(size: int) -> str:
    """A size for messages.

    Examples:
        >>> bytes_in_words(0), bytes_in_words(140_000), bytes_in_words(5_300_000_000)
        ('0 bytes', '140 kB', '5.3 GB')
    """
    if size < 1000:
        return f"{size} bytes"
    unit, factor = next(((unit, factor) for unit, factor in _UNITS if size < 999.5 * factor), _UNITS[-1])
    value = size / factor
    return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"


def _stated() -> list[int]:
    """What the system, a container and the process itself leave, as far as they say."""
    sizes: list[int] = []
    with suppress(OSError, ValueError, IndexError):
        lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        sizes += [int(words[1]) * 1024 for words in lines if words[:1] == ["MemAvailable:"]]
    with suppress(OSError, ValueError):
        limit, used = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        # Files that were read count as used, although they make room for others. "max" is no number: no limit.
        kept = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        sizes.append(max(0, limit - used + int(kept.get("inactive_file", 0)) + int(kept.get("active_file", 0))))
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit_of_process = resource.getrlimit(resource.RLIMIT_AS)[0]
        sizes += [limit_of_process] if limit_of_process != resource.RLIM_INFINITY else []
    if not sizes:
        with suppress(AttributeError, OSError, ValueError):
            sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    return sizes
