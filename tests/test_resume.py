"""A run may end at any moment. What it had found stands, and what it comes to does not depend on where it was cut."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

import small_net
from brinell import Threat
from brinell.cli import main
from brinell.errors import BadInput
from brinell.evaluation import Result, open_run, resume
from brinell.finishing import finish
from brinell.manifest import read_manifest
from brinell.opening import begin
from brinell.opening import resume as reopened
from brinell.recording import Recording
from brinell.records import RowRecord
from brinell.suites.suite import load_suite
from brinell.verify import verify_files
from small_runs import (
    NET,
    abandon,
    fates,
    quiet_environment,
    small_options,
    small_result,
    small_run,
    small_subject,
    suite_file,
)

KILLS = 10

# imports what costs seconds once, then becomes a new `brinell` for each line on stdin
FORKING = """
import json, os, sys
from pathlib import Path
import brinell.assemble, brinell.evaluation, brinell.plan, brinell.report.show, pyarrow.parquet, torch
from brinell.cli import main
torch.set_num_threads(1)
print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        if order["lives"] is not None:
            replace = Path.replace
            def put(path, target):
                order["lives"] -= 1
                if order["lives"] < 0:
                    os._exit(99)
                return replace(path, target)
            Path.replace = put
        code = main(order["arguments"])
        sys.stdout.flush()
        os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Processes:
    """Starts the command in processes that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mother = subprocess.Popen(
            [sys.executable, "-c", FORKING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=quiet_environment(),
            text=True,
        )
        assert self._said() == "ready"

    def _said(self) -> str:
        assert self.mother.stdout is not None
        return self.mother.stdout.readline().strip()

    def start(self, *arguments: str, lives: int | None = None) -> int:
        """Begin ``brinell`` with some arguments; it may die when it puts a further file in its place. Its number."""
        assert self.mother.stdin is not None
        streams = {name: str(self.folder / name) for name in ("out", "err")}
        order = {"arguments": arguments, "lives": lives, **streams}
        self.mother.stdin.write(json.dumps(order) + "\n")
        self.mother.stdin.flush()
        return int(self._said())

    def ended(self) -> int:
        """Wait for its end; its exit code, negative for the signal that killed it."""
        return int(self._said())

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text("utf-8")

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text("utf-8")

    def close(self) -> None:
        assert self.mother.stdin is not None
        assert self.mother.stdout is not None
        self.mother.stdin.close()
        self.mother.wait(30)
        self.mother.stdout.close()


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    opened = Processes(tmp_path_factory.mktemp("processes"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return small_result(tmp_path_factory.mktemp("uninterrupted") / "run", batch_size=16)


def witnesses(folder: Path) -> dict[int, np.ndarray]:
    result = open_run(folder)
    points = np.load(folder / "witnesses.npy")
    return {row.row: points[row.place] for row in result.rows if row.status == "broken"}


def assert_same_end(folder: Path, wanted: Result) -> None:
    """Every row's fate, every attempt, every witness and every figure, but for passes that were made twice."""
    result = open_run(folder)
    assert result.figures.complete
    assert fates(result.rows) == fates(wanted.rows)
    for ours, theirs in zip(result.reading.attempts, wanted.reading.attempts, strict=True):
        assert replace(ours, best_margin=None) == replace(theirs, best_margin=None)
        assert ours.best_margin == pytest.approx(theirs.best_margin, abs=1e-9)  # batches of other sizes round otherwise
    points = witnesses(folder)
    for row, point in witnesses(wanted.folder).items():
        np.testing.assert_allclose(points.pop(row), point, rtol=0, atol=1e-12)
    assert not points
    assert str(result.robust_accuracy) == str(wanted.robust_accuracy)
    assert str(result.perturbation) == str(wanted.perturbation)
    own, other = result.figures.passes, wanted.figures.passes
    assert (own.attack_forwards, own.attack_backwards) == (other.attack_forwards, other.attack_backwards)
    assert own.clean_forwards >= other.clean_forwards
    assert [finding for finding in verify_files(folder) if not finding.holds] == []


# Killed for good


