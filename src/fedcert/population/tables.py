"""Designs, each made once: tables that come with the package, then what this user's cache folder holds."""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from fedcert._arrays import Floats
from fedcert._files.atomic import write_whole
from fedcert._files.paths import cache_folder
from fedcert._threads import single_blas_thread
from fedcert.errors import CallError, FedcertError
from fedcert.population.design import DESIGNED_PASSES, Design, is_equation, is_proven, make_design
from fedcert.population.vote import VoteCurve, shift_of
from fedcert.report.noises import Shift

SHIPPED_PASSES, SHIPPED_VOTES = (16, 32, 64, 100), (1, 11, 31)
"""Numbers of passes and votes whose designs come with the package, for Gaussian noise."""
SHIPPED_RATIOS = tuple(round(0.1 * step, 1) for step in range(25))
"""Radii of these designs in units of sigma: to 2, where 32 passes lose a point, and to 2.4 for 100."""
_DIGITS = 6
"""Of a ratio that has a design of its own. Others have that of the closest, moved by what the difference can cost:
a millionth of sigma, and about as much accuracy."""
_MOST = 10_000
"""Passes and votes: up to here `elevated` rounds by less than 1e-11, which proofs leave room for, and the curve's error
is known."""
_VERSION = 3
"""Of designs: those of another version are not taken from a cache."""
_FILE = "designs.npz"
_CACHED_NOISES = ("gaussian", "uniform")
"""Noises that mean the same in every run; another package's may change under its name."""


@single_blas_thread()
def designs_for(noise: str, n: int, votes: int, ratios: Sequence[float]) -> tuple[Design, ...]:
    """Proven designs for some radii.

    Guarantee: that of `make_design`, for these very radii.

    Args:
        noise: the name of a noise whose shift is known.
        n: noisy passes of an example.
        votes: odd.
        ratios: radii in units of sigma.

    Raises:
        CallError: one of these is none; see `shift_of` too.

    Designs that neither come with the package nor are in the cache folder are made, in milliseconds for each radius up
    to 32 passes and in seconds for hundreds, and kept there.
    """
    if not (0 < n <= _MOST and 0 < votes <= _MOST and votes % 2 == 1):
        raise CallError(
            f"a design needs 1 to {_MOST} passes and an odd number of votes up to that, but was given {n} and {votes}"
        )
    shift = shift_of(noise)
    designs = []
    for ratio in map(float, ratios):
        if not 0 <= ratio < math.inf:
            raise CallError(f"a design needs a radius of 0 or more, but was given {ratio} sigma")
        designs.append(_moved(_known_design(noise, shift, n, votes, round(ratio, _DIGITS)), ratio))
    return tuple(designs)


def _moved(design: Design, ratio: float) -> Design:
    """A design for a radius close by.

    Guarantee: it is as proven as the given design.

    The accuracy falls with the radius, and by no more than `steepest`: lower scores stay valid for a smaller radius and
    upper ones for a larger one, and what the fall can cost is taken from lower ones and added to upper ones otherwise.
    """
    if design.curve.ratio == ratio:
        return design
    curve = VoteCurve(design.curve.noise, design.curve.votes, ratio)
    most = curve.steepest * abs(ratio - design.curve.ratio)
    beyond = ratio > design.curve.ratio
    return Design(curve, design.lower - most * beyond, design.upper + most * (not beyond))


@lru_cache(maxsize=4096)
def _known_design(noise: str, shift: Shift, n: int, votes: int, ratio: float) -> Design:  # noqa: ARG001
    """A shipped, cached or new design. The shift is an argument because a noise may be registered anew."""
    curve = VoteCurve(noise, votes, ratio)
    shipped = shipped_scores(noise, n, votes)
    if shipped is not None and ratio in SHIPPED_RATIOS:
        lower, upper = shipped[:, SHIPPED_RATIOS.index(ratio)]
        return Design(curve, lower, upper)
    if noise not in _CACHED_NOISES or is_equation(curve, n) or n > DESIGNED_PASSES:
        return make_design(curve, n)
    cached = _from_cache(curve, n)
    if cached is not None:
        return cached
    design = make_design(curve, n)
    _keep(design)
    return design


@lru_cache(maxsize=16)
def shipped_scores(noise: str, n: int, votes: int) -> Floats | None:
    """Scores that come with the package, (lower, upper) x radii x (n + 1); None where there are none."""
    if noise != "gaussian" or n not in SHIPPED_PASSES or votes not in SHIPPED_VOTES:
        return None
    content = files("fedcert.population").joinpath(_FILE).read_bytes()
    with np.load(io.BytesIO(content), allow_pickle=False) as tables:
        scores = np.asarray(tables[_key(n, votes)], dtype=np.float64)
    scores.flags.writeable = False
    return scores


def write_shipped(path: Path) -> None:
    """Make all designs that come with the package, and write them (`make designs`)."""
    content = io.BytesIO()
    tables: dict[str, Any] = {
        _key(n, votes): shipped_table(n, votes) for n in SHIPPED_PASSES for votes in SHIPPED_VOTES
    }
    np.savez_compressed(content, **tables)
    write_whole(path, content.getvalue())


def shipped_table(n: int, votes: int) -> Floats:
    """What `shipped_scores` is to give, made anew."""
    designs = [make_design(VoteCurve("gaussian", votes, ratio), n) for ratio in SHIPPED_RATIOS]
    return np.array([[design.lower for design in designs], [design.upper for design in designs]])


def _key(n: int, votes: int) -> str:
    return f"n{n}_votes{votes}"


def _keep(design: Design) -> None:
    """Keep a design for later runs, whole or not at all."""
    scores = np.array([design.lower, design.upper], dtype="<f8").tobytes()
    # A cache that cannot be written costs time, nothing else. RuntimeError: there is no home folder.
    with contextlib.suppress(OSError, FedcertError, RuntimeError):
        place = _place(design.curve, design.n)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, _digest(place, scores) + scores)


def _from_cache(curve: VoteCurve, n: int) -> Design | None:
    """A design that an earlier run made, proven again; None where there is none, or a damaged or foreign one."""
    try:
        place = _place(curve, n)
        content = place.read_bytes()
    except (OSError, RuntimeError):
        return None
    digest, scores = content[:32], content[32:]
    if len(scores) != 2 * 8 * (n + 1) or _digest(place, scores) != digest:
        return None
    lower, upper = np.frombuffer(scores, dtype="<f8").astype(np.float64).reshape(2, n + 1)
    design = Design(curve, lower, upper)
    # The digest finds damage, and a file under another's name; the proof does not trust who wrote it.
    return design if is_proven(design) else None


def _digest(place: Path, scores: bytes) -> bytes:
    return hashlib.sha256(place.name.encode() + b"\0" + scores).digest()


def _place(curve: VoteCurve, n: int) -> Path:
    name = f"{curve.noise}-{n}-{curve.votes}-{curve.ratio:.{_DIGITS}f}.design"
    return cache_folder() / f"designs-{_VERSION}" / name
