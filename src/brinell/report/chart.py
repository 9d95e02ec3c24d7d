"""Line charts as SVG text: few marks, colours from the page's style sheet, a title and a description for screen readers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Literal, NamedTuple

WIDTH, HEIGHT = 460, 280
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 32, 46
"""Margins of the field in which lines are drawn."""
TICKS = 5
"""Marks on an axis, about so many."""
CLOSE = 1.15
"""Marks on a logarithmic axis that lie nearer than this factor to its end are left out."""


class Point(NamedTuple):
    """A point of a line; where ``y`` is None the line is interrupted."""

    x: float
    y: float | None


@dataclass(frozen=True)
class Line:
    """One line of a chart."""

    name: str
    points: Sequence[Point]
    tone: Literal["main", "second", "quiet"] = "main"
    """Which of the style sheet's colours and widths it has."""
    steps: bool = False
    """Whether it stays at each value until the next."""


@dataclass(frozen=True)
class Chart:
    """A chart with what is said of it."""

    key: str
    """Unique on the page; letters and dashes."""
    title: str
    caption: str
    """What it shows and what not; stands below it, and is read out in its place."""
    x_label: str
    y_label: str
    lines: Sequence[Line]
    floor: float | None = None
    """Least value of the vertical axis; None: that of the points."""
    zero: bool = False
    """Whether a line is drawn at 0."""
    percent: bool = False
    """Whether the vertical axis counts shares."""
    logarithmic: bool = False
    """Whether the horizontal axis is; its points lie above 0."""


class _Scale(NamedTuple):
    """From values to places on the page."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) if self.logarithmic else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)


def drawn(chart: Chart) -> str:
    """The chart as one ``svg`` element. Without any point it has its axes' names and says so."""
    found = [point for line in chart.lines for point in line.points if point.y is not None]
    head = (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{chart.key}-t {chart.key}-d">'
        f'<title id="{chart.key}-t">{escape(chart.title)}</title>'
        f'<desc id="{chart.key}-d">{escape(chart.caption)}</desc>'
    )
    if not found:
        return f'{head}<text x="{WIDTH / 2}" y="{HEIGHT / 2}" text-anchor="middle">nothing to draw</text></svg>'
    x, y = _scales(chart, found)
    parts = [head, *_grid(chart, x, y)]
    # what stands out is drawn last
    for line in sorted(chart.lines, key=lambda line: ("quiet", "second", "main").index(line.tone)):
        path = _path(line, x, y)
        parts.append(f'<path class="line {line.tone}" d="{path}"><title>{escape(line.name)}</title></path>')
    return "".join([*parts, "</svg>"])


def _scales(chart: Chart, found: Sequence[Point]) -> tuple[_Scale, _Scale]:
    ys = [point.y for point in found if point.y is not None] + ([0.0] if chart.zero else [])
    low, high = min(ys) if chart.floor is None else chart.floor, max(ys)
    room = 0.04 * (high - low)
    bottom = low if chart.floor is not None else low - room
    left, right = min(point.x for point in found), max(point.x for point in found)
    if right <= left:
        right = left * 2 if chart.logarithmic else left + 1
    top = bottom + 1 if high <= bottom else high + room
    if chart.percent and high > bottom:
        top = min(top, max(1.0, high))
    across = _Scale(left, right, LEFT, WIDTH - RIGHT, chart.logarithmic)
    return across, _Scale(bottom, top, HEIGHT - BOTTOM, TOP, False)


def _grid(chart: Chart, x: _Scale, y: _Scale) -> list[str]:
    parts = []
    for value in ticks(y.low, y.high):
        at = f"{y(value):.1f}"
        kind = "zero" if chart.zero and value == 0 else "grid"
        label = f"{100 * value:.4g} %" if chart.percent else f"{value:,.4g}"
        parts.append(f'<path class="{kind}" d="M{LEFT} {at}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at}" dy=".32em" text-anchor="end">{label}</text>')
    for value in decades(x.low, x.high) if chart.logarithmic else ticks(x.low, x.high):
        at = f"{x(value):.1f}"
        parts.append(f'<path class="tick" d="M{at} {HEIGHT - BOTTOM}v5"/>')
        anchor = "end" if x(value) > WIDTH - 2 * RIGHT else "middle"  # stays within the picture
        across = f"{min(x(value) + RIGHT, WIDTH):.1f}" if anchor == "end" else at
        parts.append(f'<text x="{across}" y="{HEIGHT - BOTTOM + 19}" text-anchor="{anchor}">{_short(value)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    parts.append(
        f'<text class="label" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(chart.x_label)}</text>'
    )
    parts.append(f'<text class="label" x="0" y="13">{escape(chart.y_label)}</text>')
    return parts


def _path(line: Line, x: _Scale, y: _Scale) -> str:
    pieces, pen = [], "M"
    for point in line.points:
        if point.y is None:
            pen = "M"
            continue
        across, up = f"{x(point.x):.1f}", f"{y(point.y):.1f}"
        pieces.append(f"H{across}V{up}" if line.steps and pen == "L" else f"{pen}{across} {up}")
        pen = "L"
    return "".join(pieces)


def ticks(low: float, high: float) -> list[float]:
    """Round values within a stretch, at most twice ``TICKS`` of them: steps of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten within a stretch and its ends, so that a logarithmic axis has two marks at least."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    within = [10.0**power for power in range(first, last + 1)]
    return [low, *(value for value in within if low * CLOSE < value < high / CLOSE), high]


def _short(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value / 1e3:.3g}k" if abs(value) >= 1e4 else f"{value:,.4g}"


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most so many of the points: all of them, or in each equal stretch the one with the least value, and both ends."""
    if len(points) <= most:
        return list(points)
    inner = points[1:-1]
    edges = [round(i * len(inner) / (most - 2)) for i in range(most - 1)]
    lowest = [min(inner[a:b], key=lambda point: math.inf if point.y is None else point.y) for a, b in pairwise(edges)]
    return [points[0], *lowest, points[-1]]
