"""Checkpoints of federated training, so that a run which broke off goes on where it was.

What clients see in a round depends on the settings and the round's number alone, so a checkpoint holds no more than the
server's state and the algorithm's.
"""

from __future__ import annotations

import json
from pathlib import Path

import safetensors
import safetensors.torch

from fedcert.errors import CallError, FileProblem
from fedcert.lab.training.rounds import Federation
from fedcert.report.paths import named
from fedcert.report.writing import write_whole

_KIND = "fedcert training 1"


def save_checkpoint(federation: Federation, path: Path) -> None:
    """Write how far a federation is, whole or not at all."""
    tensors = {"row": federation.row}
    tensors |= {f"algorithm.{name}": tensor for name, tensor in federation.algorithm.state().items()}
    about = {"kind": _KIND, "round": str(federation.done), "settings": _settings(federation)}
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, safetensors.torch.save(plain, about))


def load_checkpoint(federation: Federation, path: Path) -> None:
    """Take up where an earlier run was; the number of rounds may be another now.

    Raises:
        FileProblem: the file is no checkpoint.
        CallError: it is of a run with other settings, clients or network.
    """
    try:
        with safetensors.safe_open(path, "pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no mapping
    except (OSError, safetensors.SafetensorError) as error:
        raise FileProblem(f"cannot read the checkpoint {named(path)}: {error}") from None
    if about.get("kind") != _KIND:
        raise FileProblem(f"{named(path)} is no checkpoint of federated training; give another file")
    if about["settings"] != _settings(federation) or tensors["row"].shape != federation.row.shape:
        raise CallError(
            f"{named(path)} is the checkpoint of a run with other settings, clients or network; "
            "run with those to go on with it, or name another file"
        )
    federation.row.copy_(tensors.pop("row"))
    prefix = "algorithm."
    federation.algorithm.restore({name.removeprefix(prefix): tensor for name, tensor in tensors.items()})
    federation.layout.write(federation.row, federation.network)
    federation.done = int(about["round"])


def _settings(federation: Federation) -> str:
    """All that decides how training goes on; how long it is to go on does not."""
    settings = {name: value for name, value in federation.settings.to_table().items() if name != "rounds"}
    return json.dumps([settings, federation.sizes.tolist()], sort_keys=True)
