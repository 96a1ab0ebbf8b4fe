"""The commands, behind an entry that loads nothing before it can be interrupted."""

import os
import signal
import sys


def main() -> None:
    """Run the program and exit."""
    # An exception may be raised where Python ignores it while modules are loaded: the program would go on.
    default_handler = signal.signal(signal.SIGINT, _stop)
    from fedcert.cli.main import run

    signal.signal(signal.SIGINT, default_handler)
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before it could say anything
        _stop()
    sys.exit(code)


def _stop(*_: object) -> None:
    """Nothing was begun, so there is nothing to end."""
    os.write(2, b"fedcert: stopped before anything was done\n")
    os._exit(130)
