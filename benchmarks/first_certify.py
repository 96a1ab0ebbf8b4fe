"""A newcomer's first `fedcert certify`, with no option that it does not need, beside the published loop in one run.

    python benchmarks/first_certify.py SITE.npz --weights WEIGHTS.safetensors --classes CLASSES.txt
        [--network fedcert.lab.networks:resnet18_cifar10] [--sigma 0.25] [--device cuda] [--out results.json]

The command runs as its own process, and all of it counts: imports, loading, warm-up, certification, the report. The
published loop (`rivals.py`) is timed alone, with its model and images in memory, which favours it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedcert.certification.models.loading import load_classifier
from machine import describe_machine
from rivals import published

IMAGES, SAMPLES = 20, 100_000
"""The published loop's own n, on as many images as take about half a minute on an H200."""


def first_command(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The documented command: its wall-clock time and what its report says."""
    out = folder / "site-a.json"
    command = [
        "certify", options.network, str(options.site), "--weights", str(options.weights), "--client", "site-a",
        "--sigma", str(options.sigma), "--classes", str(options.classes), "--out", str(out),
    ]  # fmt: skip
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "fedcert", *command], capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(done.stderr)
    report = json.loads(out.read_text())
    return {
        "command": "fedcert " + " ".join(command[:2]), "seconds": seconds, "samples": report["samples"],
        "images": sum(report["label_counts"]), "precision": report["smoothing"]["precision"],
        "samples_per_second": report["samples"] / seconds, "notes": done.stderr.splitlines(),
    }  # fmt: skip


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--classes", type=Path, required=True)
    parser.add_argument("--network", default="fedcert.lab.networks:resnet18_cifar10")
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    module = load_classifier(options.network, weights=options.weights, model_id=None, device=options.device).module
    with np.load(options.site) as site:
        images = site["x"][: options.images].astype(np.float32)
    loop = published(module, images, options.sigma, options.samples, 1000, options.device)
    del module
    if options.device.startswith("cuda"):
        torch.cuda.empty_cache()
    with tempfile.TemporaryDirectory() as folder:
        first = first_command(options, Path(folder))
    ratio = first["samples_per_second"] / loop["samples_per_second"]
    print(f"published loop, batch 1000: {loop['samples_per_second']:,.0f} samples/s")
    print(f"{first['command']}, {first['precision']}: {first['samples_per_second']:,.0f} samples/s, all of it included")
    print(f"ratio {ratio:.2f}; {first['images']} images in {first['seconds']:.1f} s")
    if options.out is not None:
        on_gpu = options.device.startswith("cuda")
        result = {
            "machine": describe_machine("torch", "numpy", "scipy"),
            "device": torch.cuda.get_device_name() if on_gpu else "cpu",
            "sigma": options.sigma, "published": loop, "first_command": first, "ratio": ratio,
        }  # fmt: skip
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
