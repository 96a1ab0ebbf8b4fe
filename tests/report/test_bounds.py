"""What a request, a report or sums may ask of whoever reads them: refused when it is read, with little memory."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from fedcert import InvalidValue, Report, Request, Sums
from fedcert._files.documents import parse
from fedcert.errors import FileProblem, Refused
from fedcert.report import fields
from fedcert.secagg.vectors import VectorLayout

MANY, FEW = [f"class {index}" for index in range(100_000)], ["cat", "dog"]
SITES = [f"site {index}" for index in range(6)]


def asked(**changes: Any) -> dict[str, Any]:
    smoothing = {"sigma": 0.25, "procedure": "population", "n": 32} | changes.pop("smoothing", {})
    document = {"schema": "fedcert/request/1", "model": "m", "smoothing": smoothing, "radii": [0, 0.5], "classes": FEW}
    return document | {"nonce": "0f" * 16} | changes


def private(**changes: Any) -> dict[str, Any]:
    return {"roster": SITES, "private": {"threshold": 5, **changes}}


CERTIFY = {"procedure": "fixed"}
RADII = [index / 10**6 for index in range(10_000)]
ABSURD: dict[str, tuple[dict[str, Any], str]] = {
    "samples": (
        asked(smoothing=CERTIFY | {"n": 2**53}),
        "smoothing.n must be a whole number from 1 to 100000000, but is 9007199254740992; ask the coordinator for",
    ),
    "samples of selection": (
        asked(smoothing=CERTIFY | {"n0": 2**53}),
        "smoothing.n0 must be a whole number from 1 to 100000000, but is 9007199254740992",
    ),
    "cells": (
        asked(classes=MANY, radii=RADII),
        "100,000 classes with 10,000 radii each must be at most 10,000,000 counts in all, but is 1000000000; take fewer",
    ),
    "right answers": (
        asked(classes=MANY, smoothing={"n": 2000}),
        "100,000 classes with 2,001 numbers of right answers each must be at most 10,000,000 counts in all, but is 200",
    ),
    "moments": (
        asked(classes=MANY, **private(moments=True)),
        "private must be a sum of at most 3,000,000 numbers, which fit into a message, but is 5006950611; ask for fewer "
        "classes, radii or passes, or without moments",
    ),
    "spread": (
        asked(radii=RADII, **private(spread=True)),
        "private must be a sum of at most 3,000,000 numbers, which fit into a message, but is 100010000; ask for fewer",
    ),
    "counts of a private sum": (
        asked(classes=MANY, **private()),
        "private must be a sum of at most 3,000,000 numbers, which fit into a message, but is 3600050",
    ),
    "sites of a private sum": (
        asked(roster=[f"site {index}" for index in range(10_001)], private={"threshold": 6000}),
        "roster must be of at most 10,000 names where the sum is private, but is 10001",
    ),
    "inputs": (
        asked(input_shape=[3, 10_000, 10_000]),
        "input_shape must be sizes of at most 33,554,432 numbers in all, but is 300000000",
    ),
}


@pytest.mark.parametrize("name", ABSURD)
def test_a_request_that_asks_too_much_is_refused_when_it_is_read(name: str) -> None:
    document, sentence = ABSURD[name]
    text = json.dumps(document)
    tracemalloc.start()
    with pytest.raises(InvalidValue) as caught:
        Request.from_json(parse(text, "the request"), "request.json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(caught.value).removeprefix("request in request.json: ").startswith(sentence)
    assert peak < 20 * len(text) + 10**6


@pytest.mark.parametrize(
    "document",
    [
        asked(smoothing=CERTIFY | {"n": 10**7, "n0": 10**4}),
        asked(classes=MANY),
        asked(radii=RADII),
        asked(classes=MANY[:1000], **private(moments=True)),
        asked(classes=MANY[:21_841], **private()),
        asked(classes=MANY[:1000], **private(fewest_holders=3)),
        asked(smoothing={"n": 2000}, **private(moments=True)),
        asked(roster=[f"site {index}" for index in range(10_000)], private={"threshold": 6000}),
        asked(input_shape=[1, 512, 512, 128]),
    ],
)
def test_large_work_may_be_asked_for(document: dict[str, Any]) -> None:
    request = Request.from_json(document)
    if request.private is not None:
        assert VectorLayout(request).length <= 3_000_000


def test_a_layout_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request.from_json(asked(**private()))
    monkeypatch.setattr("fedcert.secagg.vectors.MOST_SUMMED", 10)
    with pytest.raises(Refused, match=r"the private sum is over \d+ numbers, and may be over 10"):
        VectorLayout(request)


@pytest.mark.parametrize("kind", [Report, Sums])
def test_reports_and_sums_have_no_more_counts_per_class_than_requests(kind: Any) -> None:
    whole = asked(classes=MANY, radii=RADII[:200]) | {"schema": kind.SCHEMA, "label_counts": [0] * len(MANY)}
    whole |= {"correct_counts": [0] * 33, "client": "a", "contributors": 1}
    del whole["nonce"]
    with pytest.raises(InvalidValue, match="100,000 classes with 200 radii each must be at most 10,000,000 counts"):
        kind.from_json(whole)
    kind.from_json(whole | {"radii": [0]})


def test_a_roster_is_no_longer_than_tables_are() -> None:
    assert fields.ROSTER.most == 2_000_000


def test_brackets_in_names_are_no_lists() -> None:
    name = "[{:" * 60
    many = json.dumps({"names": [f"{name}{index}" for index in range(10_000)]})
    assert len(parse(many, "many.json")["names"]) == 10_000
    with pytest.raises(FileProblem, match=r"many\.json holds more than 1,048,576 lists, objects and keys"):
        parse(many[:-1] + ', "a": [' + "[]," * 2**20 + "0]}", "many.json")
    with pytest.raises(FileProblem, match="is larger than 32 MiB"):
        parse(" " * (32 * 2**20 + 1), "many.json")
