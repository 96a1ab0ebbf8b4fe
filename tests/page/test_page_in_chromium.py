"""The page in a real Chromium: what it shows is what `fedcert estimate` gives, and it asks nobody for anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedcert
from browsing import Opened
from factories import drawn_reports, with_a_bad_client
from fedcert.cli.main import run
from fedcert.estimation.clients.noisy_totals import NoisyTotals
from fedcert.estimation.estimate import estimate_of, what_if_of
from fedcert.estimation.method_comparison import forms_for_page
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.settings import Settings
from fedcert.report import Report, Sums
from fedcert.report.privacy import AddedNoise, PrivacyBudget
from fedcert.report.sums.algebra import noisy_sums
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import rendered
from population_drawing import drawn_population

pytestmark = pytest.mark.browser
ARTEFACTS = Path(__file__).parents[2] / "site" / "page-screenshots"
Open = Callable[..., Opened]


def contents_of(source: Any, target: object = "uniform", method: str = "auto", **settings: Any) -> Contents:
    prepared = PreparedClients.of(clients_of(source), Settings(**settings))
    return Contents.of_clients(prepared, estimate_of(prepared, target, method))


def written(path: Path, source: Any, target: object = "uniform", method: str = "auto", **settings: Any) -> Path:
    path.write_text(rendered(contents_of(source, target, method, **settings)), encoding="utf-8")
    return path


def written_without_class_curves(path: Path, source: Any, **settings: Any) -> Path:
    """A page of volume weighting with sliders for BLUP: the curves of many classes would take long."""
    prepared = PreparedClients.of(clients_of(source), Settings(**settings))
    forms, _ = forms_for_page(prepared)
    estimate = estimate_of(prepared, "uniform", "vw")
    path.write_text(rendered(Contents((estimate,), evaluators={"blup": forms["blup"]})), encoding="utf-8")
    return path


def agrees(page: Opened, source: Any, method: str, **settings: Any) -> float:
    """The largest difference between what the page shows and what `estimate` gives for its mix."""
    shown, right = page.curve(), fedcert.estimate(source, page.mix(), method, **settings)
    return max(
        float(np.abs(np.subtract(shown[name], getattr(right, name))).max())
        for name in ("certified_accuracy", "lower", "upper")
    )


def slide(page: Opened, place: int, share: float) -> None:
    """Move a class's slider as a hand does: set it and let the page know."""
    page.tab.locator("#shares input[type=range]").nth(place).evaluate(
        "(one, value) => { one.value = value; one.dispatchEvent(new Event('input', { bubbles: true })); }", share
    )
    page.settled()


NOT_THIS_MIX = "The checks below were made for the target as estimated, not for this mix."


def verdict_on(page: Opened) -> tuple[str | None, str, str]:
    """The banner: its verdict, title and words. The answer under it has the same verdict, by which it is greyed."""
    banner = page.tab.locator("#verdict")
    verdict = banner.get_attribute("data-verdict")
    assert page.tab.locator("#answer").get_attribute("data-verdict") == verdict
    return verdict, banner.locator("strong").inner_text(), banner.locator("span").inner_text()


