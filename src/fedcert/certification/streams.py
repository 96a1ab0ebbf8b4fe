"""Streams of noise: a pure function of seed, client, example, phase and block.

A stream's key depends on the example itself and on no other, so that an example more or less in a client's data leaves
the noise of all others as it is: one example moves one cell of what is counted (docs/proofs.md, "One example").
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NewType

import numpy as np

from fedcert._arrays import Images
from fedcert.certification.seeds import Seed

Stream = NewType("Stream", bytes)
"""The key of one block of noise, 256 bits."""
ExampleKey = NewType("ExampleKey", bytes)
"""What names an example's noise: the hash of image and label, and its place among equal ones."""


class Phase(IntEnum):
    """What noise is drawn for. Estimation must not reuse the noise of selection."""

    SELECTION = 0
    ESTIMATION = 1
    FORECAST = 2
    COUNTING = 3


LARGEST_BLOCK = 100
"""Samples of a stream at most: n0's default, so that selection takes one block. Part of what a seed means."""
_FLOATS_PER_BLOCK = 2**24
"""64 MB: a block is held in memory whole. Part of what a seed means."""
_LABELLED = struct.Struct("<q")
_PLACE = struct.Struct("<q")


def block_size(shape: tuple[int, ...], largest: int = LARGEST_BLOCK) -> int:
    """Samples that one stream gives for examples of a shape: 100, or as many as have 64 MB.

    A block is never split between streams. So what is drawn depends on the example and the settings alone.

    Args:
        shape: of an example.
        largest: samples of a block at most; fewer than 100 where no more are drawn of an example.
    """
    return max(1, min(largest, LARGEST_BLOCK, _FLOATS_PER_BLOCK // max(1, int(np.prod(shape)))))


def example_keys(examples: Iterable[tuple[Images, int]]) -> Iterator[ExampleKey]:
    """The key of each example, from its image and its label.

    Guarantee: for two lists that differ in one example, wherever it stands, the sets of keys differ in one key, and
    every key has the same image and label in both. Equal examples are counted, so that each has noise of its own.

    Examples:
        >>> first, second = np.zeros(4, np.float32), np.ones(4, np.float32)
        >>> keys = set(example_keys([(first, 0), (second, 1), (first, 0)]))
        >>> len(keys), len(keys & set(example_keys([(second, 1), (first, 0)])))
        (3, 2)
    """
    seen: Counter[bytes] = Counter()
    for image, label in examples:
        digest = hashlib.blake2b(_LABELLED.pack(label), digest_size=24, person=b"fedcert example")
        digest.update(image.tobytes())
        name = digest.digest()
        yield ExampleKey(name + _PLACE.pack(seen[name]))
        seen[name] += 1


def image_of(key: ExampleKey) -> bytes:
    """What equal examples share: the hash of image and label.

    Examples:
        >>> first, second = example_keys([(np.zeros(4, np.float32), 0)] * 2)
        >>> first == second, image_of(first) == image_of(second)
        (False, True)
    """
    return bytes(key[: -_PLACE.size])


def key_of(number: int) -> ExampleKey:
    """A key for what is no example of a client's data: a trial's, or a test's."""
    return ExampleKey(number.to_bytes(32, "little"))


@dataclass(frozen=True)
class Streams:
    """Keys of independent noise streams, one per example, phase and block of samples.

    A key depends on the seed, the client's name and the example alone. So no two clients share noise (intervals rest on
    that), and neither batch size, order nor company changes what is drawn.

    Attributes:
        seed: the client's.
        client: its name.
        largest_block: samples of a block at most: blocks have fixed places in calls of a model, which longer ones than
            are drawn would leave empty.
    """

    seed: Seed
    client: str
    largest_block: int = LARGEST_BLOCK

    def block_size(self, shape: tuple[int, ...]) -> int:
        """Samples that one stream gives for examples of a shape."""
        return block_size(shape, self.largest_block)

    def stream(self, example: ExampleKey, phase: Phase, block: int) -> Stream:
        """The key of one block of noise."""
        name = example + struct.pack("<qq", phase, block)
        return Stream(hashlib.blake2b(name, key=self._key, digest_size=32, person=b"fedcert noise 2").digest())

    def takes(self, example: ExampleKey, every: int) -> bool:
        """Whether an example is among the one in `every` that is certified; that depends on no other example."""
        chosen = hashlib.blake2b(example, key=self._key, digest_size=8, person=b"fedcert every").digest()
        return int.from_bytes(chosen, "little") % every == 0

    @cached_property
    def _key(self) -> bytes:
        return hashlib.blake2b(self.client.encode(), key=self.seed.secret, digest_size=32).digest()
