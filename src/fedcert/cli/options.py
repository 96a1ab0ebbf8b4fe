"""Options and arguments that several commands share, each declared once.

What may be given for a registered name (a method, a kind of interval, a noise) is read from its registry when help is
printed, so that a new entry appears without a change here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option
from typer.models import ArgumentInfo, OptionInfo

from fedcert._schema.registry import alternatives
from fedcert.estimation.intervals.registry import INTERVALS
from fedcert.estimation.methods.registry import AUTO, class_curve_methods, method_names, recommended
from fedcert.report.smoothing import DEFAULT_PROCEDURE, DEFAULT_SAMPLES, DEFAULT_VOTES


class _WordedWhenShown:
    """Help that is worded when it is shown, so that it lists what is registered by then."""

    def __init__(self, describe: Callable[[], str], **settings: Any) -> None:
        self.describe = describe
        super().__init__(default=..., param_decls=None, **settings)  # type: ignore[call-arg]

    @property
    def help(self) -> str:
        """The help text."""
        return self.describe()

    @help.setter
    def help(self, text: str | None) -> None:
        """Ignore what Typer assigns: it was given no text."""


class RegistryOption(_WordedWhenShown, OptionInfo):  # type: ignore[misc]
    """An option whose help is computed.

    Args:
        describe: gives the help text.
        settings: of `typer.Option`.
    """


class RegistryArgument(_WordedWhenShown, ArgumentInfo):  # type: ignore[misc]
    """An argument whose help is computed.

    Args:
        describe: gives the help text.
        settings: of `typer.Argument`.
    """


def method_choices() -> str:
    """The methods, for a help text."""
    own = [method.name for method in recommended()]
    return f"{alternatives([*own, *(name for name in method_names() if name not in own)])}."


def _what_if_methods() -> str:
    return f"{alternatives([AUTO, *(method.name for method in class_curve_methods())])}."


def interval_choices() -> str:
    """The kinds of intervals, for a help text."""
    return f"{', or '.join(kind.title for kind in INTERVALS.values())}."


Reports = Annotated[list[Path], Argument(metavar="REPORT…", help="Reports or sums: files, folders, NDJSON or Parquet.")]
TargetMix = Annotated[
    str, Option(help="Class mix of the target population: uniform, a JSON file {class: weight}, or class=weight,…")
]
TargetName = Annotated[str | None, Option(help="Name of the target population, for titles.")]
HeadlineRadius = Annotated[
    float | None, Option(help="Radius to report first, one of the estimate's. [default: a quarter of the largest]")
]
Verbose = Annotated[bool, Option("--verbose", help="Print all checks and weights, not only warnings.")]
Truth = Annotated[Path | None, Option(help="A report on the target population itself, to compare with (.json).")]
Subsets = Annotated[int, Option(help="Number of random subsets of clients (T in the paper; ap, ga).")]
SubsetSize = Annotated[int, Option(help="Clients per subset (E in the paper; ap, ga).")]
SmallClient = Annotated[int, Option(help="Clients with fewer examples are grouped (tau in the paper; ga).")]
EstimateSeed = Annotated[int, Option(help="Random seed of the subsets.")]
NonNegative = Annotated[bool, Option(help="Keep weights at or above 0 (minimax, blup).")]
ByClass = Annotated[bool, Option(help="Print each class's curve; its interval holds for a class chosen in advance.")]
MethodName = Annotated[str, RegistryOption(method_choices)]
WhatIfMethodName = Annotated[str, RegistryOption(_what_if_methods)]
Confidence = Annotated[float, Option(help="Confidence level of the interval.")]
IntervalName = Annotated[str, RegistryOption(interval_choices)]
Simultaneous = Annotated[bool, Option(help="One interval that holds for all radii at once.")]
AllClasses = Annotated[
    bool, Option(help="Per-class intervals that hold for all classes at once, so for the weakest one too.")
]
TargetExamples = Annotated[int | None, Option(help="Size of the target, if it is a finite set of examples.")]
Screen = Annotated[bool, Option(help="Remove clients whose curves the other clients cannot explain.")]
ScreenUntrusted = Annotated[
    bool | None,
    Option(help="Remove clients whose curves the others cannot explain. [default: those not in --trusted]"),
]
AsJson = Annotated[bool, Option("--json", help="Print the result as JSON.")]

EstimateFile = Annotated[Path | None, Option(help="The estimate file to write (.json).")]
FigureFile = Annotated[Path | None, Option(help="A figure to write (.png, .svg or .pdf).")]
PageFile = Annotated[Path | None, Option(help="A page to write (.html), see 'fedcert page'.")]
PageUnit = Annotated[
    str | None, Option("--unit", help="Page: the unit of radii in words, such as 'in pixel values from 0 to 1'.")
]
PageContext = Annotated[
    str | None, Option("--context", help="Page: one line on what a radius means, shown under the answer.")
]

Client = Annotated[str, Option(help="The client's name, unique in its federation.")]
Sigma = Annotated[float, Option(help="Standard deviation of the noise, in the units of the inputs.")]
Radii = Annotated[
    str | None,
    Option(
        help="0,0.25,0.5 or first:last:step. [default: 20 steps, to 2 sigma (population) or the largest certifiable]"
    ),
]
ClassFile = Annotated[Path | None, Option(help="File of class names in index order (.txt or .json).")]
ReportClassCounts = Annotated[
    bool, Option(help="Include counts per class: tighter intervals, but discloses per-class accuracy.")
]
AnswerClassCounts = Annotated[
    bool | None,
    Option(
        "--class-counts/--no-class-counts",
        help="Include counts per class: tighter intervals, but discloses per-class accuracy. "
        "[default: as the request asks]",
    ),
]
InputRange = Annotated[
    str | None, Option(help="The smallest and largest input value, such as 0,1; checked before certification.")
]
Tolerance = Annotated[
    float | None, Option(help="Sequential: largest loss of certified accuracy allowed at any radius. [default: 0.005]")
]
Lattice = Annotated[
    int | None,
    Option(help="Inputs are multiples of 1/this, and noise is exact on them; 0: none. [default: 255 for 8-bit images]"),
]
Samples = Annotated[
    int | None,
    Option(
        help="Noisy passes of each example (population), or the most samples (CERTIFY). "
        f"[default: {', '.join(f'{name} {count}' for name, count in DEFAULT_SAMPLES.items())}]"
    ),
]
Procedure = Annotated[
    str | None,
    Option(
        help="population (averages, by a vote), or CERTIFY for single examples: sequential, fixed. "
        f"[default: {DEFAULT_PROCEDURE}]"
    ),
]
SelectionSamples = Annotated[int | None, Option(help="CERTIFY: samples that select a class. [default: 100]")]
FailureProbability = Annotated[
    float | None, Option(help="CERTIFY: failure probability of each certificate. [default: 0.001]")
]
Votes = Annotated[
    int | None, Option(help=f"Population: noisy copies that vote on an answer; odd. [default: {DEFAULT_VOTES}]")
]
OtherVotes = Annotated[
    int | None, Option(help="Population: noisy copies that vote on an answer; odd. [default: the request's]")
]
OtherRadii = Annotated[str | None, Option(help="Population: 0,0.1,0.2 or first:last:step. [default: the request's]")]
PolicyFile = Annotated[Path | None, Option(help="This site's rules about what leaves it (.json).")]
Device = Annotated[str, Option(help="auto, cpu, cuda, cuda:1, …")]
MinimumExamples = Annotated[int, Option(help="Fewest examples of a report that --time-budget cuts short.")]
TimeBudget = Annotated[str | None, Option(help="Stop in time with a smaller report: 90s, 45m, 3h.")]
