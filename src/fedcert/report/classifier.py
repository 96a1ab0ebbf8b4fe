"""Which classifier a certificate is about: the smoothed one, never the bare network."""

from __future__ import annotations

from fedcert.report.smoothing import Smoothing


def classifier_sentence(smoothing: Smoothing, votes: int | None = None) -> str:
    """The classifier that certificates with these settings are about, and how to run it.

    Args:
        smoothing: the settings.
        votes: noisy copies that vote on an answer, for population certificates; those of the settings where None.
    """
    voting = smoothing.votes if votes is None else votes
    noise = f"{smoothing.noise} noise of sigma {smoothing.sigma:g}"
    call, options = f"sigma={smoothing.sigma:g}", f"--sigma {smoothing.sigma:g}"
    if smoothing.noise != "gaussian":
        call, options = f'{call}, noise="{smoothing.noise}"', f"{options} --noise {smoothing.noise}"
    if smoothing.lattice is not None:
        call, options = f"{call}, lattice={smoothing.lattice}", f"{options} --lattice {smoothing.lattice}"
    if voting is None:
        how = f"the most frequent answer under {noise}"
        run = f"fedcert.smooth(model, {call}, abstain=0.001) or fedcert predict {options} --abstain 0.001"
        return (
            f"Valid for the smoothed classifier ({how}; run it with {run}), not for the bare model. What is "
            "certified is a minimum: measured accuracy may be higher."
        )
    how = f"one noisy copy, {noise}" if voting == 1 else f"majority vote of {voting} noisy copies, {noise}"
    run = f"fedcert.smooth(model, {call}, votes={voting}) or fedcert predict {options} --votes {voting}"
    return (
        f"Valid for the smoothed classifier ({how}; run it with {run}), on average over the population, not for the "
        "bare model or for single examples. What is proven is a minimum: measured accuracy may be higher."
    )
