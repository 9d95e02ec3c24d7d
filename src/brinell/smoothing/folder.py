"""The folder in which what is found of a smoothed classifier lies: begun, written row by row, sealed, and read again."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from brinell.errors import BadInput
from brinell.manifest import MANIFEST, SPEC, file_digests, replace_text
from brinell.smoothing.claim import claim_line
from brinell.smoothing.figures import SmoothFigures, figures_of
from brinell.smoothing.record import FORMAT, KIND, SmoothedRow, SmoothingManifest

ROWS = "rows.jsonl"
POINTS = "points.npy"
RESULT = "result.json"
SEALED = (SPEC, ROWS, POINTS, RESULT)
"""Files whose digests the manifest holds."""


@dataclass(frozen=True, eq=False)
class SmoothReading:
    """What the folder says."""

    folder: Path
    manifest: SmoothingManifest
    rows: tuple[SmoothedRow, ...]
    """Those that were done, in the order of the selection."""

    @property
    def figures(self) -> SmoothFigures:
        """What follows from the rows."""
        return figures_of(self.manifest, self.rows)


def holds_smoothing(folder: Path) -> bool:
    """Whether a folder holds certificates of a smoothed classifier, and not a run."""
    try:
        table = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(table, dict) and table.get("kind") == KIND


def read_smoothing(folder: Path) -> SmoothReading:
    """The manifest and the rows that were done.

    Raises
    ------
    BadInput
        If the folder holds none, or files that cannot be read.
    """
    return SmoothReading(folder, read_smoothing_manifest(folder), tuple(_rows(folder)))


def read_smoothing_manifest(folder: Path) -> SmoothingManifest:
    """The manifest alone; see ``read_smoothing``."""
    if not holds_smoothing(folder):
        raise BadInput(
            f"folder {folder}",
            got=f"no {MANIFEST} of a smoothed classifier",
            expected="the folder of `brinell certify --method smoothing`",
            remedy="Check the path.",
        )
    table = json.loads((folder / MANIFEST).read_text("utf-8"))
    if table.get("format") != FORMAT:
        raise BadInput(
            f"folder {folder}",
            got=f"format {table.get('format')}",
            expected=f"format {FORMAT}",
            remedy="Read it with the version of Brinell that wrote it.",
        )
    try:
        return SmoothingManifest.model_validate(table)
    except ValidationError as error:
        raise _changed(folder / MANIFEST, str(error).splitlines()[0]) from None


def _rows(folder: Path) -> list[SmoothedRow]:
    """The rows whose lines were written whole: the last of a process that was killed may not be."""
    try:
        lines = (folder / ROWS).read_bytes().splitlines(keepends=True)
        rows = [SmoothedRow.model_validate_json(line) for line in lines if line.endswith(b"\n")]
    except FileNotFoundError:  # before the first; once sealed, ``verify`` finds it gone
        return []
    except OSError as error:
        raise _changed(folder / ROWS, error.strerror or str(error)) from None
    except ValidationError as error:
        raise _changed(folder / ROWS, str(error).splitlines()[0]) from None
    return sorted(rows, key=lambda row: row.place)


def _changed(path: Path, got: str) -> BadInput:
    return BadInput(str(path), got=got, expected="a file as it was written", remedy="It was changed, or lost.")


def write_smoothing_manifest(folder: Path, manifest: SmoothingManifest) -> None:
    """Write the manifest, whole or not at all."""
    replace_text(folder / MANIFEST, json.dumps(manifest.sealed().model_dump(mode="json"), indent=2) + "\n")


def drop_torn_line(folder: Path) -> None:
    """Cut off what a killed process left of a line."""
    path = folder / ROWS
    whole = path.read_bytes()
    end = whole.rfind(b"\n") + 1
    if end < len(whole):
        os.truncate(path, end)


def append_row(folder: Path, row: SmoothedRow) -> None:
    """Have a row reach the disk."""
    with (folder / ROWS).open("ab") as file:
        file.write(row.model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def seal(folder: Path, manifest: SmoothingManifest) -> SmoothReading:
    """Write the figures, and a manifest that holds the digests of all files."""
    reading = SmoothReading(folder, manifest, tuple(_rows(folder)))
    replace_text(folder / RESULT, json.dumps(smoothing_data(manifest, reading.rows), indent=2) + "\n")
    write_smoothing_manifest(folder, manifest.model_copy(update={"files": file_digests(folder, SEALED)}))
    return read_smoothing(folder)


def smoothing_data(manifest: SmoothingManifest, rows: Sequence[SmoothedRow]) -> dict[str, Any]:
    """The result as data for other tools: what was certified of which classifier, and the figures with their counts."""
    figures = figures_of(manifest, rows)
    return {
        "kind": KIND,
        "claim": claim_line(manifest, figures),
        "smoothed_classifier": manifest.names(),
        "base_classifier": {key: manifest.model[key] for key in ("source", "fingerprint")},
        "data": {key: manifest.data[key] for key in ("source", "selection", "digest")},
        "norm": "l2",
        "low": manifest.low,
        "high": manifest.high,
        **{name: getattr(manifest.setting, name) for name in ("sigma", "n", "n0", "alpha")},
        "seed": manifest.seed,
        "complete": manifest.state == "complete",
        "seconds": manifest.seconds,
        **figures.table(),
    }
