"""fedcert lab: data, partitions, federated training, traces and the paper's tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option, Typer

from fedcert._files.paths import make_folder
from fedcert._schema.registry import alternatives
from fedcert.certification.precision import default_precision
from fedcert.certification.progress import ProgressListener, duration
from fedcert.cli import options
from fedcert.cli.console import print_note, print_result, print_status, progress, working
from fedcert.cli.inputs import files_among, seconds_of
from fedcert.errors import CallError, require
from fedcert.lab.datasets import library
from fedcert.report import check_writable, write_whole
from fedcert.show.figures import FORMATS, plot_partition

app = Typer(
    help="Experiments: data, partitions, federated training, traces, the paper's tables.", rich_markup_mode=None
)

_DRAWS = 10
"""Federations for each row where no number is given: tables in half a minute."""

Folder = Annotated[Path | None, Option(help="Where the data set's files are.")]
Settings = Annotated[Path, Argument(metavar="EXPERIMENT", help="Settings (.toml); an empty file is the paper's.")]


@app.command("data")
def data(
    name: Annotated[str, options.RegistryArgument(lambda: f"{alternatives(library.DATASETS)}.", metavar="NAME")],
    folder: Folder = None,
) -> None:
    """Check a data set, and say what is in it."""
    dataset = _data(name, folder)
    channels, height, width = dataset.train_images.shape[1:]
    print_result(
        f"{dataset.name}: {len(dataset.train_labels):,} training and {len(dataset.test_labels):,} test images of "
        f"{height} x {width} pixels, {channels} channel{'s' if channels > 1 else ''}, "
        f"{len(dataset.classes)} classes."
    )
    print_result(f"SHA-256 of all images and labels: {dataset.digest}")


@app.command("partition")
def draw_partition(
    experiment: Settings,
    out: Annotated[Path, Option(help="The figure to write (.png, .svg or .pdf).")],
    folder: Folder = None,
) -> None:
    """Draw who holds what."""
    from fedcert.lab.experiment import read_experiment
    from fedcert.lab.populations.partition import class_counts

    check_writable(out, FORMATS, files_among(experiment))
    require("matplotlib", "plotting", "plot")
    settings = read_experiment(experiment)
    dataset = _data(settings.data, folder)
    whole = [np.concatenate(part) for part in settings.split_clients(dataset.train_labels)]
    title = f"{dataset.name}, {settings.partition}, {settings.clients} clients"
    counts = class_counts(whole, dataset.train_labels, len(dataset.classes))
    plot_partition(counts, dataset.classes, out, title=title)
    sizes = sorted(len(part) for part in whole)
    middle = sizes[len(sizes) // 2]
    print_result(f"Wrote {out}: clients hold {sizes[0]:,} to {sizes[-1]:,} examples, half of them {middle:,} or more.")


@app.command("train")
def train(
    experiment: Settings,
    out: Annotated[Path, Option(help="Folder for the checkpoint, the curve and the model.")],
    folder: Folder = None,
    device: options.Device = "auto",
    rounds: Annotated[int | None, Option(help="Rounds, instead of the experiment's.")] = None,
    time_budget: Annotated[str | None, Option(help="Stop after a round: 90s, 45m, 3h.")] = None,
) -> None:
    """Train a global model; the same command goes on where an earlier run was."""
    where = _device(device)
    safetensors = require("safetensors.torch", "federated training", "torch")
    settings = _settings(experiment, rounds, where)
    trained = _trained(settings, _data(settings.data, folder), out, where, seconds_of(time_budget))
    state = {name: tensor.cpu().contiguous() for name, tensor in trained.network.state_dict().items()}
    write_whole(out / "model.safetensors", safetensors.save(state))
    print_result(f"{_words(trained)} Wrote {out / 'model.safetensors'}.")


@app.command("trace")
def trace(
    experiment: Settings,
    out: Annotated[Path, Option(help="The trace to write (.parquet).")],
    work: Annotated[Path | None, Option(help="Folder for checkpoints. [default: beside the trace]")] = None,
    folder: Folder = None,
    device: options.Device = "auto",
    rounds: Annotated[int | None, Option(help="Rounds, instead of the experiment's.")] = None,
) -> None:
    """Train (or go on), certify every client's test examples and the target's, and write all certificates."""
    require("pyarrow", "traces", "parquet")
    check_writable(out, (".parquet",), files_among(experiment))
    where = _device(device)
    settings = _settings(experiment, rounds, where)
    _traced(settings, _data(settings.data, folder), out, work or out.with_suffix(".work"), where)


@app.command("paper")
def paper(
    table: Annotated[str, Argument(metavar="TABLE", help="table1 … table5, figure2, or vote.")],
    traces: Annotated[Path, Option(help="Folder of traces; for vote, also a trace.")] = Path("traces"),
    draws: Annotated[int | None, Option(min=1, max=10_000, help="Federations for each row. [default: 10]")] = None,
    markdown: Annotated[Path | None, Option(help="Write the tables as Markdown too (.md).")] = None,
    out: Annotated[Path | None, Option(help="Figure 2's file (.png, .svg or .pdf).")] = None,
    run: Annotated[bool, Option(help="Make the missing traces first.")] = False,
    rounds: Annotated[int, Option(min=1, help="With --run: rounds of training.")] = 1000,
    cifar10: Annotated[Path | None, Option(help="With --run: CIFAR-10's folder.")] = None,
    cifar100: Annotated[Path | None, Option(help="With --run: CIFAR-100's folder.")] = None,
    device: options.Device = "auto",
) -> None:
    """Set the paper's figures beside ours: RMSE and MAPE of its methods, and of fedcert's.

    With vote: certified accuracy as the paper has it (CERTIFY) beside population certificates, on the same examples.
    """
    from fedcert.lab.paper.rendering import draw_distances, terminal
    from fedcert.lab.paper.rendering import markdown as as_markdown
    from fedcert.lab.paper.tables import distances, missing_traces, reproduce

    require("pyarrow", "traces", "parquet")
    for file, suffixes in ((markdown, (".md",)), (out, FORMATS)):
        if file is not None:
            check_writable(file, suffixes)
    if out is not None and table != "figure2":
        raise CallError(f"--out is for figure2's file, but {table} is asked for; leave it out, or use --markdown")
    if markdown is not None and table == "figure2":
        raise CallError("--markdown is for tables, but figure2 is asked for; leave it out, or use --out")
    if table == "vote":
        if run or draws is not None:
            option = "--run" if run else "--draws"
            raise CallError(f"{option} is for the paper's tables and figure2, but vote is asked for; leave it out")
        _compare_with_vote(traces, markdown)
        return
    draws = _DRAWS if draws is None else draws
    if run:
        _make_missing(table, traces, rounds, {"cifar10": cifar10, "cifar100": cifar100}, device)
    if table == "figure2":
        path = out or Path("figure2.png")
        with working("judging"):
            draw_distances(distances(traces, draws=draws), path)
        print_result(f"Wrote {path}.")
        return
    with progress() as bar:
        task: Any = bar.add_task("judging", total=None, rate="")
        rows = list(
            reproduce(table, traces, draws=draws, on_row=lambda done, of: bar.update(task, completed=done, total=of))
        )
    for measure in ("rmse", "mape"):
        print_result(terminal(rows, measure))
    absent = missing_traces(table, traces)
    if absent:
        names = ", ".join(setting.name for setting in absent)
        print_note(f"rows whose traces are not in {traces} are left out: {names}")
    if markdown is not None:
        tables = (f"**{name.upper()}**\n\n{as_markdown(rows, name)}" for name in ("rmse", "mape"))
        write_whole(markdown, "\n".join(tables))
        print_result(f"Wrote {markdown}.")


def _compare_with_vote(traces: Path, markdown: Path | None) -> None:
    """CERTIFY beside the vote, on every trace that can give both."""
    from fedcert.lab.paper.rendering import vote_markdown, vote_terminal
    from fedcert.lab.paper.vote import vote_comparisons

    left_out: list[str] = []
    with working("judging"):
        compared = list(vote_comparisons(traces, left_out))
    for each in compared:
        print_result(vote_terminal(each))
    print_result(
        "CERTIFY: share of the target's examples certified one by one. The vote: what is proven of its accuracy on the "
        "target's examples under attack, on average; the estimate is from the clients' reports."
    )
    if left_out:
        print_note(f"traces without right answers are left out: {', '.join(left_out)}")
    if markdown is not None:
        write_whole(markdown, "\n".join(map(vote_markdown, compared)))
        print_result(f"Wrote {markdown}.")


def _make_missing(table: str, traces: Path, rounds: int, folders: Mapping[str, Path | None], device: str) -> None:
    """Train and certify what a table still lacks.

    All data sets are read before any training: what is missing must not come out hours later.
    """
    from fedcert.lab.paper.tables import missing_traces

    missing = missing_traces(table, traces)
    if not missing:
        return
    where = _device(device)
    names = sorted({setting.data for setting in missing})
    for name in names:
        if folders[name] is None:
            raise CallError(f"making the missing traces of {table} needs {name}; name its folder (--{name})")
    images = {name: _data(name, folders[name]) for name in names}
    for setting in missing:
        settings = setting.experiment(rounds, on_gpu=default_precision(where) == "bfloat16")
        path, work = traces / f"{setting.name}.parquet", traces / f"{setting.name}.work"
        _traced(settings, images[setting.data], path, work, where)


def _settings(experiment: Path, rounds: int | None, device: Any) -> Any:
    from fedcert.lab.experiment import read_experiment

    settings = read_experiment(experiment, default_precision(device))
    return settings if rounds is None else replace(settings, training=replace(settings.training, rounds=rounds))


def _data(name: str, folder: Path | None) -> Any:
    with working("reading images"):
        return library.read_dataset(name, folder)


def _device(name: str) -> Any:
    torch = require("torch", "federated training", "torch")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise CallError(f"the device {name!r} cannot be used: {str(error).splitlines()[0][:200]}") from None
    return torch.device(name)


def _trained(settings: Any, dataset: Any, folder: Path, device: Any, seconds: float | None = None) -> Any:
    from fedcert.lab.run import train_experiment

    with progress() as bar:
        task = bar.add_task("training", total=settings.training.rounds, rate="")

        def on_round(done: Any) -> None:
            bar.update(task, completed=done.number, rate=f"loss {done.loss:.3f}, {done.seconds:.2f} s a round")

        try:
            return train_experiment(settings, dataset, folder, device, on_round, seconds=seconds)
        except KeyboardInterrupt:
            if (folder / "checkpoint.safetensors").exists():
                print_note(f"{folder} holds a checkpoint; run the same command again to go on")
            raise


def _traced(settings: Any, dataset: Any, out: Path, work: Path, device: Any) -> None:
    from fedcert.lab.run import trace_experiment

    make_folder(out.parent)
    trained = _trained(settings, dataset, work, device)
    print_status(f"{out.stem}: {_words(trained)}")
    with progress() as bar:
        try:
            written = trace_experiment(settings, dataset, trained, out, _Certifying(bar), journals=work)
        except KeyboardInterrupt:
            if any(work.glob("*.journal")):
                print_note(f"{work} holds the certificates made so far; run the same command again to go on")
            raise
    share = written.target.right.mean()
    print_result(
        f"Wrote {out}: {len(written.clients):,} examples of clients and {len(written.target):,} of the target, "
        f"{share:.1%} of these certified at radius 0."
    )


def _words(trained: Any) -> str:
    accuracy = trained.accuracy
    return (
        f"{trained.rounds} rounds in {duration(trained.seconds)}; accuracy {accuracy['clean']:.1%} clean, "
        f"{accuracy['noisy']:.1%} under noise."
    )


class _Certifying(ProgressListener):
    """A bar that counts examples."""

    def __init__(self, bar: Any) -> None:
        self.bar, self.task = bar, None

    def forecast_at_most(self, samples: int, rate: float, examples: int) -> None:  # noqa: ARG002
        self.task = self.bar.add_task("certifying", total=examples, rate=f"{rate:,.0f} samples/s")

    def finished(self, examples: int) -> None:
        if self.task is not None:
            self.bar.update(self.task, advance=examples)