CASES = {
    "blup": ("blup", {"tells": 0.0}, {}),
    "blup, fewer clients than classes": ("blup", {"tells": 0.0, "clients": 8}, {}),
    "blup, as many clients as classes": ("blup", {"tells": 0.0, "clients": 10}, {}),
    "blup, one client": ("blup", {"tells": 0.0, "clients": 1}, {}),
    "blup, weights in bins": ("blup", {"tells": 0.0, "clients": 300, "examples": 60}, {}),
    "blup, weights in bins, grouped examples": (
        "blup", {"tells": 0.0, "clients": 300, "examples": 60, "grouped": True}, {},
    ),
    "blup, Hoeffding's": ("blup", {"tells": 0.0}, {"interval": "hoeffding"}),
    "blup, asymptotic": ("blup", {"tells": 0.0}, {"interval": "asymptotic"}),
    "blup, asymptotic, few examples": ("blup", {"tells": 0.0, "examples": 20}, {"interval": "asymptotic"}),
    "blup, asymptotic, grouped, a finite target": (
        "blup", {"tells": 0.0, "grouped": True}, {"interval": "asymptotic", "target_examples": 50},
    ),
    "blup, asymptotic, some tell classes": ("blup", {"tells": 0.5}, {"interval": "asymptotic"}),
    "blup, asymptotic, all tell classes": (
        "blup", {"tells": 1.0, "grouped": True}, {"interval": "asymptotic", "target_examples": 50},
    ),
    "blup, all radii at once": ("blup", {"tells": 0.0}, {"simultaneous": True}),
    "blup, a finite target": ("blup", {"tells": 0.0}, {"target_examples": 500}),
    "blup, a small finite target": ("blup", {"tells": 0.0}, {"target_examples": 12}),
    "blup, grouped examples": ("blup", {"tells": 0.0, "grouped": True}, {}),
    "blup, clients differ": ("blup", {"tells": 0.0, "differ": 0.4, "examples": 2000}, {}),
    "blup, some tell classes": ("blup", {"tells": 0.5}, {}),
    "blup, some of many tell classes": ("blup", {"tells": 0.5, "clients": 600, "examples": 30}, {}),
    "blup, some tell classes, a finite target": ("blup", {"tells": 0.5}, {"target_examples": 500}),
    "blup, all tell classes": ("blup", {"tells": 1.0}, {}),
    "blup, all tell classes, grouped examples": ("blup", {"tells": 1.0, "grouped": True}, {}),
    "post-stratified": ("poststratified", {"tells": 1.0}, {}),
    "post-stratified, one client": ("poststratified", {"tells": 1.0, "clients": 1}, {}),
    "post-stratified, Hoeffding's": ("poststratified", {"tells": 1.0, "grouped": True}, {"interval": "hoeffding"}),
    "post-stratified, asymptotic": ("poststratified", {"tells": 1.0}, {"interval": "asymptotic"}),
    "post-stratified, asymptotic, few examples, grouped, a finite target": (
        "poststratified", {"tells": 1.0, "examples": 10, "grouped": True},
        {"interval": "asymptotic", "target_examples": 50},
    ),
    "post-stratified, all radii at once": ("poststratified", {"tells": 1.0}, {"simultaneous": True}),
    "post-stratified, a finite target": ("poststratified", {"tells": 1.0}, {"target_examples": 500}),
    "post-stratified, a low confidence": ("poststratified", {"tells": 1.0}, {"confidence": 0.3}),
    "post-stratified, grouped examples": ("poststratified", {"tells": 1.0, "grouped": True}, {}),
    "post-stratified, clients differ": ("poststratified", {"tells": 1.0, "differ": 0.4, "examples": 2000}, {}),
    "post-stratified, some tell": ("poststratified", {"tells": 0.5, "differ": 0.4, "examples": 2000}, {}),
    "screened": ("blup", {"tells": 0.0}, {"screen": True}),
    "screened, clients differ": ("blup", {"tells": 0.0, "differ": 0.2}, {"screen": True}),
    "screened, post-stratified": ("poststratified", {"tells": 1.0, "differ": 0.2}, {"screen": True}),
}  # fmt: skip
"""Every branch of the script. The preset "pool" gives all examples the same weight, which a binomial test is for."""
AFTERWARDS = {"votes": 31, "radii": (0.0, 0.31, 0.65)}
"""Chosen after the counts were made, between the radii on offer."""
POPULATION_CASES = {
    "population, post-stratified": ("poststratified", {"tells": 1.0}, {}),
    "population, post-stratified, a class that no client has": ("poststratified", {"tells": 1.0, "unheld": True}, {}),
    "population, post-stratified, chosen afterwards": ("poststratified", {"tells": 1.0}, AFTERWARDS),
    "population, post-stratified, asymptotic, all radii at once": (
        "poststratified", {"tells": 1.0}, {"interval": "asymptotic", "simultaneous": True},
    ),
    "population, post-stratified, clients differ": ("poststratified", {"tells": 1.0, "differ": 0.4}, {}),
    "population, post-stratified, screened, a finite target": (
        "poststratified", {"tells": 1.0}, {"screen": True, "target_examples": 500},
    ),
    "population, blup": ("blup", {}, {}),
    "population, blup, a class that no client has": ("blup", {"unheld": True}, {"interval": "hoeffding"}),
    "population, blup, all radii at once": ("blup", {"grouped": True}, {"simultaneous": True}),
    "population, blup, chosen afterwards": ("blup", {}, AFTERWARDS | {"interval": "asymptotic"}),
    "population, blup, clients differ": ("blup", {"differ": 0.4}, {"interval": "hoeffding"}),
    "population, some tell classes": ("poststratified", {"tells": 0.5}, {}),
    "population, some tell classes, clients differ, chosen afterwards": (
        "poststratified", {"tells": 0.5, "differ": 1.0, "examples": 60}, AFTERWARDS | {"interval": "hoeffding"},
    ),
}  # fmt: skip
"""The same with population certificates, of which each end of the interval is evaluated by itself."""


def drawn(case: str) -> list[Report]:
    """The reports of a case."""
    if case in POPULATION_CASES:
        return drawn_population(seed=3, **POPULATION_CASES[case][1])
    return drawn_reports(seed=3, **CASES[case][1])


