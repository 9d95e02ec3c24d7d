"""A suite: a named, versioned, ordered programme of attacks, with the rule for which rows each one gets.

A suite is a TOML file; the package's own lie beside this module, and a user's are read the same way. Any attack's name is
also a suite of that attack alone with its default settings.
"""

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from brinell.attacks.catalogue import ATTACKS, RECORDED, Kind, attack_from, settings, title
from brinell.draws import Draws, draws_of
from brinell.errors import BadInput
from brinell.geometry import NORMS, Norm
from brinell.queries import Attack, Cost
from brinell.suites.programme import REHEARSED, Programme, Rehearsal, cost_of_attempt
from brinell.suites.rules import RULED, Field, Rule, rule_of, rule_table

DEFAULT = "brinell"
NONE = "none"
"""The name of the suite that makes no attack, for runs that only seek certificates."""
IMPORTED = "imported from "
"""How the name of a suite begins whose points were made elsewhere."""


@dataclass(frozen=True)
class Suite:
    """Attacks in order; each attempt gets the rows that its rule names among those that stand when it begins."""

    name: str
    version: str
    summary: str
    attacks: tuple[Attack, ...]
    draws: Draws | None = None
    """Set for a suite that takes the model for randomised: rows are then scored, and none falls."""
    rules: tuple[Rule, ...] = ()
    """One for each attack; empty where every attack gets all rows that stand, in every norm."""

    @property
    def looks(self) -> int:
        """Passes over each point of an attack's query."""
        return 1 if self.draws is None else self.draws.attack

    def within(self, norm: Norm) -> "Suite":
        """The suite as it is run in one norm, which is one that ``check`` accepts."""
        chosen = [(attack, rule) for attack, rule in self._ruled() if norm in rule.norms]
        rules = tuple(replace(rule, norms=NORMS) for _, rule in chosen)
        plain = all(rule == Rule() for rule in rules)
        return replace(self, attacks=tuple(attack for attack, _ in chosen), rules=() if plain else rules)

    def over(self, draws: Draws) -> "Suite":
        """The same attacks on the mean of so many draws, for a randomised model: a suite of its own.

        Raises
        ------
        BadInput
            If the suite sorts rows, as it cannot where none falls.
        """
        if any(rule != Rule(norms=rule.norms) for rule in self.rules):
            raise _sorted_rows(self.name)
        return replace(self, name=f"{self.name} over {draws.attack} draws", draws=draws)

    def norms(self) -> list[Norm]:
        """The norms that the suite can be run in."""
        if not self.attacks:
            return list(NORMS)
        inside = {norm: self.within(norm).attacks for norm in NORMS}
        return [norm for norm in NORMS if inside[norm] and all(norm in attack.norms for attack in inside[norm])]

    def _ruled(self) -> list[tuple[Attack, Rule]]:
        return list(zip(self.attacks, self.rules or (Rule(),) * len(self.attacks), strict=True))

    def fit(self, classes: int) -> "Suite":
        """The same suite for a model of so many classes: what is undefined for few classes is replaced."""
        return replace(self, attacks=tuple(attack.fit(classes) for attack in self.attacks))

    def replacements(self, fitted: "Suite") -> list[str]:
        """What ``fit`` replaced, a sentence each, for the record."""
        notes = []
        for asked, used in zip(self.attacks, fitted.attacks, strict=True):
            before, after = settings(asked), settings(used)
            aims = "loss" not in after or "targeted" in str(after["loss"])
            for key in before:
                if before[key] != after[key] and (key != "targets" or aims):
                    notes.append(f"{title(asked)}: {key} {before[key]} replaced by {after[key]} (too few classes)")
        return notes

    def check(self, norm: Norm) -> None:
        """Refuse a suite that cannot run in this norm, before any work.

        Raises
        ------
        BadInput
            If an attack is not defined for the norm, or the same attack stands twice.
        """
        if norm not in self.norms():
            lacking = [attack.name for attack in self.within(norm).attacks if norm not in attack.norms]
            raise BadInput(
                f"suite {self.name}",
                got=f"the norm {norm}" + (f" for {', '.join(dict.fromkeys(lacking))}" if lacking else ""),
                expected=f"one of {', '.join(self.norms())}" if self.norms() else "attacks that have a norm in common",
                remedy="Choose another suite; `brinell suites` and `brinell attacks` list the norms of each.",
            )
        attacks = self.within(norm).attacks
        if len({json.dumps(settings(attack)) for attack in attacks}) < len(attacks):
            raise BadInput(
                f"suite {self.name}",
                got="the same attack with the same settings twice",
                expected="attacks that differ",
                remedy="Its second run would see the same random numbers: raise `restarts` instead.",
            )

    def cost(self, rows: int = REHEARSED) -> Cost:
        """Passes that attacks make on one row that stands to the end, the mean over so many rows of which none falls.

        An attack that makes all of its attempts on all rows makes no more, whatever falls. One that goes on while it pays
        makes more where rows fall.
        """
        return sum((self.cost_at(stage, rows) for stage in range(len(self.attacks))), Cost(0, 0))

    def passes(self, rows: int = REHEARSED) -> Cost:
        """``cost`` with what is done besides: the clean pass, or all that scores a randomised model."""
        return self.cost(rows) + Cost(1 if self.draws is None else self.draws.besides(self.attempts()), 0)

    def without_attack(self) -> Cost:
        """The same at eps 0, where no attack is made and there is nothing to choose."""
        return Cost(1 if self.draws is None else 2 * self.draws.score, 0)

    def cost_at(self, stage: int, rows: int = REHEARSED) -> Cost:
        """The same for one attack of the suite."""
        return _rehearsed(self, rows)[stage]

    def cost_of_attempt(self, stage: int) -> Cost:
        """Passes of one row that goes through one attempt of an attack."""
        return cost_of_attempt(self.attacks[stage], self.looks)

    def attempts(self) -> int:
        """Attempts on one row that stands to the end, over all attacks."""
        return sum(attack.attempts() for attack in self.attacks)

    def ordinal(self, stage: int, attempt: int) -> int:
        """The place of an attempt among all of the suite's, from 0."""
        return sum(attack.attempts() for attack in self.attacks[:stage]) + attempt

    def attempt_at(self, ordinal: int) -> tuple[int, int]:
        """Stage and attempt at a place among all of the suite's attempts."""
        for stage, attack in enumerate(self.attacks):
            if ordinal < attack.attempts():
                return stage, ordinal
            ordinal -= attack.attempts()
        raise IndexError("beyond the suite's attempts")

    def programme(self, record: Field, *, seed: int = 0, budget: float = math.inf) -> Programme:
        """The suite on one run, of which ``record`` tells what each turn brought.

        The turns follow from the record alone, so that a resumed run, and whoever checks a run, finds the same. ``seed`` is
        for samples; ``budget`` is the passes that attacks and referee may make.
        """
        falling = self.draws is None
        return Programme(self._ruled(), record, looks=self.looks, falling=falling, seed=seed, budget=budget)

    def table(self) -> dict[str, Any]:
        """The suite as data: what its digest is computed from, and what the manifest keeps."""
        return {
            "name": self.name,
            "version": self.version,
            "summary": self.summary,
            **({"draws": asdict(self.draws)} if self.draws else {}),
            "attacks": [{**settings(attack), **rule_table(rule)} for attack, rule in self._ruled()],
        }

    def digest(self) -> str:
        """SHA-256 of the suite's name, version and attacks with all their settings."""
        named = {key: value for key, value in self.table().items() if key != "summary"}
        return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()


