"""Small records, suites and runs that the tests of the outer half share. Each run ends in a blink."""

import os
import sqlite3
from pathlib import Path
from typing import Any

import small_net
from brinell.cli import main
from brinell.evaluation import Result, evaluate
from brinell.handed import subject_of
from brinell.ledger import LEDGER
from brinell.records import AttemptRecord, RowRecord, SessionRecord
from brinell.run import Run
from brinell.subject import Subject
from brinell.suites.suite import Suite, suite_from
from brinell.threat import Threat

TABLE: dict[str, Any] = {
    "name": "small",
    "version": "1",
    "summary": "a few steps of each kind",
    "attacks": [
        {"attack": "pgd", "loss": "ce", "steps": 5, "step_size": 0.3, "restarts": 2},
        {"attack": "apgd", "loss": "targeted-dlr", "steps": 8, "targets": 2},
    ],
}
SMALL: Suite = suite_from(TABLE, "tests")
THREAT = Threat("linf", 0.06)  # about half of small_net's rows fall
NET = f"{Path(small_net.__file__)}:load"
OTHER_NET = f"{Path(small_net.__file__)}:other"
ROWS = f"{Path(small_net.__file__)}:rows"


def row_record(row: int, status: str = "standing", **changes: Any) -> RowRecord:
    """A row of class 0; right before any attack unless it is misclassified, with a witness at distance 0.1 if broken."""
    right = status != "misclassified"
    fields: dict[str, Any] = {
        "row": row,
        "place": row,
        "label": 0,
        "digest": f"digest of row {row}",
        "status": status,
        "clean_prediction": 0 if right else 1,
        "clean_margin": 1.0 if right else -1.0,
        "input_size": 1.0,
        "stage": None,
        "attempt": None,
        "prediction": None,
        "margin": None,
        "distance": None,
        "witness_digest": None,
        "confirmed": 0,
        "unconfirmed": 0,
        "forwards": 0,
        "backwards": 0,
        "reason": "the model raised" if status == "error" else None,
    }
    if status == "broken":
        fields |= {"stage": 0, "attempt": 0, "prediction": 1, "margin": -0.5, "distance": 0.1, "confirmed": 1}
        fields["witness_digest"] = f"digest of witness {row}"
    return RowRecord(**{**fields, **changes})


def attempt_record(row: int, outcome: str = "stood", **changes: Any) -> AttemptRecord:
    """An attempt of two forward passes and one backward pass."""
    fields: dict[str, Any] = {
        "row": row,
        "stage": 0,
        "attempt": 0,
        "turn": 0,
        "outcome": outcome,
        "best_margin": 0.5,
        "forwards": 2,
        "backwards": 1,
        "reason": None,
    }
    return AttemptRecord(**{**fields, **changes})


def session_record(**changes: int) -> SessionRecord:
    """The first stretch of work, which made no passes but those that are said."""
    passes = dict.fromkeys(
        (
            "forwards",
            "backwards",
            "clean_forwards",
            "referee_forwards",
            "preflight_forwards",
            "preflight_backwards",
            "select_forwards",
            "score_forwards",
        ),
        0,
    )
    return SessionRecord(session=1, started="2026-01-01T00:00:00+00:00", ended=None, **{**passes, **changes})


def small_result(folder: Path, **changes: Any) -> Result:
    """``small_net`` on its rows, from Python."""
    x, y = small_net.rows()
    arguments: dict[str, Any] = {"threat": THREAT, "suite": SMALL, "batch_size": 64, "out": folder, **changes}
    model = arguments.pop("model", None) or small_net.load()
    return evaluate(model, arguments.pop("x", x), arguments.pop("y", y), **arguments)


def small_subject() -> Subject:
    """``small_net`` on its rows, before anything has begun."""
    x, y = small_net.rows()
    model = small_net.load()
    return subject_of(
        model, x, y, threat=THREAT, suite=SMALL, seed=0, outputs="logits", rows="all", layout="as-is", size=16
    )


def abandon(run: Run) -> None:
    """Let go of a run's files without closing it, as a kill does."""
    run.ledger.release()
    for points in (run.recording.witnesses, run.recording.originals, run.recording.clean_logits):
        points.close()
    run.lock.release()


def edit(folder: Path, statement: str, *values: object) -> None:
    """Change a run's ledger behind its back."""
    ledger = sqlite3.connect(folder / LEDGER)
    with ledger:
        assert ledger.execute(statement, values).rowcount > 0
    ledger.close()


def suite_file(folder: Path) -> Path:
    """The suite as a file."""
    import tomli_w

    path = folder / "small.toml"
    path.write_text(tomli_w.dumps(TABLE), "utf-8")
    return path


def small_options(suite: Path) -> list[str]:
    """``small_net`` on its rows, as options of ``brinell run``."""
    what = ["--model", NET, "--data", ROWS, "--suite", str(suite)]
    return [*what, "--norm", "linf", "--eps", "0.06", "--batch-size", "16"]


def small_run(folder: Path) -> Path:
    """The same by the command, so that the run's files say where model and rows are; its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    assert main(["run", *small_options(suite_file(folder)), "--out", str(folder / "run"), "--quiet"]) == 0
    return folder / "run"


def fates(rows: Any) -> list[tuple[Any, ...]]:
    """What must not depend on how a run got to its end: each row's status, by what it fell, and its passes."""
    return [(r.row, r.status, r.stage, r.attempt, r.prediction, r.forwards, r.backwards, r.unconfirmed) for r in rows]


def quiet_environment() -> dict[str, str]:
    """This process's environment for a subprocess that computes with one thread and finds the tests' modules."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