@pytest.mark.parametrize("case", CASES | POPULATION_CASES)
def test_a_slider_gives_what_estimate_gives(case: str, tmp_path: Path, opened: Open) -> None:
    """Curve and interval within 1e-6, for presets and after moving sliders."""
    method, _, settings = (CASES | POPULATION_CASES)[case]
    source = drawn(case)
    target = {name: float(weight) for weight, name in enumerate(source[0].classes, start=1)}
    page = opened(written(tmp_path / "page.html", source, target, method, **settings))
    seen = [(page.mix(), page.curve())]
    for preset in ("uniform", "pool", "target"):
        page.tab.click(f"[data-preset={preset}]")
        page.settled()
        seen.append((page.mix(), page.curve()))
    for place, share in ((0, 60.0), (3, 0.0), (9, 35.5), (0, 0.0), (1, 100.0)):
        slide(page, place, share)
        assert page.mix().get(f"class-{place}", 0.0) == pytest.approx(share / 100, abs=1e-9)
        seen.append((page.mix(), page.curve()))
    assert agrees(page, source, method, **settings) < 1e-6
    # For each target what `estimate` gives, which tests of what-ifs compare, but with the clients prepared once.
    prepared = PreparedClients.of(clients_of(source), Settings(**settings))
    assert case in CASES or prepared.clients_differ == ("clients differ" in case)
    right = what_if_of(prepared, [mix for mix, _ in seen], method).targets
    for (mix, shown), curve in zip(seen, right, strict=True):
        for name, values in shown.items():
            assert np.abs(np.subtract(values, getattr(curve, name))).max() < 1e-6, (mix, name)
    assert seen[-1][1] != seen[0][1]
    assert page.said == []
    assert len(page.asked) == 1


def test_equal_weights_have_a_binomial_test(tmp_path: Path, opened: Open) -> None:
    """With the clients' own mix, and with the closest other one: the interval does not jump between them."""
    for tells, method in ((1.0, "poststratified"), (0.0, "blup")):
        source = drawn_reports(12, 3, 5, seed=2, tells=tells, examples=40)
        page = opened(written(tmp_path / "page.html", source, "uniform", method))
        page.tab.click("[data-preset=pool]")
        page.settled()
        assert agrees(page, source, method) < 1e-6
        own = page.curve()
        slide(page, 0, 100 * page.mix()["class-0"] + 1e-6)
        other = page.curve()
        assert agrees(page, source, method) < 1e-6
        assert np.abs(np.subtract(own["lower"], other["lower"])).max() < 1e-4


def test_counts_that_nothing_explains(tmp_path: Path, opened: Open) -> None:
    """The page says of another mix what `estimate` says of it."""
    source = [
        Report(
            client=name, model="demo", smoothing={"sigma": 1.0}, radii=[0, 0.5], classes=["cat", "dog"],
            label_counts=labels, certified_counts=certified,
        )
        for name, labels, certified in (("a", [400, 400], [800, 780]), ("b", [800, 0], [10, 0]))
    ]  # fmt: skip
    page = opened(written(tmp_path / "page.html", source, "cat=1", "blup"))
    slide(page, 1, 100.0)
    assert agrees(page, source, "blup") < 1e-6
    (check,) = [check for check in fedcert.estimate(source, "dog=1", "blup").checks if check.name == "consistency"]
    assert verdict_on(page) == ("unreliable", "Unreliable:", check.sentence)


WITHOUT_INTERVAL = {
    "grouped examples": ({"tells": 0.5, "grouped": True}, {}, "Examples come in groups and only some clients disclose"),
    "simulated quantiles": ({}, {"interval": "asymptotic", "simultaneous": True}, "its quantiles are simulated"),
    "many counts": ({"clients": 2001, "classes": 100, "radii": 3, "examples": 5}, {}, "no more than 200,000 of them"),
}


@pytest.mark.parametrize("case", WITHOUT_INTERVAL)
def test_why_there_is_no_interval_is_said(case: str, tmp_path: Path, opened: Open) -> None:
    drawing, settings, why = WITHOUT_INTERVAL[case]
    path = written_without_class_curves(tmp_path / "page.html", drawn_reports(seed=3, **drawing), **settings)
    page = opened(path)
    slide(page, 0, 60.0)
    assert set(page.curve()["lower"]) == {None}
    caption = page.tab.inner_text("#curve figcaption")
    assert why in caption
    assert "The command under “The same from the command line” gives both." in caption
    assert path.stat().st_size < 1_000_000


def test_an_interval_that_takes_long_comes_after_the_point(tmp_path: Path, opened: Open) -> None:
    source = drawn_reports(40, 60, 5, seed=2, concentration=0.1)
    page = opened(written_without_class_curves(tmp_path / "page.html", source))
    waits = page.tab.evaluate(
        """() => new Promise(done => {
          const one = document.querySelector('#shares input[type=range]'), place = document.querySelector('#curve');
          one.value = 70;
          one.dispatchEvent(new Event('input', { bubbles: true }));
          requestAnimationFrame(() => done([place.getAttribute('aria-busy'), place.querySelector('figcaption').innerText]));
        })"""
    )
    assert waits[0] == "true"
    assert "The interval is being computed." in waits[1]
    page.settled()
    (right,) = fedcert.what_if(source, [page.mix()], "blup").targets
    for name, values in page.curve().items():
        assert np.abs(np.subtract(values, getattr(right, name))).max() < 1e-6


