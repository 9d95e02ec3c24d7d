"""The record on disk: what is written comes back, what is cut off leaves nothing half done."""

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from brinell.errors import BadInput
from brinell.ledger import LEDGER, Ledger
from brinell.points import PointFile
from brinell.records import FrequencyRecord, RowRecord, columns
from small_runs import attempt_record, row_record


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.create(tmp_path / LEDGER)
    yield opened
    opened.release()


def pending(row: int, **changes: object) -> RowRecord:
    return row_record(row, "pending", **changes)


def row_of(ledger: Ledger, row: int) -> RowRecord:
    return next(record for record in ledger.rows() if record.row == row)


def test_round_trip(ledger: Ledger, tmp_path: Path) -> None:
    """Every field comes back as it was, None included, after the file was closed and opened again."""
    rows = [row_record(3, "broken", place=0, clean_margin=0.1 + 0.2), row_record(1, "error", place=1, input_size=None)]
    attempts = [
        attempt_record(3, "fell", best_margin=-1e-300),
        attempt_record(1, "error", best_margin=None, reason="ß\n'"),
    ]
    with ledger.transaction():
        ledger.add(rows)
        ledger.add(attempts)
    session = ledger.start_session("2026-01-01T00:00:00+00:00")
    ledger.count_passes(session, forwards=5, referee_forwards=2)
    ledger.count_passes(session, forwards=1)
    ledger.end_session(session, "2026-01-01T00:00:01+00:00")
    ledger.close()
    again = Ledger.open(tmp_path / LEDGER)
    assert again.rows() == rows  # in the order of the selection, not of the index
    assert sorted(map(repr, again.attempts())) == sorted(map(repr, attempts))
    (kept,) = again.sessions()
    assert (kept.session, kept.ended, kept.forwards, kept.referee_forwards) == (1, "2026-01-01T00:00:01+00:00", 6, 2)
    assert again.start_session("later") == 2
    again.release()


def test_closed_ledger_is_one_file(ledger: Ledger, tmp_path: Path) -> None:
    with ledger.transaction():
        ledger.add([pending(0)])
    ledger.close()
    assert [path.name for path in tmp_path.iterdir()] == [LEDGER]


def test_transaction_that_raises_leaves_nothing(ledger: Ledger) -> None:
    with ledger.transaction():
        ledger.add([pending(0)])
    before = ledger.rows()
    with pytest.raises(KeyboardInterrupt), ledger.transaction():
        ledger.add([pending(1)])
        ledger.update_row(0, status="standing")
        ledger.add_attempt(attempt_record(0))
        raise KeyboardInterrupt
    assert ledger.rows() == before
    assert list(ledger.attempts()) == []
    with ledger.transaction():  # and the next one works
        ledger.update_row(0, status="standing")
    assert row_of(ledger, 0).status == "standing"


def test_attempt_is_recorded_once(ledger: Ledger) -> None:
    with ledger.transaction():
        ledger.add([pending(0)])
        ledger.add_attempt(attempt_record(0))
    with pytest.raises(sqlite3.IntegrityError), ledger.transaction():
        ledger.add_attempt(attempt_record(0))
    assert row_of(ledger, 0).forwards == 2


def test_attempts_passes_go_to_the_rows_account(ledger: Ledger) -> None:
    with ledger.transaction():
        ledger.add([pending(0), pending(1)])
        ledger.add_attempt(attempt_record(0, forwards=11, backwards=10))
        ledger.add_attempt(attempt_record(0, attempt=1, turn=1, forwards=4, backwards=4))
    assert (row_of(ledger, 0).forwards, row_of(ledger, 0).backwards) == (15, 14)
    assert (row_of(ledger, 1).forwards, row_of(ledger, 1).backwards) == (0, 0)


def test_a_turns_attempts_are_those_that_have_ended_in_it(ledger: Ledger) -> None:
    """By row, and none of another turn, though it be of the same attack."""
    records = [
        attempt_record(row, attempt=attempt, turn=turn) for row, attempt, turn in ((4, 0, 5), (1, 1, 6), (0, 0, 5))
    ]
    with ledger.transaction():
        ledger.add([pending(row, place=row) for row in (0, 1, 4)])
        for record in records:
            ledger.add_attempt(record)
    assert ledger.of_turn(5) == [records[2], records[0]]
    assert ledger.of_turn(6) == [records[1]]
    assert ledger.of_turn(0) == []


