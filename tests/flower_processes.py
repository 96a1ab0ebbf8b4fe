"""Flower's processes, started and stopped: a SuperLink, SuperNodes with TLS and keys of their own, runs of an app."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

BIN = Path(sys.executable).parent
APP = Path(__file__).parents[1] / "examples" / "flower"


COMPARED = (
    "label_counts", "certified_counts", "class_certified_counts", "correct_counts", "class_correct_counts", "abstained",
    "samples", "model",
)  # fmt: skip
"""What must be the same, whatever carried a report."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class Flower:
    """A SuperLink and what belongs to it, in a folder of its own."""

    folder: Path
    secure: bool = False
    port: int = field(default_factory=free_port)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    logs: list[IO[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        quiet = {
            "FLWR_HOME": str(self.folder / "home"), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1", "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "OMP_NUM_THREADS": "1", "NO_COLOR": "1",
        }  # fmt: skip
        return {**os.environ, **quiet, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a program of Flower's; what it says goes to a file."""
        log = (self.folder / f"{name}.log").open("wb")
        self.logs.append(log)
        process = subprocess.Popen(
            [str(BIN / arguments[0]), *arguments[1:]],
            cwd=self.folder, env=self.environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def call(self, *arguments: str, timeout: float = 60.0, cwd: Path | None = None) -> str:
        """Run a command of Flower's to its end, and give what it said."""
        done = subprocess.run(
            [str(BIN / arguments[0]), *arguments[1:]], cwd=cwd or self.folder, env=self.environment, timeout=timeout,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        return done.stdout

    def open(self) -> None:
        """Start the SuperLink, and wait until it answers."""
        (self.folder / "home").mkdir()
        kind = ["--simulation", "--insecure"]
        connection = "insecure = true"
        if self.secure:
            self._certificates()
            kind = [
                "--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key",
                "--enable-supernode-auth",
            ]  # fmt: skip
            connection = f'root-certificates = "{self.folder / "ca.crt"}"'
        (self.folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\n{connection}\n'
        )
        self.start(
            "superlink", "flower-superlink", *kind, "--host", "127.0.0.1", "--port", str(self.port),
            "--disable-runtime-dependency-installation",
        )  # fmt: skip
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt")) if self.secure else None
        address = f"{'https' if self.secure else 'http'}://127.0.0.1:{self.port}/health"
        _until(lambda: _answers(address, context), 60, "the SuperLink does not answer")

    def _certificates(self) -> None:
        def openssl(*arguments: str) -> None:
            subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

        openssl(
            *("req", "-x509", "-newkey", "rsa:3072", "-nodes", "-days", "2", "-subj", "/CN=test"),
            *("-keyout", "ca.key", "-out", "ca.crt"),
        )
        openssl(
            *("req", "-newkey", "rsa:3072", "-nodes", "-subj", "/CN=127.0.0.1"),
            *("-keyout", "server.key", "-out", "server.csr"),
        )
        (self.folder / "san").write_text("subjectAltName=IP:127.0.0.1")
        openssl(
            *("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-days", "2", "-extfile", "san", "-out", "server.pem"),
        )

    def key(self, name: str, *, register: bool = True) -> None:
        """Make a node's key, and register it."""
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", name], cwd=self.folder, check=True
        )
        if register:
            self.call("flwr", "supernode", "register", f"{name}.pub", "here")

    def node(self, name: str, config: dict[str, Any], *, secure: bool = True) -> subprocess.Popen[bytes]:
        """Start a SuperNode with a key's name and a configuration."""
        settings = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        trust = ["--root-certificates", "ca.crt", "--auth-supernode-private-key", name] if secure else ["--insecure"]
        return self.start(
            name, "flower-supernode", "--superlink", f"127.0.0.1:{self.port}", *trust, "--host", "127.0.0.1",
            "--port", str(free_port()), "--node-config", settings,
        )  # fmt: skip

    def online(self, count: int) -> None:
        """Wait until so many nodes are online."""

        def enough() -> bool:
            said = self.call("flwr", "supernode", "list", "here", "--format", "json")
            with contextlib.suppress(ValueError):
                nodes = json.loads(said[said.index("{") :]).get("nodes", [])
                return sum(node.get("status") == "online" for node in nodes) >= count
            return False

        _until(enough, 90, f"{count} nodes do not come online")

    def run(self, app: Path, config: dict[str, Any], nodes: int | None = None, timeout: float = 240.0) -> str:
        """Run an app to its end, and give what it said."""
        return self.call(*self.command(config, nodes), timeout=timeout, cwd=app)

    def command(self, config: dict[str, Any], nodes: int | None = None) -> list[str]:
        """The command that runs an app."""
        settings = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        simulated = [] if nodes is None else [
            "--federation-config", f"num-supernodes={nodes} client-resources-num-cpus=1",
        ]  # fmt: skip
        return ["flwr", "run", ".", "here", "--stream", "--run-config", settings, *simulated]

    def close(self) -> None:
        """Stop everything, and make sure that nothing is left."""
        for process in reversed(self.started):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self.started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        try:
            _until(lambda: not self.left(), 30, f"processes are left: {self.left()}")
        finally:
            for number in self.left():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            for process in self.started:
                process.wait(30)
            for log in self.logs:
                log.close()

    def left(self) -> list[int]:
        """Processes that belong to this SuperLink, by their surroundings."""
        mark = f"FLWR_HOME={self.folder / 'home'}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                number = int(entry.name)
                if mark in (entry / "environ").read_bytes() and (entry / "stat").read_text().split()[2] != "Z":
                    found.append(number)
        return found


@contextlib.contextmanager
def flower(folder: Path, *, secure: bool = False) -> Iterator[Flower]:
    """A SuperLink that is gone afterwards."""
    one = Flower(folder, secure)
    try:
        one.open()
        yield one
    finally:
        one.close()


def keys_in(folder: Path, names: Iterable[str]) -> Path:
    """A folder of keys for some clients and a coordinator, as the example app reads it."""
    from fedcert.privacy.keys.identity import Identity, write_identity
    from fedcert.privacy.keys.keyring import Keyring

    keys = folder / "keys"
    keys.mkdir()
    identities = [Identity.new(name) for name in ("coordinator", *names)]
    for one in identities:
        write_identity(one, keys / f"{one.name}.keys.json")
    (keys / "ring.json").write_text(Keyring.of([one.card for one in identities]).dumps())
    return keys


def app_in(folder: Path) -> Path:
    """A copy of the example app."""
    return Path(shutil.copytree(APP, folder / "app", ignore=shutil.ignore_patterns("__pycache__")))


def _answers(address: str, context: ssl.SSLContext | None) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2, context=context) as answer:  # noqa: S310 (our own address)
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _until(true: Any, seconds: float, why: str) -> None:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(why)
        time.sleep(0.5)


def trained_weights(folder: Path) -> Path:
    """Weights that know something: a few steps on all digits."""
    sys.path.insert(0, str(APP))
    import torch
    from safetensors.torch import save_file
    from ward.task import load_data, make_network

    (x, y), _ = load_data({"partition-id": 0, "num-partitions": 1})
    network = make_network()
    optimizer = torch.optim.SGD(network.parameters(), 0.1, 0.9)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        optimizer.step()
    save_file(network.state_dict(), folder / "model.safetensors")
    return folder / "model.safetensors"