@pytest.mark.parametrize("draw", [drawn_reports, drawn_population])
@pytest.mark.parametrize("tells", [0.0, 1.0])
def test_from_sums(tells: float, draw: Callable[..., list[Report]], tmp_path: Path, opened: Open) -> None:
    source = Sums.of(draw(seed=5, tells=tells))
    page = opened(written(tmp_path / "page.html", source))
    slide(page, 2, 70.0)
    assert agrees(page, source, "auto") < 1e-6
    assert "Single clients are not known" in page.tab.inner_text("#clients")
    assert page.said == []


@pytest.mark.parametrize(
    ("known", "unknown"), [('"interval":"finite-sample"', '"interval":"other"'), ('"by_client":{', '"by_other":{')]
)
def test_what_the_script_does_not_know_is_an_error(known: str, unknown: str, tmp_path: Path, opened: Open) -> None:
    path = written(tmp_path / "page.html", drawn_reports(6, 3, 5, seed=1))
    path.write_text(path.read_text().replace(known, unknown))
    page = opened(path)
    slide(page, 0, 90)
    assert any("this page knows no" in word for word in page.said)


def test_from_noisy_sums(tmp_path: Path, opened: Open) -> None:
    from fedcert.privacy.dp.mechanism import released

    (report,) = drawn_reports(1, 4, 5, seed=1, tells=1.0, examples=5000)
    report = replace(report, seed="sha256:" + "0" * 64)  # as certify says
    source = released(report, PrivacyBudget(epsilon=1.0, delta=1e-6, noise="each site"))
    page = opened(written(tmp_path / "page.html", source))
    slide(page, 1, 80.0)
    assert agrees(page, source, "poststratified") < 1e-6
    assert page.said == []


def with_noise(
    labels: tuple[int, ...], variance: float, seed: int = 0, group: int | None = None, passes: int | None = None
) -> Sums:
    """Sums with noise of this variance in each cell, and four times as much in sizes; of passes or at five radii."""
    generator = np.random.default_rng(seed)
    smoothing: dict[str, Any] = {"sigma": 0.5}
    counts: dict[str, Any] = {"certified_counts": (0,) * 5}
    if passes is not None:
        smoothing |= {"procedure": "population", "n": passes, "votes": 11}
        counts = {"correct_counts": (0,) * (passes + 1)}
    shares = np.ones(6 if passes is None else passes + 1)
    cells = np.stack([generator.multinomial(count, generator.dirichlet(shares)) for count in labels])
    sizes = np.rint(np.tile(cells.sum(axis=1), (2, 1)) + generator.normal(0, 2 * variance**0.5, (2, len(labels))))
    cells = np.rint(cells + generator.normal(0, variance**0.5, cells.shape))
    private = AddedNoise(
        budget=PrivacyBudget(epsilon=1.0), rho=0.1, variance=variance, sizes_variance=4 * variance,
        cells=cells.astype(int).tolist(), sizes=sizes.astype(int).tolist(),
    )  # fmt: skip
    like = Sums(
        model="m", smoothing=smoothing, radii=(0, 0.25, 0.5, 0.75, 1), contributors=10, noise="noise",
        classes=tuple(f"class-{index}" for index in range(len(labels))), label_counts=(0,) * len(labels),
        private=private, largest_group=group, **counts,
    )  # fmt: skip
    return noisy_sums(like, private, 10, "noise")


