"""CERTIFY on examples in memory, as tests of its guarantees need it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedcert.certification.certificate import CertificateTable, ExampleState
from fedcert.certification.procedures import Certify
from fedcert.certification.samplers.protocol import OnSamples, Sampler, ignore
from fedcert.certification.scheduler import CertificationScheduler
from fedcert.certification.sequential import SamplingPolicy
from fedcert.certification.streams import block_size, key_of
from fedcert.report import Smoothing


def certificates(
    sampler: Sampler,
    images: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    smoothing: Smoothing,
    radii: Sequence[float],
    on_samples: OnSamples = ignore,
) -> CertificateTable:
    """Certificates by the real scheduler; positions of examples name their noise."""
    policy = SamplingPolicy.of(smoothing, radii, block_size(images.shape[1:]))
    scheduler = CertificationScheduler(sampler, Certify(policy), 1e6, on_samples=on_samples)
    done: list[ExampleState] = []
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        while not scheduler.has_room:
            done.extend(scheduler.advance())
        scheduler.admit(index, key_of(index), image, int(label))
    while scheduler.is_busy:
        done.extend(scheduler.advance())
    return CertificateTable.of(done, policy.perturbation)
