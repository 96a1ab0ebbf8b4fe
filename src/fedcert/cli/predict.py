"""fedcert predict."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from fedcert._files.atomic import whole_file
from fedcert.certification.data.inputs import RangeSeen, check_columns, check_range, check_shape, columns_sentence
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.models.classifiers import TorchClassifier
from fedcert.certification.models.loading import load_classifier
from fedcert.certification.plan import check_model, check_not_in_request
from fedcert.cli import options
from fedcert.cli.console import print_note, print_result, print_warning, progress
from fedcert.cli.inputs import files_among, from_options, names_in
from fedcert.cli.model_files import check_weights_are_given
from fedcert.errors import CallError, preview
from fedcert.prediction.settings import PredictionSettings
from fedcert.prediction.smoothed import smoothed_classifier
from fedcert.prediction.unlabelled import load_inputs
from fedcert.prediction.vote import ABSTAIN, Vote
from fedcert.report import Request, check_writable, read_record
from fedcert.report.fields import CLASSES
from fedcert.report.noises import noise_choices

_COLUMNS = ("index", "label", "class_index", "votes", "share")
_FEWEST_ANSWERS = 20  # from which on it is worth a look that all are the same
_SHARE_DIGITS = 6  # of a share: n votes of at most some 100,000 have no more


def predict(
    model: Annotated[str, Argument(metavar="MODEL", help="model.onnx, or package.module:factory.")],
    data: Annotated[
        str,
        Argument(metavar="DATA", help="data.npz, a .csv, a CIFAR folder, or package.module:function; labels or none."),
    ],
    out: Annotated[Path, Option(help="The labels to write, a row for each input (.csv).")],
    request: Annotated[
        Path | None,
        Option(help="The request that was certified (.json): its model, noise, lattice, votes and classes."),
    ] = None,
    sigma: Annotated[float | None, Option(help="Standard deviation of the noise, as certified.")] = None,
    votes: Annotated[
        int | None, Option(help="Noisy copies that vote on each input; odd. [default: the request's, or 11]")
    ] = None,
    abstain: Annotated[
        float | None, Option(help="PREDICT at this level in place of votes: unclear inputs have no answer.")
    ] = None,
    n: Annotated[int | None, Option(help="Noisy samples of PREDICT. [default: 1000]")] = None,
    weights: Annotated[Path | None, Option(help="Weights for the factory's module (.safetensors).")] = None,
    classes: options.ClassFile = None,
    noise: Annotated[str | None, options.RegistryOption(lambda: f"{noise_choices()}. [default: gaussian]")] = None,
    lattice: Annotated[
        int | None,
        Option(help="As certified: noise is rounded to multiples of 1/this; 0: none. [default: 255 for 8-bit images]"),
    ] = None,
    precision: Annotated[
        str | None,
        Option(help="As certified. [default: bfloat16 on a GPU that has it, else float32]"),
    ] = None,
    device: options.Device = "auto",
    batch_size: Annotated[
        int | None, Option(help="Samples per call of the model, each filled up. [default: what is needed]")
    ] = None,
    model_id: Annotated[str | None, Option(help="Name of a model that is a bare callable.")] = None,
) -> None:
    """Classify inputs as the smoothed classifier that was certified does: by votes over fresh, secret noise."""
    tables = [Path(data)] if data.endswith(".csv") else []
    check_writable(out, (".csv",), [*files_among(model, data, weights, classes), *tables])
    given = {
        "sigma": sigma, "noise": noise, "lattice": lattice, "precision": precision,
        "classes": None if classes is None else names_in(classes, CLASSES, "classes"),
    }  # fmt: skip
    asked: Request | None = None if request is None else read_record(request, Request)
    if asked is not None:
        given |= _certified(asked, given)
        votes = votes if votes is not None or abstain is not None else asked.smoothing.votes
    elif sigma is None:
        raise CallError("give --request FILE, or --sigma and the other settings that were certified")
    settings = from_options(PredictionSettings, **given, votes=votes, abstain=abstain, n=n, batch_size=batch_size)
    _check_votes(asked, votes)
    inputs = load_inputs(data, None if asked is None else asked.input_shape)
    loaded = load_classifier(model, weights=weights, model_id=model_id, device=device, classes=settings.classes)
    _check_inputs(inputs, asked, settings.sigma)
    if weights is None and isinstance(loaded, TorchClassifier):
        check_weights_are_given(model, None if asked is None else asked.model, loaded.identity)
    if asked is not None:
        check_model(asked, loaded.identity)
    classifier = smoothed_classifier(loaded, settings)
    summary = _Summary(settings)
    with progress() as bar, whole_file(out) as file:
        task = bar.add_task("voting", total=len(inputs), rate="")
        table = csv.writer(text := io.TextIOWrapper(file, encoding="utf-8", newline=""))
        table.writerow(_COLUMNS)
        for vote in classifier.votes_on(inputs):
            table.writerows(_rows(vote, summary.inputs, settings.classes))
            summary.add(vote)
            bar.update(task, advance=len(vote))
        text.detach()
    if inputs.columns is not None and (asked is None or asked.input_columns is None):
        print_note(columns_sentence(inputs.columns))
    print_result(f"{summary.sentence} Wrote {out}.")
    if (same := summary.unanimous_class(settings.classes)) is not None:
        print_warning(same)


def _certified(request: Request, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a request was certified with.

    Raises:
        CallError: one of them is given too, or the request is about no vote.
    """
    check_not_in_request(given)
    smoothing = request.smoothing
    return {
        "sigma": smoothing.sigma, "noise": smoothing.noise, "lattice": smoothing.lattice or 0,
        "precision": smoothing.precision, "classes": request.classes,
    }  # fmt: skip