@lru_cache
def _rehearsed(suite: Suite, rows: int) -> list[Cost]:
    """Passes that each attack makes on a row in the mean, where none falls."""
    alone = [suite.cost_of_attempt(stage) for stage in range(len(suite.attacks))]
    rehearsal = Rehearsal(alone, rows)
    made = [Cost(0, 0)] * len(alone)
    for turn in suite.programme(rehearsal).turns():
        rehearsal.take(turn)
        made[turn.stage] = made[turn.stage] + alone[turn.stage].times(len(turn.rows))
    return [Cost(*(math.ceil(passes / max(rows, 1)) for passes in cost)) for cost in made]


def suite_names() -> list[str]:
    """The suites that ship with Brinell."""
    return sorted(Path(entry.name).stem for entry in files(__package__).iterdir() if entry.name.endswith(".toml"))


def load_suite(source: str) -> Suite:
    """The suite of that name, an attack alone by its name, or a suite file.

    Raises
    ------
    BadInput
        If there is none of that name, or its file is not a suite.
    """
    if source in suite_names():
        return suite_from(tomllib.loads(files(__package__).joinpath(f"{source}.toml").read_text("utf-8")), source)
    if source == NONE:
        return Suite(name=NONE, version="1", summary="no attack is made", attacks=())
    if source in ATTACKS:
        attack = ATTACKS[source]()
        return Suite(name=source, version="1", summary=f"{attack.summary}, alone", attacks=(attack,))
    if source.startswith(IMPORTED):
        raise BadInput(
            f"suite {source!r}",
            got="points that were imported, which a run does not keep",
            expected="a suite",
            remedy="An import cannot be resumed or run again: import the file again, into another folder.",
        )
    path = Path(source)
    if path.suffix == ".toml":
        try:
            return suite_from(tomllib.loads(path.read_text("utf-8")), source)
        except FileNotFoundError:
            got = "a file that does not exist"
        except OSError as error:
            got = f"a file that cannot be read ({error.strerror})"
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            got = f"a file that is not TOML ({error})"
        raise BadInput(f"suite {source}", got=got, expected="a suite file", remedy="See `brinell suites`.")
    raise BadInput(
        "suite",
        got=repr(source),
        expected=", ".join([*suite_names(), *(name for name in ATTACKS if name not in suite_names())]),
        remedy="Choose one of these or give a TOML file.",
    )


