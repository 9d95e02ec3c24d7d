"""Which attacks there are, and how a suite file's table becomes one."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

from brinell.attacks.a3 import A3, Lean
from brinell.attacks.apgd import APGD
from brinell.attacks.apgd_l1 import APGDL1
from brinell.attacks.chance import Chance
from brinell.attacks.fab import FAB, FABT
from brinell.attacks.fgsm import FGSM
from brinell.attacks.given import GivenPoints
from brinell.attacks.pgd import PGD, Schedule
from brinell.attacks.square import Square
from brinell.attacks.transfer import Transfer
from brinell.errors import BadInput
from brinell.losses import Loss, TargetedLoss, loss_named
from brinell.queries import Attack
from brinell.slopes import Slope

Kind = (
    type[A3]
    | type[FGSM]
    | type[PGD]
    | type[APGD]
    | type[APGDL1]
    | type[FAB]
    | type[FABT]
    | type[Square]
    | type[Chance]
    | type[GivenPoints]
    | type[Transfer]
)
ATTACKS: dict[str, Kind] = {kind.name: kind for kind in (FGSM, PGD, APGD, APGDL1, FAB, FABT, Square, A3, Chance)}
RECORDED: dict[str, Kind] = {**ATTACKS, GivenPoints.name: GivenPoints, Transfer.name: Transfer}
"""Attacks that a run's record may hold: those of suite files, points that were imported, points made on a surrogate."""

BY_THE_RUN = ("identity",)
"""Settings that no suite file asks for: a run adds them where it finds cause."""

Setting = str | int | float


def settings(attack: Attack) -> dict[str, Setting]:
    """The attack as a suite file would write it: its name, then every field."""
    table: dict[str, Setting] = {"attack": attack.name}
    for field in fields(attack):  # type: ignore[arg-type]  # every attack is a dataclass
        value: object = getattr(attack, field.name)
        if isinstance(value, Loss | TargetedLoss):
            table[field.name] = value.name
        elif isinstance(value, str | int | float):
            table[field.name] = value
    return table


def defaults(name: str) -> dict[str, Setting]:
    """The settings of an attack of which nothing is said; empty for one that this version does not know."""
    return settings(RECORDED[name]()) if name in RECORDED else {}


def identity(attack: Attack) -> str:
    """One text for one attack with its settings: the key of its random numbers."""
    return json.dumps(settings(attack), sort_keys=True)


def title(attack: Attack) -> str:
    """A short name for tables: the attack and its loss, ``apgd targeted-dlr``."""
    table = settings(attack)
    return f"{table['attack']} {table['loss']}" if "loss" in table else str(table["attack"])


def attack_from(table: dict[str, Any], among: Mapping[str, Kind] = ATTACKS) -> Attack:
    """The attack that a suite file's table describes, or a record's with ``among=RECORDED``.

    Raises
    ------
    BadInput
        For an unknown attack, an unknown setting, a value of the wrong type or out of range.
    """
    given = dict(table)
    name = given.pop("attack", None)
    if not isinstance(name, str) or name not in among:
        raise BadInput("attack", got=repr(name), expected=", ".join(among), remedy="See `brinell attacks`.")
    kind = among[name]
    known = {field.name: field for field in fields(kind) if field.compare}
    for key, value in given.items():
        if key not in known:
            raise BadInput(
                f"attack {name}", got=f"the setting {key!r}", expected=", ".join(known), remedy="Remove or rename it."
            )
        given[key] = _checked(name, key, value, known[key].default, among)
    return kind(**given)


def _checked(attack: str, key: str, value: Any, default: Any, among: Mapping[str, Kind]) -> Any:
    """A setting's value in the type and the range of its default."""
    subject = f"attack {attack}, {key}"
    if isinstance(default, Loss | TargetedLoss):
        loss = loss_named(str(value))
        if attack == FGSM.name and isinstance(loss, TargetedLoss):
            raise BadInput(subject, got=loss.name, expected="an untargeted loss", remedy="Use pgd for targets.")
        return loss
    if isinstance(default, str) and attack in (GivenPoints.name, Transfer.name):
        return str(value)
    if isinstance(default, str):
        choices = next(get_args(closed) for closed in (Schedule, Slope, Lean) if default in get_args(closed))
        if among is not RECORDED:
            choices = tuple(choice for choice in choices if choice not in BY_THE_RUN)
        if value not in choices:
            raise BadInput(subject, got=repr(value), expected=" or ".join(choices), remedy="Choose one.")
        return value
    wanted = int if isinstance(default, int) else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted) or value <= 0:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise BadInput(subject, got=repr(value), expected=f"{kind} above 0", remedy="Change it in the suite.")
    return value
