"""What the server does: train for some rounds, then a certification round."""

from __future__ import annotations

import sys

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, FedProx

from fedcert import FedcertError, Smoothing
from fedcert.engines.flower import certify_round, certifying
from ward.scaffold import Scaffold
from ward.task import CLASSES, make_network

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, certify, and print the curve."""
    settings = context.run_config
    network, rounds, clients = make_network(), int(settings["rounds"]), int(settings["clients"])
    if settings["weights"]:
        from safetensors.torch import load_file

        network.load_state_dict(load_file(str(settings["weights"])))
    round_settings = {
        "classes": CLASSES,
        "smoothing": Smoothing.usual(float(settings["sigma"]), n=int(settings["n"])),
        "roster": str(settings["roster"]).split(",") if settings["roster"] else clients,
        "seconds": float(settings["seconds"]),
    }
    arrays = None
    if rounds:
        common = {"min_available_nodes": clients, "fraction_evaluate": 0.0}
        strategies = {
            "fedavg": lambda: FedAvg(**common),
            "fedprox": lambda: FedProx(proximal_mu=float(settings["proximal"]), **common),
            "scaffold": lambda: Scaffold(list(network.parameters()), clients, **common),
        }
        every = int(settings["certify-every"])
        watch = certifying(grid, network, every=every, **round_settings) if every else None
        strategy = strategies[str(settings["algorithm"])]()
        start = ArrayRecord(network.state_dict())
        arrays = strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds, evaluate_fn=watch).arrays
    try:
        quorum = float(settings["quorum"])
        estimate = certify_round(
            grid, network, arrays, run=str(settings["run"]) or None,
            quorum=int(quorum) if quorum >= 1 else quorum, **round_settings,
        )  # fmt: skip
    except FedcertError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        raise  # Flower takes a run that merely exits for a completed one
    for radius, accuracy in zip(estimate.radii, estimate.certified_accuracy, strict=True):
        print(f"certified accuracy at radius {radius:g}: {accuracy:.1%}", flush=True)
    for client, why in estimate.excluded.items():
        print(f"left out: {client}, because {why}", flush=True)