def test_kill_at_random_moments(tmp_path: Path, processes: Processes, uninterrupted: Result) -> None:
    """kill −9 in a loop: each process gets a little further, and the last one ends where one that was let alone ends."""
    options = [*small_options(suite_file(tmp_path)), "--quiet"]
    start = time.perf_counter()
    processes.start("run", *options, "--out", str(tmp_path / "whole"))
    assert processes.ended() == 0
    whole = min(time.perf_counter() - start, 1.0)  # on a machine that was busy just then
    assert_same_end(tmp_path / "whole", uninterrupted)

    folder, random = tmp_path / "run", Random(11)
    killed = 0
    for _ in range(100):
        if (folder / "manifest.json").exists():
            child = processes.start("run", "--resume", str(folder), "--quiet")
        else:  # nothing had been begun
            shutil.rmtree(folder, ignore_errors=True)
            child = processes.start("run", *options, "--out", str(folder))
        if killed < KILLS:
            time.sleep(random.uniform(0, 0.7 * whole))
            with suppress(ProcessLookupError):  # it was quicker
                os.kill(child, signal.SIGKILL)
        code = processes.ended()
        if code == 0 and killed < KILLS:  # quicker than the kill: once more from the start
            assert_same_end(folder, uninterrupted)
            shutil.rmtree(folder)
        elif code == 0:
            break
        assert code in (0, -signal.SIGKILL), processes.err
        killed += code != 0
    assert killed == KILLS
    assert_same_end(folder, uninterrupted)
    assert not list(folder.glob("*.partial"))


def test_death_before_any_file_is_in_its_place(tmp_path: Path, processes: Processes, uninterrupted: Result) -> None:
    """One after the other: before the first file, before the second, and so on until nothing is left to die of."""
    options = [*small_options(suite_file(tmp_path)), "--quiet"]
    for lives in range(100):
        folder = tmp_path / str(lives)
        processes.start("run", *options, "--out", str(folder), lives=lives)
        code = processes.ended()
        if code == 0:
            break
        assert code == 99, processes.err
        if (folder / "manifest.json").exists():
            assert [finding for finding in verify_files(folder) if finding.holds is False] == []
            processes.start("run", "--resume", str(folder), "--quiet")
        else:  # nothing had been begun
            shutil.rmtree(folder, ignore_errors=True)
            processes.start("run", *options, "--out", str(folder))
        assert processes.ended() == 0
        assert_same_end(folder, uninterrupted)
    assert lives > 8  # spec, manifest, three files of points; two tables, result, manifest again
    assert_same_end(folder, uninterrupted)


# Cut at every step, in this process


class Cut(BaseException):
    """The moment of the kill."""


