"""A run is checked again from its own files: whoever changes one is found, and so is whoever changes all digests with it."""

import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import small_net
from brinell.cli import main
from brinell.concluding import conclude
from brinell.evaluation import open_run
from brinell.ledger import LEDGER, Ledger
from brinell.manifest import read_manifest, write_manifest
from brinell.opening import begin
from brinell.records import RowRecord
from brinell.rows import row_digest
from brinell.suites.suite import suite_from
from small_runs import NET, OTHER_NET, abandon, edit, small_run, small_subject

FILES = (
    "manifest.json",
    "result.json",
    "spec.toml",
    "ledger.sqlite",
    "witnesses.npy",
    "originals.npy",
    "clean_logits.npy",
    "rows.parquet",
    "attempts.parquet",
    "traces.parquet",
)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("honest"))


@pytest.fixture
def run(tmp_path: Path, honest: Path) -> Path:
    """A copy to tamper with."""
    return Path(shutil.copytree(honest, tmp_path / "run"))


@pytest.fixture
def verified(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, Any]]]:
    """Runs ``brinell verify --json``: its exit code, and each finding by its check, the worst where there are two."""

    def verify(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = main(["verify", str(folder), "--json", *options])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        if not said.out:
            return code, {"message": said.err}
        findings = json.loads(said.out)["findings"]
        findings.sort(key=lambda finding: finding["holds"] is False)
        return code, {finding["check"]: finding for finding in findings}

    return verify


Verify = Callable[..., tuple[int, dict[str, Any]]]


def failed(findings: dict[str, Any]) -> set[str]:
    return {check for check, finding in findings.items() if check != "message" and finding["holds"] is False}


def reseal(folder: Path) -> None:
    """Whatever was changed, make tables, result and digests anew, as a run does at its end."""
    conclude(folder, read_manifest(folder))


def rows_by_status(folder: Path, status: str) -> list[RowRecord]:
    return [row for row in open_run(folder).rows if row.status == status]


def overwrite(path: Path, place: int, point: np.ndarray) -> str:
    points = np.load(path, mmap_mode="r+")
    points[place] = point
    points.flush()
    return hashlib.sha256(np.ascontiguousarray(points[place]).tobytes()).hexdigest()


# Nobody has changed anything


def test_honest_run(run: Path, verified: Verify, capsys: pytest.CaptureFixture[str]) -> None:
    code, findings = verified(run)
    assert code == 0
    assert all(finding["holds"] is True for finding in findings.values())
    assert len(findings) >= 10
    assert main(["verify", str(run)]) == 0
    said = capsys.readouterr().out
    assert f"verified: {len(findings)} hold, 0 do not, 0 not checked" in said


def test_verifying_changes_nothing(run: Path, verified: Verify) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    verified(run)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_files_alone(run: Path, verified: Verify, tmp_path: Path) -> None:
    code, findings = verified(run, "--files-only")
    assert code == 0
    assert findings.pop("model and data")["holds"] is None
    assert all(finding["holds"] is True for finding in findings.values())
    assert not {"model fingerprint", "witnesses by the model"} & set(findings)


def test_model_and_data_elsewhere(run: Path, verified: Verify, tmp_path: Path) -> None:
    x, y = small_net.rows()
    np.savez(tmp_path / "moved.npz", x=x.numpy(), y=y.numpy())
    code, findings = verified(run, "--model", NET, "--data", str(tmp_path / "moved.npz"))
    assert (code, failed(findings)) == (0, set())


def test_model_that_cannot_be_had_is_said_and_not_held_against_the_run(
    run: Path, verified: Verify, capsys: pytest.CaptureFixture[str]
) -> None:
    code, findings = verified(run, "--model", "absent.py:load")
    assert code == 0
    assert findings["model and data"]["holds"] is None
    assert "absent.py" in findings["model and data"]["detail"]
    assert main(["verify", str(run), "--model", "absent.py:load"]) == 0
    assert "verified as far as it could be" in capsys.readouterr().out


def test_other_model(run: Path, verified: Verify) -> None:
    code, findings = verified(run, "--model", OTHER_NET)
    assert code == 4
    assert "model fingerprint" in failed(findings)


def test_other_data(run: Path, verified: Verify, tmp_path: Path) -> None:
    x, y = small_net.rows()
    np.savez(tmp_path / "other.npz", x=x.numpy() * 0.99, y=y.numpy())
    code, findings = verified(run, "--data", str(tmp_path / "other.npz"))
    assert (code, failed(findings)) == (4, {"data"})


def test_unfinished_run(tmp_path: Path, verified: Verify) -> None:
    run = begin(small_subject(), tmp_path / "run")
    abandon(run)
    code, findings = verified(tmp_path / "run")
    assert code == 0
    assert findings["files"]["holds"] is None
    assert "under way, or was killed" in findings["files"]["detail"]


@pytest.mark.parametrize("name", [None, "absent"])
def test_what_is_no_run(tmp_path: Path, verified: Verify, name: str | None) -> None:
    code, findings = verified(tmp_path / name if name else tmp_path)
    assert code == 2
    assert "no manifest.json" in findings["message"]


# Somebody has changed a file


@pytest.mark.parametrize("name", [name for name in FILES if name != "manifest.json"])
def test_deleted_file_is_named(run: Path, verified: Verify, name: str) -> None:
    (run / name).unlink()
    code, findings = verified(run)
    assert code == 4
    assert any(name in check for check in failed(findings))


@pytest.mark.parametrize("name", [name for name in FILES if name != "manifest.json"])
def test_emptied_file_is_named(run: Path, verified: Verify, name: str) -> None:
    (run / name).write_bytes(b"")
    code, findings = verified(run)
    assert code == 4
    assert any(name in check for check in failed(findings))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("where", [0.0, 0.1, 0.33, 0.5, 0.8, 0.99])
def test_changed_byte_is_found(run: Path, verified: Verify, name: str, where: float) -> None:
    """Wherever it is: in a header, in a value, in what no reader looks at."""
    content = bytearray((run / name).read_bytes())
    place = int(where * (len(content) - 1))
    content[place] ^= 0b100
    (run / name).write_bytes(content)
    code, findings = verified(run)
    assert code == 4
    assert any(name in check for check in failed(findings))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m | {"seed": 1},
        lambda m: m | {"notes": ["nothing to see"]},
        lambda m: m | {"threat": m["threat"] | {"eps": 0.5, "eps_text": "0.5"}},
        lambda m: m | {"files": {}},
        lambda m: m | {"digest": "0" * 64},
        lambda m: {key: value for key, value in m.items() if key != "environment"},
    ],
    ids=["seed", "notes", "eps", "files", "digest", "environment"],
)
def test_changed_manifest_is_named(run: Path, verified: Verify, change: Callable[[dict[str, Any]], Any]) -> None:
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    (run / "manifest.json").write_text(json.dumps(change(manifest)), "utf-8")
    code, findings = verified(run)
    assert code == 4
    assert any("manifest.json" in check for check in failed(findings))


