"""The server's side: rounds over Flower's nodes, for reports or a private sum, and one every so many of training."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import Grid

from fedcert.certification.models.classifiers import digest_of_module
from fedcert.engines.client import loaded
from fedcert.engines.figure import draw_estimate
from fedcert.engines.flower.transport import FlowerTransport
from fedcert.errors import CallError, FedcertError
from fedcert.estimation.result import Estimate
from fedcert.privacy.given_keys import given_keyring
from fedcert.rounds.reports import run_round

_LOG = logging.getLogger("fedcert")


def certify_round(grid: Grid, model: Any, arrays: ArrayRecord | None = None, **settings: Any) -> Estimate:
    """Have the clients certify a model, and estimate its certified accuracy on a target population.

    It ends when all clients on the roster have answered or failed, and at the deadline in any case.

    Args:
        grid: Flower's, as a ServerApp gets it.
        model: the global model, a torch module; it is not changed.
        arrays: its weights (a strategy's `result.arrays`); the module's own where None.
        settings: `classes` (names in index order) and `smoothing` (sigma, or all settings), and where wanted `roster`,
            `seconds`, `run`, `target`, `method`, `quorum`, `radii`, `class_counts` (ask for counts per class),
            `input_range`, `input_shape`, `release`, `missing_examples`, `keys` (the coordinator's, which sign the
            request), `trusted` (a keyring: a name in it counts only with that member's keys) and those of
            `fedcert.estimate`: see `fedcert.rounds.run_round`.

    Raises:
        QuorumMissed: too few answered; there is no number.
        CallError: settings that do not go together, another Flower, a folder of another request.
        EstimationProblem: no estimate follows from the answers.
    """
    return _run(run_round, grid, model, arrays, settings)


def certify_privately(grid: Grid, model: Any, arrays: ArrayRecord | None = None, **settings: Any) -> Estimate:
    """Have the clients certify a model, and estimate from the sums of their counts alone.

    The server gets each client's counts under masks, which cancel in the sum; it never has one client's own.

    Args:
        grid: Flower's, as a ServerApp gets it.
        model: the global model, a torch module; it is not changed.
        arrays: its weights; the module's own where None.
        settings: `classes`, `smoothing`, `roster` (names), `keys` (the coordinator's, which sign the request) and
            `trusted` (public keys of all clients on the roster), and where wanted `threshold`, `moments`, `spread`,
            `fewest_holders`, `seconds`, `patience`, `run`, `target`, `method`, `radii` and those of `fedcert.estimate`:
            see `fedcert.rounds.private.run_private_round`.

    Raises:
        QuorumMissed: too few took part or stayed; nothing is known of any client's numbers.
        CallError: settings that do not go together, a folder of another request.
        EstimationProblem: no estimate follows from the sums.
    """
    from fedcert.rounds.private import run_private_round

    return _run(run_private_round, grid, model, arrays, settings)


def _run(
    round_: Callable[..., Estimate], grid: Grid, model: Any, arrays: ArrayRecord | None, settings: Mapping[str, Any]
) -> Estimate:
    """Hold a round over the grid; the keyring whose signatures count decides about names too."""
    weights, digest = weights_of(model, arrays)
    keyring, given = None, dict(settings)
    if given.get("trusted") is not None:
        keyring = given["trusted"] = given_keyring(given["trusted"], "trusted")
    transport = FlowerTransport(grid, weights, keyring=keyring)
    return draw_estimate(round_(transport, digest, **given), settings.get("run"))


def certifying(
    grid: Grid, model: Any, *, every: int, run: str | Path | None = None, **settings: Any
) -> Callable[[int, ArrayRecord], MetricRecord | None]:
    """Certification every so many rounds of training: an `evaluate_fn` for a strategy's `start`.

    A round that fails is a warning, and training goes on.

    Args:
        grid: Flower's.
        model: a torch module of the right architecture.
        every: rounds of training between two certifications.
        run: a folder; each certification gets one in it, round-<number>.
        settings: see `certify_round`.

    Raises:
        CallError: every is less than 1.
    """
    if every < 1:
        raise CallError(f"every must be 1 or more, but is {every}")

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord | None:
        if number == 0 or number % every:
            return None
        folder = None if run is None else Path(run) / f"round-{number}"
        try:
            estimate = certify_round(grid, model, arrays, run=folder, **settings)
        except (FedcertError, OSError) as error:
            _LOG.warning("no certification after round %d: %s", number, error)
            return None
        curve = zip(estimate.radii, estimate.certified_accuracy, strict=True)
        return MetricRecord({f"certified accuracy at {radius:g}": accuracy for radius, accuracy in curve})

    return evaluate


def weights_of(model: Any, arrays: ArrayRecord | None) -> tuple[ArrayRecord, str]:
    """The weights as clients will have them, and their digest.

    Averaging turns whole numbers (BatchNorm's counters) into fractions, and loading turns them back: only what a module
    has after loading is what it certifies.
    """
    if not hasattr(model, "load_state_dict"):
        raise CallError(f"model must be a torch module, but is {type(model).__name__}")
    if arrays is not None:
        model = loaded(copy.deepcopy(model), arrays.to_torch_state_dict())
    return ArrayRecord(model.state_dict()), digest_of_module(model)
