"""scikit-learn's classifiers, and what behaves like them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedcert import CallError, DataProblem, ModelProblem, Report, certify, request, smooth
from fedcert.certification.models.estimators import estimator_function, is_estimator
from fedcert.cli.main import run

GENERATOR = np.random.default_rng(0)
X = GENERATOR.random((90, 4)).astype(np.float32)
Y = (X[:, 0] * 3).astype(int)
NAMES = np.array(["low", "middle", "high"])


@pytest.mark.parametrize(
    "model", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression()), RandomForestClassifier(5)]
)
def test_a_classifier_is_certified_like_its_own_function(model: Any) -> None:
    model.fit(X, Y)
    options: dict[str, Any] = {"sigma": 0.1, "client": "a", "model_id": "m", "classes": NAMES.tolist(), "seed": 1}
    counts = certify(model, X, Y, **options).correct_counts
    assert counts == certify(model.predict_proba, X, Y, **options).correct_counts


def test_a_classifier_needs_a_name_and_no_device() -> None:
    model = LogisticRegression().fit(X, Y)
    with pytest.raises(
        CallError, match=r"^a scikit-learn classifier has no weights to take a digest of: give its name"
    ):
        certify(model, X, Y, sigma=0.1, client="a")
    with pytest.raises(CallError, match="^device goes with a torch module; a scikit-learn classifier runs"):
        certify(model, X, Y, sigma=0.1, client="a", model_id="m", device="cpu")


def test_a_classifier_without_probabilities_answers_with_labels() -> None:
    model = RidgeClassifier().fit(X, Y)
    assert not hasattr(model, "predict_proba")
    assert np.array_equal(estimator_function(model)(X), model.predict(X))  # type: ignore[arg-type]
    named = RidgeClassifier().fit(X, NAMES[Y])
    labels = estimator_function(named, NAMES.tolist())(X)
    assert np.array_equal(NAMES[labels], named.predict(X))  # type: ignore[call-overload]


def test_names_are_put_into_the_order_of_the_classes() -> None:
    model = LogisticRegression().fit(X, NAMES[Y])  # it sorts them: high, low, middle
    scores = np.asarray(estimator_function(model, ["low", "middle", "high"])(X))
    assert np.array_equal(NAMES[scores.argmax(axis=1)], model.predict(X))


def test_a_class_that_it_never_saw_is_never_predicted() -> None:
    kept = Y != 1
    model = LogisticRegression().fit(X[kept], Y[kept])
    scores = np.asarray(estimator_function(model)(X))
    assert scores.shape == (len(X), 3)
    assert not scores[:, 1].any()
    fewer = LogisticRegression().fit(X[Y < 2], Y[Y < 2])
    assert np.asarray(estimator_function(fewer, NAMES.tolist())(X)).shape == (len(X), 3)


@pytest.mark.parametrize(
    ("labels", "classes", "sentence"),
    [
        (NAMES, ["low", "high"], "^the classifier predicts 'middle', which is not among the classes .'low', 'high'."),
        (np.array([0.5, 1.5, 2.5]), None, "^the classifier's classes_ must be class indices from 0 or class names, but"),
        (np.array([-1, 0, 1]), None, "must be class indices from 0 or class names, but are -1, 0, 1; fit it with"),
    ],
)  # fmt: skip
def test_classes_that_do_not_fit_are_named(labels: np.ndarray, classes: list[str] | None, sentence: str) -> None:
    model = RandomForestClassifier(2).fit(X, NAMES[Y])
    model.classes_ = labels
    with pytest.raises(CallError, match=sentence):
        estimator_function(model, classes)


def test_a_classifier_that_was_not_fitted() -> None:
    with pytest.raises(CallError, match="^the classifier RandomForestClassifier is not fitted: call its fit before"):
        certify(RandomForestClassifier(), X, Y, sigma=0.1, client="a", model_id="m")


def test_images_become_rows_of_features() -> None:
    model = LogisticRegression().fit(X, Y)
    function = estimator_function(model)
    assert np.array_equal(function(X.reshape(-1, 1, 2, 2)), function(X))  # type: ignore[arg-type]
    with pytest.raises(ModelProblem):
        certify(model, np.zeros((3, 5), np.float32), [0, 1, 2], sigma=0.1, client="a", model_id="m")


def test_anything_with_probabilities_will_do() -> None:
    class Own:
        def predict_proba(self, batch: np.ndarray) -> np.ndarray:
            return np.stack([1 - batch.mean(axis=(1, 2)), batch.mean(axis=(1, 2))], axis=1)

    assert is_estimator(Own())
    report = certify(Own(), X[:4].reshape(4, 2, 2), [0, 0, 1, 0], sigma=0.1, client="a", model_id="own")
    assert report.label_counts == (3, 1)
    assert not is_estimator(lambda batch: batch)


def test_it_can_be_deployed_too() -> None:
    model = LogisticRegression().fit(X, Y)
    votes = smooth(model, 0.01)
    assert np.mean(np.asarray(votes(X)) == model.predict(X)) > 0.9  # type: ignore[operator]


def test_what_is_deployed_has_the_order_of_what_is_certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names in an order that is not the alphabet's: certified and deployed, in Python and by the commands."""
    model, names = LogisticRegression(C=100).fit(X, NAMES[Y]), NAMES.tolist()
    report = certify(model, X, Y, sigma=0.05, client="a", model_id="m", classes=names, procedure="fixed", n=200)
    proven = sum(report.certified_counts or ()) and (report.certified_counts or (0,))[0] / len(Y)
    assert proven > 0.7
    classifier = smooth(model, sigma=0.05, votes=11, classes=names)
    assert np.mean(np.asarray(classifier(X)) == Y) > proven - 0.1
    (tmp_path / "named_rule.py").write_text("""
import numpy as np
from sklearn.linear_model import LogisticRegression

def make():
    x = np.random.default_rng(0).random((90, 4)).astype(np.float32)
    return LogisticRegression(C=100).fit(x, np.array(["low", "middle", "high"])[(x[:, 0] * 3).astype(int)])
""")
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", x=X, y=Y)
    Path("classes.txt").write_text("\n".join(names))
    common = ["named_rule:make", "data.npz", "--model-id", "m", "--sigma", "0.05", "--classes", "classes.txt"]
    assert run(["certify", *common, "--client", "a", "--procedure", "fixed", "--n", "200", "--out", "a.json"]) == 0
    assert abs((Report.load("a.json").certified_counts or (0,))[0] / len(Y) - proven) < 0.1
    assert run(["predict", *common, "--out", "labels.csv"]) == 0
    rows = [line.split(",") for line in Path("labels.csv").read_text().splitlines()[1:]]
    assert np.mean([int(row[2]) for row in rows] == Y) > proven - 0.1


