"""A smoothed classifier's result as one HTML page that needs nothing but itself."""

from itertools import pairwise
from pathlib import Path

from brinell.report.chart import Chart, Line, Point, drawn, thinned
from brinell.report.page import HERE, write_page
from brinell.report.smoothed import attack_lines, g_line, outcome_lines, setting_line
from brinell.smoothing.figures import SmoothFigures
from brinell.smoothing.folder import SmoothReading

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
    figures = reading.figures
    return jinja.get_template("smoothed.html").render(
        css=Markup((HERE / "page.css").read_text("utf-8")),  # written here, by us
        reading=reading,
        manifest=reading.manifest,
        figures=figures,
        g=g_line(reading),
        setting=setting_line(reading),
        outcomes=outcome_lines(figures),
        attack=[] if figures.attack is None else attack_lines(figures),
        chart=(chart := curve(figures)),
        svg=Markup(drawn(chart)),  # escaped there
        interval=_interval,
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
        if not attack.contradictions:
            lines.append(Line(f"not shown wrong, eps {attack.eps}", ends, tone="second"))
            said += (
                f" The upright line at eps {attack.eps} goes from there to the rows that the attack did not show wrong."
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


def _interval(figures: SmoothFigures, radius: float) -> str:
    ends = figures.certified_at(radius).interval
    return "not complete" if ends is None else f"{100 * ends[0]:.1f} to {100 * ends[1]:.1f} %"
