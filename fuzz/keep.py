"""Pack what fuzzing has found (fuzz/found) into the corpus that every test run replays: python fuzz/keep.py."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from downstream import STARTS  # noqa: E402

LARGEST = 16_384
MOST = 400  # for each parser: replaying stays a matter of seconds
MOST_USED = 25  # where what was read is used, which takes longer


def main() -> None:
    """Pack; the same findings make the same archives, byte for byte."""
    for folder in sorted((HERE / "found").iterdir()):
        most = MOST_USED if folder.name in STARTS or folder.name == "table-rows" else MOST
        seeds = {file.read_bytes() for file in (HERE / "corpus" / STARTS.get(folder.name, folder.name)).iterdir()}
        found = {file.read_bytes() for file in folder.iterdir()} - seeds
        small = sorted((data for data in found if len(data) <= LARGEST), key=lambda data: (len(data), data))
        with zipfile.ZipFile(HERE / "corpus" / f"{folder.name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
            for data in small[:: -(-len(small) // most) or 1]:
                entry = zipfile.ZipInfo(hashlib.sha256(data).hexdigest()[:16])
                entry.compress_type = zipfile.ZIP_DEFLATED
                out.writestr(entry, data)


if __name__ == "__main__":
    main()
