"""Write the tables and the figure of docs/reproduction.md from the traces: python benchmarks/reproduction.py."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from fedcert.lab.paper.published import TABLES
from fedcert.lab.paper.rendering import draw_distances, markdown
from fedcert.lab.paper.tables import distances, missing_traces, reproduce

HERE = Path(__file__).parents[1]


def main() -> None:
    """Put every table between its marks, with what is missing said under it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--only", nargs="+", default=[*TABLES, "figure2"])
    options = parser.parse_args()
    page, traces = HERE / "docs" / "reproduction.md", HERE / "traces"
    for name in options.only:
        if name == "figure2":
            draw_distances(distances(traces, draws=options.draws), HERE / "docs" / "images" / "figure2.svg")
            continue
        rows = list(reproduce(name, traces, draws=options.draws))
        made = "\n".join(f"**{measure.upper()}**\n\n{markdown(rows, measure)}" for measure in ("rmse", "mape"))
        gone = missing_traces(name, traces)
        if gone:
            made += f"\nNot trained yet: {', '.join(one.name for one in gone)}.\n"
        text = page.read_text(encoding="utf-8")
        filled = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)",
            lambda found, made=made: f"{found[1]}\n{made}\n{found[2]}",
            text,
            flags=re.DOTALL,
        )
        page.write_text(filled, encoding="utf-8")
        print(name, len(rows), "rows", flush=True)


if __name__ == "__main__":
    main()
