"""The commands."""

from fedcert.cli.main import main

__all__ = ["main"]