@pytest.mark.parametrize("use", [lambda model: smooth(model, 0.1), lambda model: estimator_function(model)])
def test_names_without_an_order_are_refused(use: Any) -> None:
    with pytest.raises(
        CallError, match=r"^the classifier predicts names \('high', 'low', 'middle'\): name the classes"
    ):
        use(LogisticRegression().fit(X, NAMES[Y]))


def test_labels_that_start_at_1_are_named() -> None:
    with pytest.raises(
        CallError, match="^the classifier predicts the labels 1, 2, 3, but class indices go from 0 to 2"
    ):
        smooth(LogisticRegression().fit(X, Y + 1), 0.1, classes=NAMES.tolist())


def test_the_columns_that_it_was_fitted_with_are_checked() -> None:
    import pandas

    frame = pandas.DataFrame(X, columns=["age", "glucose", "pressure", "weight"])
    other = frame[["weight", "pressure", "glucose", "age"]]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, Y)
    options: dict[str, Any] = {"sigma": 0.1, "client": "a", "model_id": "m", "classes": NAMES.tolist()}
    assert certify(model, frame, Y, **options).examples == len(Y)  # and scikit-learn does not complain of arrays
    words = (
        "^the model was fitted with the columns 'age', 'glucose', 'pressure', 'weight', in this order, but in the data"
    )
    with pytest.raises(DataProblem, match=words):
        certify(model, other, Y, **options)
    classifier = smooth(model, 0.1, classes=NAMES.tolist())
    assert len(np.asarray(classifier(frame))) == len(Y)
    with pytest.raises(DataProblem, match=words):
        classifier(other)
    asked = request("m", 0.1, NAMES.tolist(), input_columns=list(other.columns))
    with pytest.raises(DataProblem, match=words):
        certify(model, X, Y, request=asked, client="a", model_id="m")
