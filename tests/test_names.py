"""Names, held by tests: one name for one thing, and none of the words that are retired."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import fedcert

SOURCE = Path(fedcert.__file__).parent
RETIRED = SOURCE.parents[1] / "CONTRIBUTING.md"
ROOMS = sorted(path.name for path in SOURCE.iterdir() if path.name != "__pycache__" and not path.name.startswith("."))
DECLARED = {"required", "defaulting", "optional"}
COMMANDS_OF_FUNCTIONS = {"certify", "collect", "estimate", "page", "plan", "request", "what_if"}
"""Commands that are called like the API function that does their work."""


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(SOURCE.rglob("*.py")):
        yield file, ast.parse(file.read_text())


def test_no_class_name_occurs_twice() -> None:
    places = defaultdict(list)
    for file, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_no_public_function_name_occurs_twice() -> None:
    """But for the same function of two engines, and a command that calls the API function of its name."""
    places = defaultdict(set)
    for file, tree in sources():
        parts = file.relative_to(SOURCE).parts
        engine = parts[0] == "engines" and len(parts) == 3
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                places[node.name].add("an engine" if engine else "/".join(parts))
    for name, files in places.items():
        command = next((file for file in files if file.startswith("cli/")), None)
        if command is not None and name in COMMANDS_OF_FUNCTIONS:
            files.discard(command)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


@cache
def retired(heading: str) -> frozenset[str]:
    (table,) = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", RETIRED.read_text(), flags=re.MULTILINE)
    return frozenset(word for row in table.splitlines() for word in re.findall(r"\w+", row.split("|")[1]))


def split(text: str) -> set[str]:
    """The words of an identifier or a text, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text)}


def defined(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that a module defines. Fields of records are keys of JSON, which keep their names."""
    fields = {
        id(node.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "id", None) in DECLARED
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields:
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def prose(tree: ast.Module, text: str) -> Iterator[tuple[int, str]]:
    """Docstrings, of attributes too, and comments; what stands in backquotes or in an example is code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            plain = re.sub(r"`[^`]*`|\"[^\"\n]*\"|^\s*(>>>|\.\.\.).*$", " ", node.value.value, flags=re.MULTILINE)
            yield node.lineno, plain
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], re.sub(r"`[^`]*`|'[^'\n]*'", " ", token.string)


@pytest.mark.parametrize("room", ROOMS)
def test_retired_words_do_not_occur(room: str) -> None:
    everywhere = retired("retired everywhere")
    as_names = everywhere | retired("retired as identifiers")
    place = SOURCE / room
    hits = []
    for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
        text = file.read_text()
        tree = ast.parse(text)
        for line, name in defined(tree):
            hits += [f"{file.relative_to(SOURCE)}:{line}: {name}" for word in split(name) & as_names if word]
        for line, words in prose(tree, text):
            hits += [f"{file.relative_to(SOURCE)}:{line}: “{word}” in text" for word in split(words) & everywhere]
    assert hits == []


def test_retired_words_do_not_occur_in_the_pages_script() -> None:
    everywhere = retired("retired everywhere")
    as_names = everywhere | retired("retired as identifiers")
    hits = []
    for file in sorted(SOURCE.rglob("*.js")):
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            code, _, comment = line.partition("//")
            names = re.findall(
                r"\b(?:const|let|var|function|class)\s+(\w+)|(?:[(,{]\s*)(\w+)\s*(?=[,)}=])|(\w+)\s*=>", code
            )
            words = {word for group in names for name in group for word in split(name)}
            hits += [f"{file.name}:{number}: {word}" for word in words & as_names]
            hits += [f"{file.name}:{number}: “{word}” in a comment" for word in split(comment) & everywhere]
    assert hits == []


def documented(body: list[ast.stmt], index: int, lines: list[str]) -> bool:
    """Whether an assignment, or the block of assignments that it is in, says where it comes from."""
    node = body[index]
    if "#" in lines[(node.end_lineno or node.lineno) - 1] or lines[node.lineno - 2].lstrip().startswith("#"):
        return True
    after = index + 1
    while after < len(body) and isinstance(body[after], ast.Assign):
        after += 1
        if lines[body[after - 1].lineno - 2].strip() == "":  # another block
            return False
    return after < len(body) and isinstance(body[after], ast.Expr)


def test_numeric_constants_say_where_they_come_from() -> None:
    silent = []
    for file, tree in sources():
        lines = file.read_text().splitlines()
        for index, node in enumerate(tree.body):
            if not isinstance(node, ast.Assign) or isinstance(node.value, (ast.Call, ast.Dict, ast.ListComp)):
                continue
            numbers = (part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant))
            if any(type(number) in (int, float) for number in numbers) and not documented(tree.body, index, lines):
                silent.append(f"{file.relative_to(SOURCE)}:{node.lineno}: {lines[node.lineno - 1]}")
    assert silent == []
