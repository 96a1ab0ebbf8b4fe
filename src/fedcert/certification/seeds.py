"""The seed of a client's noise: secret, kept at the site, committed to in the report.

The supplier of the model must not know the noise beforehand: a model can be made that is right under that noise and
nowhere else. So the site draws the seed from its system, and the report has a commitment to it, which an audit opens.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from fedcert._files.atomic import check_writable
from fedcert._files.documents import read_record
from fedcert._files.paths import display_path, make_folder, state_folder
from fedcert._files.shared import SharedFolder
from fedcert._schema.declare import required
from fedcert._schema.field_types import Pattern
from fedcert._schema.record import Record
from fedcert.errors import FileProblem
from fedcert.report.fields import FIXED_SEED

SEED_SUFFIX = ".seed"
_BYTES = 32
"""256 bits: the key of the hash that streams come from."""


@dataclass(frozen=True)
class Seed:
    """256 bits that all of a client's noise follows from.

    Attributes:
        secret: the bits.
        is_fixed: whether the user gave it as a number, for a test or a reproduction.
    """

    secret: bytes
    is_fixed: bool = False

    @classmethod
    def drawn(cls) -> Self:
        """A secret one, from the system."""
        return cls(secrets.token_bytes(_BYTES))

    @classmethod
    def fixed(cls, number: int) -> Self:
        """The one that a number stands for."""
        return cls(hashlib.sha256(f"fedcert fixed seed\0{number}".encode()).digest(), is_fixed=True)

    @property
    def statement(self) -> str:
        """What the report says of it: "fixed", or the commitment to a secret one."""
        return FIXED_SEED if self.is_fixed else self.commitment

    @property
    def commitment(self) -> str:
        """A hash from which nothing of the seed follows, and that no other seed has."""
        return "sha256:" + hashlib.sha256(b"fedcert seed commitment\0" + self.secret).hexdigest()


@dataclass(frozen=True, kw_only=True)
class KeptSeed(Record):
    """A secret seed as its site keeps it.

    Attributes:
        seed: 256 bits in hexadecimal digits.
        work: digest of what it was drawn for: client, model, settings and request. Other work gets a seed of its own.
    """

    SCHEMA: ClassVar[str] = "fedcert/seed/1"
    NOUN: ClassVar[str] = "seed"
    REMEDY: ClassVar[str | None] = "use the file that 'fedcert certify' wrote beside the report"

    seed: str = required(Pattern("64 hexadecimal digits", "[0-9a-f]{64}"))
    work: str = required(Pattern("'sha256:' and 64 hexadecimal digits", "sha256:[0-9a-f]{64}"))

    @property
    def value(self) -> Seed:
        """The seed itself."""
        return Seed(bytes.fromhex(self.seed))


def seed_file_of(client: str, request: str) -> Path:
    """Where a client that an engine asks keeps the seed of a request: in the folder of this user's programs' state.

    Args:
        client: its name.
        request: the request's digest.

    Raises:
        FileProblem: the folder cannot be made.
    """
    try:
        folder = state_folder() / "seeds"
        make_folder(folder, secret=True)
    except (FileProblem, RuntimeError) as error:  # RuntimeError: this user has no home
        raise FileProblem(
            f"there is no place to keep a secret seed ({error}); name a folder in FEDCERT_STATE"
        ) from None
    name = hashlib.sha256(f"{client}\0{request}".encode()).hexdigest()
    return folder / f"{name[:32]}{SEED_SUFFIX}"


def kept_seed(path: Path, work: str) -> Seed | None:
    """The seed that a site kept for this work; None where there is none.

    Raises:
        InvalidValue: the file holds something else.
        FileProblem: it cannot be read, or is a link.
    """
    kept = _kept_in(SharedFolder(path.parent), path)
    return kept.value if kept is not None and kept.work == work else None


def _kept_in(files: SharedFolder, path: Path) -> KeptSeed | None:
    """What lies beside a report, perhaps where reports are handed in: a link there is not followed."""
    if not files.has_file(path):
        return None
    kept: KeptSeed = KeptSeed.from_json(files.document(path, many_names=True), display_path(path))
    return kept


def read_seed(path: Path) -> KeptSeed:
    """What `keep_seed` wrote.

    Raises:
        CallError: there is no such file.
        InvalidValue: it holds something else.
        FileProblem: it cannot be read.
    """
    kept: KeptSeed = read_record(path, KeptSeed, SEED_SUFFIX)
    return kept


def keep_seed(path: Path, seed: Seed, work: str) -> None:
    """Write a secret seed to a file that its owner alone can read; one of other work there is put aside, not lost.

    Raises:
        CallError: the file's name does not end in .seed.
        FileProblem: it cannot be written, or a link has its name.
    """
    check_writable(path, (SEED_SUFFIX,))
    files = SharedFolder(path.parent)
    older = _kept_in(files, path)
    if older is not None and older.value != seed:
        files.move(path, path.with_name(f"{path.stem}-{older.value.commitment[7:15]}{SEED_SUFFIX}"))
    files.write(path, KeptSeed(seed=seed.secret.hex(), work=work).dumps(), secret=True)
