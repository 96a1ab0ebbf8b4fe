"""Every target for a time each, and what it showed: python fuzz/everything.py [--seconds 600]. What make fuzz runs.

Of a target that reads JSON, a quarter of the time goes to every numeric field at every boundary value (sweep.py), the
rest to fuzzing guided by coverage (run.py). Inputs that fail are in fuzz/crashes; exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import sweep  # noqa: E402
import targets  # noqa: E402

_SWEEP_SHARE = 0.25
_LONGEST_INPUT = 60  # seconds, and starting and stopping


def main() -> None:
    """Fuzz all, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600, help="of each target")
    parser.add_argument("--memory", type=int, default=2048, help="megabytes that an input may take")
    parser.add_argument("--targets", default="", help="some of them, with commas between")
    options = parser.parse_args()
    chosen = options.targets.split(",") if options.targets else list(targets.TARGETS)
    before = set(crashes())
    start = time.monotonic()
    print(
        f"{len(chosen)} targets, {options.seconds:g} seconds each: about {len(chosen) * options.seconds / 60:.0f} min"
    )
    for name in chosen:
        rest = options.seconds
        if name in sweep.JSON:
            rest -= _SWEEP_SHARE * options.seconds
            said = ran("sweep.py", name, _SWEEP_SHARE * options.seconds, options.memory)
            print(said.strip().splitlines()[-1] if said.strip() else f"{name}: the sweep said nothing", flush=True)
        said = ran("run.py", name, rest, options.memory)
        done = re.findall(r"^Done (\d+) runs in (\d+) second", said, flags=re.MULTILINE)
        found = re.findall(r"^SUMMARY: .*|^ERROR: .*|^.*Error: .*", said, flags=re.MULTILINE)
        words = (
            f"{int(done[-1][0]):,} inputs in {done[-1][1]} s, no failure"
            if done
            else f"FAILED: {' '.join(found)[:300]}"
        )
        print(f"{name}: {words}", flush=True)
        if not done:
            (HERE / "crashes").mkdir(exist_ok=True)
            (HERE / "crashes" / f"{name}.log").write_text(said[-20_000:])
    new = sorted(set(crashes()) - before)
    print(
        f"{(time.monotonic() - start) / 60:.0f} min; {len(new)} inputs that fail"
        + "".join(f"\n  {path}" for path in new)
    )
    sys.exit(bool(new))


def crashes() -> list[str]:
    """What has failed so far."""
    folder = HERE / "crashes"
    return [str(path) for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []


def ran(script: str, target: str, seconds: float, memory: int) -> str:
    """What a script says about a target."""
    arguments = [sys.executable, str(HERE / script), target, "--seconds", str(max(1, int(seconds)))]
    arguments += ["--memory", str(memory)]
    own = os.environ | {"FEDCERT_CACHE": str(HERE / "crashes" / "designs")}
    try:
        done = subprocess.run(
            arguments, env=own, capture_output=True, text=True, errors="replace", check=False,
            timeout=seconds + 2 * _LONGEST_INPUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return f"ERROR: {script} {target} did not end in time\n{(late.stderr or b'')[-2000:]!r}"
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
