"""Everything that fedcert raises on purpose.

    FedcertError
    ├── CallError                  the call was wrong: an option, an argument, a file that is not there   (exit 2)
    │   ├── MissingExtra           a part of fedcert that needs a package which is not installed
    │   └── JournalInUse           another process is writing to the journal (certification/journal.py)
    ├── InvalidValue               a value breaks a rule of its schema: names the place, the field, the rule
    ├── FileProblem                a file cannot be read, parsed or written
    │   └── PlantedFile            a link or another trap below a shared folder (_files/open_folder.py)
    ├── CannotCombine              reports that do not belong together
    ├── ModelProblem               the model cannot be loaded, or its output is not a prediction
    ├── DataProblem                the local data cannot be used
    ├── DeviceProblem              a device failed while it was working
    ├── EngineStopped              a federated learning engine ended the work
    ├── Refused                    an answer that a certification round does not take
    │   └── ConfidentialRefusal    a site's refusal whose reason would disclose something about its data
    └── EstimationProblem          the reports are fine, but no estimate follows from them
        └── QuorumMissed           too few clients answered

    FedcertWarning                 something that a person should look at, while the work goes on
    └── FedcertNote                something worth knowing that is no mistake

Each message says what was expected, what came, where, and what to do. `CallError`s lead to exit code 2 on the command
line, all others to 1. They are `ValueError`s where Python would raise one.
"""

from __future__ import annotations

import importlib
from typing import Any


class FedcertError(Exception):
    """Base of every error that fedcert raises on purpose.

    Examples:
        >>> import fedcert
        >>> try:
        ...     fedcert.estimate("missing.json")
        ... except fedcert.FedcertError as error:
        ...     print(error.exit_code, error)
        2 there is no file or folder missing.json; check the name
    """

    exit_code = 1


class CallError(FedcertError, ValueError):
    """The call itself was wrong: an option, an argument, a file that is not there.

    Examples:
        >>> import fedcert
        >>> try:
        ...     fedcert.read_reports("missing.json")
        ... except fedcert.CallError as error:
        ...     print(error)
        there is no file or folder missing.json; check the name
    """

    exit_code = 2


class MissingExtra(CallError, ImportError):
    """A feature needs a package that is not installed.

    Args:
        feature: what was asked for, as the subject of a sentence ("certifying a torch module").
        package: the package that is missing.
        extra: the extra of fedcert that brings it.

    Examples:
        >>> print(MissingExtra("plotting", "matplotlib", "plot"))
        plotting needs the package 'matplotlib', which is not installed; install it with: pip install 'fedcert[plot]'
    """

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'fedcert[{extra}]'"
        )


class InvalidValue(FedcertError, ValueError):
    """A value breaks a rule of its schema.

    Args:
        field: where in the value, as a path ("certified_counts[3]").
        expected: the rule, worded to follow "must be".
        actual: the offending value, or `InvalidValue.MISSING`.
        remedy: what to do about it, a full sentence without its full stop.
        place: which value, in which file ("report 'site-07' in reports.ndjson, line 3").

    Examples:
        >>> import fedcert
        >>> try:
        ...     fedcert.Smoothing(sigma=-1)
        ... except fedcert.InvalidValue as error:
        ...     print(error.field, "|", error)
        sigma | sigma must be a finite number above 0 and of at most 1e+12, but is -1
    """

    MISSING = object()

    def __init__(
        self, field: str, expected: str, actual: Any, *, remedy: str | None = None, place: str | None = None
    ) -> None:
        self.field, self.expected, self.actual, self.remedy, self.place = field, expected, actual, remedy, place
        super().__init__(self._sentence())

    def at(self, place: str, remedy: str | None = None) -> InvalidValue:
        """The same error with its place, and with a remedy where it had none."""
        return type(self)(
            self.field, self.expected, self.actual, remedy=self.remedy or remedy, place=self.place or place
        )

    def _sentence(self) -> str:
        actual = "is missing" if self.actual is self.MISSING else f"is {preview(self.actual)}"
        sentence = f"{self.field} must be {self.expected}, but {actual}"
        if self.place:
            sentence = f"{self.place}: {sentence}"
        return f"{sentence}; {self.remedy}" if self.remedy else sentence


