"""Write what fuzzing starts from: a good file for each target, from the golden files and small made-up ones."""

from __future__ import annotations

import io
import json
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from fedcert._schema.encoding import encoded  # noqa: E402
from fedcert.certification.certificate import ExampleState  # noqa: E402
from fedcert.certification.journal import Journal  # noqa: E402
from fedcert.certification.seeds import Seed  # noqa: E402
from fedcert.lab.experiment import Experiment  # noqa: E402
from fedcert.lab.traces.trace import Examples, Trace, write_trace  # noqa: E402
from fedcert.privacy.keys.identity import Identity  # noqa: E402
from fedcert.privacy.keys.keyring import Keyring  # noqa: E402
from fedcert.privacy.policy import Policy  # noqa: E402
from fedcert.report import Report  # noqa: E402
from fedcert.report.table.parquet import write_parquet  # noqa: E402
from fedcert.secagg.messages import Holders, Totals  # noqa: E402
from secure_sums import Party  # noqa: E402


def main() -> None:
    """Write the seeds that are not there."""
    golden = HERE.parent / "tests" / "golden"
    for name in ("report", "request", "sums", "estimate", "what-if"):
        files = [golden / f"{name}-1.json", *sorted((golden / "earlier").glob(f"{name}-1-*.json"))]
        files.append(golden / "population" / f"{name}-1.json")
        for number, file in enumerate(files):
            keep(name, number, file.read_bytes())
    report = json.loads((golden / "report-1.json").read_text())
    for number, file in enumerate((golden / "report-1.json", golden / "population" / "report-1.json")):
        rows = [json.loads(file.read_text()) | {"client": f"c{index}"} for index in range(3)]
        keep("table-rows", number, "".join(json.dumps(row) + "\n" for row in rows).encode())
    for number, ending in enumerate(("png", "jpeg", "tiff", "bmp", "gif", "ppm", "webp")):
        buffer = io.BytesIO()
        Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(buffer, ending)
        keep("pictures", number, buffer.getvalue())
    keep("lines", 0, "".join(json.dumps({**report, "client": f"c{k}"}) + "\n" for k in range(9)).encode())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.parquet")
        write_parquet(path, [Report.from_json({**report, "client": f"c{k}"}) for k in range(3)])
        keep("table", 0, path.read_bytes())
        journal = Journal(Path(folder, "a.journal"), {"a": 1}, Seed.fixed(0))
        journal.write([ExampleState(3, 1, 100, 90, 2, 0.01, 200, 7, True, False)])
        journal._file.close()
        small_trace(Path(folder, "b.parquet"))
        keep("trace", 0, Path(folder, "b.parquet").read_bytes())
        keep("journal", 0, Path(folder, "a.journal").read_bytes())
    for number, names in enumerate((("x", "y"), ("x", "y", "groups"))):
        arrays = {"x": np.ones((3, 2), np.float32), "y": np.array([0, 1, 1]), "groups": np.array(["a", "b", "b"])}
        buffer = io.BytesIO()
        (np.savez, np.savez_compressed)[number](buffer, **{name: arrays[name] for name in names})
        keep("arrays", number, buffer.getvalue())
    keep("images", 0, b"path,label,group\na.png,0,x\nb.png,1,y\n")
    keep("images", 1, b"age,label,pressure,group\n0.5,0,1e-3,x\n-2,1,7,y\n")
    keep(
        "log", 0, b"idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t3\t3\t0.512\t1\t0:00:01\n1\t2\t-1\t0.0\t0\t0:00:01\n"
    )
    keep(
        "idx",
        0,
        bytes([10]) + struct.pack(">II", 0x801, 2) + bytes([0, 1]) + struct.pack(">IIII", 0x803, 2, 2, 2) + bytes(8),
    )
    keep("experiment", 0, b'data = "digits"\nnetwork = "small"\n[training]\nrounds = 3\n[smoothing]\nsigma = 0.5\n')
    keep("mix", 0, b"cat=1,dog=3")
    keep("mix", 1, b"uniform")
    header = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    keep("safetensors", 0, struct.pack("<Q", len(header)) + header + bytes(8))
    party = Party.of(3)
    number = 0
    for _ in range(5):
        for message in list(party.stage().values())[:1]:
            keep("messages", number, message.dumps().encode())
            number += 1
        told = party.server.message_for("site-000")
        if told is not None:
            keep("messages", number, told.dumps().encode())
            number += 1
    identity = Identity.new("site")
    holders = Holders(session="0" * 64, holders=(3, 2), tags=encoded(bytes(16)))
    totals = Totals(session="0" * 64, total=encoded(bytes(16)), tags=encoded(bytes(16)))
    for value in (identity.card, identity, Keyring.of([identity.card]), holders, totals, Policy()):
        keep("messages", number, value.dumps().encode())
        number += 1
    onnx_seed()


def small_trace(path: Path) -> None:
    """A trace of four examples."""
    examples = Examples(*(np.array(value) for value in ([0, 1], [3, 4], [0, 1], [0, 0], [0.25, 0.0], [100, 200])))
    trace = Trace(
        Experiment(), ("cat", "dog"), "sha256:" + "0" * 64, 3, {"clean": 0.5, "noisy": 0.5}, {}, examples, examples
    )
    write_trace(path, trace)


def onnx_seed() -> None:
    """A model of one node with weights beside it, written by hand: onnx need not be there."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    entry = field(1, b"location") + field(2, b"weights.bin")
    tensor = field(13, entry) + bytes([14 << 3, 1])
    keep("onnx", 0, field(7, field(5, tensor)))
    keep("onnx", 1, bytes([8, 9]) + field(7, field(1, b"node")))


def keep(target: str, number: int, data: bytes) -> None:
    """A seed."""
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"seed-{number}"
    if not file.exists():
        file.write_bytes(data)


if __name__ == "__main__":
    main()
