"""The record of a run: a table of rows and a table of attempts. Every figure is read from here.

While a run goes on the tables are SQLite in write-ahead mode, committed after every batch, so that a kill loses at most
the batch in flight.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from brinell.errors import BadInput
from brinell.records import (
    AttemptRecord,
    CertificateRecord,
    FrequencyRecord,
    Record,
    RowRecord,
    SessionRecord,
    TraceRecord,
    columns,
)

LEDGER = "ledger.sqlite"

_SQL = {int: "INTEGER", float: "REAL", str: "TEXT"}
_TABLES: dict[type[Record], tuple[str, str]] = {
    RowRecord: ("rows", "row"),
    AttemptRecord: ("attempts", "row, stage, attempt"),
    TraceRecord: ("traces", "row, stage, attempt, step"),
    FrequencyRecord: ("frequencies", "row"),
    CertificateRecord: ("certificates", "row"),
    SessionRecord: ("sessions", "session"),
}


class Progress(NamedTuple):
    """How far the attacks have got."""

    standing: int
    """Rows that have no witness and are not done with."""
    fallen: int
    """Rows that have one."""
    forwards: int
    """Passes of attempts that have ended."""
    backwards: int


class Ledger:
    """The tables of one run. Open it with ``create`` or ``open``, and close it."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.row_factory = sqlite3.Row

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new, empty ledger."""
        ledger = cls(path)
        ledger._write_ahead()
        for kind, (table, key) in _TABLES.items():
            parts = [
                f"{name} {_SQL[t]}{'' if optional else ' NOT NULL'}" for name, (t, optional) in columns(kind).items()
            ]
            ledger._db.execute(f"CREATE TABLE {table} ({', '.join(parts)}, PRIMARY KEY ({key})) WITHOUT ROWID")
        ledger._db.execute("CREATE INDEX turns ON attempts (turn)")
        return ledger

    @classmethod
    def open(cls, path: Path) -> Self:
        """The ledger of a run that exists.

        Raises
        ------
        BadInput
            If the file is absent or is not a ledger.
        """
        try:
            if not path.is_file():
                raise sqlite3.DatabaseError("no such file")
            ledger = cls(path)
            for name, _ in _TABLES.values():
                ledger._db.execute(f"SELECT 1 FROM {name} LIMIT 1")
        except sqlite3.DatabaseError as error:
            raise BadInput(
                f"ledger {path}", got=str(error), expected="the ledger of a run", remedy="Name the run's folder."
            ) from None
        return ledger

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """The ledger of a run that is gone on with; else as ``open``."""
        ledger = cls.open(path)
        ledger._write_ahead()
        return ledger

    def _write_ahead(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")

    def release(self) -> None:
        """Close the ledger as a reader, leaving its files as they are."""
        self._db.close()

    def close(self) -> None:
        """Fold the write-ahead log into the one file, and close it."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.execute("PRAGMA journal_mode=DELETE")
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of what is written within, or none of it."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def add(self, records: Iterable[Record]) -> None:
        """Write records of one kind."""
        for record in records:
            values = vars(record)
            marks = ", ".join("?" * len(values))
            table, _ = _TABLES[type(record)]
            self._db.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", list(values.values()))

    def rows(self) -> list[RowRecord]:
        """All rows, in the order of the selection."""
        return [RowRecord(**dict(record)) for record in self._db.execute("SELECT * FROM rows ORDER BY place")]

    def attempts(self) -> Iterator[AttemptRecord]:
        """All attempts that have ended, by stage, attempt and row."""
        for record in self._db.execute("SELECT * FROM attempts ORDER BY stage, attempt, row"):
            yield AttemptRecord(**dict(record))

    def traces(self) -> list[TraceRecord]:
        """The sampled rows' margins at each point of each attempt, by row, stage, attempt and step."""
        found = self._db.execute("SELECT * FROM traces ORDER BY row, stage, attempt, step")
        return [TraceRecord(**dict(record)) for record in found]

    def sessions(self) -> list[SessionRecord]:
        """All stretches of work, in order."""
        return [SessionRecord(**dict(record)) for record in self._db.execute("SELECT * FROM sessions ORDER BY session")]

    def frequencies(self) -> list[FrequencyRecord]:
        """How often a randomised model was right, row by row; empty for a deterministic one."""
        return [
            FrequencyRecord(**dict(record)) for record in self._db.execute("SELECT * FROM frequencies ORDER BY row")
        ]

    def replace_certificate(self, record: CertificateRecord) -> None:
        """Write what is known of a row, in place of what was known before."""
        self._db.execute("DELETE FROM certificates WHERE row = ?", (record.row,))
        self.add([record])

    def certificates(self) -> list[CertificateRecord]:
        """What certificates say, by row; empty where none were sought."""
        found = self._db.execute("SELECT * FROM certificates ORDER BY row")
        return [CertificateRecord(**dict(record)) for record in found]

    def update_frequency(self, row: int, **values: int) -> None:
        """Change some fields of one row's frequencies."""
        assignments = ", ".join(f"{name} = ?" for name in values)
        self._db.execute(f"UPDATE frequencies SET {assignments} WHERE row = ?", [*values.values(), row])

    def update_row(self, row: int, **values: int | float | str | None) -> None:
        """Change some fields of one row."""
        assignments = ", ".join(f"{name} = ?" for name in values)
        self._db.execute(f"UPDATE rows SET {assignments} WHERE row = ?", [*values.values(), row])

    def add_attempt(self, record: AttemptRecord) -> None:
        """Write an attempt that has ended, and its passes to its row's account."""
        self.add([record])
        self._db.execute(
            "UPDATE rows SET forwards = forwards + ?, backwards = backwards + ? WHERE row = ?",
            (record.forwards, record.backwards, record.row),
        )

    def refuse_witness(self, row: int) -> None:
        """The referee did not confirm the row's witness: the row stands again, the count says so."""
        self._db.execute(
            "UPDATE attempts SET outcome = 'unconfirmed' WHERE (row, stage, attempt) = "
            "(SELECT row, stage, attempt FROM rows WHERE row = ?)",
            (row,),
        )
        self._db.execute(
            "UPDATE rows SET unconfirmed = unconfirmed + 1, stage = NULL, attempt = NULL, prediction = NULL, margin = NULL,"
            " distance = NULL, witness_digest = NULL WHERE row = ?",
            (row,),
        )

    def start_session(self, started: str) -> int:
        """Begin a stretch of work; its number."""
        number = len(self.sessions()) + 1
        counters = [name for name, (kind, _) in columns(SessionRecord).items() if kind is int and name != "session"]
        self.add([SessionRecord(session=number, started=started, ended=None, **dict.fromkeys(counters, 0))])
        return number

    def count_passes(self, session: int, **passes: int) -> None:
        """Add to a session's account; the names are fields of ``SessionRecord``."""
        assignments = ", ".join(f"{name} = {name} + ?" for name in passes)
        self._db.execute(f"UPDATE sessions SET {assignments} WHERE session = ?", [*passes.values(), session])

    def end_session(self, session: int, ended: str) -> None:
        """Mark a stretch of work as ended by its own will."""
        self._db.execute("UPDATE sessions SET ended = ? WHERE session = ?", (ended, session))

    def claimed(self) -> list[RowRecord]:
        """Rows with a witness that the referee has not seen yet."""
        query = "SELECT * FROM rows WHERE stage IS NOT NULL AND confirmed = 0 ORDER BY place"
        return [RowRecord(**dict(record)) for record in self._db.execute(query)]

    def to_attempt(self) -> set[int]:
        """Rows that still stand."""
        query = "SELECT row FROM rows WHERE status = 'pending' AND stage IS NULL"
        return {record["row"] for record in self._db.execute(query)}

    def progress(self) -> Progress:
        """How far the attacks have got, over all rows."""
        found = self._db.execute(
            "SELECT ifnull(sum(status = 'pending' AND stage IS NULL), 0), ifnull(sum(stage IS NOT NULL), 0), "
            "ifnull(sum(forwards), 0), ifnull(sum(backwards), 0) FROM rows"
        )
        return Progress(*found.fetchone())

    def to_attack(self) -> dict[int, float]:
        """The rows that attacks are run on, with their margin before any attack, in the order of the selection.

        Rows that a certificate settled first are not among them, nor those on which a randomised model is never right. Rows
        that have fallen are, so that a resumed run sees what the first one saw.
        """
        found = self._db.execute(
            "SELECT rows.row, clean_margin FROM rows LEFT JOIN frequencies USING (row) WHERE clean_margin IS NOT NULL AND "
            "CASE WHEN clean_correct IS NULL THEN status != 'misclassified' ELSE clean_correct > 0 END AND rows.row NOT IN "
            "(SELECT row FROM certificates WHERE first = 1 AND outcome != 'unknown') "
            "ORDER BY place"
        )
        return {record["row"]: record["clean_margin"] for record in found}

    def of_turn(self, turn: int) -> list[AttemptRecord]:
        """The attempts of one turn that have ended, by row."""
        found = self._db.execute("SELECT * FROM attempts WHERE turn = ? ORDER BY row", (turn,))
        return [AttemptRecord(**dict(record)) for record in found]

    def fallen_before(self, turn: int) -> list[tuple[int, int, int, int, int]]:
        """Row, stage, attempt, true class and prediction of each row that fell in an earlier turn and has its witness."""
        found = self._db.execute(
            "SELECT rows.row, rows.stage, rows.attempt, label, prediction FROM rows JOIN attempts AS a ON "
            "(a.row, a.stage, a.attempt) = (rows.row, rows.stage, rows.attempt) "
            "WHERE a.turn < ? AND confirmed = 1 ORDER BY place",
            (turn,),
        )
        return [tuple(record) for record in found]

    def failed(self) -> set[int]:
        """Rows on which an attempt ended in an error."""
        return {record["row"] for record in self._db.execute("SELECT row FROM attempts WHERE outcome = 'error'")}

    def proposers(self) -> dict[int, list[tuple[int, int]]]:
        """The attempts, as (stage, attempt), that kept candidates of each row."""
        found: dict[int, list[tuple[int, int]]] = {}
        query = "SELECT row, stage, attempt FROM attempts WHERE outcome = 'proposed' ORDER BY row, stage, attempt"
        for record in self._db.execute(query):
            found.setdefault(record["row"], []).append((record["stage"], record["attempt"]))
        return found

    def settle(self, *, cut: bool) -> None:
        """The suite is through: rows still pending are standing, or in error where an attempt could not be judged.

        Where a budget has cut it, or it makes no attack, rows without any attempt stay pending.
        """
        self._db.execute(
            "UPDATE rows SET status = 'error', reason = (SELECT reason FROM attempts WHERE attempts.row = rows.row AND "
            "outcome = 'error' ORDER BY stage, attempt LIMIT 1) WHERE status = 'pending' AND EXISTS "
            "(SELECT 1 FROM attempts WHERE attempts.row = rows.row AND outcome = 'error')"
        )
        attempted = " AND EXISTS (SELECT 1 FROM attempts WHERE attempts.row = rows.row)" if cut else ""
        self._db.execute(f"UPDATE rows SET status = 'standing' WHERE status = 'pending'{attempted}")
