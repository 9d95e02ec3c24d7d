"""What the page says in words and numbers, section by section, as data: each a function of what was read of a run."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from brinell.claim import threat_of
from brinell.frequencies import Frequency
from brinell.manifest import Manifest
from brinell.metrics import QUANTILES, Proportion
from brinell.report.certified import upper_end
from brinell.report.citations import source_of
from brinell.report.text import randomised_lines, settings_line, spending_lines, stage_counts
from brinell.result import Reading
from brinell.spec import Declared

NOT_DECLARED = "not declared"
MOST_REASONS = 8
"""Reasons for errors that are spelt out above the table."""
LONGEST_REASON = 200
"""Characters of a reason; it may hold a whole traceback."""

STATUS_MEANS = {
    "misclassified": "wrong before any attack",
    "broken": "has a confirmed witness",
    "certified": "proved to have none",
    "standing": "attacked, not broken",
    "pending": "the run has not got to it, or makes no attack",
    "error": "could not be judged",
}
RANDOMISED_MEANS = {
    "misclassified": "wrong in at least half of the draws of the clean input",
    "broken": "wrong in at least half of the draws of the chosen point",
    "standing": "right in most draws of the chosen point",
}


class Card(NamedTuple):
    """One headline figure."""

    name: str
    kind: str
    """Whether it is an upper bound, and by what."""
    value: str
    counted: str
    """The count with its denominator."""
    interval: str
    first: bool = False
    """Whether it is the run's headline."""


class Fact(NamedTuple):
    """One thing that is so, under its name."""

    name: str
    value: str
    code: bool = False


def cards(reading: Reading) -> list[Card]:
    """The headline figures; a randomised model's own come first, then those of the majority of draws."""
    figures, upper = reading.figures, upper_end(reading)
    bound, name = ", ".join(filter(None, (upper.by, "an upper bound"))), upper.name.capitalize()
    success, clean = figures.attack_success_rate, figures.clean_accuracy
    refused = reading.refused
    if reading.randomised is None:
        return [
            _card(name, bound, upper.figure, first=True)
            if refused is None
            else Card(name, "no figure is given", "refused", refused, "", True),
            *(
                [_card("Certified accuracy", "proved, a lower bound", figures.certified_accuracy)]
                if reading.manifest.certified is not None and not reading.contradicted
                else []
            ),
            _card("Clean accuracy", "measured, no attack", clean),
            *([_card("Attack success rate", "empirical, a lower bound", success)] if reading.attacked else []),
        ]
    most = f"in most of {reading.randomised.draws.score} draws"
    return [
        _frequency_card("Expected robust accuracy", bound, reading.randomised.expected, first=True),
        _frequency_card("Clean, expected", "measured, no attack", reading.randomised.clean),
        _card(f"Robust accuracy, {most}", bound, figures.robust_accuracy),
        _card(f"Clean accuracy, {most}", "measured, no attack", clean),
    ]


def _card(name: str, kind: str, figure: Proportion, *, first: bool = False) -> Card:
    if figure.bounds is None:
        return Card(name, "not measured", "n/a", f"0 {figure.denominator}", "", first)
    whole = f"all {figure.of:,} rows" if figure.denominator == "all rows" else f"{figure.of:,} {figure.denominator}"
    low, high = (100 * bound for bound in figure.bounds)
    if figure.interval is None:
        count = f"between {figure.count:,} and {figure.count + figure.undecided:,} of {whole}"
        undecided = f"{figure.undecided:,} rows undecided: no interval"
        return Card(name, "bounds", f"{low:.1f} – {high:.1f} %", count, undecided, first)
    count = f"{figure.count:,} of {whole}"
    return Card(name, kind, f"{low:.1f} %", count, _interval(figure.interval, figure.level), first)


def _frequency_card(name: str, kind: str, figure: Frequency, *, first: bool = False) -> Card:
    if figure.bounds is None:
        return Card(name, "not measured", "n/a", "0 rows", "", first)
    low, high = (100 * bound for bound in figure.bounds)
    count = f"mean over all {figure.of:,} rows, {figure.draws:,} draws each"
    if figure.interval is None:
        undecided = f"{figure.undecided:,} rows undecided: no interval"
        return Card(name, "bounds, the run is not through", f"{low:.1f} – {high:.1f} %", count, undecided, first)
    interval = f"{_interval(figure.interval, figure.level)}; draws alone ± {196 * figure.noise:.1f}"
    return Card(name, kind, f"{low:.1f} %", count, interval, first)


