"""Where designs come from: the package, this user's cache folder, or anew."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedcert.errors import CallError
from fedcert.population import tables
from fedcert.population.design import Design, is_proven, make_design
from fedcert.population.tables import SHIPPED_RATIOS, designs_for, shipped_scores, shipped_table
from fedcert.population.vote import VoteCurve
from fedcert.report.noises import NOISES, Noise, Shift

PACKAGED = Path(tables.__file__).with_name("designs.npz")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("FEDCERT_CACHE", str(tmp_path / "cache"))
    tables._known_design.cache_clear()
    yield tmp_path / "cache"
    tables._known_design.cache_clear()


def forget_and_ask(ratio: float = 0.55, n: int = 10) -> Design:
    """As a new process would."""
    tables._known_design.cache_clear()
    (design,) = designs_for("gaussian", n, 3, [ratio])
    return design


def never(*_: object) -> None:
    pytest.fail("made again")


def test_the_shipped_tables_are_small_and_what_they_are_said_to_be() -> None:
    assert PACKAGED.stat().st_size < 1_000_000
    assert shipped_scores("gaussian", 32, 11).shape == (2, len(SHIPPED_RATIOS), 33)
    assert SHIPPED_RATIOS[:21] == tuple(round(step / 10, 1) for step in range(21))
    assert shipped_scores("gaussian", 32, 13) is None
    assert shipped_scores("uniform", 32, 11) is None


@pytest.mark.parametrize("votes", [11, 31])
def test_the_shipped_tables_can_be_made_again(votes: int) -> None:
    """Up to what other processors round otherwise: flat optima amplify it, means hardly."""
    again, shipped = shipped_table(16, votes), shipped_scores("gaussian", 16, votes)
    np.testing.assert_allclose(again, shipped, atol=1e-5)
    for place, ratio in enumerate(SHIPPED_RATIOS):
        curve = VoteCurve("gaussian", votes, ratio)
        new, old = Design(curve, *again[:, place]), Design(curve, *shipped[:, place])
        assert new.loss == pytest.approx(old.loss, abs=1e-7)
        assert is_proven(new)


def test_shipped_tables_are_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SHIPPED_PASSES", (3,))
    monkeypatch.setattr(tables, "SHIPPED_VOTES", (1, 5))
    tables.write_shipped(tmp_path / "designs.npz")
    with np.load(tmp_path / "designs.npz", allow_pickle=False) as written:
        assert sorted(written) == ["n3_votes1", "n3_votes5"]
        assert written["n3_votes5"].shape == (2, len(SHIPPED_RATIOS), 4)


def test_shipped_designs_need_no_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "make_design", never)
    assert len(designs_for("gaussian", 100, 31, SHIPPED_RATIOS)) == len(SHIPPED_RATIOS)
    assert not cache.exists()


def test_radii_beside_those_of_the_tables_are_still_between() -> None:
    """A radius is written in nine decimals: its ratio to sigma is hardly ever a number of the table."""
    for ratio in (0.1 + 4e-7, 0.1 - 4e-7, 1.3000002, 0.7000000001, 2e-7):
        (design,) = designs_for("gaussian", 32, 11, [ratio])
        (near,) = designs_for("gaussian", 32, 11, [round(ratio, 6)])
        assert design.curve.ratio == ratio
        assert np.max(np.abs(design.lower - near.lower)) < 1e-6
        if ratio > 1e-6:  # no subdivision shows what is next to an identity
            assert is_proven(design)


def test_a_design_next_to_radius_0_is_moved_from_the_identity() -> None:
    (exact, moved) = designs_for("gaussian", 32, 11, [0.0, 2e-7])
    fall = moved.curve.steepest * 2e-7
    np.testing.assert_allclose(exact.lower - moved.lower, fall, rtol=1e-6)
    np.testing.assert_array_equal(moved.upper, exact.upper)


@pytest.mark.parametrize(
    ("n", "votes", "ratio", "sentence"),
    [
        (0, 11, 0.5, "a design needs 1 to 10000 passes and an odd number of votes up to that, but was given 0 and 11"),
        (32, 2, 0.5, "but was given 32 and 2"),
        (32, 11, -0.1, "a design needs a radius of 0 or more, but was given -0.1 sigma"),
        (32, 11, float("nan"), "but was given nan sigma"),
        (32, 11, float("inf"), "but was given inf sigma"),
    ],
)
def test_settings_without_a_design_are_refused(n: int, votes: int, ratio: float, sentence: str) -> None:
    with pytest.raises(CallError, match=sentence):
        designs_for("gaussian", n, votes, [ratio])


def test_a_cached_design_is_read_and_proven_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    design = forget_and_ask()
    monkeypatch.setattr(tables, "make_design", never)
    read = forget_and_ask()
    np.testing.assert_array_equal(read.lower, design.lower)
    np.testing.assert_array_equal(read.upper, design.upper)
    assert [file.name for file in cache.rglob("*.*")] == ["gaussian-10-3-0.550000.design"]


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "text", "folder"])
def test_a_damaged_file_is_not_used(damage: str, cache: Path) -> None:
    design = forget_and_ask()
    (file,) = cache.rglob("*.design")
    content = bytearray(file.read_bytes())
    if damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        content[50] ^= 1
        file.write_bytes({"flipped": bytes(content), "short": content[:-8], "empty": b"", "text": b"x" * 208}[damage])
    np.testing.assert_array_equal(forget_and_ask().lower, design.lower)
    if damage != "folder":  # it was written again
        assert file.read_bytes() != content


def test_a_file_of_other_settings_is_not_used(cache: Path) -> None:
    loose, tight = forget_and_ask(1.55), forget_and_ask(0.55)
    places = {file.name: file for file in cache.rglob("*.design")}
    stolen = places["gaussian-10-3-1.550000.design"].read_bytes()
    places["gaussian-10-3-0.550000.design"].write_bytes(stolen)
    np.testing.assert_array_equal(forget_and_ask(0.55).lower, tight.lower)
    assert not np.array_equal(loose.lower, tight.lower)


@pytest.mark.parametrize("value", [1.0, float("nan")])
def test_a_forged_file_with_a_right_digest_is_found_by_the_proof(value: float, cache: Path) -> None:
    design = forget_and_ask()
    tables._keep(Design(design.curve, np.full(11, value), np.full(11, value)))
    np.testing.assert_array_equal(forget_and_ask().lower, design.lower)


def test_a_cache_that_cannot_be_written_is_done_without(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("")
    assert is_proven(forget_and_ask())
    monkeypatch.setenv("FEDCERT_CACHE", "/proc/nowhere")
    assert is_proven(forget_and_ask())


def test_a_user_without_a_home_has_designs(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(tables, "cache_folder", homeless)
    assert is_proven(forget_and_ask())
    assert not cache.exists()


def test_two_processes_at_once_leave_one_whole_file(cache: Path) -> None:
    code = "from fedcert.population.tables import designs_for; print(designs_for('gaussian', 10, 3, [0.55])[0].lower)"
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    printed = {process.communicate(timeout=60)[0] for process in both}
    assert len(printed) == 1
    assert [process.returncode for process in both] == [0, 0]
    (file,) = [path for path in cache.rglob("*") if path.is_file()]
    assert tables._from_cache(VoteCurve("gaussian", 3, 0.55), 10) is not None
    assert file.stat().st_size == 32 + 16 * 11


def test_a_noise_registered_anew_has_its_own_designs(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uniform = NOISES["uniform"].shift

    def halved(p: np.ndarray, complement: np.ndarray, ratio: float) -> tuple[np.ndarray, np.ndarray]:
        return uniform.least(p, complement, ratio / 2)

    def register(shift: Shift) -> None:
        monkeypatch.setitem(NOISES, "own", Noise("own", "l1", lambda sigma, bound: 0.0, "a test's", shift=shift))

    register(uniform)
    (first,) = designs_for("own", 8, 3, [1.0])
    register(Shift(halved, uniform.steepest / 2))
    (second,) = designs_for("own", 8, 3, [1.0])
    assert is_proven(second)
    assert np.all(second.lower @ np.ones(9) > first.lower @ np.ones(9))
    assert not cache.exists()  # another package's noise may change under its name


def test_designs_leave_the_callers_threads_alone() -> None:
    from threadpoolctl import threadpool_info

    before = [pool["num_threads"] for pool in threadpool_info()]
    make_design(VoteCurve("gaussian", 3, 0.5), 4)
    assert [pool["num_threads"] for pool in threadpool_info()] == before