@contextmanager
def cut_after(count: int, *, committed: bool) -> Iterator[None]:
    """The process ends at the ``count``-th batch: just before it is recorded, or just after."""
    record, seen = Recording.record, 0

    def recording(self: Recording, assignment: Any, step: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == count and not committed:
            raise Cut
        record(self, assignment, step)
        if seen == count:
            raise Cut

    Recording.record = recording  # type: ignore[method-assign]
    try:
        yield
    finally:
        Recording.record = record  # type: ignore[method-assign]


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("every", [19, 26])
def test_cut_before_or_after_any_record(tmp_path: Path, uninterrupted: Result, every: int, committed: bool) -> None:
    """Over and over, after so many batches that the attempts of one group of rows can end (18 at most)."""
    run = begin(small_subject(), tmp_path / "run")
    cuts = 0
    while True:
        try:
            with cut_after(every, committed=committed):
                assert run.go()
            break
        except Cut:
            abandon(run)
            cuts += 1
            assert cuts < 500
            run = reopened(small_subject(), tmp_path / "run")
    finish(run)
    assert cuts >= 2
    assert_same_end(tmp_path / "run", uninterrupted)


def test_ledger_is_written_ahead_also_after_a_resume(tmp_path: Path) -> None:
    """A run that was stopped in order is one file; when it goes on, readers must not be locked out."""
    run = begin(small_subject(), tmp_path / "run")
    assert run.ledger._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    finish(run, stop=lambda: True)
    run = reopened(small_subject(), tmp_path / "run")
    assert run.ledger._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    with run.ledger.transaction():
        run.ledger.update_row(0, unconfirmed=0)
        assert len(open_run(tmp_path / "run").rows) == 60  # while it is being written
    abandon(run)


# Stopped by an exception, then gone on with in Python


def stopped_by(after: int) -> Any:
    seen = 0

    def observer(moment: object) -> None:
        nonlocal seen
        seen += 1
        if seen > after:
            raise KeyboardInterrupt

    return observer


def test_interrupt_in_python_keeps_what_was_found(tmp_path: Path, uninterrupted: Result) -> None:
    with pytest.raises(KeyboardInterrupt):
        small_result(tmp_path / "run", batch_size=16, observer=stopped_by(12))
    partial = open_run(tmp_path / "run")
    status = partial.figures.status
    assert not partial.figures.complete
    assert status["pending"] > 0
    assert sum(status.values()) == 60
    assert partial.robust_accuracy.value is None
    low, high = partial.robust_accuracy.bounds
    assert low <= uninterrupted.robust_accuracy.value <= high
    assert f"run incomplete, {status['pending']} rows pending" in partial.claim
    assert "at most" not in partial.claim
    assert [finding for finding in verify_files(tmp_path / "run") if finding.holds is False] == []
    x, y = small_net.rows()
    result = resume(tmp_path / "run", small_net.load(), x, y)
    assert_same_end(tmp_path / "run", uninterrupted)
    assert result.reading.manifest.state == "complete"
    assert len(result.reading.sessions) == 2


def test_channels_last_is_remembered(tmp_path: Path) -> None:
    """The same arrays that the run was begun with go on with it."""
    x, y = small_net.rows()
    x = x.permute(0, 2, 3, 1)
    with pytest.raises(KeyboardInterrupt):
        small_result(tmp_path / "run", x=x, layout="channels-last", observer=stopped_by(3))
    assert resume(tmp_path / "run", small_net.load(), x, y).figures.complete


def test_exception_in_the_middle_seals_the_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        small_result(tmp_path / "run", observer=stopped_by(2))
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    assert manifest["state"] == "interrupted"
    assert "ledger.sqlite" in manifest["files"]


# Only with what it was begun with


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    with pytest.raises(KeyboardInterrupt):
        small_result(tmp_path / "run", suite="fgsm", observer=stopped_by(0))
    return tmp_path / "run"


def test_resume_with_another_model_is_refused(cut: Path) -> None:
    before = {path.name: path.read_bytes() for path in cut.iterdir()}
    x, y = small_net.rows()
    with pytest.raises(BadInput, match="model fingerprint of run"):
        resume(cut, small_net.other(), x, y)
    assert {path.name: path.read_bytes() for path in cut.iterdir()} == before


class Centred(nn.Module):
    """``small_net`` behind a normalisation whose numbers are not kept with the weights."""

    def __init__(self, mean: float) -> None:
        super().__init__()
        self.inner = small_net.load()
        self.register_buffer("mean", small_net.rows()[0].new_tensor(mean), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x - self.mean)


def test_fingerprint_covers_buffers_that_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        small_result(tmp_path / "run", model=Centred(0.01).eval(), suite="fgsm", observer=stopped_by(0))
    x, y = small_net.rows()
    with pytest.raises(BadInput, match="model fingerprint"):
        resume(tmp_path / "run", Centred(0.02).eval(), x, y)


def test_resume_with_other_rows_is_refused(cut: Path) -> None:
    x, y = small_net.rows()
    moved = x.clone()
    moved[31, 0, 2, 2] += 1e-9
    for other_x, other_y in ((moved, y), (x, (y + 1) % 4), (x.float(), y)):
        with pytest.raises(BadInput, match="rows of run"):
            resume(cut, small_net.load(), other_x, other_y)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("seed", 1, "seed"),
        ("threat", Threat("linf", 0.061), "threat model"),
        ("threat", Threat("l2", 0.06), "threat model"),
        ("suite", "pgd", "suite"),
    ],
)
def test_resume_under_other_conditions_is_refused(cut: Path, key: str, value: Any, message: str) -> None:
    begun = replace(small_subject(), suite=load_suite("fgsm"))
    changed = replace(begun, **{key: load_suite(value) if key == "suite" else value})
    with pytest.raises(BadInput, match=f"{message} of run"):
        reopened(changed, cut)
    run = reopened(begun, cut)
    assert finish(run).figures.complete


