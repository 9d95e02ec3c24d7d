"""The Python interface: evaluate a model on arrays at hand, and read what came of it."""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from brinell.certify.steps import Step
from brinell.claim import threat_of
from brinell.errors import BadInput
from brinell.finishing import finish
from brinell.frequencies import Frequency, RandomisedFigures
from brinell.handed import sought, subject_of
from brinell.metrics import Figures, PerturbationSize, Proportion
from brinell.models.outputs import Outputs
from brinell.opening import begin
from brinell.opening import resume as resumed
from brinell.points import WITNESSES
from brinell.records import RowRecord
from brinell.result import Reading, read_run
from brinell.rows import Layout
from brinell.run import Run
from brinell.suites.suite import DEFAULT, Suite, suite_of
from brinell.tally import Observer, ignore
from brinell.threat import Threat


class Result:
    """What came of a run: its figures, its record and its witnesses, read from its folder."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._forget: weakref.finalize[[Path], Result] | None = None

    @classmethod
    def fleeting(cls, reading: Reading) -> Self:
        """A result whose folder is removed with it."""
        result = cls(reading)
        result._forget = weakref.finalize(result, _remove, reading.folder)
        return result

    @property
    def reading(self) -> Reading:
        """All that the run's folder says."""
        return self._reading

    @property
    def folder(self) -> Path:
        """Where the run's files are; temporary unless ``out`` was given."""
        return self._reading.folder

    @property
    def figures(self) -> Figures:
        """All figures."""
        return self._reading.figures

    @property
    def clean_accuracy(self) -> Proportion | Frequency:
        """Rows correct before any attack, over all rows; how often a randomised model is right on them."""
        return self._reading.clean_accuracy

    @property
    def robust_accuracy(self) -> Proportion | Frequency:
        """Rows that stand, over all rows: an upper bound of the truth. Of a randomised model, the expected one."""
        return self._reading.robust_accuracy

    @property
    def attack_success_rate(self) -> Proportion:
        """Broken rows, over the initially correct rows."""
        return self.figures.attack_success_rate

    @property
    def randomised(self) -> RandomisedFigures | None:
        """How often a randomised model is right: expected, against a persistent attacker, by majority. None for the others."""
        return self._reading.randomised

    @property
    def false_rejections(self) -> Proportion | None:
        """Clean rows that are rejected, over all rows; they count as misclassified. None for a model that cannot reject."""
        return self._reading.false_rejections

    @property
    def perturbation(self) -> PerturbationSize:
        """Sizes of the witnesses, over the broken rows."""
        return self.figures.perturbation

    @property
    def rows(self) -> tuple[RowRecord, ...]:
        """The record of every row, in the order of the selection."""
        return self._reading.rows

    @property
    def claim(self) -> str:
        """The robust accuracy in one line with all its conditions."""
        return self._reading.claim.line()

    def witness(self, row: int) -> NDArray[Any] | None:
        """The point on which the model errs for the row with that index in the data set; None where there is none."""
        for record in self.rows:
            if record.row == row and record.status == "broken":
                points: NDArray[Any] = np.load(self.folder / WITNESSES, mmap_mode="r")
                return np.array(points[record.place])
        return None

    def save(self, folder: str | Path) -> Self:
        """Copy the run's folder, so that it stays; the result then reads from there.

        Raises
        ------
        BadInput
            If the folder holds something already.
        """
        target = Path(folder)
        if target.is_file() or (target.exists() and any(target.iterdir())):
            raise BadInput(f"folder {target}", got="files", expected="a new folder", remedy="Name another.")
        shutil.copytree(self.folder, target, dirs_exist_ok=True)
        self._reading = read_run(target)
        if self._forget is not None:
            self._forget()
        return self

    def __repr__(self) -> str:
        return self.claim


