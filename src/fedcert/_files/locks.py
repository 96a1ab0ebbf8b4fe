"""Files that one process at a time may write to."""

from __future__ import annotations

import errno
import os
import sys
from typing import IO, Any

_HELD = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}
_BEYOND = 2**40
"""A position that no file here reaches: 1 TiB."""


def take_lock(file: IO[Any]) -> bool:
    """Take an exclusive lock on a file, which the system releases when the process ends.

    Returns:
        Whether it was free.

    Raises:
        OSError: the system cannot lock this file at all.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            # Windows keeps others from reading what is locked: a byte far beyond what is ever written.
            place = os.lseek(file.fileno(), 0, os.SEEK_CUR)
            os.lseek(file.fileno(), _BEYOND, os.SEEK_SET)
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(file.fileno(), place, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True
