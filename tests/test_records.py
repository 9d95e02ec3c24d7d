"""The format of the record documents itself, and every tool that reads Parquet can read it."""

from dataclasses import fields
from pathlib import Path
from typing import get_args

import pyarrow.parquet as pq
import pytest

from brinell.manifest import ATTEMPTS_TABLE, ROWS_TABLE
from brinell.records import STATUSES, AttemptRecord, Record, RowRecord, SessionRecord, as_columns, columns, field_docs
from small_runs import attempt_record, row_record, session_record, small_result

KINDS = [RowRecord, AttemptRecord, SessionRecord]
EXAMPLES = {RowRecord: row_record(1), AttemptRecord: attempt_record(1), SessionRecord: session_record()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_has_a_docstring(kind: type[Record]) -> None:
    docs = field_docs(kind)
    assert list(docs) == [field.name for field in fields(kind)]
    for name, doc in docs.items():
        assert len(doc) > 10, name
        assert "\n" not in doc


def test_status_docstring_names_every_status() -> None:
    assert all(f"``{status}``" in field_docs(RowRecord)["status"] for status in STATUSES)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_the_fields_types(kind: type[Record]) -> None:
    for field in fields(kind):
        own, optional = columns(kind)[field.name]
        assert own in (int, float, str)
        assert optional == (type(None) in get_args(field.type))
        value = getattr(EXAMPLES[kind], field.name)
        assert isinstance(value, own) or (optional and value is None)


def test_records_as_columns() -> None:
    table = as_columns(AttemptRecord, [attempt_record(4), attempt_record(2, "fell")])
    assert table["row"] == [4, 2]
    assert table["outcome"] == ["stood", "fell"]
    assert list(table) == list(columns(AttemptRecord))
    assert as_columns(AttemptRecord, [])["row"] == []


def test_tables_carry_documentation_types_and_every_record(tmp_path: Path) -> None:
    result = small_result(tmp_path / "run")
    for name, kind, records in (
        (ROWS_TABLE, RowRecord, result.reading.rows),
        (ATTEMPTS_TABLE, AttemptRecord, result.reading.attempts),
    ):
        table = pq.read_table(result.folder / name)
        assert table.column_names == list(columns(kind))
        for field in table.schema:
            assert field.metadata[b"description"].decode() == field_docs(kind)[field.name]
            assert field.nullable == columns(kind)[field.name][1]
        assert table.to_pydict() == as_columns(kind, records)
        assert table.num_rows == len(records) > 0


def test_run_without_attempts_has_an_empty_table(tmp_path: Path) -> None:
    from brinell import Threat

    result = small_result(tmp_path / "run", threat=Threat("linf", 0))
    table = pq.read_table(result.folder / ATTEMPTS_TABLE)
    assert table.num_rows == 0
    assert table.column_names == list(columns(AttemptRecord))
