"""What a run was made with and under which circumstances, and the digests that tell whether its files were changed."""

import hashlib
import json
import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from brinell.certify.steps import STEPS, Step
from brinell.errors import BadInput
from brinell.imports.account import Imported
from brinell.models.double import LossPrecision
from brinell.spec import CertifySpec, Spec

MANIFEST = "manifest.json"
SPEC = "spec.toml"
ROWS_TABLE = "rows.parquet"
ATTEMPTS_TABLE = "attempts.parquet"
TRACES_TABLE = "traces.parquet"
FREQUENCIES_TABLE = "frequencies.parquet"
CERTIFICATES_TABLE = "certificates.parquet"
RESULT = "result.json"
UNSEALED = "none yet: the record is not sealed, for the run is under way or was killed"
"""What stands where a digest would."""
DERIVED = (ROWS_TABLE, ATTEMPTS_TABLE, TRACES_TABLE, FREQUENCIES_TABLE, CERTIFICATES_TABLE, RESULT)
"""Files that are made from the ledger when a session ends."""
FORMAT = 5
"""Version of the run folder's format; raised with every change that a reader must know of."""


class Environment(BaseModel):
    """Software and hardware."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    brinell: str
    """Version of Brinell."""
    python: str
    """Version of Python."""
    torch: str
    """Version of PyTorch."""
    numpy: str
    """Version of NumPy."""
    platform: str
    """Operating system."""
    processor: str
    """Architecture and number of cores."""
    threads: int
    """Threads that torch computes with."""
    device: str
    """Where the model ran."""
    precision: str
    """The model's own precision, then that of the inputs."""


class Certified(BaseModel):
    """How certificates were sought, and what they prove."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    asked: tuple[CertifySpec, ...]
    """What was asked for each time, in order: the dearest step of a row, and about how long it might take."""
    first: CertifySpec | None
    """How they were sought before the attacks; None where they were sought afterwards alone."""
    proves: str
    """Of which model, in which arithmetic, under which assumptions."""

    @property
    def method(self) -> Step:
        """The dearest step that any row was allowed; each row's own stands in the certificates."""
        return max((asked.method for asked in self.asked), key=STEPS.index)


class Manifest(BaseModel):
    """The circumstances of one run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int
    """Version of the folder's format."""
    run: str
    """A name for the run: the folder's when it was begun."""
    state: Literal["running", "interrupted", "complete"]
    """``running`` also after a kill."""
    started: str
    """UTC, ISO 8601."""
    ended: str | None
    """UTC; None while the run goes on or if it was killed."""
    seconds: float
    """Time spent in all sessions that ended by themselves, checks included."""
    environment: Environment
    """Software and hardware of the first session."""
    spec: Spec | None
    """What was asked for; None where model and rows were handed over in Python."""
    model: dict[str, Any]
    """Source, fingerprint (SHA-256 of weights, architecture and what modules hold beside these), classes, declared outputs."""
    data: dict[str, Any]
    """Source, selection, digest of the selected rows, counts."""
    threat: dict[str, Any]
    """Norm, eps as a number and as written, bounds, goal, access."""
    suite: dict[str, Any]
    """Name, version, digest, and every attack with all its settings as it was run."""
    budget: str | None
    """What the run might spend, as written; None where it might go to the suite's end."""
    cut: Literal["passes", "time"] | None
    """Which budget ended the attacks before the suite was through; None where none did."""
    seed: int
    """Of all random numbers in the attacks."""
    batch_size: int
    """Rows in a full batch."""
    pull_in: float
    """How far inside the box gradients were taken, in input units; 0 where its faces do not mask them."""
    unbounded: dict[str, int]
    """Clean rows on which the checks climbed each loss with no limit but the box, and how many stood: gradients that leave
    rows there lead nowhere. Empty for randomised models."""
    findings: dict[str, str]
    """What the checks before the attack found against gradients or inputs, by the check's name."""
    unmade: dict[str, str] = {}
    """Why checks before the attack could not be made though they were tried, by the check's name."""
    target_ranks: list[int]
    """Of some clean rows, the place by logit, from 1, of the wrong class that is nearest to first order; empty where the
    classes are few."""
    loss_precision: LossPrecision = "own"
    """``float64`` where a loss whose slope by the logits underflows to 0 was climbed in float64; else ``own``."""
    bypassed: dict[str, str] = {}
    """Parts of the model that were found to hide its gradient, with what each is (``rounding``: PyTorch's rounding functions,
    wherever they are called). Attacks with the slope ``identity`` go back through them as through the identity."""
    surrogate: dict[str, str] | None = None
    """The other model on which points were made: source, kind (``declared``, or a pipeline's ``base``), fingerprint, declared
    outputs. None where there was none."""
    imported: Imported | None = None
    """Where the points come from and what was found in their files, if they were made elsewhere; None for Brinell's own."""
    certified: Certified | None = None
    """How certificates were sought, if they were."""
    notes: list[str]
    """What was adapted or is worth knowing, a sentence each."""
    files: dict[str, str]
    """SHA-256 of each other file of the run, once it has ended."""
    digest: str
    """SHA-256 of everything above: quote it with the figure, and nobody can change the run unseen."""

    @property
    def seal(self) -> str:
        """The digest, if a session has ended on this folder: what is not sealed yet has none to quote."""
        return self.digest if self.files else UNSEALED

    def sealed(self) -> "Manifest":
        """The same with the digest that belongs to it."""
        return self.model_copy(update={"digest": self.expected_digest()})

    def expected_digest(self) -> str:
        """The digest that the contents call for."""
        return digest_of(self.model_dump(mode="json", exclude={"digest"}))


