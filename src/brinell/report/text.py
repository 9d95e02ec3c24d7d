"""The result for a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from brinell.claim import threat_of
from brinell.metrics import Figures
from brinell.result import Reading


def print_text(reading: Reading, console: Console) -> None:
    """Print the result as lines and tables; the claim is one line, which only the terminal's edge may break."""
    manifest, figures = reading.manifest, reading.figures
    suite = manifest.suite
    head = Table.grid(padding=(0, 2))
    head.add_row("model", Text(f"{manifest.model['source']}  {manifest.model['fingerprint'][:12]}"))
    head.add_row("rows", Text(f"{figures.rows} of {manifest.data['source']}, {manifest.data['selection']}"))
    head.add_row("threat", threat_of(manifest).describe())
    head.add_row("suite", Text(f"{suite['name']} v{suite['version']}  {suite['digest'][:12]}"))
    console.print(head)
    console.print()
    console.print(_figures(figures))
    console.print()
    console.print(Text(status_line(figures)))
    if figures.clean_accuracy.undecided == 0 and figures.clean_accuracy.count == 0:
        console.print(Text("No row was classified correctly before any attack: there was nothing to attack."))
    console.print()
    console.print(_attacks(reading))
    console.print(Text(cost_line(figures), style="dim"))
    for note in manifest.notes:
        console.print(Text(f"note: {note}", style="yellow"))
    console.print()
    console.print(Text(reading.claim.line(), style="bold"), soft_wrap=True)
    console.print(Text(f"digest {manifest.digest}", style="dim"))


def status_line(figures: Figures) -> str:
    """All rows by status, as a sum."""
    terms = [f"{count} {status}" for status, count in figures.status.items() if count]
    unconfirmed = f"; {figures.unconfirmed} witnesses not confirmed" if figures.unconfirmed else ""
    reasons = "".join(f"; error: {reason} ({count} rows)" for reason, count in figures.errors.items())
    return f"{figures.rows} rows = {' + '.join(terms)}{unconfirmed}{reasons}"


def cost_line(figures: Figures) -> str:
    """All passes, by what they were made for."""
    passes = figures.passes
    line = (
        f"{passes.forwards:,} forward and {passes.backwards:,} backward passes: attacks {passes.attack_forwards:,} and "
        f"{passes.attack_backwards:,}, clean {passes.clean_forwards:,}, referee {passes.referee_forwards:,}; besides, "
        f"preflight {passes.preflight_forwards:,} and {passes.preflight_backwards:,}"
    )
    if passes.cut_off_forwards:
        line += f", in attempts that were cut off {passes.cut_off_forwards:,} and {passes.cut_off_backwards:,}"
    return line


def _figures(figures: Figures) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row("clean accuracy", "", str(figures.clean_accuracy))
    table.add_row(
        Text("robust accuracy", style="bold"), Text("≤", style="bold"), Text(str(figures.robust_accuracy), style="bold")
    )
    table.add_row("attack success rate", "", str(figures.attack_success_rate))
    table.add_row("perturbation size", "", str(figures.perturbation))
    return table


def _attacks(reading: Reading) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("attack")
    for name in ("given", "broke first", "left", "errors", "forwards", "backwards"):
        table.add_column(name, justify="right")
    for title, stage in zip(reading.stage_titles(), reading.figures.stages, strict=True):
        numbers = (stage.given, stage.broke, stage.left, stage.errors, stage.forwards, stage.backwards)
        table.add_row(Text(title), *(f"{number:,}" for number in numbers))
    return table
