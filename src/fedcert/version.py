"""The version, in one place: the package, the wheel and every file that fedcert writes."""

__version__ = "0.1.0"
