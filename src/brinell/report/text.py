"""The result for a terminal."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from brinell.attacks.catalogue import defaults
from brinell.claim import threat_of
from brinell.frequencies import TRIES, VOTES, RandomisedFigures
from brinell.metrics import Figures, StageFigures, counted
from brinell.report.certified import COLUMNS, Bounds, between, bounds, certificate_lines, certified_figure, upper_end
from brinell.report.imported import print_imported
from brinell.result import Reading
from brinell.spending import Saturation, thinned

NAMED = ("steps", "queries", "restarts", "targets")
"""Settings of an attack that are named even where they are the usual ones."""

CURVE = 6
"""Points of the curve of rows broken against passes."""

RULE: dict[str, Callable[[Any], str]] = {
    "share": lambda share: f"nearest {100 * share:.3g} %",
    "fewest": lambda rows: f"at least {rows} rows",
    "sample": lambda rows: f"{rows} rows drawn at random",
    "needs": lambda rows: f"if the one before broke or came nearer to {rows}",
    "pays": lambda rows: f"by turns while 1,000 passes break {rows:g}",
}
"""How a suite's rules are said, by their keys."""


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
    if reading.randomised is not None:
        console.print(_randomised(reading.randomised))
        console.print()
    console.print(_figures(reading))
    console.print()
    if (both := bounds(reading)) is not None:
        console.print(_bounds(both))
        console.print()
    console.print(Text(status_line(figures)))
    if figures.clean_accuracy.undecided == 0 and figures.clean_accuracy.count == 0:
        console.print(Text("No row was classified correctly before any attack: there was nothing to attack."))
    console.print()
    if reading.attacked:
        console.print(_attacks(reading))
    if reading.randomised is not None:
        console.print(Text("Each attack was given every row on which the model is ever right.", style="dim"))
    console.print(Text(cost_line(figures), style="dim"))
    for line in surrogate_lines(reading):
        console.print(Text(line, style="dim"), soft_wrap=True)
    for line in spending_lines(reading):
        console.print(Text(line), soft_wrap=True)
    for line in certificate_lines(reading):
        console.print(Text(line), soft_wrap=True)
    for note in manifest.notes:
        console.print(Text(f"note: {note}", style="yellow"))
    for line in finding_lines(reading):
        console.print(Text(line, style="bold yellow"), soft_wrap=True)
    if manifest.imported is not None:
        console.print()
        print_imported(manifest.imported, console)
    console.print()
    console.print(Text(reading.claim.line(), style="bold"), soft_wrap=True)
    console.print(Text(f"digest {manifest.seal}", style="dim"))


def finding_lines(reading: Reading) -> list[str]:
    """What stands against the figure, a line each; one line where nothing does."""
    diagnoses = reading.diagnoses
    against = [diagnosis for diagnosis in diagnoses if diagnosis.open]
    if against:
        return [f"{one.weight}: {one.check}: {one.said}" for one in against]
    made = sum(diagnosis.raised is not None for diagnosis in diagnoses)
    moot = Counter(one.said for one in diagnoses if one.moot)
    unmade = len(diagnoses) - made - moot.total()
    line = f"not contradicted: none of {counted(made, 'check')} was raised, {unmade} could not be made"
    return ["; ".join([line, *(f"{count} do not apply, for {why}" for why, count in moot.items())])]


def status_line(figures: Figures) -> str:
    """All rows by status, as a sum."""
    terms = [f"{count} {status}" for status, count in figures.status.items() if count]
    unconfirmed = (
        f"; {figures.unconfirmed} witness{'es' * (figures.unconfirmed != 1)} not confirmed"
        if figures.unconfirmed
        else ""
    )
    reasons = "".join(f"; error: {reason} ({counted(count, 'row')})" for reason, count in figures.errors.items())
    return f"{counted(figures.rows, 'row')} = {' + '.join(terms)}{unconfirmed}{reasons}"


def cost_line(figures: Figures) -> str:
    """All passes, by what they were made for."""
    passes = figures.passes
    judged = f"referee {passes.referee_forwards:,}"
    if passes.select_forwards or passes.score_forwards:
        judged = f"choosing {passes.select_forwards:,}, scoring {passes.score_forwards:,}"
    line = (
        f"{passes.forwards:,} forward and {passes.backwards:,} backward passes: attacks {passes.attack_forwards:,} and "
        f"{passes.attack_backwards:,}, clean {passes.clean_forwards:,}, {judged}; besides, preflight "
        f"{passes.preflight_forwards:,} and {passes.preflight_backwards:,}"
    )
    if passes.cut_off_forwards:
        line += f", in attempts that were cut off {passes.cut_off_forwards:,} and {passes.cut_off_backwards:,}"
    return line


def surrogate_lines(reading: Reading) -> list[str]:
    """On which other model points were made, and what that took; nothing where there was none."""
    about, spent = reading.manifest.surrogate, reading.on_surrogate
    if about is None:
        return []
    return [
        f"points were made on a surrogate, {about['source']} {about['fingerprint'][:12]}: {spent.forwards:,} forward and "
        f"{spent.backwards:,} backward passes of it, on no other account"
    ]


def spending_lines(reading: Reading) -> list[str]:
    """What the passes have bought, what the samples allow one to say, and whether a budget cut the suite."""
    lines, titles = [], reading.stage_titles()
    for sample in reading.samples:
        lines.append(
            f"{titles[sample.stage]} on {sample.drawn} rows drawn from the {sample.of:,} that stood: broke {sample.broke}, "
            f"nearer than every attack before on {sample.nearer}; at 95 % it would break under "
            f"{100 * sample.at_most:.1f} % of them"
        )
    saturation = reading.saturation
    if saturation is not None and (saturation.last or reading.manifest.state == "complete"):
        curve = [f"{turn.broken:,} by {turn.passes:,}" for turn in thinned(reading.turns, CURVE)]
        lines += [f"rows broken by passes of attacks: {' · '.join(curve)}", saturation_line(saturation)]
    if reading.manifest.cut is not None:
        lines.append(f"the budget of {reading.manifest.budget} ended the attacks before the suite was through")
    return lines