def test_any_key_renamed_in_the_manifest_is_named(run: Path, verified: Verify) -> None:
    """As one changed byte does: none may break a check instead of failing it."""
    text = (run / "manifest.json").read_text("utf-8")
    for key in sorted(set(re.findall(r'"(\w+)":', text)) - {"format"}):
        (run / "manifest.json").write_text(text.replace(f'"{key}":', f'"{key}_":'), "utf-8")
        code, findings = verified(run)
        assert code == 4, key
        assert any("manifest.json" in check for check in failed(findings)), key


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rows SET margin = 'small' WHERE status = 'broken'",
        "UPDATE rows SET status = 'robust' WHERE status = 'broken'",
        "UPDATE rows SET distance = NULL WHERE status = 'broken'",
        "UPDATE rows SET row = row + 1000",
        "UPDATE rows SET place = 999 WHERE status = 'broken'",
        "UPDATE attempts SET stage = stage + 7",
        "UPDATE attempts SET outcome = 'won' WHERE outcome = 'fell'",
        "DROP TABLE attempts",
        "ALTER TABLE rows ADD COLUMN remark TEXT",
        "DELETE FROM rows",
    ],
)
def test_ledger_that_says_what_none_says(run: Path, verified: Verify, statement: str) -> None:
    ledger = sqlite3.connect(run / LEDGER)
    ledger.execute(statement)
    ledger.commit()
    ledger.close()
    code, findings = verified(run)
    assert code == 4
    assert any("ledger.sqlite" in check for check in failed(findings))


