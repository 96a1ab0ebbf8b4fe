"""The tree of errors that is drawn at the top of `errors.py` is the tree of the classes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import fedcert
from fedcert import errors

SOURCE = Path(fedcert.__file__).parent


def drawn() -> dict[str, str]:
    """Each class of the drawing and the one above it."""
    above: dict[str, str] = {}
    path: list[str] = []
    for indent, name in re.findall(
        r"^    ((?:[│ ]   )*(?:[├└]── )?)(\w+)(?=\s{2}|$)", errors.__doc__ or "", re.MULTILINE
    ):
        depth = len(indent) // 4
        path[depth:] = [name]
        above[name] = path[depth - 1] if depth else ""
    return above


def defined() -> dict[str, str]:
    """Each public error of the source and the error or warning that it is a kind of."""
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for file in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    above = {"FedcertError": "", "FedcertWarning": ""}
    while True:
        new = {
            name: next(base for base in of if base in above)
            for name, of in bases.items()
            if name not in above and not name.startswith("_") and any(base in above for base in of)
        }
        if not new:
            return above
        above |= new


def test_the_drawn_tree_is_complete() -> None:
    assert drawn() == defined()
    assert len(drawn()) > 10


def test_only_wrong_calls_end_in_exit_code_two() -> None:
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, errors.FedcertError):
            assert value.exit_code == (2 if issubclass(value, errors.CallError) else 1), name
