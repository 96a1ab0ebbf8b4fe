"""What moments tell of single sites: why docs/security.md advises against them over few."""

from __future__ import annotations

import numpy as np
from scipy import linalg, optimize

from fedcert.privacy.keys.signing import sign
from fedcert.report import Report, Sums
from fedcert.report.request import PrivateSum
from right_answers import Population
from secure_sums import COORDINATOR, NAMES, in_process, private_request

SITES, EXAMPLES = 5, 100


def recovered(sums: Sums, sites: int, generator: np.random.Generator) -> np.ndarray:
    """Label counts and histograms of sites, in no order, from products of all pairs of them.

    The products are AᵀA with a row of A for each site, its counts over √n. That gives A but for a rotation of the
    sites, which is chosen so that no count is below 0; n is the square of what a row's labels add up to.
    """
    moments = sums.moments
    assert moments is not None
    cross = np.array(moments.labels_entries, dtype=np.float64)
    products = np.block([[np.array(moments.labels_labels), cross], [cross.T, np.array(moments.correct_correct)]])
    values, vectors = np.linalg.eigh(products / moments.scale)
    factor, pairs = vectors[:, -sites:] * np.sqrt(values[-sites:]), np.triu_indices(sites, 1)

    def rotated(angles: np.ndarray, start: np.ndarray) -> np.ndarray:
        turn = np.zeros((sites, sites))
        turn[pairs] = angles
        return factor @ start @ linalg.expm(turn - turn.T)

    best, least = factor, np.inf
    for _ in range(20):
        start = np.linalg.qr(generator.normal(size=(sites, sites)))[0]
        search = optimize.least_squares(
            lambda angles, start=start: np.minimum(rotated(angles, start), 0.0).ravel(), np.zeros(len(pairs[0]))
        )
        if search.cost < least:
            best, least = rotated(search.x, start), search.cost
        if least < 1e-9:
            break
    return np.rint(best * best[: len(sums.classes)].sum(axis=0)).T.astype(np.int64)


def test_moments_over_five_sites_give_their_histograms_away() -> None:
    """A private sum with moments, exact and masked as it is: its result has every site's counts, but for names."""
    generator = np.random.default_rng(1)
    world = Population(tuple(generator.normal(0.8, 0.7, 10)), width=1.2)
    private = PrivateSum(threshold=4, moments=True)
    settings = {name: getattr(world, name) for name in ("smoothing", "radii", "classes")}
    request = sign(private_request(NAMES, private=private, **settings), COORDINATOR)
    own: dict[str, Report] = {}
    for name in NAMES:
        labels = generator.multinomial(EXAMPLES, generator.dirichlet(np.full(10, 0.5)))
        own[name] = world.report(name, labels, generator, model=request.model, request=request.digest)
    sums, _ = in_process(request, own)
    assert sums is not None
    assert sums.moments is not None
    counts = {tuple(row) for row in recovered(sums, SITES, generator).tolist()}
    assert counts == {(*report.label_counts, *report.procedure_counts) for report in own.values()}