def test_result_edited_by_hand(run: Path, verified: Verify) -> None:
    result = json.loads((run / "result.json").read_text("utf-8"))
    result["robust_accuracy"]["count"] += 5
    (run / "result.json").write_text(json.dumps(result), "utf-8")
    code, findings = verified(run)
    assert code == 4
    assert {"result.json", "figures"} <= failed(findings)
    assert findings["figures"]["detail"] == "differ in robust_accuracy"


def test_edited_status_is_found_in_more_than_the_digest(run: Path, verified: Verify) -> None:
    row = rows_by_status(run, "broken")[0]
    edit(run, "UPDATE rows SET status = 'standing' WHERE row = ?", row.row)
    code, findings = verified(run)
    assert code == 4
    assert {"ledger.sqlite", "statuses", "figures"} <= failed(findings)
    assert str(row.row) in findings["statuses"]["detail"]


# Somebody has changed a file, and made all digests anew


@pytest.fixture(params=["files", "model"])
def how(request: pytest.FixtureRequest) -> list[str]:
    return ["--files-only"] if request.param == "files" else []


def test_made_anew_without_a_change_it_verifies(run: Path, verified: Verify) -> None:
    reseal(run)
    assert verified(run)[0] == 0


def test_witness_outside_the_ball(run: Path, verified: Verify, how: list[str]) -> None:
    """It is misclassified all right: it lies at 1.5 eps."""
    row = rows_by_status(run, "broken")[0]
    x, x_adv = (np.load(run / name)[row.place] for name in ("originals.npy", "witnesses.npy"))
    digest = overwrite(run / "witnesses.npy", row.place, (x + 1.5 * (x_adv - x)).clip(0, 1))
    edit(run, "UPDATE rows SET witness_digest = ? WHERE row = ?", digest, row.row)
    reseal(run)
    code, findings = verified(run, *how)
    assert code == 4
    assert "witnesses in the threat model" in failed(findings)
    assert str(row.row) in findings["witnesses in the threat model"]["detail"]


def test_witness_outside_the_box(run: Path, verified: Verify, how: list[str]) -> None:
    row = rows_by_status(run, "broken")[0]
    x_adv = np.load(run / "witnesses.npy")[row.place]
    x_adv[0, 0, 0] = -1e-3
    digest = overwrite(run / "witnesses.npy", row.place, x_adv)
    edit(run, "UPDATE rows SET witness_digest = ? WHERE row = ?", digest, row.row)
    reseal(run)
    assert "witnesses in the threat model" in failed(verified(run, *how)[1])


def fake_broken_row(run: Path) -> RowRecord:
    """A row that stands is said to have fallen, to its own clean input."""
    row = rows_by_status(run, "standing")[0]
    x = small_net.rows()[0].numpy()[row.row]
    overwrite(run / "originals.npy", row.place, x)
    digest = overwrite(run / "witnesses.npy", row.place, x)
    edit(
        run,
        "UPDATE rows SET status = 'broken', stage = 0, attempt = 0, prediction = ?, margin = -1.0, distance = 0.0, "
        "witness_digest = ?, confirmed = 1 WHERE row = ?",
        (row.label + 1) % 4,
        digest,
        row.row,
    )
    edit(run, "UPDATE attempts SET outcome = 'fell' WHERE row = ? AND stage = 0 AND attempt = 0", row.row)
    reseal(run)
    return row


