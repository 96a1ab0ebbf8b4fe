"""Things that a user names as `package.module:name`."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedcert._schema.suggestions import closest
from fedcert.errors import CallError, FedcertError, ModelProblem


@contextmanager
def user_errors(problem: type[FedcertError], what: str) -> Iterator[None]:
    """Turn whatever a user's code raises, which may be anything, into one sentence that begins with what failed."""
    try:
        yield
    except FedcertError:
        raise
    except (Exception, SystemExit) as error:
        raise problem(f"{what}: {type(error).__name__}: {str(error)[:300]}") from error


def is_python_name(text: str) -> bool:
    """Whether a text has the form `package.module:name`."""
    return re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", text) is not None


def imported(name: str, what: str) -> Any:
    """Import `package.module:name`; modules in the current folder are found too.

    Args:
        name: the thing.
        what: the argument that named it, for messages.

    Raises:
        CallError: there is no such module, or nothing of that name in it.
        ModelProblem: the module raised an error when it was imported.
    """
    module_name, attribute = name.split(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    with user_errors(ModelProblem, f"{what} {name}: importing {module_name} failed"):
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise ModelProblem(f"{what} {name}: its import needs {error.name!r}, which is not installed") from None
            hint = (
                f"; write it as {module_name[:-3]}:{attribute}"
                if module_name.endswith(".py")
                else "; run where its file is"
            )
            raise CallError(
                f"{what} {name}: there is no module {module_name!r} here or on the Python path{hint}"
            ) from None
    if not hasattr(module, attribute):
        meant = closest(attribute, [each for each in vars(module) if not each.startswith("_")])
        hint = "" if meant is None else f"; did you mean {module_name}:{meant}?"
        raise CallError(f"{what} {name}: the module {module_name} has no {attribute!r}{hint}")
    return getattr(module, attribute)
