"""Pack what fuzzing has found (fuzz/found) into the corpus that every test run replays: python fuzz/keep.py."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
LARGEST = 16_384
MOST = 400  # for each target: replaying stays a matter of seconds


def main() -> None:
    """Pack; the same findings make the same archives, byte for byte."""
    for folder in sorted((HERE / "found").iterdir()):
        seeds = {file.read_bytes() for file in (HERE / "corpus" / folder.name).iterdir()}
        found = {file.read_bytes() for file in folder.iterdir()} - seeds
        small = sorted((data for data in found if len(data) <= LARGEST), key=lambda data: (len(data), data))
        with zipfile.ZipFile(HERE / "corpus" / f"{folder.name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
            for data in small[:: -(-len(small) // MOST) or 1]:
                entry = zipfile.ZipInfo(hashlib.sha256(data).hexdigest()[:16])
                entry.compress_type = zipfile.ZIP_DEFLATED
                out.writestr(entry, data)


if __name__ == "__main__":
    main()
