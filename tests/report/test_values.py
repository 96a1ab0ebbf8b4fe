"""Values: golden files, JSON in and out, unknown keys, the exported schema."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import pickle
import unicodedata
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import jsonschema
import pytest
from hypothesis import example, given

from factories import DOCUMENTS, GOLDEN, KINDS, POPULATION_DOCUMENTS, population_document, report_document
from fedcert import FedcertWarning, InvalidValue, Report, Request, Smoothing
from fedcert.privacy.keys.signing import check_intact
from fedcert.report.signature import canonical

SCHEMAS = GOLDEN.parent.parent / "docs" / "schemas"


@pytest.mark.parametrize("folder", [GOLDEN, GOLDEN / "population"], ids=["certify", "population"])
@pytest.mark.parametrize("name", KINDS)
def test_the_golden_file_is_read_and_written_as_it_is(name: str, folder: Path) -> None:
    text = (folder / f"{name}-1.json").read_text()
    assert KINDS[name].from_json(json.loads(text)).dumps() == text


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("report", "unsigned"),
        ("request", "unsigned"),
        ("sums", "exact"),
        ("sums", "held-by-any"),
        ("request", "held-by-any"),
    ],
)
def test_files_from_before_later_fields_stay_the_same_to_the_letter(name: str, file: str) -> None:
    text = (GOLDEN / "earlier" / f"{name}-1-{file}.json").read_text()
    assert KINDS[name].from_json(json.loads(text)).dumps() == text


@pytest.mark.parametrize("name", KINDS)
def test_the_exported_schema_is_current_and_accepts_the_golden_file(name: str) -> None:
    exported = json.loads((SCHEMAS / f"{name}-1.json").read_text())
    assert exported == json.loads(json.dumps(KINDS[name].json_schema()))
    jsonschema.Draft202012Validator.check_schema(exported)
    for document in (DOCUMENTS[name], POPULATION_DOCUMENTS[name]):
        jsonschema.validate(document, exported, jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("client", ""),
        ("radii", []),
        ("label_counts", [-1, 3]),
        ("model", "sha256:ab"),
        ("smoothing", {}),
        ("abstained", 1.5),
    ],
)
def test_the_exported_schema_refuses_what_fedcert_refuses(field: str, wrong: Any) -> None:
    document = report_document(**{field: wrong})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, Report.json_schema(), jsonschema.Draft202012Validator)
    with pytest.raises(InvalidValue):
        Report.from_json(document)


def test_values_from_python_obey_the_same_rules() -> None:
    document = report_document()
    document.pop("schema")
    with pytest.raises(
        InvalidValue, match=r"^certified_counts\[0\] must be at most the number of examples \(20\), but is 21$"
    ):
        Report(**{**document, "certified_counts": [21, 0, 0], "class_certified_counts": None})


def test_optional_fields_may_be_left_out() -> None:
    needed = ("schema", "client", "model", "smoothing", "radii", "classes", "label_counts", "certified_counts")
    report = Report.from_json({key: value for key, value in report_document().items() if key in needed})
    assert (report.task, report.request, report.class_certified_counts, report.abstained) == (
        "multiclass",
        None,
        None,
        None,
    )


def test_a_value_cannot_be_changed() -> None:
    report = Report.from_json(report_document())
    with pytest.raises(AttributeError):
        report.client = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        report.extra["key"] = 1  # type: ignore[index]


@pytest.mark.parametrize("name", KINDS)
def test_a_value_can_be_pickled_copied_and_compared(name: str) -> None:
    value = KINDS[name].from_json({**DOCUMENTS[name], "x-note": {"a": [1]}})
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value  # noqa: S301  our own bytes
    assert dataclasses.asdict(value)["extra"] == {"x-note": {"a": (1,)}}


def test_extra_keys_cannot_take_over_known_ones() -> None:
    document = {key: value for key, value in report_document().items() if key != "schema"}
    for key in ("client", "schema"):
        with pytest.raises(InvalidValue, match="extra must be keys that the schema does not know"):
            Report(**document, extra={key: "evil"})


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), {1, 2}, "\ud800", b"bytes"])
def test_extra_keys_hold_what_json_can(wrong: object) -> None:
    document = {key: value for key, value in report_document().items() if key != "schema"}
    with pytest.raises(InvalidValue, match="extra must be what JSON can hold, without NaN and infinity"):
        Report(**document, extra={"x-a": wrong})


def test_many_unknown_keys_make_few_warnings() -> None:
    with pytest.warns(FedcertWarning) as caught:
        Report.from_json(report_document(**{f"certified_counts{index}": 1 for index in range(5000)}))
    assert len(caught) == 5


def test_unknown_keys_are_kept() -> None:
    report = Report.from_json(report_document(**{"x-ward": "north", "hospital": [1, {"a": None}]}))
    assert report.to_json()["x-ward"] == "north"
    assert Report.from_json(json.loads(report.dumps())) == report


def test_a_near_miss_of_a_known_key_is_warned_of() -> None:
    sentence = (
        "report 'site-07' in a.json: the unknown key 'certified_count' is kept but not used; "
        "did you mean 'certified_counts'?"
    )
    with pytest.warns(FedcertWarning) as caught:
        Report.from_json(report_document(certified_count=[1]), "a.json")
    assert [str(warning.message) for warning in caught] == [sentence]


def test_users_own_keys_are_never_a_near_miss() -> None:
    Report.from_json(report_document(**{"x-certified_counts": 1}))


def test_radii_are_rounded_when_taken() -> None:
    report = Report.from_json(report_document(radii=[0.0, 0.1 + 0.2, 0.5]))
    assert report.radii == (0.0, 0.3, 0.5)


def test_a_client_without_examples_has_a_valid_report() -> None:
    empty = {
        "label_counts": [0, 0],
        "certified_counts": [0, 0, 0],
        "abstained": 0,
        "class_certified_counts": None,
        "largest_group": None,
    }
    report = Report.from_json(report_document(**empty))
    assert report.examples == 0
    assert report.certified_accuracy == (0.0, 0.0, 0.0)


def test_whole_numbers_may_be_written_as_floats() -> None:
    assert Report.from_json(report_document(label_counts=[12.0, 8.0])).label_counts == (12, 8)


@given(st.text(min_size=1, max_size=40))
@example("\U0002f800")
def test_a_name_is_taken_as_it_is_or_refused(name: str) -> None:
    """What looks the same is the same name: it is taken in Unicode's composed form (NFC)."""
    try:
        report = Report.from_json(report_document(client=name))
    except InvalidValue as error:
        assert str(error).isprintable()
    else:
        assert Report.from_json(json.loads(report.dumps())).client == unicodedata.normalize("NFC", name)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=10,
    ),
    st.sampled_from(sorted(report_document())),
)
def test_anything_in_any_field_gives_a_value_or_a_sentence(wrong: Any, field: str) -> None:
    try:
        Report.from_json(report_document(**{field: wrong}))
    except InvalidValue as error:
        assert str(error).isprintable()


