"""The client's work as a whole: what ends up in the report."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedcert
from fedcert import CallError, DataProblem, FedcertWarning, InvalidValue, ModelProblem, Report, Request, certify
from fedcert.certification.progress import ProgressListener
from fedcert.certification.streams import block_size

RANDOM = np.random.default_rng(0)
X = RANDOM.random((40, 6)).astype(np.float32)
Y = (X[:, 0] > 0.5).astype(int)
NOW = datetime.now(UTC)


def threshold(batch: np.ndarray) -> np.ndarray:
    """Class 1 where the first coordinate is above one half."""
    return (batch[:, 0] > 0.5).astype(int)


def run(**changes: Any) -> Report:
    """Certify the threshold with small settings."""
    values: dict[str, Any] = {
        "sigma": 0.25,
        "client": "a",
        "n": 200,
        "model_id": "threshold",
        "procedure": "fixed",
        "seed": 0,
    }
    if "request" in changes:  # which says it
        del values["procedure"]
    return certify(changes.pop("model", threshold), changes.pop("x", X), changes.pop("y", Y), **{**values, **changes})


def test_the_report_counts_what_was_certified() -> None:
    report = run(class_counts=True, radii=[0.0, 0.1, 0.2])
    assert report.label_counts == (int((Y == 0).sum()), int((Y == 1).sum()))
    assert report.samples == 40 * 300
    assert report.class_certified_counts is not None
    assert np.sum(report.class_certified_counts, axis=0).tolist() == list(report.certified_counts)
    # The smoothed threshold is right on every example; those near the threshold are not certified.
    distance = np.abs(X[:, 0] - 0.5)
    assert report.certified_counts[2] <= (distance > 0.2).sum()
    assert report.certified_counts[0] >= (distance > 0.1).sum()
    assert report.abstained is not None
    assert 0 < report.abstained <= 40 - report.certified_counts[0]


def test_counts_per_class_stay_at_home_unless_they_are_asked_for() -> None:
    assert run().class_certified_counts is None


def test_the_same_seed_gives_the_same_counts_and_another_client_other_noise() -> None:
    many = {"radii": list(np.linspace(0, 0.5, 40))}
    assert run(**many).procedure_counts == run(**many).procedure_counts
    assert run(**many).procedure_counts != run(client="b", **many).procedure_counts
    assert run(**many).procedure_counts != run(seed=1, **many).procedure_counts
    assert run(**many).procedure_counts == run(batch_size=13, **many).procedure_counts


def test_every_kth_example_counts_as_that_example_alone() -> None:
    report = run(every=3)
    assert 6 <= report.examples <= 22
    assert report.samples == report.examples * 300
    with pytest.raises(CallError, match=r"^every \(--every\) of 1000000 leaves none of the 40 examples here; take"):
        run(every=10**6)


@pytest.mark.filterwarnings("ignore:labels look swapped")
def test_a_label_that_is_never_predicted_is_never_certified() -> None:
    report = run(model=lambda batch: np.zeros(len(batch), int), y=np.ones(40, int), classes=["a", "b"])
    assert report.certified_counts == (0,) * 21
    assert report.abstained == 0


def test_a_constant_model_is_certified_on_its_class_up_to_the_cap() -> None:
    report = run(model=lambda batch: np.zeros((len(batch), 3)), y=np.zeros(40, int), radii=[0, 0.3, 0.9])
    assert report.certified_counts == (40, 40, 0)
    assert report.classes == ("0", "1", "2")


def test_a_client_without_examples_reports_zeros() -> None:
    report = run(x=X[:0], y=Y[:0], classes=["a", "b"])
    assert (report.label_counts, report.samples, report.abstained) == ((0, 0), 0, 0)
    with pytest.raises(DataProblem, match="there are no examples, so the classes must be named"):
        run(x=X[:0], y=Y[:0])


def test_a_site_that_lacks_classes_still_lists_all() -> None:
    assert run(classes=["a", "b", "c", "d"]).label_counts[2:] == (0, 0)


def test_names_must_fit_the_models_scores() -> None:
    module = torch.nn.Linear(6, 3)
    with pytest.raises(ModelProblem, match="the model gives scores for 3 classes, but 2 classes are named"):
        run(model=module, classes=["a", "b"], model_id=None)
    with pytest.raises(DataProblem, match=r"y\[0\] must be a class index from 0 to 2, but is 3"):
        run(model=module, y=np.full(40, 3), model_id=None)


@pytest.mark.filterwarnings("ignore:without noise the model", "ignore:accuracy is")
@pytest.mark.parametrize(("scale", "sigma"), [(255.0, 0.25), (1.0, 30.0), (1.0, 1e-4)])
def test_a_range_that_makes_sigma_look_wrong_is_warned_of(scale: float, sigma: float) -> None:
    with pytest.warns(
        FedcertWarning, match=r"the inputs range from .* and sigma is .*scale the columns beforehand, so that one sigma"
    ):
        run(x=X * scale, sigma=sigma)


def test_the_forecast_comes_before_the_work_and_the_samples_add_up() -> None:
    class Noting(ProgressListener):
        def __init__(self) -> None:
            self.events: list[tuple[str, int]] = []

        def forecast(self, samples: int, rate: float) -> None:
            assert rate > 0
            self.events.append(("forecast", samples))

        def advance(self, samples: int) -> None:
            self.events.append(("advance", samples))

    listener = Noting()
    report = run(progress=listener)
    assert listener.events[0] == ("forecast", report.samples)
    assert sum(samples for kind, samples in listener.events if kind == "advance") == report.samples


def request(**changes: Any) -> Request:
    """A request for the threshold."""
    values = {"model": "threshold", "smoothing": {"sigma": 0.25, "n": 200}, "classes": ["a", "b"], "nonce": "0" * 32}
    return Request(**{**values, **changes})


def test_a_request_may_be_a_file(tmp_path: Path) -> None:
    asked = request(radii=[0, 0.1])
    asked.save(tmp_path / "request.json")
    for file in (tmp_path / "request.json", str(tmp_path / "request.json")):
        assert run(sigma=None, n=None, request=file).request == asked.digest
    with pytest.raises(CallError, match="^request must be a path, but is 7"):
        run(sigma=None, n=None, request=7)


def test_a_request_says_it_all() -> None:
    asked = request(radii=[0, 0.1], roster=["a", "b"])
    report = run(sigma=None, n=None, request=asked)
    assert (report.request, report.radii, report.classes) == (asked.digest, asked.radii, asked.classes)
    assert report.smoothing == asked.smoothing


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        (
            {"roster": ["b"]},
            CallError,
            "the client 'a' is not on the request's roster; check its name with the coordinator",
        ),
        (
            {"deadline": (NOW - timedelta(hours=1)).isoformat()},
            CallError,
            "the request's deadline .* has passed; ask the coordinator for a new request",
        ),
        (
            {"model": "other"},
            ModelProblem,
            "the request asks for the model other, but this one is threshold; get the right weights",
        ),
    ],
)
def test_a_request_that_would_not_be_answered_well_is_refused(
    changes: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        run(sigma=None, n=None, request=request(**changes))


def test_a_deadline_to_come_is_no_hindrance() -> None:
    run(sigma=None, n=None, request=request(deadline=(NOW + timedelta(hours=1)).isoformat()))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sigma": None}, "sigma is needed"),
        ({"request": request()}, "the request already says sigma, n: leave them out"),
        ({"request": request(), "n": None}, "the request already says sigma: leave it out"),
    ],
)
def test_arguments_that_do_not_go_together_are_named(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CallError, match=sentence):
        run(**changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"every": 0}, "every must be a whole number from 1 to 2\\^53, but is 0"),
        ({"every": 1.5}, "every must be a whole number from 1 to 2\\^53, but is 1.5"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1 to 2\\^53, or null, but is 0"),
        ({"client": ""}, "client must be a text of 1 to 200 characters"),
        ({"client": None}, "client must be a text of 1 to 200 characters"),
        ({"radii": [1, 0]}, r"radii\[1\] must be above the one before it \(1\), but is 0.0"),
        ({"radii": "0,1"}, "radii must be a list of 1 to 10000 increasing radii, but is '0,1'"),
        ({"radii": 5}, "radii must be a list of 1 to 10000 increasing radii, but is 5"),
        ({"classes": ["a", "a"]}, r"classes\[1\] must be different from those before it, but is 'a'"),
        ({"classes": "ab"}, "classes must be a list of 1 to 100000 different class names"),
        ({"model_id": "sha256:x"}, r"model_id \(--model-id\) must be 'sha256:' and 64 hexadecimal digits"),
        ({"device": "cuda"}, "device goes with a torch module"),
    ],
)
def test_nothing_is_certified_before_all_arguments_are_checked(changes: dict[str, Any], sentence: str) -> None:
    def untouched(batch: np.ndarray) -> np.ndarray:
        pytest.fail("the model was called")

    with pytest.raises((InvalidValue, CallError), match=sentence):
        run(model=untouched, **changes)


def test_a_single_score_is_no_prediction() -> None:
    """Its largest entry is always class 0: a site with nothing but negatives would report 100%."""
    for model in (torch.nn.Linear(6, 1), lambda batch: batch[:, :1]):
        named = {"model_id": None} if isinstance(model, torch.nn.Module) else {}
        with pytest.raises(
            ModelProblem, match="the model gives one score per example, whose largest is always class 0"
        ):
            run(model=model, y=np.zeros(40, int), **named)


def test_a_column_of_labels_is_labels() -> None:
    assert run(model=lambda batch: threshold(batch)[:, None]).procedure_counts == run().procedure_counts


def test_a_request_may_ask_small_sites_not_to_answer() -> None:
    with pytest.raises(
        DataProblem, match="the request asks sites with fewer than 41 examples not to answer, and there are 40 here"
    ):
        run(sigma=None, n=None, request=request(release={"minimum_examples": 41}))


def test_a_model_that_exits_does_not_take_the_program_with_it() -> None:
    with pytest.raises(ModelProblem, match="the model failed on a float32 batch of shape .*: SystemExit: 0"):
        run(model=lambda batch: sys.exit(0))


def test_examples_of_any_size_fit_in_the_memory_of_one_block() -> None:
    assert block_size((3, 32, 32)) == 100
    assert block_size((3, 2000, 2000)) == 1
    assert block_size((512, 512, 512)) == 1
    report = run(
        x=np.linspace(0, 1, 2_000_000, dtype=np.float32)[None],
        y=[0],
        n=20,
        n0=5,
        batch_size=3,
        model=lambda batch: batch[:, :2],
    )
    assert report.samples == 25


def test_groups_become_one_design_effect() -> None:
    """Sizes 3, 1 and 36: Σ m²/n = (9 + 1 + 1296) / 40."""
    groups = ["anna"] * 3 + ["bob"] + ["chris"] * 36
    report = run(groups=groups, radii=[0.0, 0.1])
    assert report.design_effect == pytest.approx((1306 / 40,) * 2)
    assert run(groups=list(range(40)), radii=[0.0]).design_effect == (1.0,)
    assert run().design_effect is None
    assert "anna" not in report.dumps()
    for wrong in ([1] * 39, [0.5] * 40, [[1]] * 40):
        with pytest.raises(DataProblem, match="groups must name the group of each of the 40 examples"):
            run(groups=wrong)


def test_compiling_what_cannot_be_compiled_is_a_warning() -> None:
    with pytest.warns(FedcertWarning, match="only torch modules on a GPU are compiled; going on without"):
        run(compile=True)


def test_the_usual_settings_are_population_certificates_of_32_passes() -> None:
    report = certify(threshold, X, Y, sigma=0.25, client="a", model_id="threshold")
    assert (report.smoothing.procedure, report.smoothing.n, report.smoothing.votes) == ("population", 32, 11)
    assert (report.samples, report.radii) == (40 * 32, tuple(round(0.025 * step, 9) for step in range(21)))


def test_certify_is_sequential_with_at_most_ten_thousand_samples_or_fixed() -> None:
    report = certify(threshold, X, Y, sigma=0.25, client="a", model_id="threshold", procedure="sequential")
    assert (report.smoothing.procedure, report.smoothing.n, report.smoothing.tolerance) == ("sequential", 10_000, 0.005)
    fixed = certify(threshold, X, Y, sigma=0.25, client="a", model_id="threshold", procedure="fixed")
    assert (fixed.smoothing.n, fixed.smoothing.tolerance, fixed.samples) == (1000, None, 40 * 1100)


def test_a_data_frame_has_columns_whose_order_is_checked() -> None:
    import pandas

    age = np.linspace(0, 1, 20)
    frame = pandas.DataFrame({"age": age, "glucose": 1 - age})
    asked = fedcert.request("t", 0.25, ["well", "ill"], input_columns=["age", "glucose"])
    given: dict[str, Any] = {"client": "a", "request": asked, "model_id": "t"}
    model = lambda batch: (batch[:, 0] > 0.5).astype(int)  # noqa: E731
    assert fedcert.certify(model, frame, (age > 0.5).astype(int), **given).examples == 20
    with pytest.raises(DataProblem, match=r"'age', 'glucose', in this order, but in the data it is 'glucose', 'age'; "):
        fedcert.certify(model, frame[["glucose", "age"]], (age > 0.5).astype(int), **given)
