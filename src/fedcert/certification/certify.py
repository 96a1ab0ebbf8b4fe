"""CERTIFY (paper, III-B2; Cohen et al. 2019): select a class, bound its error, turn the bound into a radius.

    selected    = the class predicted most often among n0 noisy samples           `select`
    error_bound ≥ 1 - probability of that class, from fresh noisy samples         `add_samples`, `bound_errors`
    radius      = the perturbation's radius at that bound                         `CertificateTable.of`

Counts come in over time, of many examples at once; so CERTIFY is a pure function from states and counts to states.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedcert._arrays import Integers
from fedcert.certification.certificate import ExampleState, InFlight
from fedcert.certification.sequential import SamplingPolicy
from fedcert.certification.streams import Phase


def certify_counts(examples: Sequence[InFlight], counts: Integers, policy: SamplingPolicy) -> list[ExampleState]:
    """CERTIFY, advanced by the noisy predictions that were counted.

    Guarantee: for each example, with probability at least 1 - failure_probability over the noise, either
    CERTIFY abstains or the smoothed classifier predicts `selected` everywhere within the radius of the
    example, strictly. This holds for any model and any selection, because estimation uses fresh noise; and for any way
    to stop, because the bounds of all looks hold at once.

    Args:
        examples: each with the samples that were drawn of it.
        counts: how often each class was predicted, examples x classes.
        policy: how many samples are drawn, and when they are enough.

    Returns:
        The state of each example.
    """
    states = [
        select(example, row, policy) if example.phase == Phase.SELECTION else add_samples(example, row)
        for example, row in zip(examples, counts, strict=True)
    ]
    return bound_errors(states, policy)


def select(example: InFlight, counts: Integers, policy: SamplingPolicy) -> ExampleState:
    """The most frequent of n0 noisy predictions; ties go to the lowest class index.

    The sequential procedure is done with an example at once where that class is wrong: it can never count.
    """
    selected = int(counts.argmax())
    wrong = policy.skips_wrong and selected != example.label
    correct = 0 if example.label is None else int(counts[example.label])
    return replace(example.state, selected=selected, samples=example.samples, correct=correct, done=wrong)


def add_samples(example: InFlight, counts: Integers) -> ExampleState:
    """Fresh samples added to those of estimation."""
    state, samples = example.state, example.samples
    successes = state.successes + int(counts[state.selected])
    return replace(state, drawn=state.drawn + samples, successes=successes, samples=state.samples + samples)


def bound_errors(states: Sequence[ExampleState], policy: SamplingPolicy) -> list[ExampleState]:
    """Bound the error of the examples that have the samples of their next look; all of one look together."""
    bounded = list(states)
    waiting: dict[int, list[int]] = defaultdict(list)
    for position, state in enumerate(states):
        if not state.done and state.drawn == policy.looks.sizes[state.look]:
            waiting[state.look].append(position)
    for look, positions in waiting.items():
        successes = np.array([states[position].successes for position in positions], dtype=np.int64)
        before = np.array([states[position].error_bound for position in positions])
        bounds = np.minimum(before, policy.looks.error_bound(look, successes))
        done = policy.is_decided(look, successes, bounds)
        for position, bound, ends in zip(positions, bounds.tolist(), done.tolist(), strict=True):
            bounded[position] = replace(states[position], look=look + 1, error_bound=bound, estimated=True, done=ends)
    return bounded