def test_a_requests_digest_depends_on_what_it_says_and_not_on_its_layout() -> None:
    request = Request.from_json(DOCUMENTS["request"])
    turned = dict(reversed(DOCUMENTS["request"].items()))
    assert Request.from_json(turned).digest == request.digest
    assert Request.from_json({**turned, "nonce": "1" * 32}).digest != request.digest
    unsigned = Request.from_json(json.loads((GOLDEN / "earlier" / "request-1-unsigned.json").read_text()))
    assert unsigned.digest == "sha256:19050d94e20406e38ac599d8951cb60ed4b699baebd2c6edbad2cab1e02b24a2"
    assert Request.from_json({**turned, "signature": None}).digest == request.digest


@pytest.mark.parametrize(
    ("settings", "largest"),
    [
        ({"sigma": 1.0, "n": 1000, "failure_probability": 0.05}, 2.75),
        ({"sigma": 1.0, "n": 100_000, "failure_probability": 0.001}, 3.81),
        ({"sigma": 0.1, "n": 1000, "failure_probability": 0.05}, 0.275),
        ({"sigma": 0.1**0.5, "n": 10_000, "failure_probability": 0.001}, 1.01),
        ({"sigma": 1.0, "n": 1, "failure_probability": 0.001}, 0.0),
    ],
)
def test_the_largest_radius_that_settings_can_certify(settings: dict[str, Any], largest: float) -> None:
    assert Smoothing(**settings).largest_radius == pytest.approx(largest, abs=0.005)


@pytest.mark.parametrize(
    ("file", "digest"),
    [
        ("request-1.json", "44335e95f9c6172d7decbba02a0ed04636619ed4c42606b2c11d3767fa208499"),
        ("earlier/request-1-held-by-any.json", "5b6cae755754ecbe8c922a9bdef5b71c48b17d5a1744c799b91dc6325f70fc72"),
        ("report-1.json", "5609e825e583ed81ac8ad50073813c028321cc1cf1a778617f7bbf1a093772eb"),
        ("earlier/report-1-unsigned.json", "5609e825e583ed81ac8ad50073813c028321cc1cf1a778617f7bbf1a093772eb"),
    ],
)
def test_digests_from_before_population_certificates_stay(file: str, digest: str) -> None:
    kind = KINDS[Path(file).name.split("-")[0]]
    value = kind.from_json(json.loads((GOLDEN / file).read_text()))
    assert isinstance(value, (Report, Request))
    assert hashlib.sha256(canonical(value)).hexdigest() == digest


