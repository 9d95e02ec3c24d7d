"""How a smoothed classifier is certified, row by row, and how that goes on after it was cut off."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from brinell.errors import BadInput, BrinellError
from brinell.fresh import refuse_taken, refuse_unwritable
from brinell.geometry import distance
from brinell.manifest import SPEC, environment, now, replace_text
from brinell.models.torch_model import TorchModel
from brinell.opening import locked
from brinell.oracle import Oracle
from brinell.points import PointFile
from brinell.rows import Rows, row_digest
from brinell.smoothing.attack import NoSlope, SmoothPGD
from brinell.smoothing.folder import (
    POINTS,
    ROWS,
    SmoothReading,
    append_row,
    drop_torn_line,
    read_smoothing,
    seal,
    write_smoothing_manifest,
)
from brinell.smoothing.ready import SAMPLE, ready_for
from brinell.smoothing.record import Attacked, SmoothedRow, SmoothingManifest, judged_of, outcome_of
from brinell.smoothing.setting import Setting
from brinell.smoothing.smoothed import Row, Smoothed, class_of
from brinell.spec import Spec, written
from brinell.threat import Threat

DEFAULT_ATTACK = SmoothPGD()
BATCH_SIZE = 256
"""Noisy copies in a batch where nothing is said."""

Told = Callable[[int, int, int], None]
"""Rows done, of how many, and how many of them were certified."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What is to be certified, and how."""

    model: TorchModel
    """The base classifier f."""
    model_source: str
    rows: Rows
    setting: Setting
    threat: Threat
    """The attack's: L2. An eps of 0 means that g is not attacked."""
    attack: SmoothPGD = DEFAULT_ATTACK
    seed: int = 0
    batch_size: int = BATCH_SIZE
    spec: Spec | None = None

    @property
    def attacks(self) -> bool:
        """Whether g is attacked too."""
        return self.threat.eps > 0