SEVEN = (900, 400, 150, 2000, 60, 700, 5)
"""Examples of classes of which, with noise of variance 9, all but the last are held."""
NOISY_CASES = {
    "each radius": ((SEVEN, 9.0), {}),
    "Hoeffding's": ((SEVEN, 9.0), {"interval": "hoeffding"}),
    "all radii at once": ((SEVEN, 9.0), {"simultaneous": True, "confidence": 0.99}),
    "a finite target": ((SEVEN, 9.0), {"target_examples": 300}),
    "a small finite target, all radii at once": ((SEVEN, 9.0), {"target_examples": 12, "simultaneous": True}),
    "much noise": ((SEVEN, 2500.0, 5), {}),
    "a finite target much smaller than the classes": ((SEVEN, 2500.0, 3), {"target_examples": 3}),
    "much noise, a finite target": ((SEVEN, 2500.0, 5), {"target_examples": 300}),
    "grouped examples": ((SEVEN, 9.0, 0, 4), {"target_examples": 100}),
    "many classes": (((300, 3) + (300, 80) * 29, 25.0), {}),
    "one class held": (((500, 3, 2), 9.0), {}),
    "asymptotic": ((SEVEN, 9.0), {"interval": "asymptotic"}),
    "asymptotic, much noise, a finite target": (
        (SEVEN, 2500.0, 5), {"interval": "asymptotic", "target_examples": 300},
    ),
    "asymptotic, all radii at once": ((SEVEN, 9.0, 0, 4), {"interval": "asymptotic", "simultaneous": True}),
    "population": ((SEVEN, 9.0, 0, None, 32), {}),
    "population, chosen afterwards, a finite target": (
        (SEVEN, 9.0, 0, 4, 32), {"votes": 31, "radii": (0.0, 0.3), "target_examples": 300},
    ),
    "population, asymptotic, all radii at once": (
        (SEVEN, 9.0, 0, None, 32), {"interval": "asymptotic", "simultaneous": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOISY_CASES)
def test_a_slider_gives_what_estimate_gives_from_noisy_sums(case: str, tmp_path: Path, opened: Open) -> None:
    """Within 1e-6, also where all of the mix is one class, held or not."""
    drawing, settings = NOISY_CASES[case]
    source = with_noise(*drawing)
    assert source.private is not None
    sizes = NoisyTotals.of(source.private).sizes
    below = int(sizes.argmin())
    assert sizes[0] > 0
    assert sizes[below] == 0, "below the threshold"
    page = opened(written(tmp_path / "page.html", source, **settings))
    seen = [page.curve()["lower"]]
    for place, share in ((0, 60.0), (2, 0.0), (below, 30.0), (below, 100.0), (0, 100.0)):
        slide(page, place, share)
        assert agrees(page, source, "poststratified", **settings) < 1e-6, page.mix()
        seen.append(page.curve()["lower"])
    assert seen[1] != seen[0]
    assert set(seen[4]) == {0.0}, "nothing is known of a class that is not held"
    assert max(seen[5]) > 0
    assert page.said == []


def test_a_class_that_nobody_has(tmp_path: Path, opened: Open) -> None:
    source = [
        Report(
            client=f"s{number}", model="demo", smoothing={"sigma": 1.0}, radii=[0, 0.5], classes=["cat", "dog", "owl"],
            label_counts=[50 - 9 * number, 10 + 9 * number, 0], certified_counts=[48 - 3 * number, 20 - number],
        )
        for number in range(4)
    ]  # fmt: skip
    page = opened(written(tmp_path / "page.html", source))
    slide(page, 2, 50.0)
    assert agrees(page, source, "blup") < 1e-6
    unknown = "No client has test examples of owl (50% of this mix)."
    assert verdict_on(page) == ("unreliable", "Unreliable:", unknown)
    slide(page, 2, 0.0)
    assert verdict_on(page) == ("warning", "Warning:", NOT_THIS_MIX)
    page.tab.click("[data-preset=target]")
    page.settled()
    verdict, title, words = verdict_on(page)
    assert (verdict, title) == ("unreliable", "Unreliable:")
    assert words.startswith("No client has test examples of 'owl'")


def test_a_hundred_classes_and_clients(tmp_path: Path, opened: Open) -> None:
    """Under 6 MB, and right where clients are fewer than classes; how fast it is, benchmarks/page.py measures."""
    for clients in (100, 30):
        source = drawn_reports(clients, 100, seed=2, concentration=0.1)
        path = written(tmp_path / "page.html", source)
        assert path.stat().st_size < 6_000_000
        page = opened(path)
        page.tab.fill("#mix input[type=search]", "class-1")
        page.tab.locator("#shares .together input[type=range]").evaluate(
            "one => { one.value = 80; one.dispatchEvent(new Event('input', { bubbles: true })); }"
        )
        page.settled()
        group = sum(share for name, share in page.mix().items() if "class-1" in name)
        assert group == pytest.approx(0.8, abs=1e-9)
        assert agrees(page, source, "blup") < 1e-6


def test_ten_thousand_clients_open(tmp_path: Path, opened: Open) -> None:
    source = drawn_reports(10_000, 5, 5, seed=4, examples=20)
    page = opened(written(tmp_path / "page.html", source))
    assert page.tab.locator("#clients tbody tr").count() == 50
    page.tab.fill("#clients input[type=search]", "site-0777")
    assert page.tab.locator("#clients tbody tr").count() == 10
    assert page.said == []


HOSTILE = (
    "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "';alert(3);//", "{{script}}",
    "<!--<script>", "&lt;b&gt;", "javascript:alert(4)", "]]><svg onload=alert(5)>", "__proto__", "constructor",
)  # fmt: skip


def test_hostile_names_run_nothing(tmp_path: Path, opened: Open) -> None:
    base = drawn_reports(len(HOSTILE), len(HOSTILE), 5, seed=1, tells=1.0, names=HOSTILE)
    from dataclasses import replace

    source = [replace(report, client=name) for report, name in zip(base, HOSTILE, strict=True)]
    contents = contents_of(source, "uniform", "blup")
    path = tmp_path / "page.html"
    path.write_text(rendered(contents, title="<script>alert(0)</script>"), encoding="utf-8")
    page = opened(path)
    slide(page, 0, 40.0)
    shown = page.tab.inner_text("body")
    for name in HOSTILE:
        assert name in shown, name
    assert page.tab.locator("img, iframe, object, embed").count() == 0
    assert page.tab.locator("script").count() == 2
    assert page.said == []
    assert len(page.asked) == 1
    assert agrees(page, source, "blup") < 1e-6


def test_a_mix_from_a_file(tmp_path: Path, opened: Open) -> None:
    source = drawn_reports(6, 3, 5, seed=1)
    page = opened(written(tmp_path / "page.html", source))
    mix = tmp_path / "mix.json"
    mix.write_text(json.dumps({"class-0": 3, "class-2": 1}))
    page.tab.set_input_files("#mix-file", str(mix))
    page.until(lambda: page.mix().get("class-0") == 0.75)
    page.settled()
    assert agrees(page, source, "blup") < 1e-6
    for text, why in (
        ("{", "not valid JSON"), ('["a"]', "expected an object from class name to weight"),
        ('{"cat": 1}', "there is no class “cat”"), ('{"class-0": -1}', "must be a number of 0 or more"),
        ('{"class-0": 0}', "all weights are 0"),
    ):  # fmt: skip
        mix.write_text(text)
        page.tab.set_input_files("#mix-file", str(mix))
        page.until(lambda why=why: why in page.tab.inner_text("#mix [role=alert]"))
    assert page.mix() == {"class-0": 0.75, "class-2": 0.25}


def test_keyboard_radius_and_card(tmp_path: Path, opened: Open) -> None:
    source = drawn_reports(6, 3, 5, seed=1, tells=1.0)
    page = opened(written(tmp_path / "page.html", source))
    page.tab.focus("#radius")
    page.tab.keyboard.press("End")
    assert page.tab.text_content("#sentence").endswith("under any change within L2 radius 1.")
    page.tab.keyboard.press("Home")
    assert page.tab.text_content("#sentence").endswith("with no change to the input (radius 0).")
    card = page.tab.input_value("#card-text")
    assert card.startswith("### Certified accuracy with all classes equally frequent\n\n**")
    assert "| 0 | " in card
    page.tab.focus("#shares input[type=range] >> nth=0")
    page.tab.keyboard.press("ArrowRight")
    page.settled()
    assert page.mix()["class-0"] == pytest.approx(0.334, abs=1e-9)
    assert " examples with this class mix are certified" in page.tab.text_content("#sentence")


def test_the_card_is_about_what_is_shown(tmp_path: Path, opened: Open) -> None:
    """A class that nobody has gets half of the mix: the card has the mix, and the page's own verdict on it."""
    source = [
        Report(**{**one.__dict__, "classes": (*one.classes, "owl"), "label_counts": (*one.label_counts, 0)})
        for one in drawn_reports(6, 3, 5, seed=1, tells=0.0)
    ]
    page = opened(written(tmp_path / "page.html", source, {"class-0": 1, "class-1": 1}, confidence=0.999))
    assert "is the 99.9% confidence interval. Its margin of error (half its length) is at most" in page.tab.inner_text(
        "#margin"
    )
    assert "- Class mix: class-0 50.0%, class-1 50.0%" in page.tab.input_value("#card-text")
    slide(page, 3, 50)
    card = page.tab.input_value("#card-text")
    assert card.startswith("### Certified accuracy with this class mix")
    assert "- Class mix: owl 50.0%, class-0 25.0%, class-1 25.0%" in card
    assert "\n**Unreliable:** No client has test examples of owl (50% of this mix).\n" in card
    assert "| 99.9% confidence interval |" in card
    page.tab.click("#mix summary")
    assert "--method blup --confidence 0.999 --target" in page.tab.inner_text("#mix code")
    unknown = page.tab.locator("#classes tbody tr", has_text="owl").inner_text()
    assert "unknown" in unknown


@pytest.mark.parametrize(("settings", "votes"), [({}, 11), ({"votes": 31, "radii": (0.0, 0.3)}, 31)])
def test_what_a_population_certificate_is_about_is_said(
    settings: dict[str, Any], votes: int, tmp_path: Path, opened: Open
) -> None:
    """By the answer, the explanation, the settings and the card; and nothing of what it does not have."""
    page = opened(written(tmp_path / "page.html", drawn_population(6, 3, seed=1, tells=1.0), **settings))
    copies = f"the majority vote of {votes} noisy copies"
    slide(page, 0, 50)
    proven = f"examples with this class mix are proven to be classified correctly on average, by {copies}, "
    assert proven in page.tab.text_content("#sentence")
    caption = page.tab.inner_text("#curve figcaption")
    assert f"Each answer is given by {copies}." in caption
    assert "certif" not in caption
    assert page.tab.locator("#curve rect.cap").count() == 0
    kinds = page.tab.inner_text("#kinds")
    assert kinds.startswith("A population certificate is about the population, not about single examples")
    assert f"by {copies} of the input, with secret noise" in kinds
    assert "A certified accuracy by CERTIFY is the share of examples that each have their own proof" in kinds
    made = page.tab.inner_text("#settings")
    assert "noisy passes of each example\n32" in made
    assert f"votes on an answer\n{votes}{'' if votes == 11 else '; 11 in the request'}" in made
    for absent in ("failure probability", "to select a class", "null", "undefined", "NaN"):
        assert absent not in made
    card = page.tab.input_value("#card-text")
    assert "sigma 0.5, 32 passes of each example" in card
    assert f"- {kinds.split('. ')[0]}." in card
    for absent in ("failure probability", "undefined"):
        assert absent not in card
    page.tab.click("#mix summary")
    asked = "--votes 31 --radii 0,0.3 --target" in page.tab.inner_text("#mix code")
    assert asked == bool(settings)
    assert page.said == []


def test_what_certify_is_about_is_said(tmp_path: Path, opened: Open) -> None:
    page = opened(written(tmp_path / "page.html", drawn_reports(6, 3, 5, seed=1)))
    kinds = page.tab.inner_text("#kinds")
    assert kinds.startswith("A certified accuracy by CERTIFY is the share of examples that each have their own proof")
    assert "the majority vote of some noisy copies" in kinds
    assert f"- {kinds.split('. ')[0]}." in page.tab.input_value("#card-text")
    assert "The largest radius that these samples can certify is" in page.tab.inner_text("#curve figcaption")
    assert "failure probability of a certificate\n0.001" in page.tab.inner_text("#settings")


def test_a_client_may_have_any_name_and_a_mix_any_weights(tmp_path: Path, opened: Open) -> None:
    source = drawn_reports(4, 3, 5, seed=1)
    nothing = {"label_counts": (0, 0, 0), "certified_counts": (0,) * 5, "class_certified_counts": None}
    source = [*source, Report(**{**source[0].__dict__, **nothing, "client": "f64"})]
    page = opened(written(tmp_path / "page.html", source))
    assert "f64" in page.tab.inner_text("#clients")
    assert "it has no test examples" in page.tab.inner_text("#clients")
    mix = tmp_path / "mix.json"
    mix.write_text('{"class-0": 1e308, "class-1": 1e308}')
    page.tab.set_input_files("#mix-file", str(mix))
    page.until(lambda: page.mix() == {"class-0": 0.5, "class-1": 0.5})
    field = page.tab.locator("#shares input[type=number]").nth(0)
    field.fill("150")
    field.press("Enter")
    page.settled()
    assert field.input_value() == "100"
    assert page.mix() == {"class-0": 1}


@pytest.mark.parametrize("method", ["vw", "minimax"])
def test_the_target_as_estimated_can_be_gone_back_to(method: str, tmp_path: Path, opened: Open) -> None:
    source = drawn_reports(8, 3, 5, seed=2)
    page = opened(written(tmp_path / "page.html", source, "uniform", method))
    before, curve = page.tab.inner_text("#sentence"), page.curve()
    slide(page, 0, 90)
    assert page.tab.inner_text("#sentence") != before
    assert page.curve() != curve
    page.tab.click("button[data-preset=target]")
    page.settled()
    assert page.tab.inner_text("#sentence") == before
    assert page.curve() == curve


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_sums_of_fewer_clients_than_classes_agree_too(seed: int, tmp_path: Path, opened: Open) -> None:
    source = Sums.of(drawn_reports(5, 12, 3, seed=seed, examples=500, concentration=0.3))
    page = opened(written(tmp_path / "page.html", source))
    for place, share in ((0, 40), (5, 70)):
        slide(page, place, share)
        assert agrees(page, source, "blup") < 1e-6


def test_what_missing_clients_could_change_is_told(tmp_path: Path, opened: Open) -> None:
    source = drawn_reports(4, 3, 5, seed=1)
    prepared = PreparedClients.of(clients_of(source), Settings())
    worst = {"clients": 2, "examples_each": 50, "lower": [0.125] * 5, "upper": [0.875] * 5}
    errors = {"rmse": 0.0125, "mape": None, "radii": 5, "left_out": 0}
    made = replace(estimate_of(prepared, "uniform", "auto"), worst_case=worst, comparison=errors)
    path = tmp_path / "page.html"
    path.write_text(rendered(Contents.of_clients(prepared, made)), encoding="utf-8")
    page = opened(path)
    assert (
        "If each of the 2 missing clients held up to 50 examples of any kind, the interval at this radius would be 12 to "
        "88 of 100."
    ) in page.tab.inner_text("#curve")
    assert "0.0125" in page.tab.inner_text("#settings")
    slide(page, 0, 90)
    assert "missing clients" not in page.tab.inner_text("#curve")


@pytest.mark.parametrize("radii", [(0.25,), (0.0, 1e-7), (1e12, 1e12 + 1e-3)])
def test_strange_radii_are_drawn_too(radii: tuple[float, ...], tmp_path: Path, opened: Open) -> None:
    smoothing = fedcert.Smoothing.defaults(1e12 if radii[-1] > 1 else 0.5, procedure="sequential")
    source = [
        Report(
            client=f"site-{number}", model="m", smoothing=smoothing, radii=radii, classes=("a", "b"),
            label_counts=(20 + number, 30), certified_counts=tuple(range(40, 40 - len(radii), -1)),
        )
        for number in range(3)
    ]  # fmt: skip
    page = opened(written(tmp_path / "page.html", source))
    slide(page, 0, 90)
    assert agrees(page, source, "blup") < 1e-6
    if len(radii) == 1:
        assert page.tab.locator("#curve svg line.whisker").count() == 1
    else:
        assert page.tab.locator("#radius").get_attribute("max") == "1"


def test_print_is_black_on_white_from_dark_too(tmp_path: Path, opened: Open) -> None:
    page = opened(written(tmp_path / "page.html", drawn_reports(4, 3, 5, seed=1)), 1440, "dark")
    page.tab.emulate_media(media="print")
    colours = page.tab.evaluate(
        "() => { const one = getComputedStyle(document.body); return [one.color, one.backgroundColor]; }"
    )
    assert colours == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]


AUDITED: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "page": lambda: (drawn_reports(20, 20, seed=6, tells=0.5), {}),
    "unreliable": lambda: (drawn_reports(3, 5, 6, seed=3, tells=0.0, examples=40), {}),
    "population": lambda: (drawn_population(20, 6, seed=2, tells=1.0), {}),
    "screened": lambda: (with_a_bad_client(), {"screen": True}),
    "noisy": lambda: (with_noise(SEVEN, 9.0, 0, None, 32), {}),
}


