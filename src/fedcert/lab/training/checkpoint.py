"""Checkpoints of federated training, from which an interrupted run continues.

What clients see in a round depends on the settings, their examples and the round's number alone, so a checkpoint holds
no more than the server's state and the algorithm's, and what it must be gone on with.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import safetensors
import safetensors.torch

from fedcert._files.atomic import write_whole
from fedcert._files.paths import display_path
from fedcert.errors import CallError, FileProblem
from fedcert.lab.training.rounds import FederatedTraining

_KIND = "fedcert training 2"


def save_checkpoint(federation: FederatedTraining, path: Path, subject: str = "") -> None:
    """Write the state of training after a round, whole or not at all.

    Args:
        federation: after a round.
        path: the file.
        subject: what is trained on which data, in words of the caller's; it must be the same to go on.
    """
    tensors = {"row": federation.row}
    tensors |= {f"algorithm.{name}": tensor for name, tensor in federation.algorithm.state().items()}
    about = {"kind": _KIND, "round": str(federation.done), "settings": _settings(federation), "subject": subject}
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, safetensors.torch.save(plain, about))


def load_checkpoint(federation: FederatedTraining, path: Path, subject: str = "") -> None:
    """Continue an earlier run, perhaps to another number of rounds.

    Args:
        federation: as it was made for that run.
        path: the file.
        subject: as it was saved.

    Raises:
        FileProblem: the file is no checkpoint.
        CallError: it is of a run with other settings, data, clients or network, or has more rounds than wanted.
    """
    try:
        with safetensors.safe_open(path, "pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no mapping
    except (OSError, safetensors.SafetensorError) as error:
        raise FileProblem(f"cannot read the checkpoint {display_path(path)}: {error}") from None
    if about.get("kind") != _KIND:
        raise FileProblem(f"{display_path(path)} is no checkpoint of federated training; give another file")
    same = about.get("settings") == _settings(federation) and about.get("subject") == subject
    if not same or tensors["row"].shape != federation.row.shape:
        raise CallError(
            f"{display_path(path)} is the checkpoint of a run with other settings, data, clients or network; "
            "run with those to go on with it, or name another folder"
        )
    if int(about["round"]) > federation.settings.rounds:
        raise CallError(
            f"{display_path(path)} is trained for {about['round']} rounds, more than the "
            f"{federation.settings.rounds} wanted; ask for as many or more, or name another folder"
        )
    federation.row.copy_(tensors.pop("row"))
    prefix = "algorithm."
    federation.algorithm.restore({name.removeprefix(prefix): tensor for name, tensor in tensors.items()})
    federation.layout.write(federation.row, federation.network)
    federation.done = int(about["round"])


def _settings(federation: FederatedTraining) -> str:
    """Fingerprint of everything that determines training, but for the number of rounds."""
    parts = hashlib.sha256(b"".join(part.astype("<i8").tobytes() for part in federation.parts)).hexdigest()
    settings = {name: value for name, value in federation.settings.to_table().items() if name != "rounds"}
    return json.dumps([settings, federation.sizes.tolist(), parts], sort_keys=True)
