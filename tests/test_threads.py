"""BLAS threads are limited while an estimate is made, and the caller's setting is restored."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np  # noqa: F401 (its BLAS is what is limited)
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info

from fedcert._threads import single_blas_thread, with_single_blas_thread


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = blas_threads()
    controller = ThreadpoolController()
    with controller.limit(limits=2, user_api="blas"):
        pass  # leaves no controlling thread behind
    for library in controller.lib_controllers:
        if library.user_api == "blas":
            library.set_num_threads(2)
            getattr(library, "clear_controlling_thread", lambda: None)()
    yield
    for library in controller.lib_controllers:
        if library.user_api == "blas":
            library.set_num_threads(max(before))
            getattr(library, "clear_controlling_thread", lambda: None)()


def test_one_thread_inside_and_the_callers_setting_afterwards() -> None:
    with single_blas_thread():
        assert blas_threads() == {1}
        with single_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_an_error_restores_the_setting_too() -> None:
    @with_single_blas_thread
    def fails() -> None:
        assert blas_threads() == {1}
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        fails()
    assert blas_threads() == {2}


def test_calls_that_overlap_in_threads_leave_the_callers_setting() -> None:
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with single_blas_thread():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    with single_blas_thread():
        assert blas_threads() == {1}
        leave.set()
        thread.join()
    assert blas_threads() == {2}
