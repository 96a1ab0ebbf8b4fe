"""Every command x every way to call it wrongly: one sentence, the right exit code, no file touched."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedcert import Report
from fedcert.cli.main import run

CERTIFY = [
    "certify",
    "ward:make",
    "data.npz",
    "--model-id",
    "m",
    "--client",
    "a",
    "--sigma",
    "0.25",
    "--n",
    "100",
    "--out",
    "o.json",
]
REQUEST = ["request", "--model-id", "m", "--sigma", "0.25", "--classes", "classes.txt", "--out", "o.json"]
ESTIMATE = ["estimate", "report.json", "--out", "o.json"]
ENDS = ".json or .ndjson or .jsonl or .parquet"
# Sentences that several calls end in: worded once per rule.
NO_JSON = "cut.json is not valid JSON"
NO_FOLDER = "the folder 'none' does not exist; make it first"
NO_REPORT = "missing argument 'REPORT…'"
EITHER_MODEL = "give either --model FILE or --model-id TEXT"
OTHER_MODEL = "these cannot be combined with the rest: 'b' has model 'other'"
CUT_MODEL = "'model.onnx' is not an ONNX model, or is cut off; export it again"


def no_file(name: str) -> str:
    return f"there is no file {name}; check the name"


def no_report(name: str) -> str:
    return f"there is no file or folder {name}; check the name"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_report: Callable[..., Report]) -> Path:
    """A folder with one good and one bad file of each kind, entered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "ward", raising=False)
    (tmp_path / "ward.py").write_text(
        "def make():\n    return lambda batch: (batch[:, 0] > 0.5).astype(int)\n"
        "def broken():\n    raise RuntimeError('no weights')\n"
        "def angry():\n    def model(batch):\n        raise ValueError('bad shape')\n    return model\n"
    )
    (tmp_path / "torn.py").write_text("import not_installed_anywhere\n")
    x = np.linspace(0, 1, 12, dtype=np.float32).reshape(6, 2)
    np.savez(tmp_path / "data.npz", x=x, y=[0, 0, 0, 1, 1, 1])
    np.savez(tmp_path / "nan.npz", x=np.where(x == x[2, 0], np.nan, x), y=[0, 0, 0, 1, 1, 1])
    np.savez(tmp_path / "short.npz", x=x, y=[0, 1])
    (tmp_path / "cut.npz").write_bytes((tmp_path / "data.npz").read_bytes()[:200])
    (tmp_path / "data.csv").write_text("x,y\n")
    (tmp_path / "classes.txt").write_text("low\nhigh\n")
    (tmp_path / "twice.txt").write_text("low\nlow\n")
    (tmp_path / "one.txt").write_text("low\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "latin.txt").write_bytes("höch".encode("latin-1"))
    (tmp_path / "report.json").write_text(make_report("a", [3, 4], [5, 2]).dumps())
    (tmp_path / "again.json").write_text(make_report("a", [3, 4], [5, 2]).dumps())
    (tmp_path / "other.json").write_text(make_report("b", [3, 4], [5, 2], model="other").dumps())
    (tmp_path / "truth.json").write_text(make_report("t", [3, 4], [5], radii=[0]).dumps())
    (tmp_path / "cut.json").write_text((tmp_path / "report.json").read_text()[:100])
    (tmp_path / "negative.json").write_text(
        json.dumps({**json.loads((tmp_path / "report.json").read_text()), "label_counts": [-3, 4]})
    )
    (tmp_path / "report.txt").write_text("{}")
    (tmp_path / "target.json").write_text('{"cow": 1}')
    (tmp_path / "model.onnx").write_bytes(b"no model")
    (tmp_path / "w.safetensors").write_bytes(b"no weights")
    (tmp_path / "folder").mkdir()
    run([*REQUEST[:-1], "request.json"])
    document = json.loads((tmp_path / "request.json").read_text())
    (tmp_path / "late.json").write_text(json.dumps({**document, "deadline": "2020-01-01T00:00:00Z"}))
    (tmp_path / "roster.json").write_text(json.dumps({**document, "roster": ["b"]}))
    (tmp_path / "many.json").write_text(json.dumps({**document, "release": {"minimum_examples": 7}}))
    return tmp_path


def change(
    command: list[str], *options: str, without: str | None = None, swap: dict[str, str] | None = None
) -> list[str]:
    """A command with options added, one left out, or words exchanged."""
    command = [(swap or {}).get(part, part) for part in command]
    if without is not None:
        index = command.index(without)
        command = command[:index] + command[index + 2 :]
    return [*command, *options]


NO_FLAGS = ["certify", "ward:make", "data.npz", "--model-id", "m", "--client", "a", "--out", "o.json"]
CASES: dict[str, tuple[list[str], int, str]] = {
    # The program itself.
    "unknown command": (["certifi"], 2, "no such command 'certifi'"),
    "unknown option": ([*CERTIFY, "--sigmas", "1"], 2, "no such option: --sigmas"),
    # certify: the model.
    "certify missing model file": (
        change(CERTIFY, swap={"ward:make": "none.onnx"}, without="--model-id"),
        2,
        no_file("none.onnx"),
    ),
    "certify folder for model": (
        change(CERTIFY, swap={"ward:make": "folder"}),
        2,
        "MODEL must be a file that ends in .onnx, or package.module:factory (with --weights FILE.safetensors), but is 'folder'",
    ),
    "certify model of wrong ending": (
        change(CERTIFY, swap={"ward:make": "model.pt"}),
        2,
        "MODEL must be a file that ends in .onnx, or package.module:factory (with --weights FILE.safetensors), but is 'model.pt'",
    ),
    "certify broken onnx": (
        change(CERTIFY, swap={"ward:make": "model.onnx"}, without="--model-id"),
        1,
        CUT_MODEL,
    ),
    "certify missing module": (
        change(CERTIFY, swap={"ward:make": "absent:make"}),
        2,
        "MODEL absent:make: there is no module 'absent' here or on the Python path",
    ),
    "certify module that cannot be imported": (
        change(CERTIFY, swap={"ward:make": "torn:make"}),
        1,
        "MODEL torn:make: its import needs 'not_installed_anywhere', which is not installed",
    ),
    "certify missing factory": (
        change(CERTIFY, swap={"ward:make": "ward:absent"}),
        2,
        "MODEL ward:absent: the module ward has no 'absent'",
    ),
    "certify factory that fails": (
        change(CERTIFY, swap={"ward:make": "ward:broken"}),
        1,
        "ward:broken could not make the model: RuntimeError: no weights",
    ),
    "certify model that fails": (
        change(CERTIFY, swap={"ward:make": "ward:angry"}),
        1,
        "the model failed on a float32 batch of shape (1, 2): ValueError: bad shape; if the data's shape does not fit the model's input, reorder or resize x",
    ),
    "certify callable without a name": (
        change(CERTIFY, without="--model-id"),
        2,
        "a bare callable has no weights to take a digest of: give its name with model_id",
    ),
    "certify weights for a callable": (
        [*CERTIFY, "--weights", "w.safetensors"],
        2,
        "--weights goes with a torch module, but ward:make gave function",
    ),
    "certify unreadable weights": (
        change(CERTIFY, "--weights", "w.safetensors", swap={"ward:make": "fedcert.lab.networks:digits_network"}),
        1,
        "'w.safetensors' cannot be read as safetensors",
    ),
    "certify missing weights": (
        change(CERTIFY, "--weights", "none.safetensors", swap={"ward:make": "fedcert.lab.networks:digits_network"}),
        2,
        no_file("none.safetensors"),
    ),
    "certify weights for onnx": (
        change(CERTIFY, "--weights", "w.safetensors", swap={"ward:make": "model.onnx"}),
        2,
        "an ONNX model has its weights, and so its digest, inside: leave --weights and --model-id out",
    ),
    "certify unknown device": (
        change(
            CERTIFY,
            "--device",
            "abacus",
            swap={"ward:make": "fedcert.lab.networks:digits_network"},
            without="--model-id",
        ),
        1,
        "the device 'abacus' cannot be used",
    ),
    # certify: the data.
    "certify missing data": (
        change(CERTIFY, swap={"data.npz": "none.npz"}),
        2,
        no_file("none.npz"),
    ),
    "certify folder for data": (
        change(CERTIFY, swap={"data.npz": "folder"}),
        1,
        "folder must hold test_batch.bin (CIFAR-10's binary layout) or test.bin (CIFAR-100's), but holds neither",
    ),
    "certify data of wrong ending": (
        change(CERTIFY, swap={"data.npz": "report.txt"}),
        2,
        "DATA must be a file that ends in .npz (arrays x and y) or .csv (label, and path or columns of numbers), a folder",
    ),
    "certify truncated data": (
        change(CERTIFY, swap={"data.npz": "cut.npz"}),
        1,
        "cut.npz cannot be read: not an .npz file, or cut off; save it with numpy.savez again",
    ),
    "certify NaN": (
        change(CERTIFY, swap={"data.npz": "nan.npz"}),
        1,
        "x[2] must hold finite numbers, but holds NaN or infinity; fix or remove it",
    ),
    "certify wrong shape": (
        change(CERTIFY, swap={"data.npz": "short.npz"}),
        1,
        "x and y must have the same length, but x has 6 examples and y 2",
    ),
    # certify: options.
    "certify without client": (change(CERTIFY, without="--client"), 2, "missing option '--client'"),
    "certify hostile client": (
        change(CERTIFY, swap={"a": "a\x1b[2J"}),
        2,
        "--client must be a text of 1 to 200 characters without control characters, but is 'a\\x1b[2J'",
    ),
    "certify without sigma": (
        NO_FLAGS,
        2,
        "sigma is needed (or a request, which says it): the standard deviation of the noise",
    ),
    "certify sigma zero": (
        [*NO_FLAGS, "--sigma", "0"],
        2,
        "--sigma must be a finite number above 0 and of at most 1e+12, but is 0.0",
    ),
    "certify sigma NaN": (
        [*NO_FLAGS, "--sigma", "nan"],
        2,
        "--sigma must be a finite number above 0 and of at most 1e+12, but is nan",
    ),
    "certify sigma text": (
        [*NO_FLAGS, "--sigma", "much"],
        2,
        "--sigma must be a number, but is 'much'; see: fedcert certify --help",
    ),
    "certify n zero": (
        [*NO_FLAGS, "--sigma", "1", "--n", "0"],
        2,
        "--n must be a whole number from 1 to 100000000, but is 0",
    ),
    "certify n0 zero": ([*CERTIFY, "--n0", "0"], 2, "--n0 must be a whole number from 1 to 100000000, but is 0"),
    "certify failure probability": (
        [*CERTIFY, "--failure-probability", "1"],
        2,
        "--failure-probability must be a finite number above 0 and below 1, but is 1.0",
    ),
    "certify radii text": (
        [*CERTIFY, "--radii", "all"],
        2,
        "--radii must be numbers such as 0,0.25,0.5 or first:last:step such as 0:1:0.05, but is 'all'",
    ),
    "certify radii backwards": (
        [*CERTIFY, "--radii", "1:0:0.1"],
        2,
        "--radii must be numbers such as 0,0.25,0.5 or first:last:step",
    ),
    "certify radii unordered": (
        [*CERTIFY, "--radii", "0,0.5,0.25"],
        2,
        "--radii[2] must be above the one before it (0.5), but is 0.25",
    ),
    "certify every zero": ([*CERTIFY, "--every", "0"], 2, "--every must be a whole number from 1 to 2^53, but is 0"),
    "certify batch size zero": (
        [*CERTIFY, "--batch-size", "0"],
        2,
        "--batch-size must be a whole number from 1 to 2^53, but is 0",
    ),
    "certify missing classes": ([*CERTIFY, "--classes", "none.txt"], 2, no_file("none.txt")),
    "certify classes in a folder": (
        [*CERTIFY, "--classes", "folder"],
        2,
        "folder is a folder; give a file that ends in .txt or .json",
    ),
    "certify empty classes": (
        [*CERTIFY, "--classes", "empty.txt"],
        1,
        "empty.txt: classes must be a list of 1 to 100000 different class names, but is an empty list",
    ),
    "certify classes twice": (
        [*CERTIFY, "--classes", "twice.txt"],
        1,
        "twice.txt: classes[1] must be different from those before it, but is 'low'",
    ),
    "certify classes not UTF-8": (
        [*CERTIFY, "--classes", "latin.txt"],
        1,
        "latin.txt is not UTF-8 text; save it as UTF-8",
    ),
    "certify too few classes": (
        [*CERTIFY, "--classes", "one.txt"],
        1,
        "y[3] must be a class index from 0 to 0, but is 1; name all classes, in the order of the model's outputs",
    ),
    # certify: the output.
    "certify without out": (
        change(CERTIFY, without="--out"),
        2,
        "give --out FILE, or --dry-run to see what would leave",
    ),
    "certify out in no folder": (
        change(CERTIFY, swap={"o.json": "none/o.json"}),
        2,
        "cannot write to 'none/o.json': the folder 'none' does not exist; make it first",
    ),
    "certify out is a folder": (
        change(CERTIFY, swap={"o.json": "folder"}),
        2,
        "cannot write to 'folder': it is a folder; name a file in it",
    ),
    # certify: the request.
    "certify missing request": ([*NO_FLAGS, "--request", "none.json"], 2, no_file("none.json")),
    "certify folder for request": (
        [*NO_FLAGS, "--request", "folder"],
        2,
        "folder is a folder; give a file that ends in .json",
    ),
    "certify truncated request": ([*NO_FLAGS, "--request", "cut.json"], 1, NO_JSON),
    "certify report for request": (
        [*NO_FLAGS, "--request", "report.json"],
        1,
        "request in report.json: schema must be 'fedcert/request/1', but is 'fedcert/report/1'; give a request",
    ),
    "certify request of wrong ending": (
        [*NO_FLAGS, "--request", "report.txt"],
        2,
        "report.txt does not end in .json; give a file that does",
    ),
    "certify request and flags": (
        [*CERTIFY, "--request", "request.json"],
        2,
        "the request already says sigma, n: leave them out",
    ),
    "certify late": (
        [*NO_FLAGS, "--request", "late.json"],
        2,
        "the request's deadline 2020-01-01T00:00:00Z has passed; ask the coordinator for a new request",
    ),
    "certify not on the roster": (
        [*NO_FLAGS, "--request", "roster.json"],
        2,
        "the client 'a' is not on the request's roster; check its name with the coordinator",
    ),
    "certify another model": (
        change([*NO_FLAGS, "--request", "request.json"], swap={"m": "another"}),
        1,
        "the request asks for the model m, but this one is another; get the right weights",
    ),
    "certify too few examples": (
        [*NO_FLAGS, "--request", "many.json"],
        1,
        "the request asks sites with fewer than 7 examples not to answer, and there are 6 here; nothing was done",
    ),
    # request.
    "request without a model": (
        change(REQUEST, without="--model-id"),
        2,
        EITHER_MODEL,
    ),
    "request with two models": ([*REQUEST, "--model", "model.onnx"], 2, EITHER_MODEL),
    "request missing model": (
        change(REQUEST, "--model", "none.onnx", without="--model-id"),
        2,
        no_file("none.onnx"),
    ),
    "request folder for model": (
        change(REQUEST, "--model", "folder", without="--model-id"),
        2,
        "folder is a folder; give a file that ends in .onnx or .safetensors",
    ),
    "request model of wrong ending": (
        change(REQUEST, "--model", "report.txt", without="--model-id"),
        2,
        "report.txt does not end in .onnx or .safetensors; give a file that does",
    ),
    "request broken model": (
        change(REQUEST, "--model", "model.onnx", without="--model-id"),
        1,
        CUT_MODEL,
    ),
    "request broken weights": (
        change(REQUEST, "--model", "w.safetensors", without="--model-id"),
        1,
        "'w.safetensors' is not a safetensors file, or is cut off; save the weights with safetensors again",
    ),
    "request bad digest": (
        change(REQUEST, swap={"m": "sha256:1"}),
        2,
        "--model-id must be 'sha256:' and 64 hexadecimal digits",
    ),
    "request without sigma": (change(REQUEST, without="--sigma"), 2, "missing option '--sigma'"),
    "request sigma": (
        change(REQUEST, swap={"0.25": "-1"}),
        2,
        "--sigma must be a finite number above 0 and of at most 1e+12, but is -1.0",
    ),
    "request without classes": (change(REQUEST, without="--classes"), 2, "missing option '--classes'"),
    "request missing classes": (
        change(REQUEST, swap={"classes.txt": "none.txt"}),
        2,
        no_file("none.txt"),
    ),
    "request missing roster": ([*REQUEST, "--roster", "none.txt"], 2, no_file("none.txt")),
    "request roster twice": (
        [*REQUEST, "--roster", "twice.txt"],
        1,
        "twice.txt: roster[1] must be different from those before it, but is 'low'",
    ),
    "request deadline": (
        [*REQUEST, "--deadline", "soon"],
        2,
        "--deadline must be a time with its zone such as '2026-11-15T06:12:00Z', but is 'soon'",
    ),
    "request target": (
        [*REQUEST, "--target", "cow=1"],
        2,
        "unknown class 'cow' in the target; known classes: 'low', 'high'",
    ),
    "request radii": ([*REQUEST, "--radii", "x"], 2, "--radii must be numbers such as"),
    "request minimum examples": (
        [*REQUEST, "--minimum-examples", "-1"],
        2,
        "--minimum-examples must be a whole number from 0 to 2^53, but is -1",
    ),
    "request out in no folder": (
        change(REQUEST, swap={"o.json": "none/o.json"}),
        2,
        NO_FOLDER,
    ),
    # merge.
    "merge nothing": (["merge", "--out", "o.json"], 2, NO_REPORT),
    "merge nowhere": (["merge", "report.json"], 2, "missing option '--out'"),
    "merge missing file": (["merge", "none.json", "--out", "o.json"], 2, no_report("none.json")),
    "merge to a wrong ending": (
        ["merge", "report.json", "--out", "o.csv"],
        2,
        "the name must end in .json or .parquet or .ndjson or .jsonl",
    ),
    "merge onto itself": (
        ["merge", "report.json", "--out", "report.json"],
        2,
        "it is one of the files to read; name another",
    ),
    "merge other models": (
        ["merge", "report.json", "other.json", "--out", "o.json"],
        1,
        OTHER_MODEL,
    ),
    "merge other models into a table": (
        ["merge", "report.json", "other.json", "--out", "o.parquet"],
        1,
        OTHER_MODEL,
    ),
    "merge a client twice into lines": (
        ["merge", "report.json", "again.json", "--out", "o.ndjson"],
        1,
        "each client may report once, but there are several reports of 'a'",
    ),
    "merge a broken report": (
        ["merge", "negative.json", "--out", "o.parquet"],
        1,
        "label_counts[0] must be a whole number from 0 to 2^53, but is -3",
    ),
    # what-if.
    "what-if without targets": (["what-if", "report.json"], 2, "there are no targets; give --target or --targets"),
    "what-if twice": (
        ["what-if", "report.json", "--target", "uniform", "--target", "uniform"],
        2,
        "the target uniform is given twice",
    ),
    "what-if unknown class": (
        ["what-if", "report.json", "--target", "cow=1"],
        2,
        "unknown class 'cow' in the target; known classes: 'class 0', 'class 1'",
    ),
    "what-if another method": (
        ["what-if", "report.json", "--target", "uniform", "--method", "ga"],
        2,
        "method must be auto, poststratified or blup for a what-if, but is 'ga'",
    ),
    "what-if a target file for targets": (
        ["what-if", "report.json", "--targets", "target.json"],
        1,
        "target.json: the targets must be a JSON object from target names to objects from class name to weight",
    ),
    "what-if to a wrong ending": (
        ["what-if", "report.json", "--target", "uniform", "--out", "o.txt"],
        2,
        "the name must end in .json or .csv",
    ),
    "what-if confidence": (
        ["what-if", "report.json", "--target", "uniform", "--confidence", "1"],
        2,
        "--confidence must be a finite number above 0 and below 1, but is 1.0",
    ),
    # estimate.
    "estimate nothing": (["estimate"], 2, NO_REPORT),
    "estimate missing file": (
        change(ESTIMATE, swap={"report.json": "none.json"}),
        2,
        no_report("none.json"),
    ),
    "estimate empty folder": (
        change(ESTIMATE, swap={"report.json": "folder"}),
        2,
        "folder holds no .json, .ndjson, .jsonl or .parquet file; give a folder of reports",
    ),
    "estimate wrong ending": (
        change(ESTIMATE, swap={"report.json": "report.txt"}),
        2,
        f"report.txt does not end in {ENDS}; give a file that does",
    ),
    "estimate truncated": (change(ESTIMATE, swap={"report.json": "cut.json"}), 1, NO_JSON),
    "estimate invalid report": (
        change(ESTIMATE, swap={"report.json": "negative.json"}),
        1,
        "report 'a' in negative.json: label_counts[0] must be a whole number from 0 to 2^53, but is -3; ask the client to run 'fedcert certify' again",
    ),
    "estimate request for report": (
        change(ESTIMATE, swap={"report.json": "request.json"}),
        1,
        "report in request.json: schema must be 'fedcert/report/1', but is 'fedcert/request/1'",
    ),
    "estimate a client twice": (
        ["estimate", "report.json", "again.json"],
        1,
        "each client may report once, but there are several reports of 'a'; keep one report of each",
    ),
    "estimate other models": (
        ["estimate", "report.json", "other.json"],
        1,
        "these cannot be combined with the rest: 'b' has model 'other' where the rest has 'sha256:",
    ),
    "estimate unknown method": (
        [*ESTIMATE, "--method", "best"],
        2,
        "method must be one of vw, ap, ga, blup, poststratified, minimax, auto, but is 'best'",
    ),
    "estimate unknown target": (
        [*ESTIMATE, "--target", "skewed"],
        2,
        "target must be 'uniform', a JSON file from class name to weight, or class=weight,…, but is 'skewed'",
    ),
    "estimate missing target": ([*ESTIMATE, "--target", "none.json"], 2, no_file("none.json")),
    "estimate target of another class": (
        [*ESTIMATE, "--target", "target.json"],
        1,
        "target.json: unknown class 'cow' in the target; known classes: 'class 0', 'class 1'",
    ),
    "estimate truncated target": ([*ESTIMATE, "--target", "cut.json"], 1, NO_JSON),
    "estimate negative target": (
        [*ESTIMATE, "--target", "class 0=-1"],
        2,
        "the target's weight of 'class 0' must be a finite number of at least 0, but is -1.0",
    ),
    "estimate subsets": ([*ESTIMATE, "--subsets", "0"], 2, "--subsets must be a whole number from 1 to 2^53, but is 0"),
    "estimate subset size": (
        [*ESTIMATE, "--subset-size", "0"],
        2,
        "--subset-size must be a whole number from 1 to 2^53, but is 0",
    ),
    "estimate threshold": (
        [*ESTIMATE, "--threshold", "-1"],
        2,
        "--threshold must be a whole number from 0 to 2^53, but is -1",
    ),
    "estimate seed": (
        [*ESTIMATE, "--seed", "x"],
        2,
        "--seed must be a whole number, but is 'x'; see: fedcert estimate --help",
    ),
    "estimate figure of wrong ending": (
        [*ESTIMATE, "--figure", "f.gif"],
        2,
        "cannot write to 'f.gif': the name must end in .png or .svg or .pdf",
    ),
    "estimate truth missing": ([*ESTIMATE, "--truth", "none.json"], 2, no_file("none.json")),
    "estimate truth of other radii": (
        [*ESTIMATE, "--truth", "truth.json"],
        1,
        "these cannot be combined with the rest: 't' has 1 radii where the rest has 2",
    ),
    "estimate out in no folder": (
        change(ESTIMATE, swap={"o.json": "none/o.json"}),
        2,
        NO_FOLDER,
    ),
    # schema, demo.
    "schema unknown": (["schema", "reports"], 2, "'reports' is not one of 'report', 'request', 'sums', 'estimate'"),
    "demo into a file": (
        ["demo", "--out", "data.csv"],
        2,
        "the demo's folder 'data.csv' is a file; name a folder with --out",
    ),
    "demo seed": (
        ["demo", "--seed", "-1"],
        2,
        "invalid value for '--seed'",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_call_ends_in_one_sentence(place: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    command, code, sentence = CASES[name]
    capsys.readouterr()
    before = {
        file: file.read_bytes() for file in place.rglob("*") if file.is_file() and "__pycache__" not in file.parts
    }
    assert run(command) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = [
        line
        for line in shown.err.splitlines()
        if not line.startswith("fedcert: note:") and "noisy samples at " not in line
    ]
    assert len(lines) == 1, shown.err
    assert lines[0].startswith("fedcert: error: ")
    assert sentence in lines[0]
    assert lines[0].isprintable()
    after = {file: file.read_bytes() for file in place.rglob("*") if file.is_file() and "__pycache__" not in file.parts}
    assert after == before


@pytest.mark.parametrize(
    ("file", "code", "sentence"),
    [
        ("none.json", 2, no_report("none.json")),
        ("folder", 2, "folder holds no .json, .ndjson, .jsonl or .parquet file"),
        ("report.txt", 2, f"report.txt does not end in {ENDS}"),
        ("cut.json", 1, NO_JSON),
        ("negative.json", 1, "label_counts[0] must be a whole number"),
        (
            "target.json",
            1,
            "target.json: schema must be 'fedcert/report/1', 'fedcert/request/1', 'fedcert/sums/1', 'fedcert/estimate/1' or 'fedcert/what-if/1', but is missing",
        ),
    ],
)
def test_validate_names_what_is_wrong(
    place: Path, capsys: pytest.CaptureFixture[str], file: str, code: int, sentence: str
) -> None:
    capsys.readouterr()
    assert run(["validate", "report.json", file]) == code
    shown = capsys.readouterr()
    assert sentence in shown.out
    assert "1 valid, 1 invalid." in shown.out


@pytest.mark.parametrize("command", [CERTIFY, REQUEST, ESTIMATE])
def test_a_file_that_may_not_be_read_is_named(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    capsys.readouterr()
    unreadable = {"data.npz", "classes.txt", "report.json"}
    real = Path.open

    def refuse(self: Path, *options: object, **more: object) -> object:
        if self.name in unreadable:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *options, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr("zipfile.ZipFile", lambda path: refuse(Path(path)))
    assert run(command) == 1
    assert "Permission denied" in capsys.readouterr().err
    assert not (place / "o.json").exists()


@pytest.mark.parametrize("command", [CERTIFY, REQUEST, ESTIMATE])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    capsys.readouterr()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert run(command) == 1
    written = "o.seed" if command == CERTIFY else "o.json"  # a report is written after the seed that it commits to
    assert f"cannot write '{written}': No space left on device; nothing was written" in capsys.readouterr().err
    left = [file.name for file in place.iterdir() if "o.json" in file.name or ".part" in file.name]
    assert left == (["o.json.journal"] if command == CERTIFY else [])  # the work itself is kept
