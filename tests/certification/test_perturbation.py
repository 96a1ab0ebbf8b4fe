"""Perturbations: one registration makes a new one known everywhere, half of one is refused, seeds mean what they did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy import stats

from fedcert import CallError, InvalidValue, Report, Smoothing, certify, estimate
from fedcert.certification.certificate import in_flight
from fedcert.certification.models.classifiers import ArrayClassifier
from fedcert.certification.perturbation import (
    PERTURBATIONS,
    AdditivePerturbation,
    Gaussian,
    LatticePerturbation,
    Perturbation,
    Uniform,
    device_generator_of,
    generator_of,
    register_perturbation,
)
from fedcert.certification.samplers.torch_gpu import DeviceSampler
from fedcert.certification.seeds import Seed
from fedcert.certification.streams import Phase, Stream, Streams
from fedcert.cli.main import run
from fedcert.report import DEFAULT_RADII
from fedcert.report.noises import NOISES, Noise
from fedcert.report.table.parquet import read_parquet, write_parquet

DIMMING = Noise("dimming", "contrast", lambda sigma, error_bound: sigma * (1 - 2 * error_bound), "a random contrast")
STREAM = Stream(bytes(range(32)))
X = np.random.default_rng(0).random((30, 4)).astype(np.float32)
Y = (X[:, 0] > X[:, 1]).astype(np.int64)


def brighter_first(batch: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Multiplying an image by a positive number changes nothing: such perturbations never mislead it."""
    return (batch[:, 0] > batch[:, 1]).astype(np.int64)


class Dimming(Perturbation):
    """Not an addition: images are multiplied by a random contrast."""

    noise = DIMMING

    def perturb(self, image: npt.NDArray[np.float32], stream: Stream, out: npt.NDArray[np.float32]) -> None:
        contrasts = 1 + self.sigma * generator_of(stream).random(len(out), dtype=np.float32)
        np.multiply(image, contrasts.reshape(-1, *[1] * image.ndim), out=out)

    def perturb_tensor(self, image: torch.Tensor, stream: Stream, out: torch.Tensor) -> None:
        contrasts = torch.rand(len(out), generator=device_generator_of(stream, out.device))
        torch.mul(image, 1 + self.sigma * contrasts.reshape(-1, *[1] * image.ndim), out=out)


@pytest.fixture
def dimming() -> Iterator[None]:
    """A perturbation registered in one place, for one test."""
    register_perturbation(Dimming)
    yield
    del NOISES["dimming"], PERTURBATIONS["dimming"]


@pytest.mark.usefixtures("dimming")
def test_a_registered_perturbation_works_from_settings_to_the_estimate(tmp_path: Path) -> None:
    settings = Smoothing.defaults(0.5, noise="dimming")
    assert settings.norm == "contrast"
    assert settings.largest_radius == pytest.approx(0.5 * (2 * 0.0004 ** (1 / 10_000) - 1))
    with pytest.raises(InvalidValue, match="^norm must be 'contrast', which dimming noise certifies radii in"):
        Smoothing(sigma=0.5, noise="dimming")
    for procedure in ("fixed", "sequential"):
        report = certify(
            brighter_first, X, Y, client="a", model_id="m", sigma=0.5, noise="dimming", procedure=procedure,
            radii=[0, 0.2, 0.4, 0.6], n=1000,
        )  # fmt: skip
        assert report.smoothing.noise == "dimming"
        assert report.certified_counts == (30, 30, 30, 0)
    assert Report.from_json(json.loads(report.dumps())) == report
    smoothing = Report.json_schema()["properties"]["smoothing"]["properties"]
    assert smoothing["noise"] == {"enum": ["gaussian", "uniform", "dimming"]}
    assert smoothing["norm"] == {"enum": ["l2", "l1", "contrast"]}
    write_parquet(tmp_path / "reports.parquet", [report])
    (table,) = read_parquet(tmp_path / "reports.parquet")
    assert table.smoothing == report.smoothing
    assert estimate(report).smoothing == report.smoothing


