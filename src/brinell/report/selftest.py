"""The self-test on the screen: a line for each defence as it ends, and their sum; for people or as JSON."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from brinell.defences.defence import Defence
from brinell.report.show import stdout
from brinell.selftest import Trial

_STYLES = {"too kind": "yellow", "not judged": "yellow", "below the truth": "bold red", "not refused": "bold red"}
_WIDTHS = (18, 11, 16, 10, 9)
"""Columns of defence, threat, suite, truth and figure."""


def trials_as_text(trials: Iterable[Trial]) -> list[Trial]:
    """A line for each trial as soon as it ends, then their sum; all of them are given back."""
    console, ended = stdout(), []
    console.print(_line("defence", "threat", "suite", "truth", "figure", "verdict"), style="dim", soft_wrap=True)
    for trial in trials:
        threat, figure = f"{trial.norm} {trial.eps:g}", "–" if trial.figure is None else f"{trial.figure:.3g}"
        cells = (trial.defence, threat, trial.suite, _truth(trial), figure, trial.verdict)
        style = "bold red" if trial.false_alarm else _STYLES.get(trial.outcome, "")
        console.print(Text(_line(*cells), style=style), soft_wrap=True)
        ended.append(trial)
    console.print(summary(ended), soft_wrap=True)
    return ended


def trials_as_json(trials: Iterable[Trial]) -> list[Trial]:
    """The same as JSON, once all have ended."""
    ended = list(trials)
    table = [{**asdict(trial), "suspect": bool(trial.notes), "verdict": trial.verdict} for trial in ended]
    print(json.dumps({"trials": table, "summary": summary(ended)}, indent=2))
    return ended


def defences_as_text(defences: Sequence[Defence]) -> None:
    """What each defence is, and why its truth is known."""
    console = stdout()
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("defence", "kind", "threat", "what it does", "why its truth is known", "seen by"):
        table.add_column(heading)
    for defence in defences:
        cells = (
            defence.id + (" +" if defence.extra else ""),
            defence.kind,
            f"{defence.norm} {defence.eps:g}",
            defence.summary,
            defence.model.proof or "no figure may come of it",
            ", ".join(defence.seen_by),
        )
        table.add_row(*map(Text, cells))
    console.print(table)
    console.print("+ only with --all, or where it is named")


def summary(trials: Sequence[Trial]) -> str:
    """How many ended how."""
    kind = [trial for trial in trials if trial.outcome == "too kind"]
    unsuspected = sum(not trial.notes for trial in kind)

    def count(outcome: str) -> int:
        return sum(trial.outcome == outcome for trial in trials)

    return (
        f"{len(trials)} trials: {count('exact')} exact, {len(kind)} too kind ({unsuspected} of them unsuspected), "
        f"{count('not judged')} not judged, {count('refused')} refused; {count('not refused')} not refused though they must be, "
        f"{sum(trial.false_alarm for trial in trials)} false alarms, {count('below the truth')} below the truth"
    )


def _line(*cells: str) -> str:
    return "  ".join([*(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=False)), cells[-1]])


def _truth(trial: Trial) -> str:
    if trial.truth is None:
        return "–"
    least, most = (f"{bound:.3g}" for bound in trial.truth)
    return least if least == most else f"{least}–{most}"