@pytest.mark.parametrize(
    ("smoothing", "digest"),
    [
        ({"sigma": 0.25}, "03e648f1be92550b731ca4ad9d8cff61ab63142d25e48fc03e09c9a7b3153742"),
        ({"sigma": 1, "procedure": "sequential"}, "34ffe63fbcb46f9b1ca4fcf6e756c9c842eaf17fe0e830d8a935d15d7f557fe6"),
        (
            {"sigma": 0.25, "procedure": "sequential", "n": 10_000},
            "561d666d432ff95752937235957625f6a459414fc382055da2d9a139832fe92b",
        ),
        (
            {
                "sigma": 0.5, "noise": "uniform", "norm": "l1", "procedure": "sequential", "tolerance": 0.0,
                "lattice": 255,
            },
            "0723f93172777788dd1fc7bef74e81ae1384c3eb7d76d218432862cad3ae2033",
        ),
    ],
)  # fmt: skip
def test_a_request_that_names_a_procedure_or_none_means_what_it_meant(smoothing: dict[str, Any], digest: str) -> None:
    """Digests are pinned: settings that came later do not change them."""
    asked = Request(model="demo", smoothing=smoothing, classes=["cat", "dog"], nonce="0f" * 16)  # type: ignore[arg-type]
    assert asked.digest == f"sha256:{digest}"
    assert {"votes", "correct_counts"}.isdisjoint(asked.to_json()["smoothing"])


def test_the_signatures_of_the_golden_files_hold() -> None:
    for kind in (Report, Request):
        for documents in (DOCUMENTS, POPULATION_DOCUMENTS):
            check_intact(kind.from_json(documents[kind.NOUN]))  # type: ignore[arg-type]


def test_settings_of_population_certificates_are_implied() -> None:
    smoothing = Smoothing(sigma=0.25, procedure="population")
    assert (smoothing.n, smoothing.votes, smoothing.most_samples) == (32, 11, 32)
    assert (smoothing.n0, smoothing.failure_probability, smoothing.tolerance) == (None, None, None)
    assert smoothing == Smoothing.defaults(0.25, procedure="population") == Smoothing.from_json(smoothing.to_json())
    assert smoothing.largest_radius is None
    assert {"n0", "failure_probability", "tolerance"}.isdisjoint(smoothing.to_json())
    assert smoothing.default_radii == tuple(round(0.025 * step, 9) for step in range(21))
    assert Smoothing(sigma=0.25, procedure="fixed").votes is None


def test_a_report_of_right_answers_says_what_it_counts_and_nothing_of_certify() -> None:
    report = Report.from_json(population_document())
    assert report.procedure_counts == report.correct_counts == (3, 2, 3, 5, 7)
    assert report.class_procedure_counts == report.class_correct_counts
    assert {"certified_counts", "class_certified_counts", "abstained"}.isdisjoint(report.to_json())
    with pytest.raises(AttributeError, match="population certificates have no certified counts; fedcert.estimate"):
        _ = report.certified_accuracy
    closed = Report.from_json(population_document(class_correct_counts=None))
    assert closed.class_procedure_counts is None
    assert "class_correct_counts" not in closed.to_json()
    certify = Report.from_json(report_document())
    assert certify.procedure_counts == certify.certified_counts
    assert {"correct_counts", "class_correct_counts"}.isdisjoint(certify.to_json())


@pytest.mark.parametrize("n", [1, 7, 32, 2000])
def test_a_client_without_examples_has_a_valid_report_of_right_answers(n: int) -> None:
    settings = {**POPULATION_DOCUMENTS["report"]["smoothing"], "n": n}
    empty = {"label_counts": [0, 0], "class_correct_counts": None, "design_effect": None, "largest_group": None}
    report = Report.from_json(population_document(smoothing=settings, correct_counts=[0] * (n + 1), **empty))
    assert report.examples == 0
    assert Report.from_json(report.to_json()) == report


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=10,
    ),
    st.sampled_from(sorted({*population_document(), *report_document()})),
)
def test_anything_in_any_field_of_right_answers_gives_a_value_or_a_sentence(wrong: Any, field: str) -> None:
    try:
        Report.from_json(population_document(**{field: wrong}))
    except InvalidValue as error:
        assert str(error).isprintable()