def evaluate(
    model: nn.Module,
    x: object,
    y: object,
    *,
    threat: Threat,
    suite: str | Suite = DEFAULT,
    seed: int = 0,
    outputs: Outputs = "logits",
    rows: str = "all",
    layout: Layout = "as-is",
    batch_size: int | None = None,
    budget: str | None = None,
    surrogate: nn.Module | None = None,
    certify: Step | None = None,
    certify_seconds: float = 20.0,
    out: str | Path | None = None,
    observer: Observer = ignore,
) -> Result:
    """Attack a classifier on given rows and return the figures with their record.

    Parameters
    ----------
    model
        Maps ``(row, *feature)`` in input units to one score per class; in evaluation mode.
    x, y
        Inputs inside the threat model's box, and true classes (or one-hot rows); arrays or tensors.
    threat
        The threat model, for example ``Threat("linf", eps="8/255")``.
    suite
        Name of a suite or an attack, a suite file, or a ``Suite``.
    seed
        Of all random numbers in the attacks.
    outputs
        What the model returns: ``logits``, ``probabilities``, ``binary-logit``, or ``logits-and-reject`` where its last
        column is the score of a rejection. A ``Pipeline`` says it itself.
    rows
        Which of the rows: ``all``, ``0:1000``, ``3,17,5:9``.
    layout
        ``channels-last`` turns inputs (row, height, width, channel) before the model sees them.
    batch_size
        Rows in a batch; measured where it is not given.
    budget
        What may be spent: passes for each row (``500/row``), passes in all (``2M``), or time (``30min``). Where it runs
        out the figure is that of the rows as they stand then; rows that no attack has got to are pending.
    surrogate
        Another model of these rows and classes, on which points are made that are proposed to this one. A ``Pipeline`` has
        its own classifier alone, where none is given.
    certify
        Seek a certificate for each row before the attacks, up to this step (``interval``, ``crown``, ``slopes``, ``layers``,
        ``cells``, ``branch``); rows that are settled get no attack.
    certify_seconds
        About how long a row's certificate may take.
    out
        Folder of the run, new or empty; temporary where it is not given. A folder that holds a run that was cut
        off is gone on with by ``resume``.
    observer
        Called after every batch with how far the run has got.

    Raises
    ------
    BadInput
        If anything that was given would make the number wrong; nothing has been attacked then.
    ModelFailed
        If the model raises on every row of a batch.
    """
    subject = subject_of(
        model, x, y, threat=threat, suite=suite, seed=seed, outputs=outputs, rows=rows, layout=layout, size=batch_size,
        budget=budget, surrogate=surrogate, certify=sought(certify, certify_seconds),
    )  # fmt: skip
    return evaluated_into(out, partial(begin, subject), observer=observer)


def evaluated_into(
    out: str | Path | None,
    begun: Callable[[Path], Run],
    concluded: Callable[[Reading], Reading] = lambda reading: reading,
    *,
    observer: Observer = ignore,
) -> Result:
    """The result of a run that is begun in a folder and carried to its end; the folder is fleeting if ``out`` is None."""
    if out is not None:
        return Result(concluded(finish(begun(Path(out)), observer)))
    folder = Path(tempfile.mkdtemp(prefix="brinell-"))
    try:
        return Result.fleeting(concluded(finish(begun(folder), observer)))
    except BaseException:
        _remove(folder)
        raise


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def resume(
    folder: str | Path,
    model: nn.Module,
    x: object,
    y: object,
    *,
    surrogate: nn.Module | None = None,
    observer: Observer = ignore,
) -> Result:
    """Go on with a run that was cut off, with the model and the data that it was begun with; one that had ended is left.

    Raises
    ------
    BadInput
        If the folder holds no run, or model or data are others.
    """
    before = read_run(Path(folder))
    manifest = before.manifest
    if manifest.state == "complete":
        return Result(before)
    subject = subject_of(
        model,
        x,
        y,
        threat=threat_of(manifest),
        suite=suite_of(manifest.suite),
        seed=manifest.seed,
        outputs=manifest.model["outputs"],
        rows=manifest.data["selection"],
        layout=manifest.data["layout"],
        size=manifest.batch_size,
        budget=manifest.budget,
        surrogate=surrogate,
        certify=None if manifest.certified is None else manifest.certified.first,
    )
    return Result(finish(resumed(subject, Path(folder)), observer))


def open_run(folder: str | Path) -> Result:
    """The result in a run's folder.

    Raises
    ------
    BadInput
        If it is not the folder of a run.
    """
    return Result(read_run(Path(folder)))
