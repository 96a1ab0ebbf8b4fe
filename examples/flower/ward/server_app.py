"""What the server does: train for some rounds, then a certification round."""

from __future__ import annotations

import sys
from pathlib import Path

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, FedProx
from safetensors.torch import load_file, save_file

from fedcert import CallError, FedcertError, Smoothing
from fedcert.engines.flower import certify_privately, certify_round, certifying
from ward.scaffold import Scaffold
from ward.task import CLASSES, make_network

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, certify, and print the curve."""
    settings = context.run_config
    network, rounds, run = make_network(), int(settings["rounds"]), str(settings["run"])
    roster = [name.strip() for name in str(settings["roster"]).split(",") if name.strip()]
    clients = len(roster) or int(settings["clients"])
    trained = Path(run) / "model.safetensors" if run else None
    if settings["weights"]:
        network.load_state_dict(load_file(str(settings["weights"])))
    if trained is not None and trained.exists():  # a run that was broken off after training
        print(f"going on with the weights in {trained}: nothing is trained; name another run to train anew", flush=True)
        network.load_state_dict(load_file(trained))
        rounds = 0
    wanted = {"procedure": str(settings["procedure"]), "n": int(settings["n"])}
    asked = {name: value for name, value in wanted.items() if value}  # the rest is up to fedcert
    round_settings = {
        "classes": CLASSES,
        "smoothing": Smoothing.defaults(float(settings["sigma"]), **asked),
        "roster": roster or clients,
        "seconds": float(settings["seconds"]),
    }
    folder = str(settings["keys"])
    signing = {"keys": f"{folder}/coordinator.keys.json", "trusted": f"{folder}/ring.json"} if folder else {}
    if rounds:
        common = {"min_available_nodes": clients, "fraction_evaluate": 0.0}
        strategies = {
            "fedavg": lambda: FedAvg(**common),
            "fedprox": lambda: FedProx(proximal_mu=float(settings["proximal"]), **common),
            "scaffold": lambda: Scaffold(list(network.parameters()), clients, **common),
        }
        every = int(settings["certify-every"])
        watch = certifying(grid, network, every=every, **signing, **round_settings) if every else None
        strategy = strategies[str(settings["algorithm"])]()
        start = ArrayRecord(network.state_dict())
        arrays = strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds, evaluate_fn=watch).arrays
        network.load_state_dict(arrays.to_torch_state_dict())
        if trained is not None:  # what is certified is what is kept
            trained.parent.mkdir(parents=True, exist_ok=True)
            draft = trained.with_suffix(".part")
            save_file(network.state_dict(), draft)
            draft.replace(trained)
    try:
        if settings["private"] and not signing:
            raise CallError("private sums need keys: --run-config 'private=true keys=\"/folder\"'")
        if settings["private"]:
            estimate = certify_privately(grid, network, run=run or None, **signing, **round_settings)
        else:  # a quorum of 1 is one client, 1.0 everybody
            round_settings["quorum"] = settings["quorum"]
            estimate = certify_round(grid, network, run=run or None, **signing, **round_settings)
    except FedcertError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        raise  # Flower takes a run that merely exits for a completed one
    print(estimate, flush=True)
    for radius in estimate.radii:
        print(f"accuracy at radius {radius:g}: {estimate.at(radius):.1%}", flush=True)
    for client, why in estimate.excluded.items():
        print(f"left out: {client}, because {why}", flush=True)