@pytest.mark.usefixtures("dimming")
def test_a_registered_perturbation_runs_on_the_devices_loop() -> None:
    module = torch.nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[-1.0, 1, 0, 0], [1, -1, 0, 0]]))
    sampler = DeviceSampler(module, 2, Dimming(0.5), Streams(Seed.fixed(0), "a"), torch.device("cpu"))
    counts = sampler.counts(in_flight(X, range(30), Phase.ESTIMATION, 120))
    assert counts.argmax(axis=1).tolist() == Y.tolist()
    assert counts.max(axis=1).tolist() == [120] * 30


@pytest.mark.usefixtures("dimming")
def test_a_registered_perturbation_is_an_option_of_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("dimmed.py").write_text(
        "def make():\n    return lambda batch: (batch[:, 0] > batch[:, 1]).astype(int)\n", encoding="utf-8"
    )
    Path("classes.txt").write_text("no\nyes\n", encoding="utf-8")
    np.savez("d.npz", x=X, y=Y)
    model = ["certify", "dimmed:make", "d.npz", "--model-id", "m", "--client", "a"]
    own = ["--sigma", "0.5", "--noise", "dimming", "--radii", "0,0.4"]
    assert run([*model, *own, "--out", "a.json"]) == 0
    request = ["request", "--model-id", "m", "--classes", "classes.txt", *own, "--out", "request.json"]
    assert run(request) == 0
    assert run([*model, "--request", "request.json", "--out", "b.json"]) == 0
    for name in ("a.json", "b.json"):
        assert json.loads(Path(name).read_text())["certified_counts"] == [30, 30]
    assert run(["page", "b.json", "--out", "page.html"]) == 0
    assert "dimming" in Path("page.html").read_text()
    capsys.readouterr()
    for command, words in (
        ("certify", "gaussian (L2), uniform (L1), or dimming (CONTRAST). [default: gaussian]"),
        ("request", "gaussian (radii in L2), uniform (in L1), or dimming (in CONTRAST)."),
    ):
        assert run([command, "--help"]) == 0
        assert words in " ".join(capsys.readouterr().out.split())


def test_a_noise_without_its_perturbation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NOISES, "dimming", DIMMING)
    sentence = "^the noise 'dimming' cannot be drawn here: it is registered without the perturbation that goes with it"
    with pytest.raises(CallError, match=sentence):
        certify(brighter_first, X, Y, client="a", model_id="m", sigma=0.5, noise="dimming")
    monkeypatch.setitem(PERTURBATIONS, "dimming", Gaussian)
    with pytest.raises(CallError, match=sentence):
        certify(brighter_first, X, Y, client="a", model_id="m", sigma=0.5, noise="dimming")


def test_a_perturbation_without_its_noise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PERTURBATIONS, "dimming", Dimming)
    with pytest.raises(InvalidValue, match="^noise must be 'gaussian' or 'uniform', but is 'dimming'"):
        certify(brighter_first, X, Y, client="a", model_id="m", sigma=0.5, noise="dimming")


def test_a_name_that_is_taken_is_refused() -> None:
    class Other(Dimming):
        noise = Noise("gaussian", "l2", DIMMING.radius, "not the Gaussian one")

    with pytest.raises(CallError, match="^there is already a noise 'gaussian': give the new one another name"):
        register_perturbation(Other)
    assert PERTURBATIONS["gaussian"] is Gaussian


def test_every_noise_has_its_perturbation() -> None:
    assert list(PERTURBATIONS) == list(NOISES)
    assert all(kind.noise is NOISES[name] for name, kind in PERTURBATIONS.items())


@pytest.mark.parametrize("perturbation", [Gaussian(0.5), Uniform(0.5)])
def test_additive_noise_is_the_image_and_its_noise(perturbation: AdditivePerturbation) -> None:
    image = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    noise, noisy = np.empty((50, 2, 3), np.float32), np.empty((50, 2, 3), np.float32)
    perturbation.fill(STREAM, noise)
    perturbation.perturb(image, STREAM, noisy)
    assert np.array_equal(noisy, noise + image)
    drawn, perturbed = torch.empty(50, 2, 3), torch.empty(50, 2, 3)
    perturbation.fill_tensor(STREAM, drawn)
    perturbation.perturb_tensor(torch.from_numpy(image), STREAM, perturbed)
    assert torch.equal(perturbed, drawn + torch.from_numpy(image))