class FileProblem(FedcertError):
    """A file cannot be read, parsed or written.

    Examples:
        >>> import fedcert, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "cut-off.json")
        ...     _ = file.write_text("{")
        ...     try:
        ...         fedcert.read_reports(file)
        ...     except fedcert.FileProblem as error:
        ...         print("not valid JSON" in str(error))
        True
    """


class CannotCombine(FedcertError, ValueError):
    """Reports that do not belong together: other model, other settings, the same client twice.

    Examples:
        >>> import fedcert
        >>> def site(name, model):
        ...     return fedcert.Report(client=name, model=model, smoothing={"sigma": 0.25}, radii=[0], classes=["cat"],
        ...                           label_counts=[9], certified_counts=[7])
        >>> try:
        ...     fedcert.estimate([site("a", "one"), site("b", "other")])
        ... except fedcert.CannotCombine as error:
        ...     print("model" in str(error))
        True
    """


class ModelProblem(FedcertError):
    """The model cannot be loaded, or answers something that is not a prediction.

    Examples:
        >>> import fedcert, numpy
        >>> try:
        ...     fedcert.certify(lambda batch: None, numpy.zeros((2, 3), "float32"), [0, 1], sigma=0.25, client="a",
        ...                     model_id="m", classes=["cat", "dog"])
        ... except fedcert.ModelProblem as error:
        ...     print(type(error).__name__)
        ModelProblem
    """


class DeviceProblem(FedcertError):
    """A device failed while it was working: a GPU that fell off the bus, or whose driver gave up.

    Examples:
        >>> import fedcert
        >>> issubclass(fedcert.DeviceProblem, fedcert.FedcertError)
        True
    """


class DataProblem(FedcertError, ValueError):
    """The local data cannot be used.

    Examples:
        >>> import fedcert, numpy
        >>> try:
        ...     fedcert.certify(lambda batch: (batch[:, 0] > 0).astype(int), numpy.zeros((2, 3), "float32"), [0, 7],
        ...                     sigma=0.25, client="a", model_id="m", classes=["cat", "dog"])
        ... except fedcert.DataProblem as error:
        ...     print(type(error).__name__)
        DataProblem
    """


class EngineStopped(FedcertError):
    """A federated learning engine ended the work: the job was aborted."""


class Refused(FedcertError, ValueError):
    """An answer that a certification round does not take."""


class ConfidentialRefusal(Refused):
    """Why a site does not take part in a private sum, where the reason would disclose something about its data.

    Attributes:
        PUBLIC_REASON: what other participants are given instead.
    """

    PUBLIC_REASON = "this site does not take part, for reasons that it keeps to itself"


class EstimationProblem(FedcertError, ValueError):
    """The reports are fine, but no estimate follows from them.

    Examples:
        >>> import fedcert
        >>> empty = fedcert.Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0], classes=["cat"],
        ...                        label_counts=[0], certified_counts=[0])
        >>> try:
        ...     fedcert.estimate([empty])
        ... except fedcert.EstimationProblem as error:
        ...     print(error)
        no client has any test example, so there is nothing to estimate from
    """


class QuorumMissed(EstimationProblem):
    """Too few of the clients that were asked answered: there is no number."""


class FedcertWarning(UserWarning):
    """Something that a person should look at, while the work goes on.

    Examples:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as seen:
        ...     warnings.simplefilter("always", FedcertWarning)
        ...     warnings.warn("look here", FedcertWarning)
        >>> [str(one.message) for one in seen]
        ['look here']
    """


def require(package: str, feature: str, extra: str) -> Any:
    """Import a package that only an extra of fedcert brings.

    Raises:
        MissingExtra: it is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingExtra(feature, package, extra) from None


def preview(value: Any, limit: int = 60) -> str:
    """A value as one short line of printable ASCII-safe text, whatever it holds.

    Examples:
        >>> preview("a" * 100)
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'"
        >>> preview("evil\\x1b[2J")
        "'evil\\\\x1b[2J'"
    """
    if isinstance(value, str):
        text = value if len(value) <= limit - 5 else value[: limit - 5] + "…"
        # repr escapes control characters; the rest of what a terminal could act on is format characters.
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in repr(text))
    if isinstance(value, dict):
        return f"an object with {len(value)} entries" if value else "an empty object"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}" if value else "an empty list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a whole number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


class FedcertNote(FedcertWarning):
    """Something worth knowing that is no mistake: files beside reports that were not read."""