def saturation_line(saturation: Saturation) -> str:
    """How the last passes paid, and what that does not say."""
    last, recent = f"the last row broke by pass {saturation.last:,} of {saturation.passes:,}", saturation.recent_broke
    if not saturation.last:
        last = f"no row broke in {saturation.passes:,} passes"
    if saturation.left == 0:
        return f"{last}; no row is left that could break"
    return (
        f"{last}; in the last {saturation.recent_passes:,} passes {counted(recent, 'row')} did: 1,000 "
        f"more would break {_rows(saturation.expected)} of the {saturation.left:,} left (at 95 % at most "
        f"{_rows(saturation.at_most)}). This is where this suite has had enough, not how near the figure is to the truth"
    )


def _rows(expected: float) -> str:
    """A number of rows that need not be whole, without an exponent."""
    return f"{expected:.2g}" if expected < 9.5 else f"{expected:,.0f}"


def _figures(reading: Reading) -> Table:
    """The figures of decisions; of a randomised model, of the majority of the draws that score a point."""
    figures, table = reading.figures, Table.grid(padding=(0, 2))
    headline = "bold"
    if reading.randomised is not None:
        headline = ""
        table.add_row(Text(f"right in most of {reading.randomised.draws.score} draws", style="dim"))
    table.add_row("clean accuracy", "", str(figures.clean_accuracy))
    upper = upper_end(reading)
    told = ("", f"refused: {reading.refused}") if reading.refused else (upper.sign, str(upper.figure))
    table.add_row(*(Text(cell, style=headline) for cell in (upper.name, *told)))
    if reading.manifest.certified is not None:
        table.add_row("certified accuracy", *certified_figure(reading))
        table.add_row("", "", between(reading))
    if reading.attacked:
        table.add_row("attack success rate", "", str(figures.attack_success_rate))
    table.add_row("perturbation size", "", str(figures.perturbation))
    return table


def _bounds(both: Bounds) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in COLUMNS:
        table.add_column(name)
    table.add_row(*map(Text, both))
    return table


def randomised_lines(figures: RandomisedFigures) -> list[tuple[str, str, str]]:
    """What is said of a randomised model: what, whether it is an upper bound, and the figure."""
    draws = figures.draws
    return [
        ("expected robust accuracy", "≤", str(figures.expected)),
        (f"against {TRIES} tries of the same point", "≤", str(figures.persistent)),
        (f"if most of {VOTES} draws must be right", "≤", str(figures.majority)),
        ("clean inputs (eps 0)", "", str(figures.clean)),
        (f"wrong in some, not all, of {draws.score} draws without attack", "", str(figures.one_look)),
        ("chosen points", "", str(figures.choosing)),
        ("control: copies of the clean input", "", str(figures.control)),
        ("draws", "", f"{draws.attack} a query of an attack; up to {draws.select} to choose; {draws.score} to score"),
    ]


def _randomised(figures: RandomisedFigures) -> Table:
    table = Table.grid(padding=(0, 2))
    for number, (name, sign, figure) in enumerate(randomised_lines(figures)):
        style = "bold" if number == 0 else ""
        table.add_row(Text(name, style=style), Text(sign, style=style), Text(figure, style=style))
    return table


def settings_line(settings: dict[str, Any]) -> str:
    """What an attack was told, but for its name and loss, and its rule: ``100 steps, 9 targets; nearest 20 %``.

    Of the settings that it has when nothing is said only its length and its targets are named.
    """
    silent = {key: value for key, value in defaults(settings["attack"]).items() if key not in NAMED}
    told = {key: value for key, value in settings.items() if key not in silent or silent[key] != value}
    plain = {key: value for key, value in told.items() if key not in ("attack", "loss", "norms", *RULE)}
    rule = [RULE[key](settings[key]) for key in RULE if key in settings]
    if "loss" in settings and not str(settings["loss"]).startswith("targeted"):
        plain.pop("targets", None)  # regarded by targeted losses alone
    if settings["attack"] == "given":
        plain = {"tries": settings["tries"]}  # the points' digest stands in the suite's version
    words = [f"{value} {key.replace('_', ' ')}" for key, value in plain.items()]
    said = ", ".join(word.removesuffix("s") if word.startswith("1 ") else word for word in words)
    return "; ".join([said, ", ".join(rule)] if rule else [said])


def stage_columns(reading: Reading) -> tuple[str, ...]:
    """What is counted of each attack. A randomised model's row counts where its chosen point came from."""
    judged = ("broke first", "left") if reading.randomised is None else ("broke by its point",)
    return ("given", *judged, "errors", "forwards", "backwards")


def stage_counts(reading: Reading, stage: StageFigures) -> list[str]:
    """The counts of one attack, in the order of ``stage_columns``."""
    judged = (stage.broke, stage.left) if reading.randomised is None else (stage.broke,)
    return [f"{number:,}" for number in (stage.given, *judged, stage.errors, stage.forwards, stage.backwards)]


def _attacks(reading: Reading) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("attack")
    table.add_column("settings")
    for name in stage_columns(reading):
        table.add_column(name, justify="right")
    attacks = reading.manifest.suite["attacks"]
    for title, settings, stage in zip(reading.stage_titles(), attacks, reading.figures.stages, strict=True):
        table.add_row(Text(title), Text(settings_line(settings), style="dim"), *stage_counts(reading, stage))
    return table