def test_radii_are_those_of_the_papers() -> None:
    bounds = np.array([1e-12, 1e-4, 0.1, 0.4999, 0.5, 0.9])
    assert Gaussian(0.5).radius(bounds) == pytest.approx([*(0.5 * stats.norm.isf(bounds[:4])), 0, 0], rel=1e-12)
    assert Uniform(0.5).radius(bounds) == pytest.approx(np.sqrt(0.75) * np.maximum(1 - 2 * bounds, 0), rel=1e-12)
    assert Gaussian(0.5).radius(np.zeros((2, 0))).shape == (2, 0)
    assert float(Gaussian(0.5).radius(0.0)) == np.inf


@pytest.mark.parametrize(
    ("perturbation", "counts"),
    [
        (Gaussian(0.5), [[88, 261, 1], [6, 289, 55], [47, 298, 5], [76, 266, 8], [19, 309, 22]]),
        (Uniform(0.5), [[93, 257, 0], [2, 299, 49], [56, 291, 3], [80, 261, 9], [22, 306, 22]]),
        (Gaussian(0.5).on_lattice(255), [[83, 265, 2], [3, 305, 42], [41, 305, 4], [68, 270, 12], [11, 311, 28]]),
        (Uniform(0.5).on_lattice(255), [[90, 259, 1], [4, 299, 47], [47, 299, 4], [72, 267, 11], [13, 306, 31]]),
    ],
)
def test_a_seed_means_the_same_noise_in_every_version(perturbation: Perturbation, counts: list[list[int]]) -> None:
    images = np.random.default_rng(0).random((5, 6)).astype(np.float32)
    if isinstance(perturbation, LatticePerturbation):
        images = np.rint(images * 255) / np.float32(255)
    weight = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    sampler = ArrayClassifier(lambda batch: batch @ weight, "m").sampler(
        3, perturbation, Streams(Seed.fixed(7), "site-07"), None
    )
    assert sampler.counts(in_flight(images, range(5), Phase.ESTIMATION, 350, 100)).tolist() == counts


@pytest.mark.parametrize(
    ("noise", "lattice", "procedure", "samples", "certified"),
    [
        ("gaussian", None, "fixed", 84_000, [39, 38, 38, 34, 32, 31, 30, 26, 22, 22, 19, 14, 10, 7, *[0] * 7]),
        ("gaussian", None, "sequential", 66_700, [39, 38, 37, 34, 32, 31, 29, 26, 22, 22, 19, 14, 10, 6, *[0] * 7]),
        ("gaussian", 255, "fixed", 84_000, [39, 38, 37, 34, 33, 31, 30, 25, 23, 22, 21, 13, 9, 7, *[0] * 7]),
        ("gaussian", 255, "sequential", 64_300, [39, 38, 37, 34, 33, 31, 30, 25, 23, 22, 20, 13, 9, 6, *[0] * 7]),
        ("uniform", None, "fixed", 84_000, [39, 38, 38, 36, 34, 32, 31, 27, 21, *[0] * 12]),
        ("uniform", None, "sequential", 30_800, [39, 38, 38, 36, 34, 32, 31, 27, 21, *[0] * 12]),
        ("uniform", 255, "fixed", 84_000, [39, 38, 37, 36, 34, 32, 31, 27, 22, *[0] * 12]),
        ("uniform", 255, "sequential", 34_800, [39, 38, 37, 36, 34, 32, 31, 27, 21, *[0] * 12]),
    ],
)
def test_a_seed_means_the_same_report_in_every_version(
    noise: str, lattice: int | None, procedure: str, samples: int, certified: list[int]
) -> None:
    weight = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    x = np.random.default_rng(2).random((40, 6))
    x = x if lattice is None else np.rint(x * lattice) / lattice
    y = (x.astype(np.float32) @ weight).argmax(axis=1)
    report = certify(
        lambda batch: batch @ weight, x, y, client="site-07", model_id="linear", sigma=0.25, noise=noise,
        lattice=lattice, procedure=procedure, n=2000, seed=3, radii=DEFAULT_RADII,
    )  # fmt: skip
    assert (report.samples, list(report.certified_counts), report.abstained) == (samples, certified, 1)
