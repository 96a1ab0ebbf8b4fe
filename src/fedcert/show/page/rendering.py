"""The page as one file: nothing is loaded, nothing is sent, and names are text wherever they stand."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from datetime import UTC, datetime
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fedcert.estimation.diagnostics.checks import consistency
from fedcert.estimation.result import CURVES, Estimate
from fedcert.estimation.weights import heaviest
from fedcert.report import write_whole
from fedcert.report.provenance import SOFTWARE
from fedcert.show.page.contents import Contents
from fedcert.show.page.packing import as_script, packed, packed_evaluator
from fedcert.show.sentences import at_radius, class_intervals, default_radius, relied_on, verdict

SUFFIXES = (".html", ".htm")
_SCRIPTS = (
    "numbers.js", "minimax_solver.js", "bracket.js", "cells.js", "tilted_bound.js", "ranges.js", "least_favourable.js",
    "noisy_sums.js", "design_weights.js", "mix_evaluator.js", "vote.js", "unpacking.js", "elements.js", "chart.js",
    "mix.js", "tables.js", "certificates.js", "card.js", "page.js",
)  # fmt: skip
_MOST_WEIGHTS = 20_000
"""As many as clients are listed."""
_MOST_EXCLUDED = 1_000
"""Clients that are named with the reason why they are left out, which may be long."""


def rendered(contents: Contents, title: str | None = None) -> str:
    """The page.

    Guarantee: it works from a file, without a network: its policy forbids everything but its own script and style.
    Names and reasons are shown as text and never run.

    Args:
        contents: the values that it shows.
        title: its heading; names the target where None.
    """
    main = contents.estimates[0]
    script = "".join(_part(f"script/{name}") for name in _SCRIPTS)
    script = f"(() => {{\n'use strict';\n{script}\n}})();"
    style = _part("style.css")
    heading = title or f"Certified accuracy of the target “{main.target.name}”"
    values = {
        "policy": f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        "title": html.escape(heading),
        "sentence": html.escape(at_radius(main, default_radius(main))),
        "verdict": html.escape(verdict(main)[1]),
        "software": html.escape(SOFTWARE),
        "style": style,
        "script": script,
        "data": as_script(_data(contents, heading)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _part("template.html"))


def write_page(contents: Contents, path: Path, title: str | None = None) -> None:
    """Write a page, whole or not at all.

    Raises:
        FileProblem: it cannot be written.
    """
    write_whole(path, rendered(contents, title))


def _part(name: str) -> str:
    return files("fedcert.show.page").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(contents: Contents, heading: str) -> dict[str, Any]:
    main, known = contents.estimates[0], contents.contributors
    return {
        "title": heading,
        "classes": main.classes,
        "radii": main.radii,
        "model": main.model,
        "smoothing": main.smoothing.to_json(),
        "largest_radius": main.largest_radius,
        "votes": main.votes or main.smoothing.votes,
        "clients": main.clients,
        "examples": main.examples,
        "labels": contents.labels,
        "estimates": [_estimate(estimate) for estimate in contents.estimates],
        "verdict": verdict(main)[0],
        "verdict_words": verdict(main)[1],
        "contradicted": relied_on([consistency()])[1],
        "radius": default_radius(main),
        "by_class": _by_class(main),
        "class_words": class_intervals(main),
        "failed": dict(contents.failed),
        "contributors": None if known is None else vars(known),
        "weights": _weights(main),
        "excluded": dict(islice(main.excluded.items(), _MOST_EXCLUDED)),
        "excluded_count": len(main.excluded),
        "evaluators": {name: packed_evaluator(forms) for name, forms in contents.evaluators.items()},
        "method": contents.method,
        "no_evaluator": contents.no_evaluator,
        "written": {"software": SOFTWARE, "created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")},
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    full = estimate.upgraded().to_json()
    kept = (
        "method", "certified_accuracy", "lower", "upper", "confidence", "interval", "guarantee", "mismatch",
        "effective_examples", "weights_note", "checks", "settings", "software", "created", "chosen", "screened",
        "worst_case", "comparison",
    )  # fmt: skip
    shares = estimate.target.distribution
    mix = [float(shares.get(name, 0.0)) for name in estimate.classes]
    return {name: full.get(name) for name in kept} | {"target": estimate.target.name, "mix": mix}


def _by_class(estimate: Estimate) -> dict[str, Any] | None:
    part = estimate.by_class
    return None if part is None else {name: packed(np.array(getattr(part, name))) for name in CURVES}


def _weights(estimate: Estimate) -> dict[str, float] | None:
    return None if estimate.weights is None else dict(heaviest(estimate.weights, _MOST_WEIGHTS))
