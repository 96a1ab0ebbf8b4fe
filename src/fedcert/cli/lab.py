"""fedcert lab: data, partitions, federated training, traces and the paper's tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcert._files.paths import make_folder
from fedcert._schema.registry import alternatives
from fedcert.certification.run import ProgressListener
from fedcert.cli.console import duration, progress, results, tell, working
from fedcert.cli.inputs import files_among, seconds_of
from fedcert.errors import CallError, require
from fedcert.lab.datasets.library import DATASETS
from fedcert.report import check_writable, write_whole
from fedcert.show.figures import FORMATS
from fedcert.show.terminal import printable

app = typer.Typer(
    help="Experiments: data, partitions, federated training, traces, the paper's tables.", rich_markup_mode=None
)

Folder = Annotated[Path | None, typer.Option(help="Where the data set's files are.")]
Settings = Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="Settings (.toml); an empty file is the paper's.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, …")]


@app.command("data")
def data(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{alternatives(DATASETS)}.")],
    folder: Folder = None,
) -> None:
    """Check a data set, and say what is in it."""
    from fedcert.lab.datasets.library import read_dataset

    with working("reading images"):
        found = read_dataset(name, folder)
    channels, height, width = found.train_images.shape[1:]
    console = results()
    console.print(
        printable(
            f"{found.name}: {len(found.train_labels):,} training and {len(found.test_labels):,} test images of "
            f"{height} x {width} pixels, {channels} channel{'s' if channels > 1 else ''}, {len(found.classes)} classes."
        )
    )
    console.print(f"SHA-256 of all images and labels: {found.digest}")


@app.command("partition")
def partition(
    experiment: Settings,
    out: Annotated[Path, typer.Option(help="The figure to write (.png, .svg or .pdf).")],
    folder: Folder = None,
) -> None:
    """Draw who holds what."""
    from fedcert.lab.experiment import read_experiment
    from fedcert.lab.populations.partition import class_counts
    from fedcert.show.figures import plot_partition

    check_writable(out, FORMATS, files_among(experiment))
    require("matplotlib", "plotting", "plot")
    settings = read_experiment(experiment)
    found = _data(settings.data, folder)
    parts = settings.split_clients(found.train_labels)
    whole = [_joined(part) for part in parts]
    title = f"{found.name}, {settings.partition}, {settings.clients} clients"
    counts = class_counts(whole, found.train_labels, len(found.classes))
    plot_partition(counts, found.classes, out, title=title)
    sizes = sorted(len(part) for part in whole)
    middle = sizes[len(sizes) // 2]
    results().print(
        printable(f"Wrote {out}: clients hold {sizes[0]:,} to {sizes[-1]:,} examples, half of them {middle:,} or more.")
    )


@app.command("train")
def train(
    experiment: Settings,
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint, the curve and the model.")],
    folder: Folder = None,
    device: Device = "auto",
    rounds: Annotated[int | None, typer.Option(help="Rounds, instead of the experiment's.")] = None,
    time_budget: Annotated[str | None, typer.Option(help="Stop after a round: 90s, 45m, 3h.")] = None,
) -> None:
    """Train a global model; the same command goes on where an earlier run was."""
    torch = require("torch", "federated training", "torch")
    safetensors = require("safetensors.torch", "federated training", "torch")
    settings = _settings(experiment, rounds)
    trained = _trained(settings, _data(settings.data, folder), out, torch.device(_device(torch, device)), time_budget)
    state = {name: tensor.cpu().contiguous() for name, tensor in trained.network.state_dict().items()}
    write_whole(out / "model.safetensors", safetensors.save(state))
    results().print(printable(f"{_words(trained)} Wrote {out / 'model.safetensors'}."))


@app.command("trace")
def trace(
    experiment: Settings,
    out: Annotated[Path, typer.Option(help="The trace to write (.parquet).")],
    work: Annotated[Path | None, typer.Option(help="Folder for checkpoints. [default: beside the trace]")] = None,
    folder: Folder = None,
    device: Device = "auto",
    rounds: Annotated[int | None, typer.Option(help="Rounds, instead of the experiment's.")] = None,
) -> None:
    """Train (or go on), certify every client's test examples and the target's, and write all certificates."""
    torch = require("torch", "federated training", "torch")
    require("pyarrow", "traces", "parquet")
    check_writable(out, (".parquet",), files_among(experiment))
    settings = _settings(experiment, rounds)
    found = _data(settings.data, folder)
    _traced(settings, found, out, work or out.with_suffix(".work"), torch.device(_device(torch, device)))


@app.command("paper")
def paper(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="table1 … table5, or figure2.")],
    traces: Annotated[Path, typer.Option(help="Folder of traces.")] = Path("traces"),
    draws: Annotated[int, typer.Option(min=1, max=10_000, help="Federations for each row.")] = 10,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables as Markdown too (.md).")] = None,
    out: Annotated[Path | None, typer.Option(help="Figure 2's file (.png, .svg or .pdf).")] = None,
    run: Annotated[bool, typer.Option(help="Make the missing traces first.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="With --run: rounds of training.")] = 1000,
    cifar10: Annotated[Path | None, typer.Option(help="With --run: CIFAR-10's folder.")] = None,
    cifar100: Annotated[Path | None, typer.Option(help="With --run: CIFAR-100's folder.")] = None,
    device: Device = "auto",
) -> None:
    """Set the paper's figures beside ours: RMSE and MAPE of its methods, and of fedcert's."""
    from fedcert.lab.paper.rendering import draw_distances, terminal
    from fedcert.lab.paper.rendering import markdown as as_markdown
    from fedcert.lab.paper.tables import distances, missing_traces, reproduce

    require("pyarrow", "traces", "parquet")
    if markdown is not None:
        check_writable(markdown, (".md",))
    if out is not None:
        check_writable(out, FORMATS)
    if out is not None and table != "figure2":
        raise CallError(f"--out is for figure2's file, but {table} is asked for; leave it out, or use --markdown")
    if markdown is not None and table == "figure2":
        raise CallError("--markdown is for tables, but figure2 is asked for; leave it out, or use --out")
    missing = missing_traces(table, traces)
    if run and missing:
        torch = require("torch", "federated training", "torch")
        where = torch.device(_device(torch, device))
        # All data sets before any training: what is missing must not come out hours later.
        folders = {"cifar10": cifar10, "cifar100": cifar100}
        wanted = sorted({setting.data for setting in missing})
        for name in wanted:
            if folders[name] is None:
                raise CallError(f"making the missing traces of {table} needs {name}; name its folder (--{name})")
        images = {name: _data(name, folders[name]) for name in wanted}
        for setting in missing:
            settings = setting.experiment(rounds, on_gpu=where.type == "cuda")
            place = traces / f"{setting.name}.parquet"
            _traced(settings, images[setting.data], place, traces / f"{setting.name}.work", where)
    console = results()
    if table == "figure2":
        path = out or Path("figure2.png")
        with working("judging"):
            draw_distances(distances(traces, draws=draws), path)
        console.print(printable(f"Wrote {path}."))
        return
    with progress() as bar:
        task: Any = bar.add_task("judging", total=None, rate="")
        rows = list(
            reproduce(table, traces, draws=draws, on_row=lambda done, of: bar.update(task, completed=done, total=of))
        )
    for measure in ("rmse", "mape"):
        console.print(terminal(rows, measure))
    gone = missing_traces(table, traces)
    if gone:
        tell(f"note: rows whose traces are not in {traces} are left out: {', '.join(one.name for one in gone)}")
    if markdown is not None:
        write_whole(
            markdown, "\n".join(f"**{name.upper()}**\n\n{as_markdown(rows, name)}" for name in ("rmse", "mape"))
        )
        console.print(printable(f"Wrote {markdown}."))


def _settings(experiment: Path, rounds: int | None) -> Any:
    from fedcert.lab.experiment import read_experiment

    settings = read_experiment(experiment)
    return settings if rounds is None else replace(settings, training=replace(settings.training, rounds=rounds))


def _data(name: str, folder: Path | None) -> Any:
    from fedcert.lab.datasets.library import read_dataset

    with working("reading images"):
        return read_dataset(name, folder)


def _device(torch: Any, name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise CallError(f"the device {name!r} cannot be used: {str(error).splitlines()[0][:200]}") from None
    return name


def _joined(part: Any) -> Any:
    import numpy as np

    return np.concatenate(part)


def _trained(settings: Any, found: Any, folder: Path, device: Any, time_budget: str | None = None) -> Any:
    from fedcert.lab.run import train_experiment

    with progress() as bar:
        task = bar.add_task("training", total=settings.training.rounds, rate="")

        def told(made: Any) -> None:
            bar.update(task, completed=made.number, rate=f"loss {made.loss:.3f}, {made.seconds:.2f} s a round")

        seconds = seconds_of(time_budget) if time_budget is not None else None
        try:
            return train_experiment(settings, found, folder, device, told, seconds=seconds)
        except KeyboardInterrupt:
            if (folder / "checkpoint.safetensors").exists():
                tell(f"note: {folder} holds a checkpoint; run the same command again to go on")
            raise


def _traced(settings: Any, found: Any, out: Path, work: Path, device: Any) -> None:
    from fedcert.lab.run import trace_experiment

    make_folder(out.parent)
    trained = _trained(settings, found, work, device)
    tell(f"{out.stem}: {_words(trained)}")
    with progress() as bar:
        try:
            made = trace_experiment(settings, found, trained, out, _Certifying(bar), journals=work)
        except KeyboardInterrupt:
            if any(work.glob("*.journal")):
                tell(f"note: {work} holds the certificates made so far; run the same command again to go on")
            raise
    share = made.target.right.mean()
    results().print(
        printable(
            f"Wrote {out}: {len(made.clients):,} examples of clients and {len(made.target):,} of the target, "
            f"{share:.1%} of these certified at radius 0."
        )
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
