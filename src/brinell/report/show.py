"""What the command prints on stdout: results, plans and findings, for people or as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from brinell.checks.finding import Finding
from brinell.errors import BadInput
from brinell.exported import as_data
from brinell.imports.account import Imported
from brinell.plan import Plan
from brinell.report.imported import findings_table, print_unjudged
from brinell.report.latex import latex_report
from brinell.report.markdown import markdown_report
from brinell.report.page import html_page, write_page
from brinell.report.text import print_text
from brinell.result import Reading

PIPE_WIDTH = 160  # columns where nobody's terminal sets them


def stdout() -> Console:
    """Where results go; wide enough for a whole line where they go into a file."""
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=PIPE_WIDTH)


def as_text(reading: Reading) -> None:
    """A result for people."""
    print_text(reading, stdout())


def as_json(reading: Reading) -> None:
    """A result as JSON."""
    print(json.dumps(as_data(reading), indent=2))


def as_markdown(reading: Reading) -> None:
    """A result as Markdown."""
    print(markdown_report(reading), end="")


def as_latex(reading: Reading) -> None:
    """A result as tables for a paper."""
    print(latex_report(reading), end="")


def as_html(reading: Reading, path: Path | None) -> None:
    """A result as a page in a file, by default in the run's folder; its path is printed.

    Raises
    ------
    BadInput
        If the file cannot be written.
    """
    write_page(html_page(reading), reading.folder, path)


def findings_as_text(findings: Sequence[Finding]) -> None:
    """What verification found, a line each, and its sum."""
    console = stdout()
    console.print(findings_table(findings))
    failed = sum(finding.holds is False for finding in findings)
    open_ones = sum(finding.holds is None for finding in findings)
    verdict = "verification FAILED" if failed else "verified" if not open_ones else "verified as far as it could be"
    console.print(f"{verdict}: {len(findings) - failed - open_ones} hold, {failed} do not, {open_ones} not checked")


def findings_as_json(findings: Sequence[Finding]) -> None:
    """What verification found, as JSON."""
    holds = not any(finding.holds is False for finding in findings)
    print(json.dumps({"holds": holds, "findings": [asdict(finding) for finding in findings]}, indent=2))


def unjudged_as_text(imported: Imported) -> None:
    """What can be said of an imported result without a model."""
    print_unjudged(imported, stdout())


def unjudged_as_json(imported: Imported) -> str:
    """The same as JSON, labelled as theirs."""
    return json.dumps({"judged": False, "imported": imported.model_dump(mode="json")}, indent=2)


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet.

    Raises
    ------
    BadInput
        If it is, or cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise BadInput(
            f"output file {path}",
            got=error.strerror or str(error),
            expected="a new file in a folder that is there",
            remedy="Name another with --out.",
        ) from None


def plan_as_text(plan: Plan) -> None:
    """A forecast for people."""
    console = stdout()
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("attack")
    for name in ("attempts", "forwards a standing row", "backwards a standing row"):
        table.add_column(name, justify="right")
    for title, attempts, cost in plan.attacks:
        table.add_row(title, f"{attempts:,}", f"{cost.forwards:,}", f"{cost.backwards:,}")
    console.print(table)
    otherwise = "if every row falls at once" if plan.falling else "if the model is never right"
    console.print(
        f"{plan.rows:,} rows: at most {plan.most.forwards:,} forward and {plan.most.backwards:,} backward passes, if every "
        f"row stands to the end; about {plan.least_forwards:,} forward passes {otherwise}.\n"
        f"At most {_duration(plan.most_seconds)} here, by the bare model's {1e6 * plan.gradient_seconds:.0f} µs for a "
        f"gradient of one row in batches of {plan.batch_size}.",
        soft_wrap=True,
    )
    if plan.budget is not None:
        cut = plan.cut_at
        end = (
            "does not end them before" if cut is None else f"ends them after {cut[0]:,}, some {_duration(cut[1])} here"
        )
        console.print(f"The budget of {plan.budget} {end}, if every row stands.", soft_wrap=True)
    for note in plan.notes:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)


def plan_as_json(plan: Plan) -> None:
    """A forecast as JSON."""
    table = {
        "rows": plan.rows,
        "classes": plan.classes,
        "batch_size": plan.batch_size,
        "attacks": [
            {"attack": title, "attempts": attempts, **cost._asdict()} for title, attempts, cost in plan.attacks
        ],
        "most": {**plan.most._asdict(), "seconds": plan.most_seconds},
        "least": {"forwards": plan.least_forwards},
        "forward_seconds": plan.forward_seconds,
        "gradient_seconds": plan.gradient_seconds,
        "budget": None if plan.budget is None else plan.budget.text,
        "cut_at": None if plan.cut_at is None else {"passes": plan.cut_at[0], "seconds": plan.cut_at[1]},
        "notes": list(plan.notes),
    }
    print(json.dumps(table, indent=2))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