def digest_of(contents: dict[str, Any]) -> str:
    """SHA-256 of contents as JSON, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, whole or not at all."""
    replace_text(folder / MANIFEST, json.dumps(manifest.sealed().model_dump(mode="json"), indent=2) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a run.

    Raises
    ------
    BadInput
        If the folder holds no run, or one of a format that this version does not know.
    """
    path = folder / MANIFEST
    try:
        table = json.loads(path.read_text("utf-8"))
        if isinstance(table, dict) and table.get("kind") == "smoothing":
            raise BadInput(
                f"run {folder}",
                got="certificates of a smoothed classifier, which is another than the model that was attacked or bounded",
                expected="the folder of a run",
                remedy="Read them with `brinell report`, `brinell verify`, or `brinell certify --resume`.",
            )
        if isinstance(table, dict) and table.get("format", FORMAT) != FORMAT:
            raise BadInput(
                f"run {folder}",
                got=f"format {table['format']}",
                expected=f"format {FORMAT}",
                remedy=f"Read it with Brinell {_version(table)}.",
            )
        return Manifest.model_validate(table)
    except OSError:
        raise BadInput(
            f"run {folder}", got=f"no {MANIFEST}", expected="the folder of a run", remedy="Check the path."
        ) from None
    except ValueError as error:  # of JSON, of UTF-8, or of pydantic
        reason = str(error).splitlines()[0]
        raise BadInput(
            f"run {folder}",
            got=f"a {MANIFEST} that cannot be read ({reason})",
            expected="JSON",
            remedy="It was changed.",
        ) from None


def _version(table: dict[str, Any]) -> str:
    environment = table.get("environment")
    return str(environment.get("brinell", "of its time")) if isinstance(environment, dict) else "of its time"


def replace_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def file_digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of each of the files that exist."""
    found = {}
    for name in sorted(names):
        path = folder / name
        if path.is_file():
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def now() -> str:
    """The time, UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def environment(device: str, precision: str) -> Environment:
    """Software and hardware of this process."""
    import numpy
    import torch

    from brinell import __version__

    return Environment(
        brinell=__version__,
        python=platform.python_version(),
        torch=torch.__version__,
        numpy=numpy.__version__,
        platform=f"{platform.system()} {platform.release()}",
        processor=f"{platform.machine()}, {os.cpu_count()} cores",
        threads=torch.get_num_threads(),
        device=device if not device.startswith("cuda") else f"{device} ({torch.cuda.get_device_name(device)})",
        precision=precision,
    )
