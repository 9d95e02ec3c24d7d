"""A smoothed classifier's result as one HTML page that needs nothing but itself."""

import shlex
from itertools import pairwise
from pathlib import Path

from brinell.report.chart import Chart, Line, Point, drawn, thinned
from brinell.report.page import HERE, write_page
from brinell.report.repeating import smoothing_command_of
from brinell.report.sections import Fact
from brinell.report.smoothed import attack_lines, g_line, outcome_lines, setting_line
from brinell.report.smoothed_tables import share_of
from brinell.smoothing.claim import claim_line
from brinell.smoothing.figures import SmoothFigures
from brinell.smoothing.folder import SmoothReading
from brinell.smoothing.record import SmoothingManifest

MOST_POINTS = 160


def smoothing_as_html(reading: SmoothReading, path: Path | None) -> None:
    """Write the page to a file, by default in the folder; its path is printed.

    Raises
    ------
    BadInput
        If the file cannot be written.
    """
    write_page(smoothing_page(reading), reading.folder, path)


def smoothing_page(reading: SmoothReading) -> str:
    """The whole page. Text of other people's (names of models and data, reasons) stays text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    jinja = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    manifest, figures = reading.manifest, reading.figures
    return jinja.get_template("smoothed.html").render(
        css=Markup((HERE / "page.css").read_text("utf-8")),  # written here, by us
        reading=reading,
        manifest=manifest,
        figures=figures,
        g=g_line(reading),
        setting=setting_line(reading),
        outcomes=outcome_lines(figures),
        attack=[] if figures.attack is None else attack_lines(figures),
        chart=(chart := curve(figures)),
        svg=Markup(drawn(chart)),  # escaped there
        share=share_of,
        claim=claim_line(manifest, figures),
        command=None if manifest.spec is None else smoothing_command_of(manifest.spec, manifest.setting),
        agree=_agreeing(manifest),
        folder=shlex.quote(manifest.run),
    )


def curve(figures: SmoothFigures) -> Chart:
    """Certified accuracy against radius, and what stands under the attack at its eps."""
    radii, rows = figures.radii, figures.rows
    points = [Point(0.0, len(radii) / rows)]
    points += [Point(radius, (len(radii) - number) / rows) for number, radius in enumerate(radii, start=1)]
    changes = [after for before, after in pairwise(points) if after.y != before.y]
    lines = [Line("certified accuracy of g", [points[0], *thinned(changes, MOST_POINTS)], steps=True)]
    said = "At each radius: the share of all rows whose class is right and certified at least so far out."
    attack = figures.attack
    if attack is not None and rows:
        eps = float(attack.eps)
        ends = [Point(eps, attack.certified.count / rows), Point(eps, attack.not_shown_wrong / rows)]
        if not attack.contradictions and ends[0] != ends[1]:
            lines.append(Line(f"not shown wrong, eps {attack.eps}", ends, tone="second"))
            others = "undecided" if figures.complete else "undecided and pending"
            said += f" The upright line at eps {attack.eps} goes from there to the rows not shown wrong, those {others} included."
        elif not attack.contradictions:
            said += (
                f" At eps {attack.eps} the rows certified and the rows not shown wrong are as many, {attack.certified.count} of "
                f"{rows}: there is no line between them."
            )
    return Chart(
        key="certified",
        title="Certified accuracy of the smoothed classifier against radius",
        caption=f"{said} No radius can exceed {figures.ceiling:.4g}.",
        x_label="radius, L2, input units",
        y_label="accuracy of g, at least",
        lines=lines,
        floor=0.0,
        percent=True,
    )


def _agreeing(manifest: SmoothingManifest) -> list[Fact]:
    """What a repetition needs to agree on, beside what the command says."""
    there = manifest.environment
    return [
        Fact("Brinell, format", f"{there.brinell}, {manifest.format}"),
        Fact("Python, torch, NumPy", f"{there.python}, {there.torch}, {there.numpy}"),
        Fact("Machine", f"{there.platform}; {there.processor}; threads: {there.threads}; {there.device}"),
        Fact("Precision", there.precision),
        Fact("Seed; batch size", f"{manifest.seed}; {manifest.batch_size}"),
        Fact("Fingerprint of f", manifest.model["fingerprint"], code=True),
        Fact("Digest of the rows", manifest.data["digest"], code=True),
        Fact("Begun, ended (UTC)", f"{manifest.started}, {manifest.ended or 'not ended'}"),
        Fact("Digest of the record", manifest.seal, code=True),
    ]
