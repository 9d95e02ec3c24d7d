"""What is said of an imported result: where it comes from, what was found in it, what its numbers counted."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from brinell.checks.finding import Finding
from brinell.imports.account import Imported

MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("–", "yellow")}
"""How a finding is marked: holds, does not hold, could not be checked."""


def findings_table(findings: Sequence[Finding]) -> Table:
    """Findings, a line each."""
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        mark, style = MARKS[finding.holds]
        table.add_row(Text(mark, style=style), Text(finding.check), Text(finding.detail))
    return table


def head_line(imported: Imported) -> str:
    """Where an imported result comes from, in one line."""
    files = ", ".join(f"{name} ({digest[:12]})" for name, digest in imported.files.items()) or "arrays in Python"
    unattacked = f"; {imported.unattacked} rows of the data have no point and were not attacked" * bool(
        imported.unattacked
    )
    return f"imported: {imported.tool}, {imported.rows} rows, {files}{unattacked}"


def print_imported(imported: Imported, console: Console) -> None:
    """Print what is said of an imported result."""
    console.print(Text(head_line(imported), style="bold"), soft_wrap=True)
    console.print(findings_table(imported.findings))
    for recount in imported.recounts:
        console.print(Text(f"their {recount.figure}: {recount.sentence()}"), soft_wrap=True)


def print_unjudged(imported: Imported, console: Console) -> None:
    """The same where there was no model."""
    print_imported(imported, console)
    console.print(
        Text("Theirs, by their own word: without a model nothing was judged, and no run was made.", style="bold"),
        soft_wrap=True,
    )


def imported_markdown(imported: Imported) -> list[str]:
    """The same as lines of Markdown, not yet made safe for a page."""
    findings = [f"{MARKS[finding.holds][0]} {finding.check}: {finding.detail}" for finding in imported.findings]
    numbers = [f"their {recount.figure}: {recount.sentence()}" for recount in imported.recounts]
    return [*findings, *numbers]