def _check_votes(request: Request | None, votes: int | None) -> None:
    """Warn of a vote of another size than the request's: its numbers are not about it."""
    asked = None if request is None else request.smoothing.votes
    if votes is not None and asked is not None and votes != asked:
        print_warning(
            f"the request asks for {_copies(asked)}, so its numbers are not about {_copies(votes)}: estimate with "
            f"--votes {votes}, or leave --votes out here"
        )


def _check_inputs(inputs: LocalData, request: Request | None, sigma: float) -> None:
    """Check shape and range as certification does: a certificate says nothing of inputs in other units.

    Raises:
        DataProblem: they are not what the request states, or look like pixels from 0 to 255.
    """
    if not len(inputs):
        return
    check_columns(inputs.columns, None if request is None else request.input_columns)
    check_shape(inputs.shape, None if request is None else request.input_shape)
    seen = RangeSeen()
    for _, images in inputs.pieces():
        seen.add(images)
    check_range(seen, None if request is None else request.input_range, sigma, inputs.shape, print_warning)


def _rows(vote: Vote, first: int, classes: Sequence[str] | None) -> Iterator[tuple[object, ...]]:
    """A row for each input of a vote, whose first has the given index."""
    answers: Iterable[tuple[int, int, float]] = zip(
        vote.labels.tolist(), vote.votes.tolist(), vote.shares.tolist(), strict=True
    )
    for index, (label, votes, share) in enumerate(answers, start=first):
        name = "abstain" if label == ABSTAIN else str(label) if classes is None else classes[label]
        yield index, name, label, votes, round(share, _SHARE_DIGITS)


class _Summary:
    """What is said of all answers together."""

    def __init__(self, settings: PredictionSettings) -> None:
        self.settings = settings
        self.inputs = self.unanimous = self.abstained = 0
        self.least_votes = settings.samples
        self.labels: set[int] = set()

    def add(self, vote: Vote) -> None:
        """Take some more answers in."""
        self.inputs += len(vote)
        self.unanimous += int((vote.votes == self.settings.samples).sum())
        self.abstained += len(vote.abstains)
        self.labels |= set(np.unique(vote.labels).tolist()) - {ABSTAIN}
        self.least_votes = min(self.least_votes, int(vote.votes.min(initial=self.least_votes)))

    def unanimous_class(self, classes: Sequence[str] | None) -> str | None:
        """That all answers are the same, in a sentence; None where they are not, or are few."""
        answers = self.inputs - self.abstained
        if len(self.labels) != 1 or answers < _FEWEST_ANSWERS:
            return None
        (label,) = self.labels
        name = label if classes is None else preview(classes[label])
        return f"all {answers:,} answers are {name}; check that the inputs are scaled as the model was trained"

    @property
    def sentence(self) -> str:
        """The answers in one sentence."""
        samples = self.settings.samples
        if not self.inputs:
            return "There are no inputs."
        if self.settings.abstain is not None:
            answered = self.inputs - self.abstained
            return (
                f"PREDICT answers {answered:,} of {self.inputs:,} inputs at level {self.settings.abstain:g}, from "
                f"{samples:,} noisy samples each, and abstains on {self.abstained:,}."
            )
        inputs = f"{self.inputs:,} input{'s' if self.inputs != 1 else ''}"
        if samples == 1:
            return f"{inputs}, one noisy copy each."
        return (
            f"{inputs}, {samples:,} votes each: {self.unanimous:,} are unanimous, and the least clear has "
            f"{self.least_votes:,} of {samples:,}."
        )


def _copies(votes: int) -> str:
    return "one noisy copy" if votes == 1 else f"a vote of {votes}"
