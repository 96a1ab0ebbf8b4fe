"""fedcert.page: the command's abilities as a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedcert
from factories import drawn_reports

REPORTS = drawn_reports(6, 3, 4, seed=2)
ESTIMATE = fedcert.estimate(REPORTS)


def test_a_page_of_reports(tmp_path: Path) -> None:
    file = fedcert.page(REPORTS, str(tmp_path / "page.html"), title="Ward <7>", confidence=0.9)
    assert file == tmp_path / "page.html"
    text = file.read_text()
    assert "Ward &lt;7&gt;" in text
    assert '"confidence":0.9' in text.replace(" ", "")


def test_a_page_of_files_and_of_one_report(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    for report in REPORTS:
        report.save(folder / f"{report.client}.json")
    fedcert.page(folder, tmp_path / "a.html", target_name="the ward")
    assert "the ward" in (tmp_path / "a.html").read_text()
    fedcert.page(REPORTS[0], tmp_path / "b.html")


def test_a_page_of_estimates(tmp_path: Path) -> None:
    saved = ESTIMATE.save(tmp_path / "estimate.json")
    for sources in (ESTIMATE, [ESTIMATE], saved, [saved, fedcert.estimate(REPORTS, method="vw")]):
        assert fedcert.page(sources, tmp_path / "page.html").exists()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sources", "options", "sentence"),
    [
        ([ESTIMATE, REPORTS[0]], {}, "give reports and sums, or estimates, but not both"),
        (ESTIMATE, {"target": "cat=1"}, r"^target \(--target\) is for a page from reports; estimates are shown as"),
        (ESTIMATE, {"confidence": 0.9}, r"^confidence \(--confidence\) is for a page from reports"),
        (ESTIMATE, {"target_examples": 9}, r"^target_examples \(--target-examples\) is for a page"),
        (7, {}, "^sources must be reports, sums, estimates or paths, but is int"),
        ([], {}, "no reports"),
    ],
)
def test_calls_that_are_wrong(tmp_path: Path, sources: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(fedcert.FedcertError, match=sentence):
        fedcert.page(sources, tmp_path / "page.html", **options)
    assert not list(tmp_path.iterdir())


def test_the_name_must_be_a_pages(tmp_path: Path) -> None:
    with pytest.raises(fedcert.CallError, match="the name must end in .html or .htm"):
        fedcert.page(ESTIMATE, tmp_path / "page.pdf")
