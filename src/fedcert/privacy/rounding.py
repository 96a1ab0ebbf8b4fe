"""Counts rounded by chance: multiples of a base, right on average, so that no small count leaves as it is."""

from __future__ import annotations

import hmac

import numpy as np

from fedcert._schema.encoding import decoded
from fedcert.errors import CallError
from fedcert.privacy.dp.mechanism import cells_of
from fedcert.privacy.keys.identity import Identity
from fedcert.report import Report, Sums
from fedcert.report.privacy import AddedNoise
from fedcert.report.sums.groups import effect_bound, group_bound
from fedcert.report.sums.noisy import noisy_sums
from fedcert.secagg.masks import framed
from fedcert.secagg.vectors import next_effect


def rounded(report: Report, base: int, identity: Identity) -> Sums:
    """A site's counts, each rounded up or down to a multiple of the base.

    A count of a base + b, with b below the base, becomes (a + 1) base with probability b / base, else a base: right on
    average, less than the base off, with a variance of at most base^2 / 4. Chance comes from the site's secret key, the
    counts and the model: the same counts are rounded the same way again, whoever asks, so that repeating it tells
    nothing more, and nobody else can find out which counts would have been. This is no differential privacy.

    Args:
        report: the site's, with counts per class.
        base: such as 5.
        identity: the site's keys.

    Raises:
        CallError: the base is below 2.
        Refused: the report has no counts per class.
    """
    if base < 2:
        raise CallError(f"counts are rounded to multiples of 2 or more, but the base is {base}")
    cells = cells_of(report)
    about = framed(["fedcert rounding 1", report.model, cells.astype("<i8").tobytes()])
    seed = hmac.digest(decoded(identity.signing), about, "sha256")
    chance = np.random.default_rng(np.frombuffer(seed, dtype="<u4")).random(cells.shape)
    made = base * (cells // base + (chance * base < cells % base))
    noise = AddedNoise(rounding=base, variance=base**2 / 4, cells=made.tolist())
    effects = effect_bound(report.design_effect, report.largest_group, len(report.radii))
    group = group_bound(report.examples, report.design_effect, report.largest_group)
    like = Sums(
        model=report.model, request=report.request, smoothing=report.smoothing, radii=report.radii,
        classes=report.classes, contributors=1, label_counts=(0,) * len(report.classes),
        certified_counts=(0,) * len(report.radii), software=report.software,
        design_effect=None if effects is None else tuple(map(next_effect, effects)),
        largest_group=None if effects is None else -(-group // base) * base,
    )  # fmt: skip
    return noisy_sums(like, noise, 1, in_words(base))


def in_words(base: int) -> str:
    """The rounding in words."""
    return f"counts that each site rounded by chance to multiples of {base}"
