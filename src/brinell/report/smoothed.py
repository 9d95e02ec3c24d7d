"""What is printed of a smoothed classifier: every heading says that it is g, and not its base classifier f."""

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text

from brinell.report.show import stdout
from brinell.smoothing.claim import claim_line
from brinell.smoothing.figures import SmoothFigures
from brinell.smoothing.folder import SmoothReading, smoothing_data


def smoothing_as_json(reading: SmoothReading) -> None:
    """The result as JSON."""
    print(json.dumps(smoothing_data(reading.manifest, reading.rows), indent=2))


def smoothing_as_text(reading: SmoothReading, console: Console | None = None) -> None:
    """The result for people."""
    console = console or stdout()
    manifest, figures = reading.manifest, reading.figures
    head = Table.grid(padding=(0, 2))
    head.add_row("smoothed g", Text(g_line(reading)))
    head.add_row("base f", Text(f"{manifest.model['source']}  {manifest.model['fingerprint'][:12]}"))
    head.add_row("rows", Text(f"{figures.rows} of {manifest.data['source']}, {manifest.data['selection']}"))
    head.add_row("setting", Text(setting_line(reading)))
    console.print(head)
    console.print()
    console.print(Text(claim_line(manifest, figures)), soft_wrap=True)
    console.print()
    console.print(Text(f"certified accuracy of the {manifest.names()}, L2", style="bold"))
    console.print(_table(figures))
    console.print()
    for line in outcome_lines(figures):
        console.print(Text(line), soft_wrap=True)
    if figures.attack is not None:
        console.print()
        console.print(Text(f"the smoothed classifier attacked, L2, eps {figures.attack.eps}", style="bold"))
        for line in attack_lines(figures):
            console.print(Text(line), soft_wrap=True)
    for note in manifest.notes:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)
    console.print(Text(f"digest {manifest.seal}", style="dim"))


def g_line(reading: SmoothReading) -> str:
    """What g is."""
    sigma = reading.manifest.setting.noise
    return f"g(x) = the class that f gives x + noise most often, Gaussian noise of standard deviation {sigma}"


def setting_line(reading: SmoothReading) -> str:
    """How g was certified, and what it was that was not."""
    setting, seed = reading.manifest.setting, reading.manifest.seed
    return (
        f"n {setting.n:,} noisy copies, class chosen by n0 {setting.n0:,} others, alpha {setting.alpha:g}, seed {seed} "
        "(Cohen et al. 2019, CERTIFY)"
    )


def outcome_lines(figures: SmoothFigures) -> list[str]:
    """All rows as a sum, and with which confidence what is said of them holds."""
    certified = f"{figures.outcomes['certified']} certified right, at some radius"
    return [
        f"{figures.rows} rows = {_sum(figures, [certified])}; rows "
        "abstained on or of a wrong class are certified at no radius",
        f"each certificate fails with probability at most {figures.alpha:g}: of {figures.rows} rows at most "
        f"{figures.expected_false:g} expected to be false; all hold together with probability at least "
        f"{max(0.0, 1 - figures.expected_false):g}",
        *_average(figures),
        f"no radius can exceed {figures.ceiling:.4g}, where all copies agree",
        f"base classifier f without noise: right on {figures.base}; no certificate here is about f",
        "in brackets: 95 % intervals, in per cent, for the population that the rows are a sample of (Clopper & Pearson)",
    ]


def _average(figures: SmoothFigures) -> list[str]:
    if figures.average_radius is None:
        return []
    return [
        f"average certified radius {figures.average_radius:.4g}, L2, input units, over all {figures.rows} rows: those abstained "
        "on or of a wrong class count as 0"
    ]


def attack_lines(figures: SmoothFigures) -> list[str]:
    """What is certified beside what stands; and what is not said where the two contradict each other."""
    attack = figures.attack
    if attack is None:
        return []
    attacked = [
        f"{attack.stands.count} standing",
        f"{attack.broken} broken",
        f"{attack.abstained} undecided (PREDICT abstained)",
        *[f"{attack.errors} on which the attack could not be made"] * bool(attack.errors),
    ]
    lines = [
        f"certified at eps {attack.eps}: {attack.certified}",
        f"stands under attack: {attack.stands}",
        f"{figures.rows} rows = {_sum(figures, attacked)}; each row certified right at some radius was attacked at eps, those "
        "whose radius is smaller too",
    ]
    if attack.contradictions:
        rows = ", ".join(map(str, attack.contradictions[:20]))
        lines.append(
            f"CONTRADICTION: rows {rows} are certified at eps and broken within it: of each pair one is false, which has "
            "probability at most alpha. No interval is given"
        )
    else:
        pending = "" if figures.complete else f", and the {figures.outcomes['pending']} pending"
        lines.append(
            f"robust accuracy of g at eps, an estimate, for g is only sampled: from {attack.certified.count} rows (certified) to "
            f"{attack.not_shown_wrong} of {figures.rows} (not shown wrong, those undecided included{pending})"
        )
    return lines


def _sum(figures: SmoothFigures, certified: list[str]) -> str:
    """All rows as a sum: those certified right at some radius, in whatever parts, and the others."""
    outcomes = figures.outcomes
    others = [f"{outcomes['wrong']} of a wrong class", f"{outcomes['abstained']} on which CERTIFY abstained"]
    pending = [f"{outcomes['pending']} pending"] * (not figures.complete)
    return " + ".join([*certified, *others, *pending])


def _table(figures: SmoothFigures) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("radius", justify="right")
    table.add_column("certified accuracy, at least")
    for radius in figures.table_radii():
        table.add_row(f"{radius:g}", str(figures.certified_at(radius)))
    return table