def test_resume_of_what_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--resume", str(tmp_path)]) == 2
    assert "no manifest.json" in capsys.readouterr().err


def test_resume_of_a_run_made_in_python_is_refused_by_the_command(
    cut: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--resume", str(cut)]) == 2
    assert "objects in Python" in capsys.readouterr().err


def test_two_processes_do_not_work_on_one_run(tmp_path: Path) -> None:
    run = begin(small_subject(), tmp_path / "run")
    with pytest.raises(BadInput, match="another process"):
        reopened(small_subject(), tmp_path / "run")
    assert finish(run).figures.complete  # and the first one is none the worse for it


def test_resume_of_a_complete_run_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not a byte: its digest may have been quoted."""
    folder = small_run(tmp_path)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    x, y = small_net.rows()
    assert resume(folder, small_net.load(), x, y).figures.complete
    capsys.readouterr()
    assert main(["run", "--resume", str(folder)]) == 0
    assert "robust accuracy" in capsys.readouterr().out
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(after) == sorted(before)
    assert [name for name in before if before[name] != after[name]] == []


@pytest.mark.parametrize("how", ["python", "command"])
def test_run_killed_before_it_was_sealed_is_sealed_by_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """The last attack had ended and the manifest said so; the tables were not written yet."""
    import brinell.finishing

    def cut(*arguments: object) -> None:
        raise Cut

    monkeypatch.setattr(brinell.finishing, "conclude", cut)
    with pytest.raises(Cut):
        small_run(tmp_path)
    monkeypatch.undo()
    folder = tmp_path / "run"
    assert not (folder / "result.json").exists()
    assert [finding for finding in verify_files(folder) if finding.holds is False] == []  # nobody has changed anything
    capsys.readouterr()
    assert main(["report", str(folder)]) in (0, 3)
    told = capsys.readouterr().out
    assert "digest none yet" in told
    assert read_manifest(folder).digest not in told
    if how == "python":
        x, y = small_net.rows()
        resume(folder, small_net.load(), x, y)
    else:
        assert main(["run", "--resume", str(folder), "--quiet"]) == 0
    assert [finding for finding in verify_files(folder) if not finding.holds] == []


# Stopped by Ctrl-C


HELD = f"""
import sys, time
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
import small_net
from torch import nn

class Held(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = small_net.load()
        self.calls = 0

    def forward(self, x):
        self.calls += any(Path(__file__).parent.glob("*/manifest.json"))  # once the checks are over
        if self.calls == 14:  # in the middle of the first attempt: after four batches of clean rows
            Path(__file__).with_name("held").touch()
            while not Path(__file__).with_name("go").exists():
                time.sleep(0.002)
        return self.inner(x)

def load():
    return Held().eval()
"""


class HeldRun:
    """A run that stops in the middle of a batch until it is told to go on."""

    def __init__(self, folder: Path, processes: Processes, *options: str) -> None:
        self.folder = folder
        self.processes = processes
        (folder / "held.py").write_text(HELD, "utf-8")
        arguments = small_options(suite_file(folder))
        arguments[arguments.index(NET)] = f"{folder / 'held.py'}:load"
        # too long for a line of most terminals
        self.run = folder / ("a-long-name-for-a-folder-that-a-message-broken-into-lines-would-break-" * 2)
        self.child = processes.start("run", *arguments, "--out", str(self.run), *options)
        self.wait_until(lambda: (folder / "held").exists())

    def wait_until(self, so: Callable[[], bool]) -> None:
        for _ in range(5000):
            if so():
                return
            time.sleep(0.005)
        raise AssertionError(self.processes.err)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.child, number)

    def let_go(self) -> None:
        (self.folder / "go").touch()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt(tmp_path: Path, processes: Processes, uninterrupted: Result, number: signal.Signals) -> None:
    """Exit code 3, how to go on, and what has been found is in the ledger."""
    held = HeldRun(tmp_path, processes, "--json")
    held.signal(number)
    held.wait_until(lambda: "Stopping after this batch" in processes.err)
    held.let_go()
    assert processes.ended() == 3
    assert f"brinell run --resume {held.run}" in processes.err
    said = json.loads(processes.out)
    figure = said["robust_accuracy"]
    assert not said["complete"]
    assert figure["value"] is figure["count"] is figure["interval"] is None
    assert figure["at_least"] <= uninterrupted.robust_accuracy.count <= figure["at_most"]
    assert 0 < said["status"]["pending"] < 60
    partial = open_run(held.run)
    broken = [fate for fate in fates(partial.rows) if fate[1] == "broken"]
    assert broken
    assert len(broken) == sum(row.stage is not None for row in partial.rows)  # the referee has seen all that fell
    assert set(broken) <= set(fates(uninterrupted.rows))
    assert partial.reading.manifest.state == "interrupted"
    processes.start("report", str(held.run))
    assert processes.ended() == 3
    assert "undecided" in processes.out
    processes.start("verify", str(held.run))
    assert processes.ended() == 0
    processes.start("run", "--resume", str(held.run), "--quiet")
    assert processes.ended() == 0
    assert_same_end(held.run, uninterrupted)


def test_second_interrupt_kills_and_loses_no_more_than_a_kill(
    tmp_path: Path, processes: Processes, uninterrupted: Result
) -> None:
    held = HeldRun(tmp_path, processes)
    held.signal(signal.SIGINT)
    held.wait_until(lambda: "Stopping after this batch" in processes.err)
    held.signal(signal.SIGINT)
    assert processes.ended() == 130
    held.let_go()
    processes.start("run", "--resume", str(held.run), "--quiet")
    assert processes.ended() == 0
    assert_same_end(held.run, uninterrupted)


def test_kill_leaves_what_was_found(tmp_path: Path, processes: Processes, uninterrupted: Result) -> None:
    """A reader sees it, and it verifies as far as it goes; before that, while the run goes on, too."""
    held = HeldRun(tmp_path, processes)
    under_way = fates(open_run(held.run).rows)
    held.signal(signal.SIGKILL)
    assert processes.ended() == -signal.SIGKILL
    killed = open_run(held.run)
    assert fates(killed.rows) == under_way
    assert killed.figures.status["pending"] == 54  # what fell has not been confirmed yet
    found = [row for row in killed.rows if row.stage is not None]
    fallen = {row.row for row in uninterrupted.rows if row.status == "broken"}
    assert found
    assert {row.row for row in found} <= fallen
    assert [finding for finding in verify_files(held.run) if finding.holds is False] == []


def test_resume_by_the_command_with_another_model(tmp_path: Path, processes: Processes) -> None:
    """The file that the spec names has changed since."""
    held = HeldRun(tmp_path, processes, "--quiet")
    held.signal(signal.SIGKILL)
    processes.ended()
    (tmp_path / "held.py").write_text(HELD.replace("small_net.load()", "small_net.other()"), "utf-8")
    processes.start("run", "--resume", str(held.run))
    assert processes.ended() == 2
    assert "model fingerprint of run" in processes.err
    assert processes.out == ""


@pytest.mark.parametrize("options", [["--seed", "1"], ["--out", "elsewhere"], ["spec.toml"]])
def test_resume_takes_no_options(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert main(["run", *options, "--resume", str(tmp_path)]) == 2
    assert "the folder alone" in capsys.readouterr().err


def test_rows_are_written_down_before_the_first_attack(tmp_path: Path) -> None:
    run = begin(small_subject(), tmp_path / "run")
    rows: list[RowRecord] = run.ledger.rows()
    assert [row.status for row in rows] == ["pending"] * 60
    assert open_run(tmp_path / "run").robust_accuracy.bounds == (0.0, 1.0)
    abandon(run)
