"""`fedcert certify` with its defaults from two source trees in turn: samples per second, with and without a lattice.

    python benchmarks/certify_commits.py BEFORE/src [--network resnet18_cifar10] [--device cpu] [--images 4] [--turns 1]
        [--out results.json] [-- further options of certify]

The network has random weights, and the labels are what it predicts under noise, so that every example is sampled. The
earlier tree is given pixels as float32; this one the same, and images of 8 bits, which have a lattice by themselves.
All of the command counts: imports, loading, warm-up, certification, the report.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

import fedcert.lab.networks as networks
from machine import describe_machine

SHAPES = {"resnet18_cifar10": (3, 32, 32), "digits_network": (1, 8, 8)}
SIGMA = 0.25


def write_site(folder: Path, name: str, images: int) -> None:
    """Weights, classes, and the same images twice."""
    torch.manual_seed(0)
    network = getattr(networks, name)().eval()
    save_file({key: value.contiguous() for key, value in network.state_dict().items()}, folder / "w.safetensors")
    pixels = np.random.default_rng(0).integers(0, 256, (images, *SHAPES[name]), dtype=np.uint8)
    floats = pixels.astype(np.float32) / np.float32(255)
    with torch.inference_mode():
        parts = torch.from_numpy(floats).split(500)
        labels = torch.cat([network(part + SIGMA * torch.randn_like(part)).argmax(dim=1) for part in parts]).numpy()
    np.savez(folder / "pixels.npz", x=pixels, y=labels)
    np.savez(folder / "floats.npz", x=floats, y=labels)
    (folder / "classes.txt").write_text("\n".join(f"class {number}" for number in range(10)))


def measure(folder: Path, source: Path, data: str, options: argparse.Namespace) -> dict[str, Any]:
    """One command, in a process of its own."""
    for left in folder.glob("r.*"):
        left.unlink()
    command = [
        sys.executable, "-m", "fedcert", "certify", f"fedcert.lab.networks:{options.network}", data, "--weights",
        "w.safetensors", "--client", "a", "--sigma", str(SIGMA), "--classes", "classes.txt", "--device",
        options.device, "--out", "r.json", *options.further,
    ]  # fmt: skip
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(source)}, check=True, capture_output=True)
    seconds = time.perf_counter() - began
    report = json.loads((folder / "r.json").read_text())
    return {
        "precision": report["smoothing"]["precision"], "lattice": report["smoothing"].get("lattice"),
        "samples": report["samples"], "seconds": seconds, "samples_per_second": report["samples"] / seconds,
    }  # fmt: skip


def main() -> None:
    """Measure in turn, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("further", nargs="*")
    parser.add_argument("--network", choices=SHAPES, default="resnet18_cifar10")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    now = Path(__file__).resolve().parents[1] / "src"
    sides = {
        "before": (options.before.resolve(), "floats.npz"),
        "no lattice": (now, "floats.npz"),
        "lattice": (now, "pixels.npz"),
    }
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        write_site(Path(folder), options.network, options.images)
        for _ in range(options.turns):
            for name, (source, data) in sides.items():
                rows.append({"side": name, **measure(Path(folder), source, data, options)})
                print(options.network, options.device, rows[-1], flush=True)
    if options.out is not None:
        result = {
            "machine": describe_machine("torch", "numpy"),
            "network": options.network,
            "device": options.device,
            "rows": rows,
        }
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
