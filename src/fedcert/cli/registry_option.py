"""Options whose values are names in a registry."""

from __future__ import annotations

from collections.abc import Callable

from typer.models import OptionInfo


class RegistryOption(OptionInfo):
    """An option whose help is worded when it is shown, so that it lists what is registered by then.

    Args:
        words: gives the help text.
    """

    def __init__(self, words: Callable[[], str]) -> None:
        self._words = words
        super().__init__(default=...)

    @property
    def help(self) -> str:
        """The help text."""
        return self._words()

    @help.setter
    def help(self, _text: str | None) -> None:
        """Typer sets what it was given, which is nothing."""