def suite_of(recorded: dict[str, Any]) -> Suite:
    """The suite that a manifest's table records, as it was run."""
    if recorded["name"] == NONE:
        return load_suite(NONE)
    table = {key: value for key, value in recorded.items() if key != "digest"}
    return suite_from(table, "as recorded", RECORDED)


def suite_from(table: dict[str, Any], source: str, among: Mapping[str, Kind] = ATTACKS) -> Suite:
    """The suite that a TOML table describes, of attacks ``among`` those named; see ``load_suite``."""
    unknown = sorted(set(table) - {"name", "version", "summary", "draws", "attacks"})
    attacks = table.get("attacks")
    named = all(isinstance(table.get(key), str) and table[key] for key in ("name", "version"))
    if (
        unknown
        or not named
        or not isinstance(attacks, list)
        or not attacks
        or not all(isinstance(a, dict) for a in attacks)
    ):
        raise BadInput(
            f"suite {source}",
            got=f"unknown keys {unknown}" if unknown else f"the keys {sorted(table)}",
            expected="name, version (texts) and at least one [[attacks]] table; summary and [draws] if you like",
            remedy="Compare it with a file that ships: `brinell suites --show apgd`.",
        )
    rules = tuple(rule_of(entry, source) for entry in attacks)
    if "draws" in table and any(rule != Rule(norms=rule.norms) for rule in rules):
        raise _sorted_rows(source)
    return Suite(
        name=table["name"],
        version=table["version"],
        summary=str(table.get("summary", "")),
        attacks=tuple(attack_from({key: entry[key] for key in entry if key not in RULED}, among) for entry in attacks),
        draws=draws_of(table["draws"], source) if "draws" in table else None,
        rules=() if all(rule == Rule() for rule in rules) else rules,
    )


def _sorted_rows(source: str) -> BadInput:
    return BadInput(
        f"suite {source}",
        got="share, fewest, sample, needs or pays beside draws",
        expected="every attack on all rows, where none falls",
        remedy="Remove them, or choose a suite without, such as adaptive or brinell-rand.",
    )
