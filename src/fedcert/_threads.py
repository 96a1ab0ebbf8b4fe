"""BLAS threads: small matrices are not spread over cores.

An estimate works on matrices of classes x classes. Waking a second BLAS thread for one of them costs more than the
product itself: on two cores the tables of the paper took over 200 s with the default of two threads and 38 s with one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_limited = threading.Lock()
"""Held by the thread that limits the pools. The setting is the process's: the thread that changed it restores it."""


@cache
def _controller() -> ThreadpoolController:
    # Finding the loaded libraries takes milliseconds, so it is done once: numpy and scipy are loaded by then.
    import numpy  # noqa: F401
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while inside, and restore the caller's own setting afterwards; also a decorator.

    Inside another use, in the same thread or in a concurrent one, nothing is changed: the first use sets and restores.
    """
    if not _limited.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()