def test_witness_that_is_none(run: Path, verified: Verify) -> None:
    row = fake_broken_row(run)
    code, findings = verified(run)
    assert code == 4
    assert "witnesses by the model" in failed(findings)
    assert str(row.row) in findings["witnesses by the model"]["detail"]


def copy_attempts(run: Path, row: RowRecord) -> None:
    """Give a row the attempts of one that stands, and every account the passes of these."""
    model = next(other for other in rows_by_status(run, "standing") if other.row != row.row)
    edit(
        run,
        "INSERT INTO attempts SELECT ?, stage, attempt, turn, outcome, best_margin, forwards, backwards, reason "
        "FROM attempts WHERE row = ?",
        row.row,
        model.row,
    )
    edit(run, "UPDATE rows SET forwards = ?, backwards = ? WHERE row = ?", model.forwards, model.backwards, row.row)
    edit(run, "UPDATE sessions SET forwards = forwards + ?, backwards = backwards + ?", model.forwards, model.backwards)


def test_misclassified_row_said_to_stand(run: Path, verified: Verify) -> None:
    row = rows_by_status(run, "misclassified")[0]
    edit(
        run, "UPDATE rows SET clean_margin = 1.0, clean_prediction = label, status = 'standing' WHERE row = ?", row.row
    )
    copy_attempts(run, row)
    reseal(run)
    code, findings = verified(run)
    assert (code, failed(findings)) == (4, {"clean decisions by the model"})


def test_relabelled_row(run: Path, verified: Verify, how: list[str]) -> None:
    """A row that was wrong is given the label that the model gives it: the digests of the rows no longer add up."""
    row = rows_by_status(run, "misclassified")[0]
    digest = row_digest(small_net.rows()[0].numpy()[row.row], row.clean_prediction or 0)
    edit(
        run,
        "UPDATE rows SET label = clean_prediction, clean_margin = 1.0, status = 'standing', digest = ? WHERE row = ?",
        digest,
        row.row,
    )
    copy_attempts(run, row)
    reseal(run)
    assert verified(run, *how)[0] == 4


def test_clean_input_moved_to_the_witness(run: Path, verified: Verify, how: list[str]) -> None:
    """The row's clean input is said to be another, near an error, so that any point lies within eps of it."""
    row = rows_by_status(run, "broken")[0]
    moved = np.load(run / "witnesses.npy")[row.place]
    overwrite(run / "originals.npy", row.place, moved)
    edit(run, "UPDATE rows SET digest = ?, distance = 0.0 WHERE row = ?", row_digest(moved, row.label), row.row)
    reseal(run)
    assert verified(run, *how)[0] == 4


@pytest.mark.parametrize("column", ["distance", "input_size"])
def test_flattered_perturbation_size(run: Path, verified: Verify, how: list[str], column: str) -> None:
    """The sizes in the ledger are those of the points beside it."""
    edit(run, f"UPDATE rows SET {column} = {column} * 3 WHERE status = 'broken'")
    reseal(run)
    assert verified(run, *how)[0] == 4


def test_broken_row_said_to_be_certified(run: Path, verified: Verify, how: list[str]) -> None:
    """Nothing certifies yet, so that nothing can be certified."""
    row = rows_by_status(run, "broken")[0]
    edit(
        run,
        "UPDATE rows SET status = 'certified', stage = NULL, attempt = NULL, prediction = NULL, margin = NULL, "
        "distance = NULL, witness_digest = NULL, confirmed = 0 WHERE row = ?",
        row.row,
    )
    reseal(run)
    code, findings = verified(run, *how)
    assert code == 4
    assert "statuses" in failed(findings)