def _interval(ends: tuple[float, float], level: float) -> str:
    return f"{100 * level:g} % interval: {100 * ends[0]:.1f} to {100 * ends[1]:.1f} %"


class StatusCount(NamedTuple):
    """How many rows have a status."""

    status: str
    rows: int
    means: str
    share: float
    """Of all rows."""


def statuses(reading: Reading) -> list[StatusCount]:
    """All statuses; their rows add up to all rows."""
    figures = reading.figures
    means = STATUS_MEANS if reading.randomised is None else {**STATUS_MEANS, **RANDOMISED_MEANS}
    return [StatusCount(s, rows, means[s], rows / max(figures.rows, 1)) for s, rows in figures.status.items()]


def errors(reading: Reading) -> list[str]:
    """Why rows could not be judged: the most frequent reasons, cut to size, and how many rows have others."""
    found = sorted(reading.figures.errors.items(), key=lambda item: -item[1])
    lines = [f"{shortened(reason)} (rows: {count:,})" for reason, count in found[:MOST_REASONS]]
    others = sum(count for _, count in found[MOST_REASONS:])
    return [*lines, f"other reasons (rows: {others:,}); see rows.parquet"] if others else lines


def threat_facts(manifest: Manifest) -> list[Fact]:
    """The threat model, field by field."""
    threat = threat_of(manifest)
    return [
        Fact("Norm", threat.norm.capitalize()),
        Fact(
            "Radius eps",
            f"{threat.eps} in input units" + (f" (= {float(threat.eps):.6g})" if "/" in str(threat.eps) else ""),
        ),
        Fact("Inputs in", f"[{threat.low:g}, {threat.high:g}], exactly"),
        Fact("Goal", f"{threat.goal}: any class but the row's own"),
        Fact("Access", f"{threat.access}: scores and gradients of the model as it is"),
        Fact("Membership", "distance in float64, at most eps (1 + 10⁻⁶)"),
    ]


def subject_facts(manifest: Manifest) -> list[Fact]:
    """What was evaluated, as declared; what nobody declared is said to be so."""
    model, data, spec = manifest.model, manifest.data, manifest.spec
    other = manifest.surrogate
    declared = spec.declared if spec is not None else Declared()
    scale = "not recorded: handed over in Python" if spec is None else f"inputs divided by {spec.data.scale:g}"
    return [
        Fact("Model", model["source"], code=True),
        Fact("Fingerprint", model["fingerprint"], code=True),
        Fact("Classes; outputs", f"{model['classes']}; {model['outputs']}"),
        Fact("Precision; device", f"{manifest.environment.precision}; {manifest.environment.device}"),
        *([Fact("Surrogate", f"{other['source']} {other['fingerprint']}", code=True)] if other is not None else []),
        Fact("Data", data["source"], code=True),
        Fact("Rows", f"{data['rows']:,} of {data['total']:,}, selection {data['selection']}"),
        Fact("Shape of a row", f"{' × '.join(map(str, data['shape']))}; layout {data['layout']}"),
        Fact("Digest of the rows", data["digest"], code=True),
        Fact("Preprocessing outside the model", scale),
        Fact("Known as", declared.data or NOT_DECLARED),
        Fact("Preprocessing inside the model", declared.preprocessing or NOT_DECLARED),
        Fact("Training data", declared.training_data or NOT_DECLARED),
        Fact("Attack of the training", declared.training_attack or NOT_DECLARED),
    ]


class AttackLine(NamedTuple):
    """One attack's place in the table."""

    number: int
    title: str
    settings: str
    counts: list[str]
    source: str
    ran: bool


def attacks(reading: Reading) -> list[AttackLine]:
    """Each attack of the suite with its counts, in the order of ``stage_columns``."""
    suite = reading.manifest.suite["attacks"]
    return [
        AttackLine(
            number,
            title,
            settings_line(settings),
            stage_counts(reading, stage),
            source_of(settings["attack"]),
            stage.given > 0,
        )
        for number, (title, settings, stage) in enumerate(
            zip(reading.stage_titles(), suite, reading.figures.stages, strict=True), start=1
        )
    ]