def begin_smoothing(asked: Asked, folder: Path) -> SmoothingManifest:
    """Check everything, then make the folder; no noise has been drawn when this returns.

    Raises
    ------
    BadInput
        If anything would make a certificate wrong, or the folder holds something already or cannot be written in.
    """
    refuse_taken(folder)
    refuse_unwritable(folder)
    ready = ready_for(asked.model, asked.rows, asked.threat, asked.setting)
    model, rows = asked.model, asked.rows
    manifest = SmoothingManifest(
        run=folder.resolve().name,
        state="running",
        started=now(),
        environment=environment(str(model.device), model.precision),
        spec=asked.spec,
        model={
            "source": asked.model_source,
            "fingerprint": model.fingerprint(),
            "classes": ready.classes,
            "outputs": model.outputs,
        },
        data=rows.table(),
        setting=asked.setting,
        attack=asked.attack if asked.attacks else None,
        eps=asked.threat.eps_text if asked.attacks else None,
        low=asked.threat.low,
        high=asked.threat.high,
        seed=asked.seed,
        batch_size=asked.batch_size,
        notes=ready.notes,
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_smoothing_manifest(folder, manifest)
    return manifest


def make(
    asked: Asked, folder: Path, *, told: Told = lambda *_: None, stop: Callable[[], bool] = lambda: False
) -> SmoothReading:
    """Certify the rows that are not done yet, and attack those certified; each is kept as soon as it is done.

    Raises
    ------
    BadInput
        If model, rows, setting or seed are not those that the folder was begun with, or somebody else works on it.
    """
    before = read_smoothing(folder)
    refuse_others(asked, before)
    lock = locked(folder)
    try:
        (folder / ROWS).touch()
        drop_torn_line(folder)
        if before.manifest.spec is not None:
            replace_text(folder / SPEC, written(before.manifest.spec))
        manifest = before.manifest.model_copy(update={"state": "running", "ended": None, "files": {}})
        write_smoothing_manifest(folder, manifest)
        began, done = time.monotonic(), {row.place for row in before.rows}
        certified = sum(row.outcome == "certified" for row in before.rows)
        with asked.model.undisturbed():
            smoothed = smoothed_of(asked.model, asked.rows, manifest)
            for place in range(len(asked.rows)):
                if place in done:
                    continue
                if stop():
                    break
                row = _row(smoothed, asked, folder, place)
                append_row(folder, row)
                done.add(place)
                certified += row.outcome == "certified"
                told(len(done), len(asked.rows), certified)
        state = "complete" if len(done) == len(asked.rows) else "interrupted"
        seconds = manifest.seconds + time.monotonic() - began
        return seal(folder, manifest.model_copy(update={"state": state, "ended": now(), "seconds": seconds}))
    finally:
        lock.release()


def smoothed_of(model: TorchModel, rows: Rows, manifest: SmoothingManifest) -> Smoothed:
    """g as the folder says it is."""
    oracle = Oracle(model, classes=manifest.model["classes"], seed=manifest.seed, batch_size=manifest.batch_size)
    oracle.known = torch.as_tensor(rows.x[:SAMPLE]).to(model.device, model.dtype)
    return Smoothed(oracle, manifest.setting, manifest.seed)


def refuse_others(asked: Asked, reading: SmoothReading) -> None:
    """Refuse to go on with anything but what a folder was begun with.

    Raises
    ------
    BadInput
        Naming the first thing that differs.
    """
    manifest = reading.manifest
    then_and_now = {
        "model fingerprint": (manifest.model["fingerprint"], asked.model.fingerprint()),
        "rows": (manifest.data["digest"], asked.rows.digest()),
        "setting": (manifest.setting, asked.setting),
        "eps": (manifest.eps, asked.threat.eps_text if asked.attacks else None),
        "attack": (manifest.attack, asked.attack if asked.attacks else None),
        "seed": (manifest.seed, asked.seed),
    }
    for name, (then, current) in then_and_now.items():
        if then != current:
            raise BadInput(
                f"{name} of {reading.folder}",
                got=str(current),
                expected=f"{then}, as when it was begun",
                remedy="Resume with what it was begun with, or begin another folder.",
            )


def point_at(rows: Rows, place: int, model: TorchModel) -> Row:
    """The clean input at a place of the selection, as a batch of one."""
    return torch.from_numpy(np.array(rows.x[place : place + 1])).to(model.device, model.dtype)


def _row(smoothed: Smoothed, asked: Asked, folder: Path, place: int) -> SmoothedRow:
    """One row: CERTIFY, and where its class is right the attack."""
    rows, setting = asked.rows, asked.setting
    row, label = int(rows.index[place]), int(rows.y[place])
    x = point_at(rows, place, asked.model)
    found = smoothed.certify(x, row)
    outcome = outcome_of(setting, top=found.top, k=found.k, label=label)
    attacked = None
    if asked.attacks and outcome == "certified":
        attacked = _attacked(smoothed, asked, folder, x, place)
    return SmoothedRow(
        row=row,
        place=place,
        label=label,
        digest=row_digest(rows.x[place], label),
        base=class_of(smoothed.oracle.scores(x)),
        n0=setting.n0,
        n=setting.n,
        seed=asked.seed,
        outcome=outcome,
        attacked=attacked,
        **found._asdict(),
    )


def reached(attack: SmoothPGD, smoothed: Smoothed, x: Row, label: int, row: int, threat: Threat) -> Row | Attacked:
    """The point that an attack reaches, or the record that says why it could not be made."""
    try:
        return attack.search(smoothed, x, label, row, threat)
    except BrinellError:
        raise
    except NoSlope as error:
        return Attacked(outcome="error", reason=str(error))
    except Exception as error:  # whatever a user's model raises
        return Attacked(outcome="error", reason=f"model raised {type(error).__name__}: {error}")


def _attacked(smoothed: Smoothed, asked: Asked, folder: Path, x: Row, place: int) -> Attacked:
    """The attack on one row, judged by PREDICT on copies that it has not seen."""
    row, label = int(asked.rows.index[place]), int(asked.rows.y[place])
    x_adv = reached(asked.attack, smoothed, x, label, row, asked.threat)
    if isinstance(x_adv, Attacked):
        return x_adv
    assert bool(asked.threat.contains(x, x_adv).all())
    said = smoothed.predict(x_adv, row)
    points = PointFile(folder / POINTS, asked.rows.x.shape, asked.rows.x.dtype)
    digest = points.write(place, x_adv[0].cpu().numpy())
    points.flush()
    points.close()
    return Attacked(
        outcome=judged_of(said.answer, label),
        first=said.first,
        second=said.second,
        count_first=said.count_first,
        count_second=said.count_second,
        close=said.close,
        distance=float(distance(x, x_adv, "l2")[0]),
        digest=digest,
    )
