"""BLAS threads are limited while an estimate is made, and the caller's setting is restored."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from threadpoolctl import ThreadpoolController, threadpool_info

import fedcert.estimation.estimate as estimation
from factories import drawn_reports
from fedcert import estimate, what_if
from fedcert._threads import single_blas_thread


def blas_threads() -> dict[str, int]:
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def limited() -> bool:
    return set(blas_threads().values()) == {1}


@pytest.fixture(autouse=True)
def before() -> Iterator[dict[str, int]]:
    """Libraries set to two threads, as far as each allows it, and back afterwards."""
    earlier = blas_threads()
    libraries = [one for one in ThreadpoolController().lib_controllers if one.user_api == "blas"]

    def set_threads(threads: dict[str, int] | int) -> None:
        for library in libraries:
            library.set_num_threads(threads if isinstance(threads, int) else threads[library.filepath])
            getattr(library, "clear_controlling_thread", lambda: None)()

    set_threads(2)
    assert not limited()
    yield blas_threads()
    set_threads(earlier)


def test_one_thread_inside_and_the_callers_setting_afterwards(before: dict[str, int]) -> None:
    with single_blas_thread():
        assert limited()
        with single_blas_thread():
            assert limited()
        assert limited()
    assert blas_threads() == before


def test_an_error_restores_the_setting_too(before: dict[str, int]) -> None:
    @single_blas_thread()
    def fails() -> None:
        assert limited()
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        fails()
    assert blas_threads() == before


def test_calls_that_overlap_in_threads_leave_the_callers_setting(before: dict[str, int]) -> None:
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with single_blas_thread():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    with single_blas_thread():
        assert limited()
        leave.set()
        thread.join()
    assert blas_threads() == before


def test_an_estimate_from_python_is_limited(before: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    seen, find = [], estimation.find_method

    def watched(name: str) -> object:
        seen.append(limited())
        return find(name)

    monkeypatch.setattr(estimation, "find_method", watched)
    reports = drawn_reports(4, 3, 3)
    estimate(reports)
    what_if(reports, ["uniform"])
    assert seen
    assert all(seen)
    assert blas_threads() == before