@dataclass(frozen=True)
class Sizes:
    """Perturbation sizes as a table: a line each for absolute and relative sizes."""

    columns: tuple[str, ...]
    lines: list[tuple[str, list[str]]]


def sizes(reading: Reading) -> Sizes | None:
    """The sizes of the broken rows' perturbations, absolute and relative to the clean input; None where nothing broke."""
    figures = reading.figures.perturbation
    if figures.mean is None or figures.quantiles is None:
        return None
    broken = [row for row in reading.rows if row.status == "broken" and row.distance is not None]
    relative = [row.distance / row.input_size for row in broken if row.distance is not None and row.input_size]
    norm, names = figures.norm.capitalize(), ("least", "lower quartile", "median", "upper quartile", "most")
    absolute = [f"{figures.count:,}", *(f"{v:.4g}" for v in (figures.mean, *figures.quantiles.values()))]
    lines = [(f"{norm}, input units", absolute)]
    if figures.relative_mean is not None:
        quantiles = [float(np.quantile(relative, q)) for q in QUANTILES]
        counts = [f"{figures.relative_count:,}", *(f"{v:.3g}" for v in (figures.relative_mean, *quantiles))]
        lines.append((f"{norm} over that of the clean input", counts))
    return Sizes(("broken rows", "mean", *names), lines)


def randomised_facts(reading: Reading) -> list[Fact]:
    """What is said of a randomised model besides its cards."""
    if reading.randomised is None:
        return []
    return [Fact(name, f"{sign} {figure}".strip()) for name, sign, figure in randomised_lines(reading.randomised)]


def notes(reading: Reading) -> list[str]:
    """What the checks before the attacks found, and what the passes say; a sentence each."""
    manifest = reading.manifest
    lines = [*manifest.notes]
    if manifest.unbounded:
        rows = manifest.unbounded["rows"]
        stood = ", ".join(f"{name} {count}" for name, count in manifest.unbounded.items() if name != "rows")
        lines.append(
            f"each loss was climbed on {rows} clean rows with no limit but the box; rows that still stood: {stood}"
        )
    if manifest.pull_in:
        lines.append(f"gradients were taken {manifest.pull_in:g} inside the faces of the box")
    return [
        f"{line[:1].upper()}{line[1:]}".removesuffix(".") + "." for line in (*lines, *spending_lines(reading)) if line
    ]


def cost_facts(reading: Reading) -> list[Fact]:
    """What the run cost, by what passes were made for."""
    passes, manifest = reading.figures.passes, reading.manifest
    judged = [
        ("Referee", passes.referee_forwards),
        ("Choosing points", passes.select_forwards),
        ("Scoring points", passes.score_forwards),
    ]
    facts = [
        Fact("In all", f"{passes.forwards:,} forward and {passes.backwards:,} backward passes of a row"),
        Fact("Attacks", f"{passes.attack_forwards:,} forward, {passes.attack_backwards:,} backward"),
        Fact("Clean inputs", f"{passes.clean_forwards:,} forward"),
        *(Fact(name, f"{count:,} forward") for name, count in judged if count),
        Fact("Besides: checks", f"{passes.preflight_forwards:,} forward, {passes.preflight_backwards:,} backward"),
    ]
    if passes.cut_off_forwards:
        cut = f"{passes.cut_off_forwards:,} forward, {passes.cut_off_backwards:,} backward"
        facts.append(Fact("Besides: attempts cut off", cut))
    if manifest.surrogate is not None:
        spent = reading.on_surrogate
        facts.append(Fact("Besides: surrogate", f"{spent.forwards:,} forward, {spent.backwards:,} backward"))
    return [
        *facts,
        Fact("Budget", manifest.budget or "none: to the suite's end"),
        Fact("Time", f"{manifest.seconds:,.0f} s, checks included; sessions: {len(reading.sessions)}"),
    ]


def shortened(text: str) -> str:
    """A text of somebody else's, cut to size."""
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"