def test_rows_to_attack_are_those_that_were_right_whatever_has_become_of_them(ledger: Ledger) -> None:
    """In the order of the selection; a resumed run sees what the first one saw."""
    records = [
        row_record(7, "broken", place=0, clean_margin=0.5),
        row_record(2, "misclassified", place=1),
        row_record(5, "standing", place=2, clean_margin=2.0),
        row_record(1, "error", place=3, clean_margin=0.25),
        pending(3, place=4, clean_margin=4.0),
        pending(4, place=5, clean_margin=None),  # not scored yet
    ]
    ledger.add(records)
    assert list(ledger.to_attack().items()) == [(7, 0.5), (5, 2.0), (1, 0.25), (3, 4.0)]


def frequency(row: int, clean_correct: int) -> FrequencyRecord:
    unknown = dict.fromkeys(columns(FrequencyRecord))
    return FrequencyRecord(**{**unknown, "row": row, "clean_draws": 100, "clean_correct": clean_correct})


def test_rows_on_which_a_randomised_model_is_never_right_are_not_attacked(ledger: Ledger) -> None:
    """Its mean margin says nothing of that."""
    ledger.add([pending(row, clean_margin=0.5 - row) for row in range(3)])
    ledger.add([frequency(0, 0), frequency(1, 1), frequency(2, 100)])
    assert list(ledger.to_attack()) == [1, 2]


def test_a_randomised_models_rows_to_attack_stay_the_same_when_they_are_scored(ledger: Ledger) -> None:
    """One that is found wrong in most draws is misclassified, but it was attacked."""
    ledger.add([pending(0), pending(1)])
    ledger.add([frequency(0, 60), frequency(1, 40)])
    before = ledger.to_attack()
    ledger.update_row(0, status="standing")
    ledger.update_row(1, status="misclassified")
    assert ledger.to_attack() == before


def claim(ledger: Ledger, row: int) -> None:
    ledger.add_attempt(attempt_record(row, "fell", best_margin=-0.5))
    witness = {"prediction": 1, "margin": -0.5, "distance": 0.1, "witness_digest": "w"}
    ledger.update_row(row, stage=0, attempt=0, **witness)


def test_confirmed_witness(ledger: Ledger) -> None:
    with ledger.transaction():
        ledger.add([pending(0), pending(1)])
        claim(ledger, 0)
    assert [record.row for record in ledger.claimed()] == [0]
    assert ledger.to_attempt() == {1}
    ledger.update_row(0, status="broken", confirmed=1)
    assert ledger.claimed() == []
    assert ledger.to_attempt() == {1}


def test_refused_witness_leaves_the_row_standing_and_is_counted(ledger: Ledger) -> None:
    with ledger.transaction():
        ledger.add([pending(0)])
        claim(ledger, 0)
        ledger.refuse_witness(0)
    record = row_of(ledger, 0)
    assert record.unconfirmed == 1
    assert {record.stage, record.attempt, record.prediction, record.margin, record.distance, record.witness_digest} == {
        None
    }
    assert [attempt.outcome for attempt in ledger.attempts()] == ["unconfirmed"]
    assert ledger.claimed() == []
    assert ledger.to_attempt() == {0}  # the attacks to come get it again
    ledger.settle(cut=False)
    assert row_of(ledger, 0).status == "standing"


def test_settling_names_what_could_not_be_judged(ledger: Ledger) -> None:
    """A row on which an attempt crashed is an error, never standing; one that fell all the same is broken."""
    with ledger.transaction():
        ledger.add([pending(0), pending(1), row_record(2, "misclassified"), row_record(3, "broken")])
        ledger.add_attempt(attempt_record(0))
        ledger.add_attempt(attempt_record(1, "error", reason="first"))
        ledger.add_attempt(attempt_record(1, "error", attempt=1, reason="second"))
        ledger.add_attempt(attempt_record(3, "error", attempt=1, reason="first"))
        ledger.settle(cut=False)
    assert [(r.status, r.reason) for r in ledger.rows()] == [
        ("standing", None),
        ("error", "first"),
        ("misclassified", None),
        ("broken", None),
    ]