@pytest.mark.parametrize("kind", AUDITED)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_an_audit_finds_nothing_serious(width: int, scheme: str, kind: str, tmp_path: Path, opened: Open) -> None:
    """axe-core; the screenshots are kept."""
    from axe_playwright_python.sync_playwright import Axe

    source, settings = AUDITED[kind]()
    page = opened(written(tmp_path / "page.html", source, **settings), width, scheme)
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page.tab.screenshot(path=ARTEFACTS / f"{kind}-{width}-{scheme}.png", full_page=True)
    for detail in page.tab.locator("details").all():
        detail.evaluate("one => { one.open = true; }")
    page.until(lambda: page.tab.locator("#methods table").count() == 1)
    found = Axe().run(page.tab).response["violations"]
    serious = [(one["id"], one["impact"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found]
    assert [one for one in serious if one[1] in ("serious", "critical")] == []
    overflow = page.tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0, "nothing is wider than the screen"
    assert page.said == []


def test_from_estimates_alone(tmp_path: Path, opened: Open) -> None:
    source = drawn_reports(6, 3, 5, seed=1)
    for method in ("blup", "ga"):
        (tmp_path / f"{method}.json").write_text(fedcert.estimate(source, method=method).dumps())
    out = tmp_path / "page.html"
    assert run(["page", str(tmp_path / "blup.json"), str(tmp_path / "ga.json"), "--out", str(out)]) == 0
    page = opened(out)
    assert "make it from the reports" in page.tab.inner_text("#mix")
    assert page.tab.locator("#methods tbody tr").count() == 0, "folded"
    page.tab.click("#methods summary")
    page.until(lambda: page.tab.locator("#methods tbody tr").count() == 2)
    assert page.said == []


def test_without_script_the_answer_is_there(tmp_path: Path, browser: Any) -> None:
    path = written(tmp_path / "page.html", drawn_reports(6, 3, 5, seed=1))
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(path.as_uri())
    assert "are certified to be classified correctly" in tab.inner_text("#sentence")
    assert tab.inner_text("#promise").startswith("Valid for the smoothed classifier")
    context.close()


def test_it_prints(tmp_path: Path, opened: Open) -> None:
    page = opened(written(tmp_path / "page.html", drawn_reports(6, 3, 5, seed=1)))
    assert page.tab.pdf()[:5] == b"%PDF-"
    page.tab.emulate_media(media="print")
    assert not page.tab.is_visible("#radius-row")
