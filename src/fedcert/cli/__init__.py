"""The commands, behind an entry that loads nothing before it can be interrupted."""

import sys


def main() -> None:
    """Run the program and exit."""
    try:
        from fedcert.cli.main import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while it was still loading
        sys.stderr.write("fedcert: stopped before anything was done\n")
        code = 130
    sys.exit(code)