def test_settling_a_run_that_a_budget_cut_leaves_rows_without_attempt_pending(ledger: Ledger) -> None:
    """Nothing was measured of them; the others are judged as ever."""
    with ledger.transaction():
        ledger.add([pending(0), pending(1), pending(2), row_record(3, "misclassified"), row_record(4, "broken")])
        ledger.add_attempt(attempt_record(0))
        ledger.add_attempt(attempt_record(1, "error", reason="first"))
        ledger.settle(cut=True)
    assert [row.status for row in ledger.rows()] == ["standing", "error", "pending", "misclassified", "broken"]


@pytest.mark.parametrize("content", [None, b"", b"not a database, but long enough to be taken for one" * 100])
def test_file_that_is_no_ledger_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / LEDGER
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match="expected the ledger of a run"):
        Ledger.open(path)
    assert path.exists() == (content is not None)


def test_reader_sees_what_a_killed_writer_committed(ledger: Ledger, tmp_path: Path) -> None:
    """The writer below never closes; what it was in the middle of is not there."""
    with ledger.transaction():
        ledger.add([pending(0)])
    ledger._db.execute("BEGIN IMMEDIATE")
    ledger.add([pending(1)])
    reader = Ledger.open(tmp_path / LEDGER)
    assert [record.row for record in reader.rows()] == [0]
    reader.release()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_points_come_back_bit_by_bit(tmp_path: Path, dtype: str) -> None:
    """Witnesses are kept as the floats that the model saw: eps after reloading is eps (ZOO-Attack#2)."""
    generator = np.random.default_rng(0)
    x = generator.random((3, 2, 4, 4)).astype(dtype)
    eps = np.nextafter(np.asarray(8 / 255, dtype), np.asarray(0, dtype))
    x_adv = x + eps * np.sign(generator.standard_normal(x.shape)).astype(dtype)
    points = PointFile(tmp_path / "points.npy", (5, 2, 4, 4), np.dtype(dtype))
    digests = {place: points.write(place, x_adv[i]) for i, place in enumerate((4, 0, 2))}
    points.flush()
    points.close()
    stored = np.load(tmp_path / "points.npy", mmap_mode="r")
    assert stored.shape == (5, 2, 4, 4)
    assert stored.dtype == dtype
    np.testing.assert_array_equal(stored[[4, 0, 2]], x_adv)
    np.testing.assert_array_equal(stored[[1, 3]], 0)
    np.testing.assert_array_equal(np.abs(stored[[4, 0, 2]] - x), np.abs(x_adv - x))
    again = PointFile(tmp_path / "points.npy", (5, 2, 4, 4), np.dtype(dtype))  # opened, not made anew
    np.testing.assert_array_equal(again.read(4), x_adv[0])
    assert {place: hashlib.sha256(again.read(place).tobytes()).hexdigest() for place in digests} == digests
    again.write(1, x_adv[0])
    again.close()
    np.testing.assert_array_equal(np.load(tmp_path / "points.npy")[:3], [x_adv[1], x_adv[0], x_adv[2]])


def test_point_file_cut_off_while_it_was_made_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "points.partial").write_bytes(b"half a header")
    points = PointFile(tmp_path / "points.npy", (2, 3), np.dtype("float32"))
    points.write(1, np.ones(3, np.float32))
    points.close()
    np.testing.assert_array_equal(np.load(tmp_path / "points.npy"), [[0, 0, 0], [1, 1, 1]])
    assert [path.name for path in tmp_path.iterdir()] == ["points.npy"]


def test_every_status_can_be_written(ledger: Ledger) -> None:
    statuses = ["misclassified", "broken", "certified", "standing", "pending", "error"]
    ledger.add(row_record(row, status) for row, status in enumerate(statuses))
    assert [asdict(record)["status"] for record in ledger.rows()] == statuses
