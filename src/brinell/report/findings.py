"""What the checks say, on the screen or as JSON."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from brinell.diagnose.diagnosis import Diagnosis, outcome_of
from brinell.metrics import counted
from brinell.report.show import stdout

_MARKS = {True: ("!", "bold yellow"), False: ("✓", "green"), None: ("–", "dim")}


def diagnoses_as_text(diagnoses: Sequence[Diagnosis]) -> None:
    """A line for each check, then what each raised one means and what to do, then the outcome."""
    console = stdout()
    table = Table.grid(padding=(0, 2))
    for diagnosis in diagnoses:
        if diagnosis.moot:
            continue
        mark, style = _MARKS[diagnosis.raised]
        weight = diagnosis.weight if diagnosis.raised else ""
        table.add_row(Text(mark, style=style), diagnosis.check, Text(weight, style=style), Text(diagnosis.said))
    mark, style = _MARKS[None]
    for why, count in _moot(diagnoses).items():
        table.add_row(Text(mark, style=style), counted(count, "other"), "", f"do not apply: {why}")
    console.print(table)
    for diagnosis in diagnoses:
        if diagnosis.raised:
            console.print()
            console.print(Text(diagnosis.check, style="bold"))
            console.print(Text(f"  means  {diagnosis.means}"), soft_wrap=True)
            console.print(Text(f"  do     {diagnosis.advice}"), soft_wrap=True)
    console.print()
    console.print(Text(f"{outcome_of(diagnoses)}: {made_and_not(diagnoses)}", style="bold"), soft_wrap=True)


def made_and_not(diagnoses: Sequence[Diagnosis]) -> str:
    """How many checks were made, how many of them stand against the figure, which were not made and how many do not apply."""
    unmade = [diagnosis.check for diagnosis in diagnoses if diagnosis.raised is None and not diagnosis.moot]
    against, moot = sum(diagnosis.open for diagnosis in diagnoses), _moot(diagnoses)
    names = f": {', '.join(unmade)}" if unmade else ""
    made = counted(len(diagnoses) - len(unmade) - moot.total(), "check")
    line = f"{made} made, {against} stand against it; {len(unmade)} not made{names}"
    return "; ".join([line, *(f"{count} do not apply, for {why}" for why, count in moot.items())])


def _moot(diagnoses: Sequence[Diagnosis]) -> Counter[str]:
    """How many checks do not apply, by why."""
    return Counter(diagnosis.said for diagnosis in diagnoses if diagnosis.moot)


def diagnoses_as_json(diagnoses: Sequence[Diagnosis]) -> None:
    """The same as JSON."""
    table = {"outcome": outcome_of(diagnoses), "checks": [asdict(diagnosis) for diagnosis in diagnoses]}
    print(json.dumps(table, indent=2))
