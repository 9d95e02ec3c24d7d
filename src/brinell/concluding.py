"""How a session on a run's folder ends: tables for other tools, the result, and the seal over every file."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from brinell.exported import as_data
from brinell.ledger import LEDGER
from brinell.manifest import (
    ATTEMPTS_TABLE,
    CERTIFICATES_TABLE,
    DERIVED,
    FREQUENCIES_TABLE,
    RESULT,
    ROWS_TABLE,
    SPEC,
    TRACES_TABLE,
    Manifest,
    file_digests,
    read_manifest,
    replace_text,
    write_manifest,
)
from brinell.points import CANDIDATES, CLEAN_LOGITS, ORIGINALS, WITNESSES
from brinell.records import (
    AttemptRecord,
    CertificateRecord,
    FrequencyRecord,
    Record,
    RowRecord,
    TraceRecord,
    as_columns,
    columns,
    field_docs,
)
from brinell.result import Reading, read_run

SEALED = (LEDGER, WITNESSES, ORIGINALS, CLEAN_LOGITS, CANDIDATES, SPEC, *DERIVED)
"""Files whose digests stand in the manifest once a session has ended."""

FALSE_REJECTIONS = "false rejections (clean rows that are rejected):"


def conclude(folder: Path, manifest: Manifest) -> Reading:
    """Write the tables and the result of a session that has ended, and last the manifest that seals every file."""
    reading = replace(read_run(folder), manifest=manifest)
    if reading.false_rejections is not None:
        notes = [note for note in manifest.notes if not note.startswith(FALSE_REJECTIONS)]
        said = f"{FALSE_REJECTIONS} {reading.false_rejections}, counted as misclassified"
        manifest = manifest.model_copy(update={"notes": [*notes, said]})
        reading = replace(reading, manifest=manifest)
    _write_table(folder / ROWS_TABLE, RowRecord, reading.rows)
    _write_table(folder / ATTEMPTS_TABLE, AttemptRecord, reading.attempts)
    if reading.randomised is None:
        _write_table(folder / TRACES_TABLE, TraceRecord, reading.traces)
    else:
        _write_table(folder / FREQUENCIES_TABLE, FrequencyRecord, reading.frequencies)
    if reading.certificates:
        _write_table(folder / CERTIFICATES_TABLE, CertificateRecord, reading.certificates)
    replace_text(folder / RESULT, json.dumps(as_data(reading), indent=2) + "\n")
    write_manifest(folder, manifest.model_copy(update={"files": file_digests(folder, SEALED)}))
    return replace(reading, manifest=read_manifest(folder))


def _write_table(path: Path, kind: type[Record], records: Sequence[Record]) -> None:
    """A table for other tools; each column carries its documentation."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    docs = field_docs(kind)
    schema = pa.schema(
        [
            pa.field(name, arrow[own], nullable=optional, metadata={"description": docs[name]})
            for name, (own, optional) in columns(kind).items()
        ]
    )
    partial = path.with_suffix(".partial")
    pq.write_table(pa.table(as_columns(kind, records), schema=schema), partial)
    partial.replace(path)
