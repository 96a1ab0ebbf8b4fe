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

from fedcert.errors import CallError
from fedcert.estimation.diagnostics.checks import consistency
from fedcert.estimation.methods.registry import METHODS
from fedcert.estimation.result import Estimate, upgraded
from fedcert.estimation.result_parts import CURVES
from fedcert.estimation.weights import heaviest
from fedcert.report import write_whole
from fedcert.report.classifier import classifier_sentence
from fedcert.report.provenance import SOFTWARE
from fedcert.show.page.contents import Contents
from fedcert.show.page.packing import as_script, packed, packed_evaluator
from fedcert.show.page.wording import (
    TITLES,
    answer_at,
    banner,
    heading_of,
    lasting,
    margin,
    measure,
    mix_in_words,
    target_name,
)
from fedcert.show.sentences import class_intervals, headline

SUFFIXES = (".html", ".htm")
_SCRIPTS = (
    "numbers.js", "minimax_solver.js", "bracket.js", "cells.js", "tilted_bound.js", "ranges.js", "least_favourable.js",
    "noisy_sums.js", "design_weights.js", "mix_evaluator.js", "vote.js", "unpacking.js", "elements.js", "words.js",
    "chart.js", "mix.js", "tables.js", "certificates.js", "card.js", "page.js",
)  # fmt: skip
_MOST_WEIGHTS = 20_000
"""As many as clients are listed."""
_MOST_EXCLUDED = 1_000
"""Clients that are named with the reason why they are left out, which may be long."""
_ROUNDING = 1e-9
"""A radius this little above one of the estimate is that one."""


def rendered(
    contents: Contents,
    title: str | None = None,
    *,
    unit: str | None = None,
    context: str | None = None,
    radius: float | None = None,
) -> str:
    """The page.

    Guarantee: it works from a file, without a network: its policy forbids everything but its own script and style.
    Names and reasons are shown as text and never run.

    Args:
        contents: the values that it shows.
        title: its heading; names the target where None.
        unit: the unit of radii in words, such as "in pixel values from 0 to 1".
        context: a line about what the radii mean to the reader.
        radius: that it begins with, or the next larger one of the estimate; about a quarter of the way where None.

    Raises:
        CallError: the radius is beyond those of the estimate.
    """
    main = contents.estimates[0]
    script = "".join(_part(f"script/{name}") for name in _SCRIPTS)
    script = f"(() => {{\n'use strict';\n{script}\n}})();"
    style = _part("style.css")
    heading = title or heading_of(main.target, main.classes, _votes(main))
    index = _radius_index(main, radius)
    number, interval, rest = answer_at(main, index, unit)
    verdict, (measured, meaning) = banner(main.checks), measure(_votes(main))
    values = {
        "policy": f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        "title": html.escape(heading),
        "verdict": html.escape(verdict.verdict),
        "verdict_title": html.escape(verdict.title),
        "verdict_words": html.escape(verdict.words + verdict.more),
        "number": html.escape(number),
        "interval": html.escape(interval),
        "rest": html.escape(rest),
        "margin": html.escape(margin(main, index)),
        "promise": html.escape(classifier_sentence(main.smoothing, _votes(main))),
        "measure": html.escape(measured),
        "meaning": html.escape(meaning),
        "context": html.escape(context or ""),
        "mix": html.escape(f"Class mix of the target: {mix_in_words(main.target, main.classes)}."),
        "software": html.escape(SOFTWARE),
        "style": style,
        "script": script,
        "data": as_script(_data(contents, heading, index) | {"unit": unit or None, "context": context or None}),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _part("template.html"))


def write_page(
    contents: Contents,
    path: Path,
    title: str | None = None,
    *,
    unit: str | None = None,
    context: str | None = None,
    radius: float | None = None,
) -> None:
    """Write a page, whole or not at all. Arguments are those of `rendered`.

    Raises:
        CallError: the radius is beyond those of the estimate.
        FileProblem: it cannot be written.
    """
    write_whole(path, rendered(contents, title, unit=unit, context=context, radius=radius))


def _radius_index(estimate: Estimate, radius: float | None) -> int:
    if radius is None:
        return headline(estimate)
    for index, point in enumerate(estimate.radii):
        if point >= radius - _ROUNDING:
            return index
    raise CallError(f"radius must be at most {estimate.radii[-1]:g}, the largest of the estimate, but is {radius:g}")


def _votes(estimate: Estimate) -> int | None:
    return estimate.votes or estimate.smoothing.votes


def _part(name: str) -> str:
    return files("fedcert.show.page").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(contents: Contents, heading: str, radius: int) -> dict[str, Any]:
    main, known = contents.estimates[0], contents.contributors
    return {
        "title": heading,
        "classes": main.classes,
        "radii": main.radii,
        "model": main.model,
        "smoothing": main.smoothing.to_json(),
        "largest_radius": main.largest_radius,
        "votes": _votes(main),
        "measure": measure(_votes(main))[0],
        "clients": main.clients,
        "examples": main.examples,
        "labels": contents.labels,
        "estimates": [_estimate(estimate) for estimate in contents.estimates],
        "target_name": target_name(main.target),
        "titles": TITLES,
        "verdict": vars(banner(main.checks)),
        "lasting": vars(lasting(main.checks)),
        "contradicted": consistency().sentence,
        "promise": classifier_sentence(main.smoothing, _votes(main)),
        "methods": _methods(contents),
        "radius": radius,
        "by_class": _by_class(main),
        "class_words": class_intervals(main),
        "failed": dict(contents.failed),
        "contributors": None if known is None else vars(known) | {"own_accuracy": packed(known.own_accuracy)},
        "weights": _weights(main),
        "excluded": dict(islice(main.excluded.items(), _MOST_EXCLUDED)),
        "excluded_count": len(main.excluded),
        "evaluators": {name: packed_evaluator(forms) for name, forms in contents.evaluators.items()},
        "method": contents.method,
        "no_evaluator": contents.no_evaluator,
        "written": {"software": SOFTWARE, "created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")},
    }


def _methods(contents: Contents) -> dict[str, dict[str, str]]:
    """Titles and descriptions of the methods that the page names."""
    names = {*contents.failed, *contents.evaluators}
    for estimate in contents.estimates:
        names |= {estimate.method, estimate.used_method}
    known = {name: METHODS[name] for name in sorted(names) if name in METHODS}
    return {name: {"title": method.title, "description": method.description} for name, method in known.items()}


def _estimate(estimate: Estimate) -> dict[str, Any]:
    full = upgraded(estimate).to_json()
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
