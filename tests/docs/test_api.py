"""Every public name has a docstring with an example that runs, and is on the API page."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

import fedcert

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
NAMES = [name for name in fedcert.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_an_example_and_is_on_the_page(name: str) -> None:
    value = getattr(fedcert, name)
    text = inspect.getdoc(value)
    assert text
    run = [example for example in doctest.DocTestParser().get_examples(text) if not example.options.get(doctest.SKIP)]
    assert run, f"{name} has no example that runs"
    assert f"::: {value.__module__}.{value.__name__}\n" in PAGE


def test_the_page_names_nothing_else_of_fedcert_itself() -> None:
    homes = {f"{getattr(fedcert, name).__module__}.{getattr(fedcert, name).__name__}" for name in NAMES}
    named = [line.removeprefix("::: ") for line in PAGE.splitlines() if line.startswith("::: ")]
    assert len(named) == len(set(named))
    beside = ("fedcert.show.figures", "fedcert.show.tracking", "fedcert.engines")
    assert {one for one in named if not one.startswith(beside)} <= homes
