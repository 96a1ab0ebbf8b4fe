"""Draw the pictures of docs/gallery.md again, by the commands on that page.

    fedcert demo --out demo
    python docs/tools/gallery.py demo

The page is the list of commands: each block of shell commands is run in a temporary folder in which `demo` is the
demo's folder, and each block with a file's name is written there. Figures go to docs/images/gallery. The picture of
the HTML page is drawn by benchmarks/page_picture.py, which needs a browser.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
MOST_BYTES = 120_000
"""Of a picture: the site stays small."""
SKIPPED = ("fedcert demo", "fedcert page", "python docs/tools")
"""Commands that are not run here: the demo is given, and the page is no figure."""


def draw(demo: Path, pictures: Path) -> list[Path]:
    """Run the commands of the page; the pictures that were written."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "demo").symlink_to(demo.resolve(), target_is_directory=True)
        for language, words, code in FENCE.findall((DOCS / "gallery.md").read_text()):
            if file := re.search(r"file=(\S+)", words):
                (folder / file[1]).write_text(code)
            elif language == "sh" and not code.startswith(SKIPPED):
                environment = {**os.environ, "PATH": programs}
                subprocess.run(["bash", "-e", "-c", code], cwd=folder, env=environment, check=True)  # noqa: S603, S607
        drawn = sorted(folder.glob("*.png"))
        for picture in drawn:
            if picture.stat().st_size > MOST_BYTES:
                raise SystemExit(f"{picture.name} has {picture.stat().st_size:,} bytes, more than {MOST_BYTES:,}")
        return [Path(shutil.copy(picture, pictures / picture.name)) for picture in drawn]


def main() -> None:
    """Read the arguments and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo", type=Path, help="the folder of fedcert demo")
    parser.add_argument("--out", type=Path, default=DOCS / "images" / "gallery", help="folder of the pictures")
    options = parser.parse_args()
    for picture in draw(options.demo, options.out):
        print(picture)  # noqa: T201


if __name__ == "__main__":
    main()
