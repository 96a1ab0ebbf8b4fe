"""The program: its commands, and how it ends.

Exit codes: 0 done, 1 the work failed (bad content included), 2 the call was wrong, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcert.cli import keys, lab, plot, private
from fedcert.cli.audit import audit
from fedcert.cli.certify import certify
from fedcert.cli.collect import collect
from fedcert.cli.console import print_error, print_status, set_quiet, show_warning
from fedcert.cli.demo import demo
from fedcert.cli.estimate import estimate
from fedcert.cli.help_groups import Grouped
from fedcert.cli.import_log import import_log
from fedcert.cli.merge import merge
from fedcert.cli.page import page
from fedcert.cli.plan import plan
from fedcert.cli.predict import predict
from fedcert.cli.request import request
from fedcert.cli.validate import schema, validate
from fedcert.cli.what_if import what_if
from fedcert.errors import FedcertError, preview
from fedcert.version import __version__

INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""
_MEMORY_IS_FULL = "the memory is full; close other programs, or give less at a time (smaller batches, fewer subsets)"

app = typer.Typer(
    name="fedcert",
    cls=Grouped,
    help="How robust is a federated model on the population that it will be deployed to?",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_SITES, _COORDINATORS = (certify, predict, audit, import_log), (request, collect, plan, estimate, what_if, merge, page)
for command in (demo, *_SITES, *_COORDINATORS, validate, schema):
    app.command()(command)  # by the function's name
for name, group in (("plot", plot), ("keys", keys), ("private", private), ("lab", lab)):
    app.add_typer(group.app, name=name)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedcert {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Results, warnings and errors only; may stand anywhere.")
    ] = False,  # what it does is done in `run`
) -> None:
    """How robust is a federated model on the population that it will be deployed to?"""


def run(arguments: Sequence[str]) -> int:
    """Run the program and give its exit code. A user's mistake ends in one sentence, never in a traceback."""
    _prepare_streams()
    given, after = _parted(arguments)
    set_quiet("--quiet" in given)
    arguments = [*(word for word in given if word != "--quiet"), *after]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = show_warning
            code = app(args=list(arguments) or ["--help"], prog_name="fedcert", standalone_mode=False) or 0
            sys.stdout.flush()
        if code == INTERRUPTED:  # typer turns Ctrl-C into an exit code; older ones let it through
            raise KeyboardInterrupt
        return int(code)
    except FedcertError as error:
        print_error(str(error))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        print_status("interrupted; no partial result was written")
        return INTERRUPTED
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader of a pipe has had enough: no error of ours
            place = "standard output" if error.filename is None else str(error.filename)
            print_error(f"cannot use {place}: {error.strerror or error}")
        _forget_output()
        return 1
    except Exception as error:
        if isinstance(error, MemoryError) or "DefaultCPUAllocator: " in str(error):  # torch says it so
            print_error(_MEMORY_IS_FULL)
            return 1
        # typer's own errors (an unknown option, a missing argument) have no public common base.
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: what it has to offer
            sys.stdout.write(f"{error.format_message()}\n")
            return 2
        message = _worded(" ".join(error.format_message().split()).rstrip("."), given)
        print_error(f"{message[:1].lower()}{message[1:]}; see: {_help_for(given)}")
        return 2


def _worded(message: str, arguments: Sequence[str]) -> str:
    """A message of the parser of options; one about a number says what came, which the parser's own does not."""
    named = re.match(r"Invalid value for '(--[\w-]+)'.* valid (number|float|integer)", message)
    given = None if named is None else _given(named[1], arguments)
    if named is None or given is None:
        return message
    kind = "a whole number" if named[2] == "integer" else "a number"
    comma = re.fullmatch(r"(\d*),(\d+)", given)
    remedy = "" if comma is None else f"; use a decimal point: {comma[1] or 0}.{comma[2]}"
    return f"{named[1]} must be {kind}, but is {preview(given)}{remedy}"


def _given(option: str, arguments: Sequence[str]) -> str | None:
    """The value that was given for an option, its last one; None where it cannot be found."""
    value = None
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        if word == option:
            value = following
        elif word.startswith(f"{option}="):
            value = word.removeprefix(f"{option}=")
    return value


def _help_for(arguments: Sequence[str]) -> str:
    """The command whose help says what the arguments may be."""
    words = [word for word in arguments if not word.startswith("-")]
    commands: Any = typer.main.get_command(app)
    named = ["fedcert"]
    for word in words:
        commands = getattr(commands, "commands", {}).get(word)
        if commands is None:
            break
        named.append(word)
    return f"{' '.join(named)} --help"


def _parted(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Arguments before and after "--", which makes all that follows plain words."""
    listed = list(arguments)
    place = listed.index("--") if "--" in listed else len(listed)
    return listed[:place], listed[place:]


def _prepare_streams() -> None:
    """Make sure that there are streams, and that a name in another script cannot break them."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  it stays open
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """What is still buffered must not fail a second time, when Python flushes at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
