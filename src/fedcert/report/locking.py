"""Files that one process at a time may write to."""

from __future__ import annotations

import sys
from typing import IO, Any


def take_lock(file: IO[Any]) -> bool:
    """Keep other processes from taking the same lock; it goes with the process, however that ends.

    Returns:
        Whether it was free.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
