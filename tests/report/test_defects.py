"""Every field of every schema x every defect that can hit it: one sentence, word for word."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from factories import DOCUMENTS, KINDS, POPULATION_DOCUMENTS, REMEDIES
from fedcert import InvalidValue
from fedcert._schema.record import Record

TEXT = "a text of 1 to 200 characters without control characters"
LONG_TEXT = "a text of 1 to 2000 characters without control characters"
COUNT = "a whole number from 0 to 2^53"
MODEL = f"'sha256:' and 64 hexadecimal digits, or {TEXT}"
DIGEST = "'sha256:' and 64 hexadecimal digits"
TIME = "a time with its zone such as '2026-11-15T06:12:00Z'"
RADII = "a list of 1 to 10000 increasing radii"
CLASSES = "a list of 1 to 100000 different class names"
PER_CLASS = "a list of 1 to 100000 counts, one per class"
PER_RADIUS = "a list of 1 to 10000 counts, one per radius"
PER_RIGHT_ANSWER = "a list of 1 to 2001 counts, one per number of right answers"
VOTES = "an odd number from 1 to 9999"
ROWS = "a list of 1 to 100000 rows, one per class"
CURVE = "a list of 1 to 10000 numbers from 0 to 1, one per radius"
MISSING = object()
OTHER_KIND = {
    "report": "give a report",
    "request": "give a request",
    "sums": "give sums",
    "estimate": "give an estimate",
    "what-if": "give a what-if",
}

Row = tuple[str, str, Any, str, str]
"""Path to the field, kind of defect, what stands there instead, field as named, the rest of the sentence."""


def wrong_types(path: str, rule: str, *, null: bool = False) -> Iterator[Row]:
    """Values of types that only free-form fields take."""
    rule = f"{rule}, or null" if null else rule
    yield path, "a flag", True, path, f"{rule}, but is true"
    if not null:
        yield path, "null", None, path, f"{rule}, but is null"


def text(path: str, rule: str = TEXT, *, required: bool = True, null: bool = False) -> Iterator[Row]:
    yield from wrong_types(path, rule, null=null)
    full = f"{rule}, or null" if null else rule
    yield path, "a number", 7, path, f"{full}, but is 7"
    yield path, "a list", ["a"], path, f"{full}, but is a list of 1"
    yield path, "empty", "", path, f"{full}, but is ''"
    yield path, "blank", "   ", path, f"{full}, but is '   '"
    yield path, "too long", "a" * 2001, path, f"{full}, but is '{'a' * 55}…'"
    yield path, "a terminal's escape", "\x1b[2J", path, f"{full}, but is '\\x1b[2J'"
    yield path, "a line break", "a\nb", path, f"{full}, but is 'a\\nb'"
    yield path, "text turned around", "a\u202eb", path, f"{full}, but is 'a\\u202eb'"
    yield path, "invisible letters", "a\U000e0041\u3164", path, f"{full}, but is 'a\\U000e0041\u3164'"
    yield path, "half a character", "\ud800", path, f"{full}, but is '\\ud800'"
    if required:
        yield path, "missing", MISSING, path, f"{full}, but is missing"


def word(path: str, rule: str) -> Iterator[Row]:
    yield from wrong_types(path, rule)
    yield path, "another word", "other", path, f"{rule}, but is 'other'"
    yield path, "a number", 7, path, f"{rule}, but is 7"


def count(path: str, rule: str = COUNT, *, required: bool = False, null: bool = False, least: int = 0) -> Iterator[Row]:
    full = f"{rule}, or null" if null else rule
    yield from wrong_types(path, rule, null=null)
    yield path, "text", "7", path, f"{full}, but is '7'"
    yield path, "negative", least - 1, path, f"{full}, but is {least - 1}"
    yield path, "not whole", 7.5, path, f"{full}, but is 7.5"
    yield path, "too large", 2**53 + 1, path, f"{full}, but is 9007199254740993"
    yield path, "huge", 10**400, path, f"{full}, but is a whole number of 1329 bits"
    yield path, "NaN", math.nan, path, f"{full}, but is nan"
    yield path, "infinite", math.inf, path, f"{full}, but is inf"
    if required:
        yield path, "missing", MISSING, path, f"{full}, but is missing"


def number(path: str, rule: str, low: float, *, null: bool = False, required: bool = False) -> Iterator[Row]:
    full = f"{rule}, or null" if null else rule
    yield from wrong_types(path, rule, null=null)
    yield path, "text", "0.5", path, f"{full}, but is '0.5'"
    yield path, "too low", low, path, f"{full}, but is {low!r}"
    yield path, "NaN", math.nan, path, f"{full}, but is nan"
    yield path, "infinite", math.inf, path, f"{full}, but is inf"
    yield path, "huge", 10**400, path, f"{full}, but is a whole number of 1329 bits"
    if required:
        yield path, "missing", MISSING, path, f"{full}, but is missing"


def listed(path: str, rule: str, *, null: bool = False, required: bool = True) -> Iterator[Row]:
    full = f"{rule}, or null" if null else rule
    yield from wrong_types(path, rule, null=null)
    yield path, "text", "abc", path, f"{full}, but is 'abc'"
    yield path, "an object", {"a": 1}, path, f"{full}, but is an object with 1 entries"
    yield path, "empty", [], path, f"{full}, but is an empty list"
    if required:
        yield path, "missing", MISSING, path, f"{full}, but is missing"


def counts(path: str, rule: str, *, required: bool = True, null: bool = False) -> Iterator[Row]:
    yield from listed(path, rule, required=required, null=null)
    yield from count(f"{path}[0]")


def model() -> Iterator[Row]:
    yield from text("model", MODEL)
    yield "model", "a short digest", "sha256:abc", "model", f"{MODEL}, but is 'sha256:abc'"


def request_digest() -> Iterator[Row]:
    for wrong, came in (("sha256:abc", "'sha256:abc'"), ("", "''"), (7, "7"), (True, "true"), (["a"], "a list of 1")):
        yield "request", f"the value {came}", wrong, "request", f"{DIGEST}, or null, but is {came}"


def moment(path: str) -> Iterator[Row]:
    for wrong, came in (
        ("yesterday", "'yesterday'"),
        ("2026-11-15T06:12:00", "'2026-11-15T06:12:00'"),
        (7, "7"),
        (True, "true"),
    ):
        yield path, f"the value {came}", wrong, path, f"{TIME}, or null, but is {came}"


def signature() -> Iterator[Row]:
    for part, length in (("key", 32), ("value", 64)):
        path, full = f"signature.{part}", f"{length} bytes as base64"
        for wrong, came in (("", "''"), (7, "7"), (None, "null"), ("AAAA", "'AAAA'"), ("Ä" * 44, f"'{'Ä' * 44}'")):
            yield path, f"the value {came}", wrong, path, f"{full}, but is {came}"
        yield path, "missing", MISSING, path, f"{full}, but is missing"
    for wrong, came in ((7, "7"), ("AA==", "'AA=='"), ([], "an empty list")):
        yield "signature", came, wrong, "signature", f"an object with key, value, or null, but is {came}"


def smoothing() -> Iterator[Row]:
    yield from word("smoothing.noise", "'gaussian' or 'uniform'")
    yield from word("smoothing.norm", "'l2' or 'l1'")
    yield (
        "smoothing.norm",
        "another's",
        "l1",
        "smoothing.norm",
        "'l2', which gaussian noise certifies radii in, but is 'l1'",
    )
    sigma = "a finite number above 0 and of at most 1e+12"
    yield from number("smoothing.sigma", sigma, 0.0, required=True)
    yield "smoothing.sigma", "too high", 1e13, "smoothing.sigma", f"{sigma}, but is 10000000000000.0"
    yield from count("smoothing.n0", "a whole number from 1 to 100000000", least=1)
    yield from count("smoothing.n", "a whole number from 1 to 100000000", least=1)
    probability = "a finite number above 0 and below 1"
    yield from number("smoothing.failure_probability", probability, 0.0)
    yield (
        "smoothing.failure_probability",
        "too high",
        1.0,
        "smoothing.failure_probability",
        f"{probability}, but is 1.0",
    )
    yield from word("smoothing.procedure", "'fixed', 'sequential' or 'population'")
    yield from word("smoothing.precision", "'float32', 'tf32' or 'bfloat16'")
    lattice = "a whole number from 1 to 65535, or null"
    for wrong, came in ((0, "0"), (65_536, "65536"), (2.5, "2.5"), ("255", "'255'"), (True, "true")):
        yield "smoothing.lattice", came, wrong, "smoothing.lattice", f"{lattice}, but is {came}"
    never = "left out (null) with the fixed procedure, which never gives up, but is 0.01"
    yield "smoothing.tolerance", "with the fixed procedure", 0.01, "smoothing.tolerance", never
    chance = "a finite number of at least 0 and below 1, or null"
    for wrong, came in ((-0.1, "-0.1"), (1.0, "1.0"), ("a", "'a'"), (True, "true")):
        yield "smoothing.tolerance", came, wrong, "smoothing.tolerance", f"{chance}, but is {came}"
    yield "smoothing", "missing", MISSING, "smoothing", "an object with sigma, but is missing"
    for wrong, came in ((None, "null"), (7, "7"), ([], "an empty list"), ("a", "'a'")):
        yield "smoothing", came, wrong, "smoothing", f"an object with sigma, but is {came}"
    yield "smoothing", "empty", {}, "smoothing.sigma", f"{sigma}, but is missing"


def radii(*, required: bool = True) -> Iterator[Row]:
    yield from listed("radii", RADII, required=required)
    yield from number("radii[1]", "a finite number of at least 0", -0.25)
    yield "radii", "unordered", [0.0, 0.5, 0.25], "radii[2]", "above the one before it (0.5), but is 0.25"
    yield "radii", "twice the same", [0.0, 0.25, 0.25], "radii[2]", "above the one before it (0.25), but is 0.25"
    close = [0.0, 0.25, 0.2500000001]
    yield "radii", "closer than 1e-9", close, "radii[2]", "above the one before it (0.25), but is 0.25"


def classes() -> Iterator[Row]:
    yield from listed("classes", CLASSES)
    yield from text("classes[1]", required=False)
    yield "classes", "twice the same", ["cat", "cat"], "classes[1]", "different from those before it, but is 'cat'"


def whole(path: str, parts: str, *, null: bool = True) -> Iterator[Row]:
    """A part as a whole: not an object at all."""
    full = f"an object with {parts}, or null" if null else f"an object with {parts}"
    for wrong, came in ((7, "7"), ([], "an empty list"), ("a", "'a'"), (True, "true")):
        yield path, f"is {came}", wrong, path, f"{full}, but is {came}"
    first = parts.split(", ")[0]
    yield path, "empty", {}, f"{path}.{first}", "…"


def schema_field(name: str) -> Iterator[Row]:
    rule = f"'fedcert/{name}/1'"
    yield "schema", "missing", MISSING, "schema", f"{rule}, but is missing"
    for wrong, came in (("fedcert/other/1", "'fedcert/other/1'"), (1, "1"), (None, "null"), ("", "''")):
        yield "schema", f"the value {came}", wrong, "schema", f"{rule}, but is {came}"


RANGE = "a list of 2 to 2 numbers, the least and the largest input"


def report() -> Iterator[Row]:
    yield from schema_field("report")
    yield from word("task", "'multiclass'")
    yield from text("client")
    yield from model()
    yield from request_digest()
    yield from smoothing()
    yield from radii()
    yield from classes()
    yield from counts("label_counts", PER_CLASS)
    yield "label_counts", "too short", [20], "label_counts", "of the same length as classes (2), but is a list of 1"
    yield from counts("certified_counts", PER_RADIUS)
    yield (
        "certified_counts",
        "too long",
        [9, 8, 7, 6],
        "certified_counts",
        "of the same length as radii (3), but is a list of 4",
    )
    yield (
        "certified_counts",
        "above its total",
        [21, 10, 3],
        "certified_counts[0]",
        "at most the number of examples (20), but is 21",
    )
    rising = "at most the count at the radius before it (10), but is 11"
    yield "certified_counts", "rising", [18, 10, 11], "certified_counts[2]", rising
    beyond = "0, as n = 1000 samples certify no radius above 0.615816, but is 3"
    yield "radii", "beyond what n samples can certify", [0.0, 0.25, 0.7], "certified_counts[2]", beyond
    yield (
        "label_counts",
        "more than can be counted",
        [2**53, 8],
        "the sum of label_counts",
        f"at most 2^53, but is {2**53 + 8}",
    )
    yield from listed("class_certified_counts", ROWS, null=True, required=False)
    yield from listed("class_certified_counts[0]", PER_RADIUS, required=False)
    yield from count("class_certified_counts[1][0]")
    rows = "class_certified_counts"
    yield rows, "a row too few", [[18, 10, 3]], rows, "of the same length as classes (2), but is a list of 1"
    yield rows, "a short row", [[11, 7], [7, 3, 0]], f"{rows}[0]", "of the same length as radii (3), but is a list of 2"
    over = "at most the class's label count (8), but is 9"
    yield rows, "above its labels", [[9, 7, 3], [9, 3, 0]], f"{rows}[1][0]", over
    rising = "at most the count at the radius before it (7), but is 8"
    yield rows, "a rising row", [[11, 7, 8], [7, 3, 0]], f"{rows}[0][2]", rising
    adding = "adding up to certified_counts[1] (10), but is 9"
    yield rows, "not adding up", [[11, 6, 3], [7, 3, 0]], f"column 1 of {rows}", adding
    yield from count("abstained", null=True)
    yield (
        "abstained",
        "more than there are",
        3,
        "abstained",
        "at most the examples that are not certified (2), but is 3",
    )
    effects = "a list of 1 to 10000 numbers from 1, one per radius"
    yield from listed("design_effect", effects, null=True, required=False)
    yield from number("design_effect[0]", "a finite number of at least 1", 0.99)
    yield "design_effect", "too short", [1.0], "design_effect", "of the same length as radii (3), but is a list of 1"
    yield from count("largest_group", "a whole number from 1 to 2^53", null=True, least=1)
    why = "as the design effect is Σ m²/n over the sizes m of the groups"
    too_large = f"at most largest_group (2), {why}, but is 2.5"
    yield "design_effect", "above the largest group", [1.2, 2.5, 1.1], "design_effect[1]", too_large
    too_small = f"at least 1.1 with largest_group 2 and 20 examples, {why}, but is 1.05"
    yield "design_effect", "below what the largest group makes", [1.0, 1.05, 1.0], "design_effect[1]", too_small
    yield "largest_group", "more than all", 21, "largest_group", "at most the examples (20), but is 21"
    yield from count("samples", null=True)
    seed = "'fixed', or 'sha256:' and 64 hexadecimal digits, or null"
    for wrong, came in ((7, "7"), ("secret", "'secret'"), ("sha256:ab", "'sha256:ab'"), (True, "true")):
        yield "seed", came, wrong, "seed", f"{seed}, but is {came}"
    yield from number("time_budget", "a finite number above 0", 0.0, null=True)
    yield from listed("input_range", RANGE, null=True, required=False)
    for wrong, came in (([0.0], "a list of 1"), ([0, 1, 2], "a list of 3")):
        yield "input_range", came, wrong, "input_range", f"{RANGE}, or null, but is {came}"
    yield "input_range", "falling", [1, 0], "input_range[1]", "above the one before it (1), but is 0.0"
    yield from text("software", null=True, required=False)
    yield from moment("created")
    yield from signature()


def request() -> Iterator[Row]:
    yield from schema_field("request")
    yield from word("task", "'multiclass'")
    yield from model()
    yield from smoothing()
    yield from radii(required=False)
    yield from classes()
    yield from whole("target", "name, distribution")
    yield from text("target.name")
    mix = "an object from class names to weights with at least 1 entries"
    for wrong, came in ((None, "null"), (7, "7"), ({}, "an empty object"), ([1], "a list of 1")):
        yield "target.distribution", came, wrong, "target.distribution", f"{mix}, but is {came}"
    share = "target.distribution['cat']"
    for wrong, came in ((-0.5, "-0.5"), (math.nan, "nan"), ("a", "'a'"), (None, "null"), (True, "true")):
        yield (
            "target.distribution",
            f"a weight of {came}",
            {"cat": wrong},
            share,
            f"a finite number of at least 0, but is {came}",
        )
    yield (
        "target.distribution",
        "half of it",
        {"cat": 0.5},
        "target.distribution",
        "shares that add up to 1, but is 0.5",
    )
    unknown = "one of the request's classes, but is 'cow'"
    yield "target.distribution", "an unknown class", {"cow": 1.0}, "target.distribution['cow']", unknown
    yield (
        "target.distribution",
        "a hostile class",
        {"\x1b": 1.0},
        "target.a name in distribution",
        f"{TEXT}, but is '\\x1b'",
    )
    yield from listed("roster", "a list of 1 to 2000000 different client names", null=True, required=False)
    yield from text("roster[0]", required=False)
    yield "roster", "twice the same", ["a", "a"], "roster[1]", "different from those before it, but is 'a'"
    for wrong, came in (("", "''"), ("AB" * 16, f"'{'AB' * 16}'"), (None, "null"), (7, "7"), (True, "true")):
        yield "nonce", f"the value {came}", wrong, "nonce", f"32 hexadecimal digits, but is {came}"
    yield "nonce", "missing", MISSING, "nonce", "32 hexadecimal digits, but is missing"
    yield from moment("deadline")
    yield from listed("input_range", RANGE, null=True, required=False)
    for wrong, came in (([0.0], "a list of 1"), ([0, 1, 2], "a list of 3")):
        yield "input_range", came, wrong, "input_range", f"{RANGE}, or null, but is {came}"
    yield "input_range", "falling", [1, 0], "input_range[1]", "above the one before it (1), but is 0.0"
    yield from listed("input_shape", "a list of 1 to 8 sizes, of the axes of one example", null=True, required=False)
    yield "input_shape", "a size of 0", [3, 0], "input_shape[1]", "a whole number from 1 to 2^25, but is 0"
    columns = "a list of 1 to 100000 different column names"
    yield from listed("input_columns", columns, null=True, required=False)
    yield "input_columns", "an empty name", [""], "input_columns[0]", f"{TEXT}, but is ''"
    yield (
        "input_columns",
        "twice the same",
        ["a", "a"],
        "input_columns[1]",
        "different from those before it, but is 'a'",
    )
    for wrong, came in ((1, "1"), ("yes", "'yes'"), (None, "null"), ([], "an empty list")):
        yield "release.class_counts", came, wrong, "release.class_counts", f"true or false, but is {came}"
    yield from count("release.minimum_examples")
    for wrong, came in ((None, "null"), (7, "7"), ([], "an empty list")):
        yield "release", came, wrong, "release", f"an object, but is {came}"
    yield from text("software", null=True, required=False)
    yield from moment("created")
    yield from signature()
    yield from count("private.threshold", "a whole number from 2 to 2^53", required=True, least=2)
    yield (
        "private.threshold",
        "one too many",
        3,
        "private.threshold",
        ("more than half of the 2 clients on the roster, and at most all of them, but is 3"),
    )
    yield "roster", "nobody in particular", None, "roster", "a list of names where the sum is private, but is null"
    yield from count("private.fewest_holders", "a whole number from 2 to 2^53", null=True, least=2)
    yield from count("private.most_examples", "a whole number from 1 to 2^53", null=True, least=1)
    for part in ("class_counts", "moments", "spread"):
        for wrong, came in ((1, "1"), ("yes", "'yes'"), (None, "null")):
            yield f"private.{part}", came, wrong, f"private.{part}", f"true or false, but is {came}"
    yield (
        "private.class_counts",
        "a sum of nothing",
        False,
        "private.class_counts",
        ("true where moments is false, but is false"),
    )
    for wrong, came in ((7, "7"), ("yes", "'yes'"), ([], "an empty list")):
        yield "private", came, wrong, "private", f"an object with threshold, or null, but is {came}"


def sums() -> Iterator[Row]:
    yield from schema_field("sums")
    yield from word("task", "'multiclass'")
    yield from model()
    yield from request_digest()
    yield from smoothing()
    yield from radii()
    yield from classes()
    yield from count("contributors", required=True)
    yield from counts("label_counts", PER_CLASS)
    yield "label_counts", "too short", [20], "label_counts", "of the same length as classes (2), but is a list of 1"
    yield from counts("certified_counts", PER_RADIUS)
    yield (
        "certified_counts",
        "above its total",
        [99, 10, 3],
        "certified_counts[0]",
        "at most the number of examples (20), but is 99",
    )
    yield (
        "certified_counts",
        "too short",
        [9, 8],
        "certified_counts",
        "of the same length as radii (3), but is a list of 2",
    )
    yield from count("by_class.contributors", required=True)
    yield "by_class.contributors", "more than all", 3, "by_class.contributors", "at most contributors (1), but is 3"
    yield from counts("by_class.label_counts", PER_CLASS)
    more = "at most label_counts[0] (12), but is 13"
    yield "by_class.label_counts", "more than all", [13, 8], "by_class.label_counts[0]", more
    yield from listed("by_class.certified_counts", ROWS)
    rows = "by_class.certified_counts"
    yield rows, "a short row", [[11, 7, 3], [7, 3]], f"{rows}[1]", "of the same length as radii (3), but is a list of 2"
    yield (
        rows,
        "above its labels",
        [[13, 7, 3], [7, 3, 0]],
        f"{rows}[0][0]",
        "at most the class's label count (12), but is 13",
    )
    yield (
        "by_class",
        "a number",
        7,
        "by_class",
        "an object with contributors, label_counts, or null, but is 7",
    )
    for part in ("moments", "by_class.moments"):
        yield from count(f"{part}.scale", "a whole number from 1 to 2^53", required=True, least=1)
        yield from count(f"{part}.clients", required=True)
        yield from listed(f"{part}.labels_labels", ROWS)
        yield from listed(f"{part}.labels_certified", ROWS)
        squared = f"{part}.certified_squared"
        yield from listed(squared, "a list of 1 to 10000 moments, one per radius")
        whole_number = "a whole number from 0 to 2^62"
        yield f"{squared}[0]", "negative", -1, f"{squared}[0]", f"{whole_number}, but is -1"
        yield f"{squared}[0]", "too large", 2**62 + 1, f"{squared}[0]", f"{whole_number}, but is {2**62 + 1}"
        matrix, short = f"{part}.labels_labels", "of the same length as classes (2), but is a list of 1"
        yield matrix, "not square", [[1, 2], [3]], f"{matrix}[1]", short
        yield matrix, "a row too few", [[1, 2]], matrix, short
    effects = "a list of 1 to 10000 numbers from 1, one per radius"
    yield from listed("design_effect", effects, null=True, required=False)
    yield from number("design_effect[0]", "a finite number of at least 1", 0.99)
    yield "design_effect", "too short", [1.0], "design_effect", "of the same length as radii (3), but is a list of 1"
    yield from count("largest_group", "a whole number from 1 to 2^53", null=True, least=1)
    for wrong, came in ((1, "1"), ("yes", "'yes'"), (None, "null"), ([], "an empty list")):
        yield "alike", came, wrong, "alike", f"true or false, but is {came}"
    yield from text("noise", null=True, required=False)
    for wrong, came in ((7, "7"), ("a", "'a'"), ([], "an empty list")):
        parts = "budget, rho, variance, sizes_variance, cells, sizes"
        yield "private", came, wrong, "private", f"an object with {parts}, or null, but is {came}"
    above = "a finite number above 0"
    for path, most in (
        ("private.variance", ""),
        ("private.sizes_variance", ""),
        ("private.budget.epsilon", " and of at most 100"),
    ):
        for wrong, came in ((0, "0"), (-1, "-1"), (math.nan, "nan"), (None, "null"), ("a", "'a'")):
            yield path, f"the value {came}", wrong, path, f"{above}{most}, but is {came}"
    yield from number("private.rho", above, 0)
    yield from count("fewest_holders", "a whole number from 1 to 2^53", null=True, least=1)
    yield from count("most_examples", "a whole number from 1 to 2^53", null=True, least=1)
    small = "a finite number of at least 1e-100 and of at most 0.01"
    yield "private.budget.delta", "one", 1.0, "private.budget.delta", f"{small}, but is 1.0"
    for wrong, came in ((7, "7"), ("a", "'a'"), ([], "an empty list")):
        yield "spread", came, wrong, "spread", f"an object with target, covariance, freedom, or null, but is {came}"
    yield "spread.freedom", "none", 0, "spread.freedom", "a finite number above 0, but is 0"
    yield "spread.target", "one class", [1.0], "spread.target", "of the same length as classes (2), but is a list of 1"
    yield (
        "spread.covariance",
        "one row",
        [[1, 1, 1]],
        "spread.covariance",
        ("of the same length as radii (3), but is a list of 1"),
    )
    yield (
        "spread.covariance[0]",
        "one number",
        [1],
        "spread.covariance[0]",
        ("of the same length as radii (3), but is a list of 1"),
    )
    yield "spread.covariance[0][0]", "NaN", math.nan, "spread.covariance[0][0]", "a finite number, but is nan"
    yield from count("private.scale", "a whole number from 1 to 1048576", least=1)
    yield from word("private.budget.unit", "'example' or 'group'")
    yield from word("private.budget.adjacency", "'add-remove' or 'replace'")
    yield from word("private.budget.noise", "'together' or 'each site'")
    yield from count("private.budget.most_per_unit", "a whole number from 1 to 2^53", least=1)
    for wrong, came in ((None, "null"), (7, "7"), ([], "an empty list")):
        rows = "a list of 1 to 100000 rows, one per class"
        yield "private.cells", came, wrong, "private.cells", f"{rows}, but is {came}"
    yield (
        "private.cells[0][0]",
        "not whole",
        1.5,
        "private.cells[0][0]",
        ("a whole number from -9007199254740992 to 2^53, but is 1.5"),
    )
    yield (
        "private.cells",
        "one class",
        [[1, 1, 1, 1]],
        "private.cells",
        ("of the same length as classes (2), but is a list of 1"),
    )
    yield (
        "private.cells[0]",
        "a radius too few",
        [1],
        "private.cells[0]",
        ("of the same length as radii and one more (4), but is a list of 1"),
    )
    for wrong, came in ((None, "null"), (7, "7"), ([], "an empty list"), ([[1, 1]] * 3, "a list of 3")):
        rows = "a list of 1 to 2 rows, one per release"
        yield "private.sizes", came, wrong, "private.sizes", f"{rows}, but is {came}"
    yield (
        "private.sizes[0][0]",
        "not whole",
        1.5,
        "private.sizes[0][0]",
        ("a whole number from -9007199254740992 to 2^53, but is 1.5"),
    )
    yield (
        "private.sizes",
        "one release",
        [[1, 1]],
        "private.sizes",
        ("of the same length as releases (2), but is a list of 1"),
    )
    yield (
        "private.sizes[0]",
        "a class too few",
        [1],
        "private.sizes[0]",
        ("of the same length as classes (2), but is a list of 1"),
    )
    yield from text("software", null=True, required=False)
    yield from moment("created")


def estimate() -> Iterator[Row]:
    yield from schema_field("estimate")
    yield from text("method")
    yield from whole("target", "name, distribution", null=False)
    yield from text("target.name")
    yield (
        "target.distribution",
        "half of it",
        {"cat": 0.5},
        "target.distribution",
        "shares that add up to 1, but is 0.5",
    )
    yield from whole("interval", "kind, scope, estimand")
    yield from whole("mismatch", "l2, tv")
    yield from whole("bias_bound", "theorem_1, spread, sharp")
    yield from radii()
    yield from listed("certified_accuracy", CURVE)
    share = "a finite number of at least 0 and of at most 1"
    yield from number("certified_accuracy[0]", share, -0.1)
    yield "certified_accuracy[0]", "too high", 1.1, "certified_accuracy[0]", f"{share}, but is 1.1"
    short = "of the same length as radii (3), but is a list of 1"
    yield "certified_accuracy", "too short", [0.5], "certified_accuracy", short
    for name in ("lower", "upper"):
        yield from listed(name, CURVE, null=True, required=False)
        yield name, "too short", [0.5], name, short
    yield from number("confidence", "a finite number above 0 and below 1", 0.0, null=True)
    for name in ("kind", "scope", "estimand"):
        yield from text(f"interval.{name}")
    yield from text("guarantee", LONG_TEXT)
    for name in ("mismatch.l2", "mismatch.tv", "bias_bound.theorem_1", "bias_bound.spread", "bias_bound.sharp"):
        yield from number(name, "a finite number of at least 0", -0.1, required=True)
    weights = "an object from client names to weights with at least 1 entries, or null"
    for wrong, came in ((7, "7"), ({}, "an empty object"), ([1], "a list of 1")):
        yield "weights", came, wrong, "weights", f"{weights}, but is {came}"
    yield "weights", "NaN", {"a": math.nan}, "weights['a']", "a finite number, but is nan"
    for name in ("certified_accuracy", "lower", "upper"):
        part = f"by_class.{name}"
        yield from listed(part, ROWS)
        yield from number(f"{part}[0][0]", share, -0.1)
        yield part, "a row too few", [[0.1, 0.1, 0.1]], part, "of the same length as classes (2), but is a list of 1"
        yield part, "a short row", [[0.1] * 3, [0.1]], f"{part}[1]", short
    yield from whole("by_class", "certified_accuracy, lower, upper")
    yield from text("weights_file", null=True, required=False)
    yield from text("weights_note", LONG_TEXT, null=True, required=False)
    yield from number("effective_examples", "a finite number of at least 0", -1, null=True)
    yield from number("largest_radius", "a finite number of at least 0", -1, required=True)
    for name in ("clients", "examples"):
        yield from count(name, "a whole number from 1 to 2^53", required=True, least=1)
    for wrong, came in ((None, "null"), (7, "7"), ([1], "a list of 1")):
        yield "excluded", came, wrong, "excluded", f"an object from client names to reasons, but is {came}"
        yield "details", came, wrong, "details", f"an object, but is {came}"
        yield "settings", came, wrong, "settings", f"an object, but is {came}"
    yield from text("checks[0].name")
    yield from word("checks[0].verdict", "'ok', 'warning' or 'unreliable'")
    for wrong, came in (("a", "'a'"), (True, "true"), (math.nan, "nan"), (math.inf, "inf"), ([], "an empty list")):
        yield "checks[0].figure", came, wrong, "checks[0].figure", f"a finite number, or null, but is {came}"
    none = "a list of 0 to 1000 checks"
    yield "checks", "null", None, "checks", f"{none}, but is null"
    yield from text("checks[0].sentence", LONG_TEXT)
    yield from model()
    yield from smoothing()
    yield from classes()
    yield from text("software", null=True, required=False)
    yield from moment("created")
    yield from later_parts()


def later_parts() -> Iterator[Row]:
    """Parts that were added after the golden file: each is put in as a whole."""
    yield from whole("chosen", "method, because")
    yield from whole("worst_case", "clients, examples_each, lower, upper")
    yield from whole("comparison", "rmse, radii, left_out")
    for wrong, came in ((7, "7"), ([1], "a list of 1")):
        yield "screened", came, wrong, "screened", f"an object from client names to reasons, or null, but is {came}"
        yield "privacy", came, wrong, "privacy", f"an object, or null, but is {came}"
    yield from text("classifier", LONG_TEXT, null=True, required=False)
    yield from number("headline_radius", "a finite number of at least 0", -1.0, null=True)
    short = {"clients": 1, "examples_each": 5, "lower": [0.1], "upper": [0.9] * 3}
    rule = "of the same length as radii (3), but is a list of 1"
    yield "worst_case", "too short", short, "worst_case.lower", rule


def what_if() -> Iterator[Row]:
    yield from schema_field("what-if")
    yield from text("method")
    yield from radii()
    yield from classes()
    yield from listed("targets", "a list of 1 to 100000 curves, one per target")
    yield from text("targets[0].target.name")
    for name in ("certified_accuracy", "lower", "upper"):
        yield from listed(f"targets[0].{name}", CURVE)
        short = "of the same length as radii (3), but is a list of 1"
        yield f"targets[0].{name}", "too short", [0.5], f"targets[0].{name}", short
    yield from number("confidence", "a finite number above 0 and below 1", 0.0, required=True)
    yield from whole("interval", "kind, scope, estimand", null=False)
    yield from text("guarantee", LONG_TEXT)
    yield from text("checks[0].name")
    yield "checks", "null", None, "checks", "a list of 0 to 1000 checks, but is null"
    for name in ("clients", "examples"):
        yield from count(name, "a whole number from 1 to 2^53", required=True, least=1)
    for wrong, came in ((None, "null"), (7, "7"), ([1], "a list of 1")):
        yield "settings", came, wrong, "settings", f"an object, but is {came}"
    yield from model()
    yield from smoothing()
    yield from text("software", null=True, required=False)
    yield from moment("created")
    yield from text("classifier", LONG_TEXT, null=True, required=False)


def votes(path: str) -> Iterator[Row]:
    for wrong, came in ((4, "4"), (0, "0"), (-1, "-1"), (10_001, "10001"), (2.5, "2.5"), ("3", "'3'"), (True, "true")):
        yield path, came, wrong, path, f"{VOTES}, or null, but is {came}"


def implied_counts(path: str, rule: str) -> Iterator[Row]:
    """A list that may be left out, by another procedure, and is never null."""
    yield from counts(path, rule, required=True)
    yield f"{path}[1]", "null", None, f"{path}[1]", f"{COUNT}, but is null"


def population_smoothing() -> Iterator[Row]:
    yield from votes("smoothing.votes")
    left_out = "left out (null) with the population procedure"
    yield (
        "smoothing.n0",
        "a selection",
        100,
        "smoothing.n0",
        f"{left_out}, which selects no class (the sequential one does), but is 100",
    )
    why = "it says nothing of a single example that could fail (the sequential one does)"
    name = "smoothing.failure_probability"
    yield name, "a failure probability", 0.01, name, f"{left_out}: {why}, but is 0.01"
    why = "which draws n samples of every example"
    yield "smoothing.tolerance", "a tolerance", 0.01, "smoothing.tolerance", f"{left_out}, {why}, but is 0.01"
    yield from count("smoothing.n", "a whole number from 1 to 100000000", least=1)
    most = "at most 2000 passes with the population procedure, but is 2001"
    yield "smoothing.n", "too many passes", 2001, "smoothing.n", most
    for implied in ("n0", "failure_probability"):
        rule = {"n0": "a whole number from 1 to 100000000"}.get(implied, "a finite number above 0 and below 1")
        yield f"smoothing.{implied}", "null", None, f"smoothing.{implied}", f"{rule}, but is null"


def population_report() -> Iterator[Row]:
    yield from population_smoothing()
    yield from implied_counts("correct_counts", PER_RIGHT_ANSWER)
    name, rows = "correct_counts", "class_correct_counts"
    length = "5 counts, as n is 4: from none to all of them right"
    yield name, "a count too few", [3, 2, 3, 12], name, f"{length}, but is a list of 4"
    yield name, "a count too many", [3, 2, 3, 5, 7, 0], name, f"{length}, but is a list of 6"
    total = "the number of examples (20)"
    yield name, "an example too many", [3, 2, 3, 5, 8], f"the sum of {name}", f"{total}, but is 21"
    yield name, "an example too few", [3, 2, 3, 5, 6], f"the sum of {name}", f"{total}, but is 19"
    other = "4 counts, as n is 3: from none to all of them right, but is a list of 5"
    yield "smoothing.n", "another number of passes", 3, name, other
    yield from listed(rows, ROWS, null=True, required=False)
    yield from listed(f"{rows}[0]", PER_RIGHT_ANSWER, required=False)
    yield from count(f"{rows}[1][0]")
    whole_row = [3, 2, 3, 5, 7]
    yield rows, "a row too few", [whole_row], rows, "of the same length as classes (2), but is a list of 1"
    yield rows, "a short row", [[1, 1, 2, 8], [2, 1, 1, 2, 2]], f"{rows}[0]", f"{length}, but is a list of 4"
    label = "the class's label count (8), but is 9"
    yield rows, "above its labels", [[1, 1, 2, 3, 5], [3, 1, 1, 2, 2]], f"the sum of {rows}[1]", label
    adding = "adding up to correct_counts[0] (3), but is 2"
    yield rows, "not adding up", [[1, 1, 2, 3, 5], [1, 2, 1, 2, 2]], f"column 0 of {rows}", adding
    left_out = "left out (null) with the population procedure"
    yield "certified_counts", "CERTIFY's counts", [18, 10, 3], "certified_counts", f"{left_out}, but is a list of 3"
    yield "certified_counts", "null", None, "certified_counts", f"{PER_RADIUS}, but is null"
    of_classes = [[11, 7, 3], [7, 3, 0]]
    yield "class_certified_counts", "CERTIFY's", of_classes, "class_certified_counts", f"{left_out}, but is a list of 2"
    yield "abstained", "an abstention", 0, "abstained", f"{left_out}, but is 0"
    too_many = f"at most 2^53, but is {2**53 + 8}"
    yield "label_counts", "more than can be counted", [2**53, 8], "the sum of label_counts", too_many


def certify_report() -> Iterator[Row]:
    """Counts of right answers, and votes, where CERTIFY counted."""
    left_out = "left out (null) with the fixed procedure"
    yield "correct_counts", "right answers", [1, 2], "correct_counts", f"{left_out}, but is a list of 2"
    yield "correct_counts", "null", None, "correct_counts", f"{PER_RIGHT_ANSWER}, but is null"
    yield "class_correct_counts", "right answers", [[1], [2]], "class_correct_counts", f"{left_out}, but is a list of 2"


def certify_smoothing() -> Iterator[Row]:
    yield from votes("smoothing.votes")
    about = "it is about single examples, not about a vote, but is 11"
    left_out = "left out (null) with the fixed procedure"
    yield "smoothing.votes", "a vote", 11, "smoothing.votes", f"{left_out}: {about}"


def population_request() -> Iterator[Row]:
    yield from population_smoothing()


def certify_sums() -> Iterator[Row]:
    left_out = "left out (null) with the fixed procedure"
    yield "correct_counts", "right answers", [1, 2], "correct_counts", f"{left_out}, but is a list of 2"
    yield "correct_counts", "null", None, "correct_counts", f"{PER_RIGHT_ANSWER}, but is null"
    both = "left out where there are certified_counts, but is a list of 2"
    yield "by_class.correct_counts", "both kinds", [[5], [5]], "by_class.correct_counts", both
    for part in ("moments", "by_class.moments"):
        one = "moments of CERTIFY's counts or of right answers, not both, but is a list of 1"
        kinds = {"scale": 1, "clients": 0, "labels_labels": [[1]], "labels_certified": [[1]], "certified_squared": [1]}
        both_kinds = {**kinds, "labels_correct": [[1]], "correct_correct": [[1]]}
        yield part, "both kinds", both_kinds, f"{part}.labels_certified", one
        half = {key: value for key, value in both_kinds.items() if not key.endswith("certified")}
        yield part, "half of it", half, f"{part}.labels_certified", f"{ROWS}, but is missing"
        none = {key: kinds[key] for key in ("scale", "clients", "labels_labels")}
        neither = "moments of CERTIFY's counts or of right answers, not both, but is missing"
        yield part, "neither kind", none, f"{part}.labels_certified", neither
        others = none | {"labels_correct": [[1, 1, 1], [1, 1, 1]], "correct_correct": [[1, 1, 1]] * 3}
        yield part, "those of right answers", others, f"{part}.labels_certified", f"{ROWS}, but is missing"


def population_sums() -> Iterator[Row]:
    yield from population_smoothing()
    name, rows = "correct_counts", "by_class.correct_counts"
    yield from implied_counts(name, PER_RIGHT_ANSWER)
    length = "5 counts, as n is 4: from none to all of them right"
    yield name, "a count too few", [3, 2, 3, 12], name, f"{length}, but is a list of 4"
    yield name, "an example too many", [3, 2, 3, 5, 8], f"the sum of {name}", "the number of examples (20), but is 21"
    left_out = "left out (null) with the population procedure"
    yield "certified_counts", "CERTIFY's counts", [18, 10, 3], "certified_counts", f"{left_out}, but is a list of 3"
    yield "certified_counts", "null", None, "certified_counts", f"{PER_RADIUS}, but is null"
    for wrong, came in (
        (None, "null"),
        ("abc", "'abc'"),
        ({"a": 1}, "an object with 1 entries"),
        ([], "an empty list"),
    ):
        yield rows, came, wrong, rows, f"{ROWS}, but is {came}"
    yield from listed(f"{rows}[0]", PER_RIGHT_ANSWER, required=False)
    yield from count(f"{rows}[1][0]")
    yield rows, "missing", MISSING, "by_class.certified_counts", f"{ROWS}, but is missing"
    yield rows, "a row too few", [[3, 2, 3, 5, 7]], rows, "of the same length as classes (2), but is a list of 1"
    yield rows, "ragged", [[1, 1, 2, 3, 5], [2, 1, 5]], f"{rows}[1]", f"{length}, but is a list of 3"
    short = "of the same length as correct_counts (5), but is a list of 3"
    yield rows, "of fewer passes", [[2, 2, 8], [3, 1, 4]], f"{rows}[0]", short
    label = "the class's label count (8), but is 9"
    above = [[1, 1, 2, 3, 5], [3, 1, 1, 2, 2]]
    yield rows, "above its labels", above, "by_class.the sum of correct_counts[1]", label
    certified = {"contributors": 1, "label_counts": [12, 8], "certified_counts": [[11, 7, 3], [7, 3, 0]]}
    yield "by_class", "CERTIFY's totals", certified, rows, f"{ROWS}, but is missing"
    for part in ("moments", "by_class.moments"):
        yield from _population_moments(part)
    cells = "of the same length as n and one more (5), but is a list of 4"
    yield "private.cells[0]", "a cell too few", [1, 1, 2, 3], "private.cells[0]", cells


def _population_moments(part: str) -> Iterator[Row]:
    cross, square = f"{part}.labels_correct", f"{part}.correct_correct"
    per_answer = "a list of 1 to 2001 rows, one per number of right answers"
    yield from listed(cross, ROWS)
    yield from listed(square, per_answer)
    numbers = "a list of 1 to 2001 moments, one per number of right answers"
    yield from listed(f"{cross}[0]", numbers, required=False)
    yield from listed(f"{square}[0]", numbers, required=False)
    for path in (f"{cross}[0][0]", f"{square}[0][0]"):
        yield path, "negative", -1, path, "a whole number from 0 to 2^62, but is -1"
        yield path, "too large", 2**62 + 1, path, f"a whole number from 0 to 2^62, but is {2**62 + 1}"
    yield cross, "a row too few", [[1] * 5], cross, "of the same length as classes (2), but is a list of 1"
    columns = "of the same length as correct_counts (5), but is a list of"
    yield cross, "a short row", [[1] * 5, [1] * 4], f"{cross}[1]", f"{columns} 4"
    yield square, "a row too few", [[1] * 5] * 4, square, f"{columns} 4"
    yield square, "not square", [*([[1] * 5] * 4), [1] * 3], f"{square}[4]", f"{columns} 3"
    certify = {"scale": 1, "clients": 1, "labels_labels": [[1, 1], [1, 1]]}
    certify |= {"labels_certified": [[1] * 5] * 2, "certified_squared": [1] * 5}  # of as many radii as outcomes
    yield part, "CERTIFY's", certify, cross, f"{ROWS}, but is missing"


def certify_estimate() -> Iterator[Row]:
    yield from votes("votes")


def population_estimate() -> Iterator[Row]:
    yield from population_smoothing()
    yield from votes("votes")
    for wrong, came in ((None, "null"), (-1, "-1"), ("a", "'a'"), (True, "true")):
        yield "largest_radius", came, wrong, "largest_radius", f"a finite number of at least 0, but is {came}"


def damaged(document: dict[str, Any], path: str, wrong: Any) -> dict[str, Any]:
    """The document with another value, or none, at a path such as 'a.b[0]'."""
    document = copy.deepcopy(document)
    steps: list[Any] = []
    for part in path.split("."):
        name, *indices = part.replace("]", "").split("[")
        steps += [name, *map(int, indices)]
    inner: Any = document
    for step in steps[:-1]:
        inner = inner[step]
    if wrong is MISSING:
        del inner[steps[-1]]
    else:
        inner[steps[-1]] = wrong
    return document


MATRIX = {
    "report": (report, certify_smoothing, certify_report),
    "request": (request, certify_smoothing),
    "sums": (sums, certify_smoothing, certify_sums),
    "estimate": (estimate, certify_smoothing, certify_estimate),
    "what-if": (what_if, certify_smoothing, certify_estimate),
}
POPULATION_MATRIX = {
    "report": (population_report,),
    "request": (population_request,),
    "sums": (population_sums,),
    "estimate": (population_estimate,),
    "what-if": (population_request, certify_estimate),
}
CASES = [
    pytest.param(name, documents[name], *row, id=f"{kind}{name}-{row[0]}-{row[1]}".encode("ascii", "replace").decode())
    for kind, matrix, documents in (("", MATRIX, DOCUMENTS), ("population-", POPULATION_MATRIX, POPULATION_DOCUMENTS))
    for name, parts in matrix.items()
    for rows in parts
    for row in rows()
]


@pytest.mark.parametrize(("name", "valid", "path", "defect", "wrong", "field", "sentence"), CASES)
def test_a_defect_is_named_in_one_sentence(
    name: str, valid: dict[str, Any], path: str, defect: str, wrong: Any, field: str, sentence: str
) -> None:
    kind: type[Record] = KINDS[name]
    document = damaged(valid, path, wrong)
    with pytest.raises(InvalidValue) as caught:
        kind.from_json(document, "file.json")
    message = str(caught.value)
    place, _, rest = message.partition(": ")
    if sentence == "…":  # the rule itself is asserted where the field's own rows are
        assert rest.startswith(f"{field} must be ")
        assert rest.endswith(f", but is missing; {REMEDIES[name]}")
    else:
        remedy = OTHER_KIND[name] if wrong == "fedcert/other/1" else REMEDIES[name]
        assert rest == f"{field} must be {sentence}; {remedy}"
    assert place.startswith(name)
    assert place.endswith("in file.json")
    assert message.isprintable()


@pytest.mark.parametrize("name", MATRIX)
def test_every_field_is_in_the_matrix(name: str) -> None:
    rows = [row for rows in MATRIX[name] for row in rows()]
    hit = {path.split(".")[0].split("[")[0] for path, *_ in rows}
    assert hit == set(KINDS[name].field_types()) | {"schema"}


@pytest.mark.parametrize("name", MATRIX)
@pytest.mark.parametrize("wrong", [None, 7, "text", [], [{}], True])
def test_a_document_that_is_no_object_is_named(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidValue, match=rf"file.json: the {name} must be a JSON object, but is "):
        KINDS[name].from_json(wrong, "file.json")


@pytest.mark.parametrize("name", MATRIX)
def test_a_newer_schema_says_to_upgrade(name: str) -> None:
    document = {**DOCUMENTS[name], "schema": f"fedcert/{name}/2"}
    with pytest.raises(InvalidValue, match="a newer fedcert wrote it: upgrade this one"):
        KINDS[name].from_json(document)


def test_the_documents_are_valid_json_to_begin_with() -> None:
    for name, document in (*DOCUMENTS.items(), *POPULATION_DOCUMENTS.items()):
        assert KINDS[name].from_json(json.loads(json.dumps(document))).to_json() == document
