"""The public function `page`: reports or estimates in, one HTML file out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedcert._files.atomic import check_writable
from fedcert._files.documents import kind_of, read_documents
from fedcert._files.paths import kind_of_path
from fedcert._files.saved import path_of
from fedcert.errors import CallError
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import Settings
from fedcert.estimation.target import named_target
from fedcert.report import Report, Sums, load
from fedcert.report.load import Source
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import SUFFIXES, write_page


def page(
    sources: Source | Estimate | Iterable[Source | Estimate],
    path: str | Path,
    target: object = "uniform",
    method: str = "auto",
    *,
    title: str | None = None,
    unit: str | None = None,
    context: str | None = None,
    target_name: str | None = None,
    confidence: float = 0.95,
    interval: str = "finite-sample",
    simultaneous: bool = False,
    target_examples: int | None = None,
    seed: int = 0,
    screen: bool = False,
    all_classes: bool = False,
    votes: int | None = None,
    radii: Sequence[float] | None = None,
    radius: float | None = None,
) -> Path:
    """Write a page to read, to try other class mixes on and to pass on: one HTML file that works offline.

    Args:
        sources: reports or sums, or paths of files and folders that hold them; or estimates, or their files, which are
            shown as they were made, and without other class mixes.
        path: the page (.html).
        target: as for `estimate`.
        method: as for `estimate`.
        title: the heading; it names the target where None.
        unit: of the radius, in words, such as "in pixel values from 0 to 1".
        context: a line on what a radius means, for readers.
        target_name: what to call the target.
        confidence: as for `estimate`.
        interval: as for `estimate`.
        simultaneous: as for `estimate`.
        target_examples: as for `estimate`.
        seed: as for `estimate`.
        screen: as for `estimate`.
        all_classes: as for `estimate`.
        votes: as for `estimate`.
        radii: as for `estimate`.
        radius: as for `estimate`.

    Returns:
        The path.

    Raises:
        CallError: sources or settings that do not go together, or a page that cannot be written there.
        InvalidValue: a report breaks a rule of its schema.
        EstimationProblem: no estimate follows from the reports.

    Examples:
        >>> import pathlib, tempfile, fedcert
        >>> site = fedcert.Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0, 0.5],
        ...                       classes=["cat", "dog"], label_counts=[80, 20], certified_counts=[90, 40])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page(site, pathlib.Path(folder, "page.html"), title="Our ward").name
        'page.html'
    """
    settings = Settings(
        seed=seed, confidence=confidence, interval=interval, simultaneous=simultaneous,
        target_examples=target_examples, screen=screen, all_classes=all_classes, votes=votes,
        radii=None if radii is None else tuple(radii), radius=radius,
    )  # fmt: skip
    file = path_of(path)
    listed = _listed(sources)
    check_writable(file, SUFFIXES, [Path(source) for source in listed if isinstance(source, (str, Path))])
    estimates = _estimates(listed)
    if estimates:
        _check_defaults(settings, target=(target, "uniform"), method=(method, "auto"), target_name=(target_name, None))
        contents = Contents.of_estimates(estimates)
    else:
        reports: list[Any] = listed
        prepared = PreparedClients.of(clients_of(load(reports)), settings)
        wanted = named_target(target, prepared.clients.classes, target_name)
        contents = Contents.of_clients(prepared, estimate_of(prepared, wanted, method))
    write_page(contents, file, title, unit=unit, context=context, radius=radius)
    return file


def _listed(sources: Any) -> list[Any]:
    if isinstance(sources, (str, Path, Report, Sums, Estimate)):
        return [sources]
    if not isinstance(sources, Iterable):
        raise CallError(f"sources must be reports, sums, estimates or paths, but is {type(sources).__name__}")
    return list(sources)


def _check_defaults(settings: Settings, **arguments: tuple[object, object]) -> None:
    """Check that nothing was asked for that a page from estimates cannot do.

    Raises:
        CallError: an argument differs from its default.
    """
    plain = Settings()
    given = {each.name: (getattr(settings, each.name), getattr(plain, each.name)) for each in fields(Settings)}
    for name, (value, default) in {**arguments, **given}.items():
        if value != default:
            raise CallError(
                f"{name} (--{name.replace('_', '-')}) is for a page from reports; estimates are shown as they were "
                "made: leave it out, or give the reports"
            )


def _estimates(sources: Sequence[Any]) -> list[Estimate]:
    """The estimates among sources; none where these are reports.

    Raises:
        CallError: some are estimates, and some are not.
    """
    estimates = []
    for source in sources:
        if isinstance(source, Estimate):
            estimates.append(source)
        elif isinstance(source, (str, Path)):
            path = Path(source)
            if kind_of_path(path) == "a file" and path.suffix.lower() == ".json":
                ((place, document),) = read_documents(path)
                if kind_of(document, place, (Report, Sums, Estimate)) is Estimate:
                    estimates.append(Estimate.from_json(document, place))
    if estimates and len(estimates) < len(sources):
        raise CallError(
            "give reports and sums, or estimates, but not both: a page from reports makes its own estimates"
        )
    return estimates
