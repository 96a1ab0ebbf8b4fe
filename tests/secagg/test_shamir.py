from __future__ import annotations

import itertools
import random
import secrets

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from fedcert.secagg.shamir import PRIME, SHARE_BYTES, secret_of, secrets_of, shares_of


@given(
    secret=some.binary(min_size=32, max_size=32),
    threshold=some.integers(1, 12),
    further=some.integers(0, 8),
    seed=some.integers(0, 2**32),
)
def test_any_so_many_shares_give_the_secret(secret: bytes, threshold: int, further: int, seed: int) -> None:
    generator = random.Random(seed)
    points = generator.sample(range(1, 10_000), threshold + further)
    shares = shares_of(secret, threshold, points, generator.randbytes)
    chosen = generator.sample(points, generator.randint(threshold, len(points)))
    assert secret_of({point: shares[point] for point in chosen}) == secret


def test_each_block_can_be_told_by_itself() -> None:
    first, second = secrets.token_bytes(32), secrets.token_bytes(32)
    shares = shares_of(first + second, 3, [1, 2, 3, 4])
    assert secret_of({point: share[:SHARE_BYTES] for point, share in shares.items()}) == first
    assert secret_of({point: share[SHARE_BYTES:] for point, share in shares.items()}) == second
    assert secrets_of([{1: shares[1], 2: shares[2], 4: shares[4]}]) == [first + second]


def test_the_shares_are_those_of_a_plain_implementation() -> None:
    """By Python's whole numbers, from the same random bytes."""
    secret, drawn = bytes(range(32)), random.Random(1).randbytes(4 * 9 * 4)
    shares = shares_of(secret, 5, [1, 7, 11, 500, 2**31 - 2], lambda count: drawn[:count])
    whole = int.from_bytes(secret, "little")
    limbs = [(whole >> (29 * index)) % 2**29 for index in range(9)]
    chance = [int.from_bytes(drawn[4 * index : 4 * index + 4], "little") % 2**31 for index in range(36)]
    for point, share in shares.items():
        for limb in range(9):
            row = [*(chance[9 * power + limb] for power in range(4)), limbs[limb]]  # from the highest power down
            value = sum(factor * pow(point, 4 - power, PRIME) for power, factor in enumerate(row)) % PRIME
            assert int.from_bytes(share[4 * limb : 4 * limb + 4], "little") == value


def test_fewer_shares_look_the_same_for_all_secrets() -> None:
    """One share too few is uniform, together: each number's distribution, and what pairs of numbers add up to."""
    generator = np.random.default_rng(0)
    seen = {}
    for secret in (bytes(32), b"\xff" * 32):
        rows = [
            [np.frombuffer(share, "<u4") for share in shares_of(secret, 3, [1, 2, 3], generator.bytes).values()][:2]
            for _ in range(2000)
        ]
        seen[secret] = np.array(rows, dtype=np.float64) / PRIME
    for values in seen.values():
        for column in values.reshape(len(values), -1).T:
            assert stats.kstest(column, "uniform").pvalue > 1e-5
        together = (values[:, 0] + 3 * values[:, 1]) % 1.0
        assert all(stats.kstest(column, "uniform").pvalue > 1e-5 for column in together.T)


def test_with_a_share_too_few_every_secret_is_possible() -> None:
    """For a threshold of 2 and one share: whatever the secret, exactly one other share completes it."""
    share = shares_of(secrets.token_bytes(32), 2, [1, 2])[1]
    for claimed in (bytes(32), bytes(range(32))):
        # The line through (0, claimed) and (1, share) has one value at 2.
        limbs = [(int.from_bytes(claimed, "little") >> (29 * index)) % 2**29 for index in range(9)]
        values = np.frombuffer(share, "<u4").astype(np.int64)
        other = (2 * values - np.array(limbs)) % PRIME
        assert secret_of({1: share, 2: other.astype("<u4").tobytes()}) == claimed


@pytest.mark.parametrize(
    ("secret", "threshold", "points"),
    [
        (b"short", 2, [1, 2]),
        (b"", 1, [1]),
        (bytes(32), 0, [1]),
        (bytes(32), 3, [1, 2]),
        (bytes(32), 1, [1, 1]),
        (bytes(32), 1, [0, 1]),
        (bytes(32), 1, [PRIME]),
    ],
)
def test_what_is_no_sharing(secret: bytes, threshold: int, points: list[int]) -> None:
    with pytest.raises(ValueError, match="a secret has blocks|is no sharing"):
        shares_of(secret, threshold, points)


def test_broken_shares() -> None:
    for share in (b"", b"x" * 35, (2**31 - 1).to_bytes(4, "little") * 9):
        with pytest.raises(ValueError, match="a share h"):
            secret_of({1: share})


def test_a_false_share_gives_another_secret() -> None:
    secret = secrets.token_bytes(32)
    shares = shares_of(secret, 3, [1, 2, 3])
    for point in itertools.islice(shares, 3):
        changed = bytes([shares[point][0] ^ 1]) + shares[point][1:]
        assert secret_of({**shares, point: changed}) != secret
