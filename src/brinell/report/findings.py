"""What the checks say, on the screen or as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from brinell.diagnose.diagnosis import Diagnosis, outcome_of
from brinell.report.show import stdout

_MARKS = {True: ("!", "bold yellow"), False: ("✓", "green"), None: ("–", "dim")}


def diagnoses_as_text(diagnoses: Sequence[Diagnosis]) -> None:
    """A line for each check, then what each raised one means and what to do, then the outcome."""
    console = stdout()
    table = Table.grid(padding=(0, 2))
    for diagnosis in diagnoses:
        mark, style = _MARKS[diagnosis.raised]
        weight = diagnosis.weight if diagnosis.raised else ""
        table.add_row(Text(mark, style=style), diagnosis.check, Text(weight, style=style), Text(diagnosis.said))
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
    """How many checks were made, how many of them stand against the figure, and which were not made."""
    unmade = [diagnosis.check for diagnosis in diagnoses if diagnosis.raised is None]
    against = sum(diagnosis.open for diagnosis in diagnoses)
    names = f": {', '.join(unmade)}" if unmade else ""
    return f"{len(diagnoses) - len(unmade)} checks made, {against} stand against it; {len(unmade)} not made{names}"


def diagnoses_as_json(diagnoses: Sequence[Diagnosis]) -> None:
    """The same as JSON."""
    table = {"outcome": outcome_of(diagnoses), "checks": [asdict(diagnosis) for diagnosis in diagnoses]}
    print(json.dumps(table, indent=2))