def test_broken_row_left_out(run: Path, verified: Verify, how: list[str]) -> None:
    row = rows_by_status(run, "broken")[0]
    edit(run, "DELETE FROM attempts WHERE row = ?", row.row)
    edit(run, "DELETE FROM rows WHERE row = ?", row.row)
    manifest = read_manifest(run)
    write_manifest(run, manifest.model_copy(update={"data": {**manifest.data, "rows": 59}}))
    reseal(run)
    assert verified(run, *how)[0] == 4


def test_passes_left_out(run: Path, verified: Verify, how: list[str]) -> None:
    edit(run, "UPDATE rows SET forwards = forwards - 1 WHERE status = 'standing'")
    reseal(run)
    code, findings = verified(run, *how)
    assert code == 4
    assert "passes" in failed(findings)


def test_attempts_left_out(run: Path, verified: Verify, how: list[str]) -> None:
    """A row that did not get the whole suite does not stand."""
    row = rows_by_status(run, "standing")[0]
    edit(run, "DELETE FROM attempts WHERE row = ? AND stage = 1", row.row)
    ledger = Ledger.open(run / LEDGER)
    left = [attempt for attempt in ledger.attempts() if attempt.row == row.row]
    ledger.release()
    forwards, backwards = sum(a.forwards for a in left), sum(a.backwards for a in left)
    edit(run, "UPDATE rows SET forwards = ?, backwards = ? WHERE row = ?", forwards, backwards, row.row)
    reseal(run)
    code, findings = verified(run, *how)
    assert code == 4
    assert "schedule" in failed(findings)


@pytest.mark.parametrize("digest", ["old", "new"])
def test_stronger_suite_claimed_than_was_run(run: Path, verified: Verify, how: list[str], digest: str) -> None:
    """PGD of 5 steps is said to have been PGD of 500: its attempts cost too little for that."""
    manifest = read_manifest(run)
    first, *rest = manifest.suite["attacks"]
    table = {**manifest.suite, "attacks": [{**first, "steps": 500}, *rest]}
    if digest == "new":
        own = {key: value for key, value in table.items() if key != "digest"}
        table["digest"] = suite_from(own, "tests").digest()
    write_manifest(run, manifest.model_copy(update={"suite": table}))
    reseal(run)
    assert verified(run, *how)[0] == 4


def test_spec_that_is_not_that_of_the_run(run: Path, verified: Verify, how: list[str]) -> None:
    path = run / "spec.toml"
    path.write_text(path.read_text("utf-8").replace('eps = "0.06"', 'eps = "0.6"'), "utf-8")
    reseal(run)
    code, findings = verified(run, *how)
    assert code == 4
    assert any("spec.toml" in check for check in failed(findings))


@pytest.mark.parametrize("name", ["rows.parquet", "attempts.parquet"])
def test_table_that_is_not_that_of_the_ledger(run: Path, verified: Verify, how: list[str], name: str) -> None:
    table = pq.read_table(run / name)
    pq.write_table(table.slice(1), run / name)
    manifest = read_manifest(run)
    digest = hashlib.sha256((run / name).read_bytes()).hexdigest()
    write_manifest(run, manifest.model_copy(update={"files": {**manifest.files, name: digest}}))
    code, findings = verified(run, *how)
    assert code == 4
    assert any(name in check for check in failed(findings))


def test_file_that_is_no_longer_sealed(run: Path, verified: Verify) -> None:
    """Whoever drops a file's digest from the manifest drops the file."""
    manifest = read_manifest(run)
    files = {name: digest for name, digest in manifest.files.items() if name != "originals.npy"}
    write_manifest(run, manifest.model_copy(update={"files": files}))
    code, findings = verified(run)
    assert code == 4
    assert "originals.npy" in failed(findings)
